//! Netlink messages for a network namespace, and their answers.
//!
//! The launcher uses it before the seal, the keeper later to change rules and to receive refusals.
//! No program of the host is needed, and no decision is made here.

pub mod diagnosis;
pub mod link;
pub mod packet;
mod ranges;
pub mod route;
mod rule;
pub mod services;
pub mod tables;
pub mod transaction;

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send,
    socket_with,
};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;
pub const EXCLUSIVE: u16 = 0x200;
pub const CREATE: u16 = 0x400;
pub const APPEND: u16 = 0x800;

/// NLMSG_ERROR, which also acknowledges success.
const ERROR: u16 = 2;
const HEADER: usize = 16;
const NESTED: u16 = 0x8000;

/// The kernel answers at once.
const PATIENCE: Duration = Duration::from_secs(5);

/// A netlink socket in the current namespace.
pub fn open(protocol: Option<Protocol>) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
    bind(&socket, &SocketAddrNetlink::new(0, 0))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
    Ok(socket)
}

/// Messages that are sent together.
#[derive(Default)]
pub struct Batch {
    bytes: Vec<u8>,
    /// The number of the last message, and where it begins.
    last: u32,
    begin: usize,
}

/// The attributes of one message.
#[derive(Default)]
pub struct Attributes(Vec<u8>);

// === impl Attributes ===

impl Attributes {
    pub fn bytes(mut self, kind: u16, value: &[u8]) -> Self {
        let length = (value.len() + 4) as u16;
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// Numbers of nf_tables are big-endian.
    pub fn number(self, kind: u16, value: u32) -> Self {
        self.bytes(kind, &value.to_be_bytes())
    }

    /// Numbers of interfaces have the machine's order of bytes.
    pub fn number_here(self, kind: u16, value: u32) -> Self {
        self.bytes(kind, &value.to_ne_bytes())
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    pub fn text(self, kind: u16, value: &str) -> Self {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.bytes(kind, &bytes)
    }

    pub fn nested(self, kind: u16, inner: Attributes) -> Self {
        self.bytes(kind | NESTED, &inner.0)
    }
}

// === impl Batch ===

impl Batch {
    pub fn push(&mut self, kind: u16, flags: u16, header: &[u8], attributes: Attributes) {
        self.last += 1;
        self.begin = self.bytes.len();
        let length = HEADER + header.len().next_multiple_of(4) + attributes.0.len();
        self.bytes.extend((length as u32).to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend((flags | REQUEST).to_ne_bytes());
        self.bytes.extend(self.last.to_ne_bytes());
        self.bytes.extend(0u32.to_ne_bytes());
        self.bytes.extend(header);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self.bytes.extend(attributes.0);
    }

    /// Sends everything and waits until the kernel acknowledges the message numbered `awaited`, or
    /// rejects any.
    pub fn send(&self, socket: impl AsFd, awaited: u32) -> io::Result<()> {
        self.put(&socket)?;
        let mut buffer = vec![0; 32 * 1024];
        loop {
            let received = match recv(&socket, &mut buffer[..], RecvFlags::empty()) {
                Err(Errno::INTR) => continue,
                received => received?.0,
            };
            for message in messages(&buffer[..received]) {
                if message.kind != ERROR {
                    continue;
                }
                let code = message
                    .payload
                    .first_chunk()
                    .copied()
                    .map(i32::from_ne_bytes);
                match code {
                    Some(0) if message.sequence == awaited => return Ok(()),
                    Some(0) => {}
                    Some(code) => return Err(io::Error::from_raw_os_error(-code)),
                    None => return Err(io::ErrorKind::InvalidData.into()),
                }
            }
        }
    }

    /// Sends everything, and leaves the answers to the caller.
    pub fn put(&self, socket: impl AsFd) -> io::Result<()> {
        discard_earlier(&socket)?;
        send(&socket, &self.bytes, SendFlags::empty())?;
        Ok(())
    }

    /// Sends everything and waits for the acknowledgement of the last message.
    pub fn send_acknowledged(&mut self, socket: impl AsFd) -> io::Result<()> {
        let last = self.acknowledge_last();
        self.send(socket, last)
    }

    /// Requests an acknowledgement of the last message; returns its number.
    pub fn acknowledge_last(&mut self) -> u32 {
        if let Some(flags) = self.bytes[self.begin + 6..].first_chunk_mut() {
            *flags = (u16::from_ne_bytes(*flags) | ACKNOWLEDGE).to_ne_bytes();
        }
        self.last
    }
}

/// Drops answers to requests that timed out.
fn discard_earlier(socket: impl AsFd) -> io::Result<()> {
    let mut buffer = [0; 4096];
    loop {
        match recv(&socket, &mut buffer[..], RecvFlags::DONTWAIT) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// One message of the kernel.
pub struct Message<'a> {
    pub kind: u16,
    pub sequence: u32,
    pub payload: &'a [u8],
}

/// The messages of one datagram; an incomplete one ends them.
pub fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let header: &[u8; HEADER] = bytes.first_chunk()?;
        let number = |at: usize| {
            let bytes = [header[at], header[at + 1], header[at + 2], header[at + 3]];
            u32::from_ne_bytes(bytes)
        };
        let length = number(0) as usize;
        let message = Message {
            kind: u16::from_ne_bytes([header[4], header[5]]),
            sequence: number(8),
            payload: bytes.get(HEADER..length)?,
        };
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(message)
    })
}

/// The attributes in `bytes`; an incomplete one ends them.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let header: &[u8; 4] = bytes.first_chunk()?;
        let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let kind = u16::from_ne_bytes([header[2], header[3]]) & 0x3fff;
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}
