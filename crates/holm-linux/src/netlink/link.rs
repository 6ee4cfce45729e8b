//! Pairs of virtual interfaces between the workspace's network and that of one service.

use super::{Attributes, Batch, CREATE, EXCLUSIVE};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

const NEW_LINK: u16 = 16;
const NEW_ADDRESS: u16 = 20;
const NEW_ROUTE: u16 = 24;
const LINK_INFO: u16 = 18;
const LINK_NETWORK: u16 = 28;
const INFO_KIND: u16 = 1;
const INFO_DATA: u16 = 2;
const PEER: u16 = 1;
const WHOLE_ADDRESS: u8 = 32;

/// As large as loopback's: no packet leaves the machine.
const LONGEST_PACKET: u32 = 65_535;

/// The first interface of a namespace after loopback, if it was made with this number.
pub const SECOND: u32 = 2;

/// Makes an interface with number [`SECOND`] in the namespace of the socket, whose other end is in the namespace
/// `other` and has the number `there`.
pub fn make_pair(socket: impl AsFd, other: BorrowedFd<'_>, there: u32) -> io::Result<()> {
    let mut peer = header(there, 0).to_vec();
    let network = other.as_raw_fd().to_ne_bytes();
    let attributes = Attributes::default()
        .text(libc::IFLA_IFNAME, &format!("service{there}"))
        .number_here(libc::IFLA_MTU, LONGEST_PACKET)
        .bytes(LINK_NETWORK, &network);
    peer.extend(attributes.into_bytes());
    let data = Attributes::default().bytes(PEER, &peer);
    let info = Attributes::default()
        .text(INFO_KIND, "veth")
        .nested(INFO_DATA, data);
    let mut batch = Batch::default();
    batch.push(
        NEW_LINK,
        CREATE | EXCLUSIVE,
        &header(SECOND, 0),
        Attributes::default()
            .text(libc::IFLA_IFNAME, "eth0")
            .number_here(libc::IFLA_MTU, LONGEST_PACKET)
            .nested(LINK_INFO, info),
    );
    batch.send_acknowledged(socket)
}

/// Switches an interface on.
pub fn up(socket: impl AsFd, interface: u32) -> io::Result<()> {
    let mut batch = Batch::default();
    let header = header(interface, libc::IFF_UP as u32);
    batch.push(NEW_LINK, 0, &header, Attributes::default());
    batch.send_acknowledged(socket)
}

/// Gives an interface an address.
pub fn add_address(socket: impl AsFd, interface: u32, address: Ipv4Addr) -> io::Result<()> {
    let [a, b, c, d] = interface.to_ne_bytes();
    let family = libc::AF_INET as u8;
    let header = [
        family,
        WHOLE_ADDRESS,
        0,
        libc::RT_SCOPE_UNIVERSE,
        a,
        b,
        c,
        d,
    ];
    let mut batch = Batch::default();
    batch.push(
        NEW_ADDRESS,
        CREATE | EXCLUSIVE,
        &header,
        Attributes::default()
            .bytes(libc::IFA_LOCAL, &address.octets())
            .bytes(libc::IFA_ADDRESS, &address.octets()),
    );
    batch.send_acknowledged(socket)
}

/// Where packets go: to one address behind an interface, or everything else by way of a neighbour there.
pub enum Way {
    To(Ipv4Addr),
    Default { neighbour: Ipv4Addr },
}

pub fn add_route(socket: impl AsFd, interface: u32, way: &Way) -> io::Result<()> {
    let (bits, scope) = match way {
        Way::To(_) => (WHOLE_ADDRESS, libc::RT_SCOPE_LINK),
        Way::Default { .. } => (0, libc::RT_SCOPE_UNIVERSE),
    };
    let header = [
        libc::AF_INET as u8,
        bits,
        0,
        0,
        libc::RT_TABLE_MAIN,
        libc::RTPROT_BOOT,
        scope,
        libc::RTN_UNICAST,
        0,
        0,
        0,
        0,
    ];
    let attributes = Attributes::default().bytes(libc::RTA_OIF, &interface.to_ne_bytes());
    let attributes = match way {
        Way::To(address) => attributes.bytes(libc::RTA_DST, &address.octets()),
        Way::Default { neighbour } => attributes.bytes(libc::RTA_GATEWAY, &neighbour.octets()),
    };
    let mut batch = Batch::default();
    batch.push(NEW_ROUTE, CREATE | EXCLUSIVE, &header, attributes);
    batch.send_acknowledged(socket)
}

/// `struct ifinfomsg`.
fn header(interface: u32, flags: u32) -> [u8; 16] {
    let mut header = [0; 16];
    header[4..8].copy_from_slice(&interface.to_ne_bytes());
    header[8..12].copy_from_slice(&flags.to_ne_bytes());
    header[12..16].copy_from_slice(&flags.to_ne_bytes());
    header
}
