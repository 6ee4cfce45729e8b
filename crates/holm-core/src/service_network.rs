//! The network between services of a Compose file.
//!
//! Each has a network namespace and an address of its own inside the workspace. The workspace's own network routes
//! between them.

use crate::container::{Attachment, OwnNetwork};
use crate::spec::Service;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

/// Addresses of services. The workspace's own and those that stand for names outside are in 198.18.0.0/16.
pub const RANGE: (Ipv4Addr, u8) = (Ipv4Addr::new(198, 19, 0, 0), 16);

/// The most services that a workspace has from a Compose file.
pub const MOST: usize = 1000;

/// The address of the service with this number, which is less than [`MOST`].
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

/// The addresses in each network of the file.
pub fn networks(services: &[Service]) -> Vec<Vec<Ipv4Addr>> {
    let mut networks: BTreeMap<&str, Vec<Ipv4Addr>> = BTreeMap::new();
    for (_, own) in with_own_network(services) {
        for name in own.networks.keys() {
            networks.entry(name).or_default().push(own.address);
        }
    }
    networks.into_values().collect()
}

/// `/etc/hosts` of a service: its own name, the names of services in its networks, and what the file adds. `gateway`
/// is the workspace's own address.
pub fn hosts(services: &[Service], service: &Service, gateway: Ipv4Addr) -> String {
    let mut lines = BTreeSet::new();
    let namespace = namespace_of(services, service).map(|index| &services[index]);
    if let Some(Attachment::Own(own)) = namespace
        .and_then(Service::container)
        .map(|container| &container.network)
    {
        let mut addresses: BTreeMap<&str, BTreeSet<Ipv4Addr>> = BTreeMap::new();
        for (other, network) in with_own_network(services) {
            for name in names_for(own, other, network) {
                addresses.entry(name).or_default().insert(network.address);
            }
        }
        for (name, found) in addresses {
            // Programs take the first address of the file only. The resolver says all of several instances.
            let address = match found.contains(&own.address) {
                true => Some(&own.address),
                false => found.first().filter(|_| found.len() == 1),
            };
            lines.extend(address.map(|address| format!("{address} {name}")));
        }
        for (name, address) in &own.hosts {
            lines.insert(match address.as_str() {
                "host-gateway" => format!("{gateway} {name}"),
                address => format!("{address} {name}"),
            });
        }
    }
    let local = [
        "127.0.0.1 localhost",
        "::1 localhost ip6-localhost ip6-loopback",
    ];
    let lines = local.into_iter().chain(lines.iter().map(String::as_str));
    lines.map(|line| format!("{line}\n")).collect()
}

/// The names of another service, for one in the network `own`. None, if no network has both.
fn names_for<'a>(own: &'a OwnNetwork, other: &'a Service, network: &'a OwnNetwork) -> Vec<&'a str> {
    let is_itself = network.address == own.address;
    let shared: Vec<_> = network
        .networks
        .iter()
        .filter(|(name, _)| own.networks.contains_key(*name))
        .collect();
    let Some(container) = other.container() else {
        return Vec::new();
    };
    if shared.is_empty() && !is_itself {
        return Vec::new();
    }
    let aliases = shared.iter().flat_map(|(_, aliases)| *aliases);
    let links = own.links.iter().filter(|(_, meant)| *meant == other.name);
    let hostname = container.hostname.iter().filter(|_| is_itself);
    [&container.name, &other.name]
        .into_iter()
        .chain(aliases)
        .chain(links.map(|(alias, _)| alias))
        .chain(hostname)
        .map(String::as_str)
        .collect()
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

/// What a name means for a program that asks a DNS server, by the address that asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meaning {
    Services(Vec<Ipv4Addr>),
    /// The name does not exist for it.
    Nothing,
    /// It is not the name of a service.
    Elsewhere,
}

/// A service finds those of its own networks, and nothing else if all of them are internal. The workspace itself finds all.
pub fn meaning(services: &[Service], asking: IpAddr, name: &str) -> Meaning {
    let name = name.trim_end_matches('.');
    let is_meant = |known: &str| known.eq_ignore_ascii_case(name);
    let mut own = with_own_network(services).map(|(_, own)| own);
    let own = own.find(|own| IpAddr::V4(own.address) == asking);
    let found: BTreeSet<Ipv4Addr> = match own {
        Some(own) => with_own_network(services)
            .filter(|(other, network)| names_for(own, other, network).into_iter().any(is_meant))
            .map(|(_, network)| network.address)
            .collect(),
        None => names(services)
            .into_iter()
            .filter(|(_, known)| is_meant(known))
            .map(|(address, _)| address)
            .collect(),
    };
    let is_hidden = || names(services).iter().any(|(_, known)| is_meant(known));
    match own {
        _ if !found.is_empty() => Meaning::Services(found.into_iter().collect()),
        Some(own) if own.is_internal || is_hidden() => Meaning::Nothing,
        _ => Meaning::Elsewhere,
    }
}

/// The service whose network namespace this one is in, by its index. `None`: it is in the workspace's.
pub fn namespace_of(services: &[Service], service: &Service) -> Option<usize> {
    let mut name = &service.name;
    // A longer chain is a cycle, which the reader of the file refuses.
    for _ in services {
        let index = services.iter().position(|other| other.name == *name)?;
        match &services[index].container()?.network {
            Attachment::Own(_) | Attachment::Nothing => return Some(index),
            Attachment::Of(other) => name = other,
            Attachment::Workspace => return None,
        }
    }
    None
}
