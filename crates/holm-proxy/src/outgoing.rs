//! Connections that the daemon itself makes to hosts that others name: registries of images, and the hosts that
//! registries redirect to.
//!
//! The same policy as for a workspace's gateway decides, on the name and on every address that the name resolves to, and
//! only addresses that passed are dialled. Addresses of this machine are closed, whatever the policy says, unless the
//! user's settings list the host and port as a service on loopback.

use crate::gateway::{Proxy, connect_first};
use holm_core::config::Address;
use holm_core::egress::{Policy, Reason, canonical, line_that_allows, parse_query};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use tokio::net::{TcpStream, lookup_host};

pub struct Outgoing {
    pub policy: Policy,
    /// The proxy of this machine's network.
    pub proxy: Option<Proxy>,
    /// What is reached without the proxy.
    pub direct: Policy,
    /// Services on this machine that may be reached.
    pub loopback: Vec<Address>,
}

#[derive(Debug, thiserror::Error)]
pub enum OutgoingError {
    #[error("{target} is refused: {reason}{}", leads(.address))]
    Refused {
        target: String,
        reason: Reason,
        address: Option<IpAddr>,
        /// The entry of `[egress]` that would allow it.
        line: Option<String>,
    },
    #[error("{target} is an address of this machine{}, which no rule of `[egress]` opens", leads(.address))]
    OwnAddress {
        target: String,
        address: Option<IpAddr>,
    },
    #[error("{0} is listed as a registry on loopback, but has no loopback address")]
    NotLoopback(String),
    #[error("{0} cannot be looked up")]
    LookUp(String, #[source] io::Error),
    #[error("{0} has no address")]
    NoAddress(String),
    #[error("no connection to {0}")]
    Connect(String, #[source] io::Error),
}

fn leads(address: &Option<IpAddr>) -> String {
    address.map_or_else(String::new, |address| format!(" (it leads to {address})"))
}

// === impl Outgoing ===

impl Outgoing {
    /// Connects to a host, which is a name or an address; IPv6 without brackets.
    pub async fn connect(&self, host: &str, port: u16) -> Result<TcpStream, OutgoingError> {
        let target = shown(host, port);
        if self.is_listed(host, port) {
            let found = resolve(host, port, &target).await?;
            let places = found.into_iter().filter(|place| is_loopback(place.ip()));
            return dial(places.collect(), target, OutgoingError::NotLoopback).await;
        }
        let places = match host.parse::<IpAddr>() {
            Ok(address) => {
                let place = SocketAddr::new(address, port);
                let places = self.opened(&target, vec![place], port)?;
                let judged = self.policy.address(address, port);
                judged.map_err(|reason| refused(host, port, reason))?;
                places
            }
            Err(_) => match self.places_of(host, port, &target).await {
                // Some networks resolve outside names only at their proxy.
                Err(OutgoingError::LookUp(..)) if self.proxy_for(host, port).is_some() => {
                    Vec::new()
                }
                places => places?,
            },
        };
        match self.proxy_for(host, port) {
            Some(proxy) => {
                let connected = proxy.connect(&target).await;
                connected.map_err(|error| OutgoingError::Connect(target, error))
            }
            None => dial(places, target, OutgoingError::NoAddress).await,
        }
    }

    /// The addresses of a name that may be dialled.
    async fn places_of(
        &self,
        host: &str,
        port: u16,
        target: &str,
    ) -> Result<Vec<SocketAddr>, OutgoingError> {
        let name = parse_query(host).map_err(|reason| refused(host, port, reason))?;
        let judged = self.policy.name(&name, port);
        judged.map_err(|reason| refused(host, port, reason))?;
        let found = resolve(&name, port, target).await?;
        self.opened(target, found, port)
    }

    /// Those of `places` that are open; the reason of the last one that is not, if none is.
    fn opened(
        &self,
        target: &str,
        places: Vec<SocketAddr>,
        port: u16,
    ) -> Result<Vec<SocketAddr>, OutgoingError> {
        let mut open = Vec::new();
        let mut closed = None;
        for place in places {
            let address = canonical(place.ip());
            if is_loopback(address) || is_own(address) {
                closed = Some(OutgoingError::OwnAddress {
                    target: target.to_owned(),
                    address: Some(address).filter(|it| !target.contains(&it.to_string())),
                });
            } else if let Err(reason) = self.policy.led_to(address, port) {
                let host = address.to_string();
                let line = line_that_allows(&reason, &host, Some(port));
                closed = Some(OutgoingError::Refused {
                    target: target.to_owned(),
                    reason,
                    address: Some(address).filter(|it| !target.contains(&it.to_string())),
                    line,
                });
            } else {
                open.push(place);
            }
        }
        match closed {
            Some(error) if open.is_empty() => Err(error),
            _ => Ok(open),
        }
    }

    fn is_listed(&self, host: &str, port: u16) -> bool {
        let mut listed = self.loopback.iter();
        listed.any(|listed| listed.port.get() == port && listed.host.eq_ignore_ascii_case(host))
    }

    fn proxy_for(&self, host: &str, port: u16) -> Option<&Proxy> {
        let proxy = self.proxy.as_ref()?;
        let direct = match host.parse::<IpAddr>() {
            Ok(address) => self.direct.address(address, port),
            Err(_) => self.direct.name(&host.to_ascii_lowercase(), port),
        };
        direct.is_err().then_some(proxy)
    }
}

fn refused(host: &str, port: u16, reason: Reason) -> OutgoingError {
    OutgoingError::Refused {
        target: shown(host, port),
        line: line_that_allows(&reason, host, Some(port)),
        reason,
        address: None,
    }
}

async fn resolve(host: &str, port: u16, target: &str) -> Result<Vec<SocketAddr>, OutgoingError> {
    let found = lookup_host((host, port)).await;
    let found = found.map_err(|error| OutgoingError::LookUp(target.to_owned(), error))?;
    Ok(found.collect())
}

async fn dial(
    places: Vec<SocketAddr>,
    target: String,
    none: fn(String) -> OutgoingError,
) -> Result<TcpStream, OutgoingError> {
    if places.is_empty() {
        return Err(none(target));
    }
    let connected = connect_first(places).await;
    connected.map_err(|error| OutgoingError::Connect(target, error))
}

fn is_loopback(address: IpAddr) -> bool {
    let address = canonical(address);
    address.is_loopback() || address.is_unspecified()
}

/// Whether an address belongs to this machine: others cannot be bound.
pub fn is_own(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

fn shown(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holm_core::config::EgressMode;

    #[test]
    fn only_open_addresses_of_a_name_are_dialled() {
        let outgoing = |allow: &[&str]| Outgoing {
            policy: Policy::parse(
                EgressMode::Open,
                &allow.iter().map(ToString::to_string).collect::<Vec<_>>(),
            )
            .unwrap(),
            proxy: None,
            direct: Policy::nothing(),
            loopback: Vec::new(),
        };
        let check = |allow: &[&str], found: &[&str], expect: Result<&[&str], &str>| {
            let parsed = |all: &[&str]| -> Vec<SocketAddr> {
                all.iter().map(|place| place.parse().unwrap()).collect()
            };
            let opened = outgoing(allow).opened("registry.test:443", parsed(found), 443);
            let opened = opened.map_err(|error| error.to_string());
            assert_eq!(opened, expect.map(parsed).map_err(str::to_owned));
        };
        let (private, public) = ("10.1.2.3:443", "203.0.113.9:443");
        check(&[], &[private, public], Ok(&[public]));
        let closed =
            "registry.test:443 is refused: closed: a private network (it leads to 10.1.2.3)";
        check(&[], &[private], Err(closed));
        check(&["10.1.2.3:443"], &[private], Ok(&[private]));
        let own = "registry.test:443 is an address of this machine (it leads to 127.0.0.1), which no rule of `[egress]` opens";
        check(&["127.0.0.1"], &["127.0.0.1:443"], Err(own));
    }
}
