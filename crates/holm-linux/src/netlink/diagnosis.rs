//! Finds the socket of a connection (sock_diag).

use super::{Attributes, Batch, messages};
use rustix::net::{RecvFlags, recv};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

const BY_FAMILY: u16 = 20;
const TCP: u8 = 6;
const ALL_STATES: u32 = u32::MAX;
const NO_COOKIE: [u8; 8] = [0xff; 8];
const INODE: std::ops::Range<usize> = 68..72;

/// The inode of the socket with these addresses, its own first; `None` when there is none.
pub fn inode(socket: impl AsFd, own: SocketAddr, other: SocketAddr) -> io::Result<Option<u32>> {
    let family = match own {
        SocketAddr::V4(_) => libc::AF_INET as u8,
        SocketAddr::V6(_) => libc::AF_INET6 as u8,
    };
    let mut request = vec![family, TCP, 0, 0];
    request.extend(ALL_STATES.to_ne_bytes());
    request.extend(own.port().to_be_bytes());
    request.extend(other.port().to_be_bytes());
    request.extend(wide(own.ip()));
    request.extend(wide(other.ip()));
    request.extend([0; 4]);
    request.extend(NO_COOKIE);
    let mut batch = Batch::default();
    batch.push(BY_FAMILY, 0, &request, Attributes::default());
    batch.put(&socket)?;
    let mut buffer = [0; 4096];
    let (received, _) = recv(&socket, &mut buffer[..], RecvFlags::empty())?;
    let found = messages(&buffer[..received]).find(|message| message.kind == BY_FAMILY);
    Ok(found.and_then(|message| {
        let inode = message.payload.get(INODE)?.try_into().ok()?;
        Some(u32::from_ne_bytes(inode))
    }))
}

fn wide(address: IpAddr) -> [u8; 16] {
    let mut bytes = [0; 16];
    match address {
        IpAddr::V4(address) => bytes[..4].copy_from_slice(&address.octets()),
        IpAddr::V6(address) => bytes = address.octets(),
    }
    bytes
}
