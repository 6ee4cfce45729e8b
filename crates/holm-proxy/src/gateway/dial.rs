//! Turns a destination into a connection: checks every address against the policy, and dials only
//! addresses that were checked.

use super::open::{Open, Target};
use super::upstream::PATIENCE;
use super::{Destination, Gateway, LookupFailure, Proxy, Surroundings};
use holm_core::egress::Reason;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// The head start of an address before the next one is tried in parallel.
const HEAD_START: Duration = Duration::from_millis(250);

pub enum NotDialled {
    Refused {
        reason: Reason,
        address: Option<IpAddr>,
    },
    Failed(io::Error),
}

// === impl Gateway ===

impl<S: Surroundings> Gateway<S> {
    /// Connects to the destination of an open connection.
    pub(super) async fn dial(&self, open: &Open) -> Result<TcpStream, NotDialled> {
        let destination = match &open.target {
            Target::Name(name) => Destination::Name(name, open.port),
            Target::Address(address) => Destination::Address(SocketAddr::new(*address, open.port)),
        };
        if let Some(proxy) = self.surroundings().proxy(&destination) {
            return self.dial_through(proxy, destination, open).await;
        }
        let places = match &open.target {
            Target::Address(address) => {
                self.judge_address(*address, open.port)
                    .map_err(|reason| NotDialled::Refused {
                        reason,
                        address: Some(*address),
                    })?;
                vec![SocketAddr::new(*address, open.port)]
            }
            Target::Name(name) => {
                let judged = self.state().policy.name(name, open.port);
                judged.map_err(|reason| NotDialled::Refused {
                    reason,
                    address: None,
                })?;
                {
                    let mut places = self.places_of(name, open.port).await?;
                    let prefers_v4 = open.asked.is_some_and(|asked| asked.is_ipv4());
                    if prefers_v4 {
                        places.sort_by_key(|place| place.is_ipv6());
                    }
                    places
                }
            }
        };
        let stream = connect(places).await.map_err(NotDialled::Failed)?;
        open.leads_to(stream.peer_addr().map_err(NotDialled::Failed)?.ip());
        // The policy may have changed during the dial, when there was no connection to cut yet.
        match self.judge_open(open) {
            Ok(()) => Ok(stream),
            Err(reason) => Err(NotDialled::Refused {
                reason,
                address: None,
            }),
        }
    }

    /// Connects through the proxy of this machine's network, after the same checks. The proxy resolves a name
    /// that this machine's resolver does not know.
    async fn dial_through(
        &self,
        proxy: &Proxy,
        destination: Destination<'_>,
        open: &Open,
    ) -> Result<TcpStream, NotDialled> {
        let asked = match destination {
            Destination::Address(address) => {
                self.judge_address(address.ip(), address.port())
                    .map_err(|reason| NotDialled::Refused {
                        reason,
                        address: Some(address.ip()),
                    })?;
                address.to_string()
            }
            Destination::Name(name, port) => {
                let judged = self.state().policy.name(name, port);
                judged.map_err(|reason| NotDialled::Refused {
                    reason,
                    address: None,
                })?;
                if let Err(refused @ NotDialled::Refused { .. }) = self.places_of(name, port).await
                {
                    return Err(refused);
                }
                format!("{name}:{port}")
            }
        };
        let stream = proxy.connect(&asked).await.map_err(NotDialled::Failed)?;
        // The policy may have changed during the dial, when there was no connection to cut yet.
        match self.judge_open(open) {
            Ok(()) => Ok(stream),
            Err(reason) => Err(NotDialled::Refused {
                reason,
                address: None,
            }),
        }
    }

    /// Whether the current policy still allows an open connection.
    pub(super) fn judge_open(&self, open: &Open) -> Result<(), Reason> {
        let state = self.state();
        match &open.target {
            Target::Address(address) => state.policy.address(*address, open.port),
            Target::Name(name) => {
                state.policy.name(name, open.port)?;
                match open.address() {
                    Some(address) => state.policy.led_to(address, open.port),
                    None => Ok(()),
                }
            }
        }
    }

    fn judge_address(&self, address: IpAddr, port: u16) -> Result<(), Reason> {
        self.state().policy.address(address, port)?;
        self.judge_own(address, port)
    }

    /// Checked at every dial because the machine's own addresses change while a workspace runs.
    fn judge_own(&self, address: IpAddr, port: u16) -> Result<(), Reason> {
        let is_opened = self.state().policy.opens_at(address, port);
        if !is_opened && self.surroundings().is_own(address) {
            Err(Reason::Closed("this machine"))
        } else {
            Ok(())
        }
    }

    /// All addresses of the name that the policy allows.
    async fn places_of(&self, name: &str, port: u16) -> Result<Vec<SocketAddr>, NotDialled> {
        let found = self.look_up(name).await.map_err(|failure| {
            NotDialled::Failed(match failure {
                LookupFailure::NoSuchName => io::Error::new(io::ErrorKind::NotFound, failure),
                LookupFailure::Failed => io::Error::other(failure),
            })
        })?;
        let mut places = Vec::new();
        let mut refused = None;
        for address in found {
            let judged = self.state().policy.led_to(address, port);
            match judged.and_then(|()| self.judge_own(address, port)) {
                Ok(()) => places.push(SocketAddr::new(address, port)),
                Err(reason) => refused = Some((reason, address)),
            }
        }
        match (places.is_empty(), refused) {
            (true, Some((reason, address))) => Err(NotDialled::Refused {
                reason,
                address: Some(address),
            }),
            (true, None) => Err(NotDialled::Failed(io::ErrorKind::NotFound.into())),
            (false, _) => Ok(places),
        }
    }
}

/// Tries all addresses; the first one gets a head start.
pub async fn connect(places: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut places = places.into_iter();
    let mut attempts = JoinSet::new();
    let mut failure = io::Error::from(io::ErrorKind::NotFound);
    let trying = async {
        loop {
            let next = places.next();
            let is_last = next.is_none();
            if let Some(place) = next {
                attempts.spawn(TcpStream::connect(place));
            }
            if attempts.is_empty() {
                return Err(failure);
            }
            let head_start = async {
                if is_last {
                    std::future::pending().await
                } else {
                    tokio::time::sleep(HEAD_START).await
                }
            };
            tokio::select! {
                ended = attempts.join_next() => match ended {
                    Some(Ok(Ok(stream))) => return Ok(stream),
                    Some(Ok(Err(error))) => failure = error,
                    Some(Err(_)) | None => {}
                },
                () = head_start => {}
            }
        }
    };
    match tokio::time::timeout(PATIENCE, trying).await {
        Ok(result) => result,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}
