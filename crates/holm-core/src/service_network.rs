//! The network between services of a Compose file.
//!
//! Each has a network namespace and an address of its own inside the workspace. The workspace's own network routes
//! between them: who may talk to whom is a list of pairs of addresses.

use crate::container::{Attachment, OwnNetwork};
use crate::spec::Service;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

/// Addresses of services. The workspace's own and those that stand for names outside are in 198.18.0.0/16.
pub const RANGE: (Ipv4Addr, u8) = (Ipv4Addr::new(198, 19, 0, 0), 16);

/// The address of the service with this number. There are fewer services than addresses.
pub fn address(number: usize) -> Ipv4Addr {
    const IN_A_ROW: usize = 250;
    let row = u8::try_from(number / IN_A_ROW + 1).unwrap_or(u8::MAX);
    let place = u8::try_from(number % IN_A_ROW + 2).unwrap_or(u8::MAX);
    let [a, b, ..] = RANGE.0.octets();
    Ipv4Addr::new(a, b, row, place)
}

/// The services with a network namespace of their own.
pub fn with_own_network(services: &[Service]) -> impl Iterator<Item = (&Service, &OwnNetwork)> {
    services
        .iter()
        .filter_map(|service| match &service.container()?.network {
            Attachment::Own(own) => Some((service, own)),
            _ => None,
        })
}

/// Each pair of addresses between which connections may be made, in both orders.
pub fn linked(services: &[Service]) -> Vec<(Ipv4Addr, Ipv4Addr)> {
    let mut pairs = Vec::new();
    for (_, one) in with_own_network(services) {
        for (_, other) in with_own_network(services) {
            if one.address != other.address && one.shares_network(other) {
                pairs.push((one.address, other.address));
            }
        }
    }
    pairs
}

/// `/etc/hosts` of a service: its own name, the names of services in its networks, and what the file adds. `gateway`
/// is the workspace's own address.
pub fn hosts(services: &[Service], service: &Service, gateway: Ipv4Addr) -> String {
    let mut lines = BTreeSet::new();
    let local = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n";
    let own = container_network(services, service);
    if let Some(own) = own {
        for (other, network) in with_own_network(services) {
            let Some(container) = other.container() else {
                continue;
            };
            let shared = network.networks.iter();
            let shared = shared.filter(|(name, _)| own.networks.contains_key(*name));
            let aliases: Vec<&String> = shared.flat_map(|(_, aliases)| aliases).collect();
            if network.address != own.address && !own.shares_network(network) {
                continue;
            }
            let mut names: Vec<&str> = vec![&container.name, &other.name];
            names.extend(aliases.iter().map(|alias| alias.as_str()));
            let linked = own.links.iter().filter(|(_, meant)| *meant == other.name);
            names.extend(linked.map(|(alias, _)| alias.as_str()));
            if network.address == own.address {
                names.extend(container.hostname.as_deref());
            }
            for name in names {
                lines.insert(format!("{} {name}", network.address));
            }
        }
        for (name, address) in &own.hosts {
            match address.as_str() {
                "host-gateway" => lines.insert(format!("{gateway} {name}")),
                address => lines.insert(format!("{address} {name}")),
            };
        }
    }
    let lines: Vec<String> = lines.into_iter().collect();
    format!("{local}{}\n", lines.join("\n"))
}

/// The names of all services for programs of the workspace itself, each with its address.
pub fn names(services: &[Service]) -> Vec<(Ipv4Addr, String)> {
    let mut names = BTreeMap::new();
    for (service, own) in with_own_network(services) {
        let Some(container) = service.container() else {
            continue;
        };
        for name in [&container.name, &service.name] {
            names.entry(name.clone()).or_insert(own.address);
        }
    }
    names
        .into_iter()
        .map(|(name, address)| (address, name))
        .collect()
}

/// The network that a service is in, which may be that of another one.
fn container_network<'a>(services: &'a [Service], service: &'a Service) -> Option<&'a OwnNetwork> {
    let mut current = service;
    // A longer chain is a cycle, which the reader refuses.
    for _ in 0..services.len() {
        match &current.container()?.network {
            Attachment::Own(own) => return Some(own),
            Attachment::Of(name) => {
                current = services.iter().find(|other| other.name == *name)?;
            }
            Attachment::Nothing | Attachment::Workspace => return None,
        }
    }
    None
}
