//! The expressions of one packet rule, and where a chain of rules is called. The bytes follow
//! `linux/netfilter/nf_tables.h`.

use super::Attributes;
use super::packet::{GROUP, LENGTH};
use holm_core::egress::Range;
use std::net::{IpAddr, SocketAddr};

const FAMILY_V4: u8 = 2;
const FAMILY_V6: u8 = 10;
pub const HOOK_PREROUTING: u32 = 0;
pub const HOOK_INPUT: u32 = 1;
const HOOK_OUTPUT: u32 = 3;
pub const HOOK_POSTROUTING: u32 = 4;

/// One set of addresses.
pub struct Set {
    pub name: &'static str,
    pub id: u32,
    pub key: u32,
    pub flags: u32,
}

pub fn family(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => FAMILY_V4,
        IpAddr::V6(_) => FAMILY_V6,
    }
}

pub fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

pub const DROP: u32 = 0;
pub const ACCEPT: u32 = 1;
pub const JUMP: u32 = -3_i32 as u32;
pub const GOTO: u32 = -4_i32 as u32;
pub const RETURN: u32 = -5_i32 as u32;

/// The first 16-byte register, and the first 4-byte register.
const REGISTER: u32 = 1;
const SMALL_REGISTER: u32 = 8;

const BASE_NETWORK: u32 = 1;
const BASE_TRANSPORT: u32 = 2;
const META_PROTOCOL_FAMILY: u32 = 15;
const META_PROTOCOL: u32 = 16;

/// The group of the process that created the socket.
const META_GROUP: u32 = 11;
const META_COMES_BY: u32 = 4;
const META_LEAVES_BY: u32 = 5;
const LOOPBACK_INTERFACE: u32 = 1;
/// Of an IPv4 packet.
const SENDER: u32 = 12;
const RECEIVER: u32 = 16;

/// Where a chain is called.
pub struct Hook {
    pub kind: &'static str,
    pub place: u32,
    pub priority: i32,
    pub verdict: u32,
}

// === impl Hook ===

impl Hook {
    /// For packets of the workspace's own programs.
    pub fn new(kind: &'static str, priority: i32, verdict: u32) -> Self {
        Self {
            kind,
            place: HOOK_OUTPUT,
            priority,
            verdict,
        }
    }

    pub fn at(self, place: u32) -> Self {
        Self { place, ..self }
    }
}

/// The expressions of one rule.
#[derive(Default)]
pub struct Rule(pub Attributes);

// === impl Rule ===

impl Rule {
    pub fn add(self, name: &str, data: Attributes) -> Self {
        let expression = Attributes::default().text(1, name).nested(2, data);
        Self(self.0.nested(1, expression))
    }

    fn meta(self, key: u32) -> Self {
        let data = Attributes::default().number(1, REGISTER).number(2, key);
        self.add("meta", data)
    }

    fn equals(self, value: &[u8]) -> Self {
        let value = Attributes::default().bytes(1, value);
        let data = Attributes::default()
            .number(1, REGISTER)
            .number(2, 0)
            .nested(3, value);
        self.add("cmp", data)
    }

    fn masked(self, mask: &[u8]) -> Self {
        let none = vec![0; mask.len()];
        let data = Attributes::default()
            .number(1, REGISTER)
            .number(2, REGISTER)
            .number(3, mask.len() as u32)
            .nested(4, Attributes::default().bytes(1, mask))
            .nested(5, Attributes::default().bytes(1, &none));
        self.add("bitwise", data)
    }

    fn load(self, register: u32, base: u32, offset: u32, length: u32) -> Self {
        let data = Attributes::default()
            .number(1, register)
            .number(2, base)
            .number(3, offset)
            .number(4, length);
        self.add("payload", data)
    }

    pub fn protocol(self, protocol: u8) -> Self {
        self.meta(META_PROTOCOL).equals(&[protocol])
    }

    pub fn port(self, port: u16) -> Self {
        self.load(REGISTER, BASE_TRANSPORT, 2, 2)
            .equals(&port.to_be_bytes())
    }

    pub fn family(self, family: u8) -> Self {
        self.meta(META_PROTOCOL_FAMILY).equals(&[family])
    }

    /// The destination is an address of the namespace itself.
    pub fn local(self) -> Self {
        const RESULT_KIND: u32 = 3;
        const OF_DESTINATION: u32 = 2;
        let data = Attributes::default()
            .number(1, REGISTER)
            .number(2, RESULT_KIND)
            .number(3, OF_DESTINATION);
        let kind = u32::from(libc::RTN_LOCAL);
        self.add("fib", data).equals(&kind.to_ne_bytes())
    }

    pub fn established(self) -> Self {
        const STATE: u32 = 0;
        const ESTABLISHED_OR_RELATED: u32 = 1 << 1 | 1 << 2;
        let data = Attributes::default().number(1, REGISTER).number(2, STATE);
        let none = Attributes::default().bytes(1, &0u32.to_ne_bytes());
        let differs = Attributes::default()
            .number(1, REGISTER)
            .number(2, 1)
            .nested(3, none);
        self.add("ct", data)
            .masked(&ESTABLISHED_OR_RELATED.to_ne_bytes())
            .add("cmp", differs)
    }

    pub fn from(self, range: Range) -> Self {
        let offset = if range.address.is_ipv4() { SENDER } else { 8 };
        self.within(range, offset)
    }

