//! The networks of services that a Compose file describes: a namespace for each, a pair of interfaces to the
//! workspace's network, and the routes between them. The packet rules decide what passes
//! ([`crate::netlink::services`]).
//!
//! The calling thread enters each namespace and comes back.

use super::LaunchPlan;
use crate::netlink::link::{self, Way};
use crate::netlink::services::{Leading, Services};
use crate::{netlink, sys};
use holm_core::container::Attachment;
use holm_core::egress::Range;
use holm_core::service_network;
use holm_keeper::plan::{LaunchFailure, Part, Stepped};
use holm_keeper::wire::Doorway;
use rustix::net::netlink as family;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};

/// Interfaces in the workspace's network get numbers from here on.
const FIRST: u32 = 100;

struct Namespace {
    file: OwnedFd,
    /// For queries about listeners in it.
    diagnosis: OwnedFd,
}

/// The addresses at both ends of a pair of interfaces.
#[derive(Clone, Copy)]
struct Ends {
    service: Ipv4Addr,
    workspace: Ipv4Addr,
}

#[derive(Default)]
pub struct Made {
    /// The namespace of each service that has one.
    pub doorways: Vec<(Doorway, OwnedFd)>,
    /// `None`: no service has a network of its own.
    pub rules: Option<Services>,
}

/// `workspace` is the address of the workspace itself.
pub fn make(plan: &LaunchPlan, workspace: Ipv4Addr) -> Result<Made, LaunchFailure> {
    let mut made = Made::default();
    let services = &plan.keeper.services;
    let is_own = |network: &Attachment| matches!(network, Attachment::Own(_) | Attachment::Nothing);
    let mut own = services.iter().enumerate().filter_map(|(index, service)| {
        let network = &service.container()?.network;
        is_own(network).then_some((index, network))
    });
    let Some(first) = own.next() else {
        return Ok(made);
    };
    let home = current().step(Part::Network, "find the workspace's network")?;
    without_ipv6().step(Part::Network, "leave out IPv6 between services")?;
    for (index, network) in std::iter::once(first).chain(own) {
        let ends = match network {
            Attachment::Own(own) => Some(Ends {
                service: own.address,
                workspace,
            }),
            _ => None,
        };
        let name = &services[index].name;
        let number = FIRST + index as u32;
        let sysctls = services[index].container().map(|it| &it.sysctls);
        let namespace = namespace(&home, number, ends, sysctls)
            .step(Part::Network, &format!("make the network of {name}"))?;
        let index = index as u32;
        made.doorways.extend([
            (Doorway::Namespace(index), namespace.file),
            (Doorway::Listeners(index), namespace.diagnosis),
        ]);
    }
    prepare().step(Part::Network, "let services reach each other")?;
    made.rules = Some(rules(plan));
    Ok(made)
}

/// A namespace, with a way to the workspace's if it has an address.
fn namespace(
    home: &OwnedFd,
    number: u32,
    ends: Option<Ends>,
    sysctls: Option<&BTreeMap<String, String>>,
) -> io::Result<Namespace> {
    sys::process::own_network_namespace()?;
    let made = inside(home, number, ends).and_then(|made| {
        set_all(sysctls)?;
        Ok(made)
    });
    // Whatever happened, the thread goes back to where it came from.
    move_into_link_name_space(home.as_fd(), Some(LinkNameSpaceType::Network))?;
    let made = made?;
    if let Some(ends) = ends {
        let socket = netlink::open(None)?;
        link::up(&socket, number)?;
        link::add_route(&socket, number, &Way::To(ends.service))?;
    }
    Ok(made)
}

fn inside(home: &OwnedFd, number: u32, ends: Option<Ends>) -> io::Result<Namespace> {
    sys::network::loopback_up()?;
    without_ipv6()?;
    if let Some(ends) = ends {
        let socket = netlink::open(None)?;
        link::make_pair(&socket, home.as_fd(), number)?;
        link::add_address(&socket, link::SECOND, ends.service)?;
        link::up(&socket, link::SECOND)?;
        link::add_route(&socket, link::SECOND, &Way::To(ends.workspace))?;
        let neighbour = ends.workspace;
        link::add_route(&socket, link::SECOND, &Way::Default { neighbour })?;
    }
    // Programs of images expect to be root and to listen on 80.
    std::fs::write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0")?;
    Ok(Namespace {
        file: current()?,
        diagnosis: netlink::open(Some(family::SOCK_DIAG))?,
    })
}

/// Settings of the namespace that this thread is in. The reader of the file lets only plain names pass.
fn set_all(sysctls: Option<&BTreeMap<String, String>>) -> io::Result<()> {
    for (name, value) in sysctls.into_iter().flatten() {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        std::fs::write(&path, value)
            .map_err(|error| io::Error::new(error.kind(), format!("set {name}: {error}")))?;
    }
    Ok(())
}

/// Interfaces that are made from here on have no IPv6: the packets that it sends by itself would be refused and
/// recorded.
fn without_ipv6() -> io::Result<()> {
    match std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1") {
        // A machine without IPv6.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        written => written,
    }
}

/// The network namespace of this thread.
fn current() -> io::Result<OwnedFd> {
    File::open("/proc/thread-self/ns/net").map(OwnedFd::from)
}

/// The workspace passes packets on, also those from its loopback.
fn prepare() -> io::Result<()> {
    for setting in ["ip_forward", "conf/all/route_localnet"] {
        std::fs::write(format!("/proc/sys/net/ipv4/{setting}"), "1")?;
    }
    Ok(())
}

fn rules(plan: &LaunchPlan) -> Services {
    let services = &plan.keeper.services;
    let mut rules = Services {
        range: Range {
            address: service_network::RANGE.0.into(),
            bits: service_network::RANGE.1,
        },
        networks: service_network::networks(services),
        internal: Vec::new(),
        published: Vec::new(),
    };
    for (_, own) in service_network::with_own_network(services) {
        if own.is_internal {
            rules.internal.push(own.address);
        }
        rules
            .published
            .extend(own.published.iter().map(|published| Leading {
                port: published.port,
                to: (own.address, published.target).into(),
            }));
    }
    rules
}
