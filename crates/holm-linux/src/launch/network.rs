//! Sets up the workspace's network before any of its programs runs: an address on the loopback
//! interface, a default route to it, the kernel's rules, and the keeper's sockets.
//!
//! Neither init nor the workspace keeps any of it: the sockets are passed to the keeper and closed. The keeper of a
//! container makes them itself, because it shares the network namespace with the workspace ([`make_beside`]).

use super::{LaunchPlan, services};
use crate::netlink::services::Services;
use crate::netlink::tables::WayOut;
use crate::netlink::transaction::Places;
use crate::netlink::{self, packet, route, tables};
use crate::sys;
use holm_keeper::keeper::policy;
use holm_keeper::plan::{LaunchFailure, Part, Plan, Stepped};
use holm_keeper::wire::{Defence, Doorway, FromInit};
use rustix::net::netlink as family;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

/// The workspace's own address, used by gateway and resolver.
pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// A ULA prefix of our own in fd00::/8: `holm`.
pub const ADDRESS_V6: Ipv6Addr = Ipv6Addr::new(0xfd68, 0x6f6c, 0x6d00, 0, 0, 0, 0, 1);

/// Below 1024, so that no program inside can bind it.
const GATEWAY_PORT: u16 = 1;
const RESOLVER_PORT: u16 = 53;

/// The sockets for the keeper.
#[derive(Default)]
pub struct Doorways(Vec<(Doorway, OwnedFd)>);

/// Creates the network. Without packet rules nothing can leave, so a user who allows them to be
/// missing gets no egress.
pub fn make(plan: &LaunchPlan) -> Result<Doorways, LaunchFailure> {
    sys::network::loopback_up().step(Part::Network, "bring up the loopback interface")?;
    let services = services::make(plan, ADDRESS)?;
    if !plan.keeper.rooms.is_empty() {
        open_low_ports().step(Part::Network, "open low ports to programs of images")?;
    }
    let doorways = Doorways(services.doorways);
    doorways.complete(&plan.keeper, services.rules.as_ref(), WayOut::Elsewhere)
}

/// The same in a network namespace that an engine made, for a keeper in it: its own connections leave by the engine's
/// interface.
pub fn make_beside(keeper: &Plan, group: u32) -> Result<Vec<(Doorway, OwnedFd)>, LaunchFailure> {
    let doorways = Doorways::default();
    let doorways = doorways.complete(keeper, None, WayOut::Here { group })?;
    Ok(doorways.0)
}

/// Programs of images expect to be root and to listen on 80. The ports of gateway and resolver stay closed.
fn open_low_ports() -> io::Result<()> {
    let first = GATEWAY_PORT.max(RESOLVER_PORT) + 1;
    std::fs::write(
        "/proc/sys/net/ipv4/ip_unprivileged_port_start",
        first.to_string(),
    )
}

// === impl Doorways ===

impl Doorways {
    fn complete(
        mut self,
        keeper: &Plan,
        services: Option<&Services>,
        way_out: WayOut,
    ) -> Result<Self, LaunchFailure> {
        self.diagnosis()
            .step(Part::Network, "open the list of sockets")?;
        self.shared(keeper)
            .step(Part::Other, "listen for shared services")?;
        match self.gateway(keeper, services, way_out) {
            Err(_) if keeper.forgone.iter().any(|part| part == "egress") => {
                self.0.retain(|(doorway, _)| !doorway.is_outward());
                Ok(self)
            }
            made => made.map(|()| self),
        }
    }

    pub fn hand_over(self, plan: &LaunchPlan, link: &UnixStream) -> io::Result<()> {
        for (doorway, socket) in self.0 {
            super::hand_over(plan, link, FromInit::Doorway(doorway), vec![socket])?;
        }
        Ok(())
    }

    /// The socket for querying listeners inside.
    fn diagnosis(&mut self) -> io::Result<()> {
        let socket = netlink::open(Some(family::SOCK_DIAG))?;
        self.0.push((Doorway::Diagnosis, socket));
        Ok(())
    }

    fn shared(&mut self, keeper: &Plan) -> io::Result<()> {
        for (index, shared) in keeper.network.shared.iter().enumerate() {
            let index = index as u32;
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, shared.port))?;
            self.0.push((Doorway::Shared(index), listener.into()));
            if let Some(listener) =
                unless_missing(TcpListener::bind((Ipv6Addr::LOCALHOST, shared.port)))?
            {
                self.0.push((Doorway::Shared(index), listener.into()));
            }
        }
        Ok(())
    }

    fn gateway(
        &mut self,
        keeper: &Plan,
        services: Option<&Services>,
        way_out: WayOut,
    ) -> Result<(), LaunchFailure> {
        // First: if rules are unavailable, there must be no route.
        self.rules(keeper, services, way_out)
            .step(Part::Egress, "set up packet rules (nf_tables)")?;
        let routes = netlink::open(None).step(Part::Network, "open routing")?;
        let lead = |address: IpAddr| {
            route::add_address(&routes, address)?;
            match route::lead_all_to(&routes, address) {
                // The engine's own default route: what takes it is translated, too.
                Err(error)
                    if error.kind() == io::ErrorKind::AlreadyExists
                        && way_out != WayOut::Elsewhere =>
                {
                    Ok(())
                }
                led => led,
            }
        };
        lead(ADDRESS.into()).step(Part::Network, "lead what leaves to the gateway")?;
        let has_v6 = unless_missing(lead(ADDRESS_V6.into()))
            .step(Part::Network, "lead what leaves to the gateway")?
            .is_some();
        let mut addresses = vec![IpAddr::V4(ADDRESS)];
        addresses.extend(has_v6.then_some(IpAddr::V6(ADDRESS_V6)));
        for address in addresses {
            self.listen(address)
                .step(Part::Network, "listen for what leaves")?;
        }
        Ok(())
    }

    fn listen(&mut self, address: IpAddr) -> io::Result<()> {
        let gateway = TcpListener::bind((address, GATEWAY_PORT))?;
        self.0.push((Doorway::Gateway, gateway.into()));
        let questions = UdpSocket::bind((address, RESOLVER_PORT))?;
        self.0.push((Doorway::Questions, questions.into()));
        let questions = TcpListener::bind((address, RESOLVER_PORT))?;
        self.0.push((Doorway::LongQuestions, questions.into()));
        Ok(())
    }

    fn rules(
        &mut self,
        keeper: &Plan,
        services: Option<&Services>,
        way_out: WayOut,
    ) -> io::Result<()> {
        let at = |port: u16| [SocketAddr::from((ADDRESS, port)), (ADDRESS_V6, port).into()];
        let places = Places {
            gateway: at(GATEWAY_PORT),
            resolver: at(RESOLVER_PORT),
        };
        let refusals = netlink::open(Some(family::NETFILTER))?;
        packet::listen(&refusals)?;
        let rules = netlink::open(Some(family::NETFILTER))?;
        let policy = policy(keeper, &keeper.network.egress, Defence::EgressRules);
        tables::make(&rules, &places, &policy, services, way_out)?;
        self.0.push((Doorway::Refusals, refusals));
        self.0.push((Doorway::Rules, rules));
        Ok(())
    }
}

/// A machine may have no IPv6; then the workspace has none either.
fn unless_missing<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    const MISSING: [i32; 4] = [
        libc::EAFNOSUPPORT,
        libc::EOPNOTSUPP,
        libc::EADDRNOTAVAIL,
        libc::EACCES,
    ];
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error)
            if error
                .raw_os_error()
                .is_some_and(|code| MISSING.contains(&code)) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