    pub fn to(self, range: Range) -> Self {
        let offset = if range.address.is_ipv4() {
            RECEIVER
        } else {
            24
        };
        self.within(range, offset)
    }

    fn within(self, range: Range, offset: u32) -> Self {
        let whole = octets(range.address);
        let length = whole.len();
        let mask: Vec<u8> = (0..length)
            .map(|index| {
                let bits = usize::from(range.bits).saturating_sub(index * 8).min(8);
                (0xff00_u16 >> bits) as u8
            })
            .collect();
        let value: Vec<u8> = whole
            .iter()
            .zip(&mask)
            .map(|(byte, mask)| byte & mask)
            .collect();
        let rule =
            self.family(family(range.address))
                .load(REGISTER, BASE_NETWORK, offset, length as u32);
        rule.masked(&mask).equals(&value)
    }

    /// A process of this group created the socket. No program inside can change its group.
    pub fn sent_by_group(self, group: u32) -> Self {
        self.meta(META_GROUP).equals(&group.to_ne_bytes())
    }

    pub fn comes_by_loopback(self) -> Self {
        self.meta(META_COMES_BY)
            .equals(&LOOPBACK_INTERFACE.to_ne_bytes())
    }

    /// It leaves the workspace's own network.
    pub fn leaves(self) -> Self {
        let value = Attributes::default().bytes(1, &LOOPBACK_INTERFACE.to_ne_bytes());
        let differs = Attributes::default()
            .number(1, REGISTER)
            .number(2, 1)
            .nested(3, value);
        self.meta(META_LEAVES_BY).add("cmp", differs)
    }

    /// Sender and receiver are members of one network.
    pub fn within_network(self, network: u32, members: &Set) -> Self {
        let number = Attributes::default().bytes(1, &network.to_ne_bytes());
        let number = Attributes::default()
            .number(1, SMALL_REGISTER)
            .nested(2, number);
        let address = SMALL_REGISTER + 1;
        self.family(FAMILY_V4)
            .add("immediate", number)
            .load(address, BASE_NETWORK, SENDER, 4)
            .look_up(members)
            .load(address, BASE_NETWORK, RECEIVER, 4)
            .look_up(members)
    }

    /// The sender is in a set.
    pub fn sent_by(self, set: &Set) -> Self {
        let rule = self
            .family(FAMILY_V4)
            .load(SMALL_REGISTER, BASE_NETWORK, SENDER, 4);
        rule.look_up(set)
    }

    /// The destination is in a set.
    pub fn in_set(self, set: &Set) -> Self {
        let (family, offset, length) = match set.key {
            4 | 8 => (FAMILY_V4, 16, 4),
            _ => (FAMILY_V6, 24, 16),
        };
        let mut rule = self
            .family(family)
            .load(SMALL_REGISTER, BASE_NETWORK, offset, length);
        if set.key > length {
            let after = SMALL_REGISTER + length / 4;
            rule = rule.load(after, BASE_TRANSPORT, 2, 2);
        }
        rule.look_up(set)
    }

    fn look_up(self, set: &Set) -> Self {
        let data = Attributes::default()
            .text(1, set.name)
            .number(2, SMALL_REGISTER)
            .number(4, set.id);
        self.add("lookup", data)
    }

    pub fn verdict(self, code: u32, chain: Option<&str>) -> Self {
        let mut verdict = Attributes::default().number(1, code);
        if let Some(chain) = chain {
            verdict = verdict.text(2, chain);
        }
        let data = Attributes::default().nested(2, verdict);
        let data = Attributes::default().number(1, 0).nested(2, data);
        self.add("immediate", data)
    }

    pub fn limited(self, per_second: u64) -> Self {
        let data = Attributes::default()
            .bytes(1, &per_second.to_be_bytes())
            .bytes(2, &1u64.to_be_bytes())
            .number(3, per_second as u32)
            .number(4, 0);
        self.add("limit", data)
    }

    pub fn logged(self) -> Self {
        let data = Attributes::default()
            .bytes(1, &GROUP.to_be_bytes())
            .number(3, LENGTH)
            .bytes(4, &1u16.to_be_bytes());
        self.add("log", data)
    }

    pub fn rejected(self, how: u32, code: u8) -> Self {
        let data = Attributes::default().number(1, how).bytes(2, &[code]);
        self.add("reject", data)
    }

    /// Replaces the sender's address.
    pub fn comes_from(self, place: SocketAddr) -> Self {
        let value = Attributes::default().bytes(1, &octets(place.ip()));
        let value = Attributes::default().number(1, REGISTER).nested(2, value);
        let translation = Attributes::default()
            .number(1, 0)
            .number(2, u32::from(family(place.ip())))
            .number(3, REGISTER);
        self.add("immediate", value).add("nat", translation)
    }

    pub fn lead_to(self, place: SocketAddr) -> Self {
        let address = octets(place.ip());
        let family = family(place.ip());
        const SECOND_REGISTER: u32 = 2;
        let value = |register: u32, bytes: &[u8]| {
            let value = Attributes::default().bytes(1, bytes);
            Attributes::default().number(1, register).nested(2, value)
        };
        let translation = Attributes::default()
            .number(1, 1)
            .number(2, u32::from(family))
            .number(3, REGISTER)
            .number(5, SECOND_REGISTER);
        self.add("immediate", value(REGISTER, &address))
            .add(
                "immediate",
                value(SECOND_REGISTER, &place.port().to_be_bytes()),
            )
            .add("nat", translation)
    }
}
