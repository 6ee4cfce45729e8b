//! How a pull reaches a registry: by the egress rules it was given, through the proxy and with the CAs of the user's
//! settings, without TLS only on loopback.

use futures_util::FutureExt;
use holm_core::config::{Address, EgressMode};
use holm_core::egress::Policy;
use holm_core::image_reference::ImageReference;
use holm_core::{Code, Fault};
use holm_image::{Access, Connection, Credentials, Destination, Dial, PullBounds};
use holm_keeper::plan::NetworkSource;
use holm_keeper::roots;
use holm_proxy::gateway::certificates;
use holm_proxy::outgoing::{Outgoing, OutgoingError};
use holm_proxy::tls::trusting;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// An image to pull, and what the pull may do.
pub struct PullWish {
    pub reference: ImageReference,
    /// For the registry of the reference.
    pub credentials: Option<Credentials>,
    /// Which hosts may be asked.
    pub policy: Policy,
    pub rules: RulesOf,
}

/// Whose egress rules decide about a pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RulesOf {
    User,
    Project,
}

/// Reads the settings as they are now.
pub fn access(
    settings: &Path,
    home: &Path,
    network: &NetworkSource,
    wish: &PullWish,
) -> Result<Access, Fault> {
    let loopback = holm_config::user::load(settings, home)?.loopback_registries;
    let network = network()?;
    let mut authorities = roots::certificates();
    authorities.extend(certificates(network.ca.as_bytes()));
    let tls = trusting(authorities).map_err(|error| {
        let hint = "is `[network] ca` of config.toml right?";
        Fault::new(Code::Internal, "TLS cannot be set up", hint).because(error)
    })?;
    let direct = Policy::parse(EgressMode::Allow, &network.no_proxy).map_err(|error| {
        let hint = "look at `[network] no_proxy` of config.toml";
        let message = "it is not clear which hosts are reached without the proxy";
        Fault::new(Code::InvalidConfig, message, hint).because(error)
    })?;
    let plain = loopback.iter().map(Address::to_string).collect();
    let outgoing = Outgoing {
        policy: wish.policy.clone(),
        proxy: network.proxy,
        direct,
        loopback,
    };
    Ok(Access {
        dial: dial(outgoing),
        tls: Arc::new(tls),
        plain,
        credentials: wish.credentials.clone(),
        bounds: PullBounds::default(),
    })
}

fn dial(outgoing: Outgoing) -> Dial {
    let outgoing = Arc::new(outgoing);
    Arc::new(move |destination: Destination| {
        let outgoing = Arc::clone(&outgoing);
        async move {
            let connected = outgoing.connect(&destination.host, destination.port).await;
            let stream = connected.map_err(|error| io::Error::new(kind(&error), error))?;
            Ok(Box::new(stream) as Connection)
        }
        .boxed()
    })
}

fn kind(error: &OutgoingError) -> io::ErrorKind {
    match error {
        OutgoingError::Refused { .. }
        | OutgoingError::OwnAddress { .. }
        | OutgoingError::NotLoopback(_) => io::ErrorKind::PermissionDenied,
        OutgoingError::NoAddress(_) => io::ErrorKind::NotFound,
        OutgoingError::LookUp(_, error) | OutgoingError::Connect(_, error) => error.kind(),
    }
}
