//! Addresses and routes of the loopback interface, which is the only one.

use super::{Attributes, Batch, CREATE, EXCLUSIVE};
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;

/// The loopback interface is the first of every namespace.
const LOOPBACK: u32 = 1;
const NEW_ADDRESS: u16 = 20;
/// An IPv6 address is usable at once: duplicates are impossible here.
const NO_DUPLICATES: u8 = libc::IFA_F_NODAD as u8;
const NEW_ROUTE: u16 = 24;

fn family(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => libc::AF_INET as u8,
        IpAddr::V6(_) => libc::AF_INET6 as u8,
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// Adds an address to the interface.
pub fn add_address(socket: impl AsFd, address: IpAddr) -> io::Result<()> {
    let bits = if address.is_ipv4() { 32 } else { 128 };
    let mut batch = Batch::default();
    let [a, b, c, d] = LOOPBACK.to_ne_bytes();
    batch.push(
        NEW_ADDRESS,
        CREATE | EXCLUSIVE,
        &[
            family(address),
            bits,
            NO_DUPLICATES,
            libc::RT_SCOPE_UNIVERSE,
            a,
            b,
            c,
            d,
        ],
        Attributes::default()
            .bytes(libc::IFA_LOCAL, &octets(address))
            .bytes(libc::IFA_ADDRESS, &octets(address)),
    );
    batch.send_acknowledged(&socket)
}

/// Adds a default route to the interface, with this address of it as source. (Without a source the kernel would choose
/// 0.0.0.0.)
pub fn lead_all_to(socket: impl AsFd, address: IpAddr) -> io::Result<()> {
    let scope = if address.is_ipv4() {
        libc::RT_SCOPE_LINK
    } else {
        libc::RT_SCOPE_UNIVERSE
    };
    let mut batch = Batch::default();
    let table = libc::RT_TABLE_MAIN;
    let header = [
        family(address),
        0,
        0,
        0,
        table,
        libc::RTPROT_BOOT,
        scope,
        libc::RTN_UNICAST,
        0,
        0,
        0,
        0,
    ];
    batch.push(
        NEW_ROUTE,
        CREATE | EXCLUSIVE,
        &header,
        Attributes::default()
            .bytes(libc::RTA_OIF, &LOOPBACK.to_ne_bytes())
            .bytes(libc::RTA_PREFSRC, &octets(address)),
    );
    batch.send_acknowledged(&socket)
}
