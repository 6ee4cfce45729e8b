//! Parses the kernel's reports of refused packets. The packet is the guest's and may be incomplete.

use super::{Attributes, Batch, attributes, messages};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;

const SUBSYSTEM: u16 = 4 << 8;
const MESSAGE_PACKET: u16 = SUBSYSTEM;
const MESSAGE_CONFIGURE: u16 = SUBSYSTEM | 1;

const CONFIGURE_COMMAND: u16 = 1;
const CONFIGURE_MODE: u16 = 2;
const CONFIGURE_THRESHOLD: u16 = 5;
const COMMAND_BIND: u8 = 1;
const COPY_PACKET: u8 = 2;
const PACKET_PAYLOAD: u16 = 9;

/// The log group of refusals.
pub const GROUP: u16 = 1;

/// Enough for an IPv6 header and the ports.
pub const LENGTH: u32 = 64;

pub const TCP: u8 = 6;

/// The destination of a refused packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    pub protocol: u8,
    pub address: IpAddr,
    /// For TCP and UDP.
    pub port: Option<u16>,
}

/// Subscribes this socket to refusals.
pub fn listen(socket: impl AsFd) -> io::Result<()> {
    let group = GROUP.to_be_bytes();
    let header = [0, 0, group[0], group[1]];
    let mut mode = LENGTH.to_be_bytes().to_vec();
    mode.extend([COPY_PACKET, 0]);
    let settings = Attributes::default()
        .bytes(CONFIGURE_COMMAND, &[COMMAND_BIND])
        .bytes(CONFIGURE_MODE, &mode)
        // Reported one by one, without waiting for a full buffer.
        .number(CONFIGURE_THRESHOLD, 1);
    let mut batch = Batch::default();
    batch.push(MESSAGE_CONFIGURE, 0, &header, settings);
    batch.send_acknowledged(&socket)
}

/// The refusals of one datagram.
pub fn refusals(datagram: &[u8]) -> Vec<Refused> {
    let packets = messages(datagram).filter(|message| message.kind == MESSAGE_PACKET);
    packets
        .filter_map(|message| {
            let mut found = attributes(message.payload.get(4..)?);
            let (_, packet) = found.find(|(kind, _)| *kind == PACKET_PAYLOAD)?;
            read(packet)
        })
        .collect()
}

fn read(packet: &[u8]) -> Option<Refused> {
    let (protocol, address, rest) = match packet.first()? >> 4 {
        4 => {
            let header = usize::from(packet[0] & 15) * 4;
            let octets: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
            let address = IpAddr::V4(Ipv4Addr::from(octets));
            (*packet.get(9)?, address, packet.get(header..)?)
        }
        6 => {
            let octets: [u8; 16] = packet.get(24..40)?.try_into().ok()?;
            let address = IpAddr::V6(Ipv6Addr::from(octets));
            (*packet.get(6)?, address, packet.get(40..)?)
        }
        _ => return None,
    };
    let has_ports = matches!(protocol, TCP | 17);
    let port = match rest.get(2..4) {
        Some(&[high, low]) if has_ports => Some(u16::from_be_bytes([high, low])),
        _ => None,
    };
    Some(Refused {
        protocol,
        address,
        port,
    })
}
