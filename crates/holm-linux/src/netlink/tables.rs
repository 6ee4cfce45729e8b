//! The kernel's packet rules (nf_tables) of one workspace, built from a [`Policy`].
//!
//! Three fixed chains: `translate` redirects every TCP connection to the gateway and every DNS
//! question to the resolver; `out` sees the destination before that, accepts what `policy` accepts
//! and sends the rest to `refuse`, which logs and rejects it at once. Only `policy` and the sets of
//! granted and closed addresses change, and only in one transaction, so there is no state between an old
//! policy and a new one. The bytes follow `linux/netfilter/nf_tables.h`.

use super::packet::{GROUP, LENGTH, TCP};
use super::ranges::merged;
use super::{APPEND, Attributes, Batch, CREATE};
use holm_core::config::EgressMode;
use holm_core::egress::{CLOSED, Policy, Range};
use holm_proxy::gateway::Grant;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

const TABLE: &str = "holm";
const OUT: &str = "out";
const RULES: &str = "policy";
const REFUSE: &str = "refuse";
const TRANSLATE: &str = "translate";
const UNTRACKED: &str = "untracked";

const SUBSYSTEM: u16 = 10 << 8;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NEW_TABLE: u16 = SUBSYSTEM;
const NEW_CHAIN: u16 = SUBSYSTEM | 3;
const NEW_RULE: u16 = SUBSYSTEM | 6;
const DELETE_RULE: u16 = SUBSYSTEM | 8;
const NEW_SET: u16 = SUBSYSTEM | 9;
const NEW_ELEMENT: u16 = SUBSYSTEM | 12;
const DELETE_ELEMENT: u16 = SUBSYSTEM | 14;

const FAMILY_INET: u8 = 1;
const FAMILY_V4: u8 = 2;
const FAMILY_V6: u8 = 10;
const HOOK_OUTPUT: u32 = 3;
const UDP: u8 = 17;
const DNS: u16 = 53;

/// Logged refusals per second; the others are refused silently.
const LOGGED_PER_SECOND: u64 = 200;

/// The targets of `translate`.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    pub gateway: [SocketAddr; 2],
    pub resolver: [SocketAddr; 2],
}

/// One set of addresses.
struct Set {
    name: &'static str,
    id: u32,
    key: u32,
    flags: u32,
}

/// The set has ranges: each begins at an element and ends before the next one, which is marked.
const RANGES: u32 = 4;
const END_OF_RANGE: u32 = 1;

/// Granted addresses, also with a port.
const SETS: [Set; 4] = [
    Set {
        name: "granted4",
        id: 1,
        key: 4,
        flags: 0,
    },
    Set {
        name: "granted6",
        id: 2,
        key: 16,
        flags: 0,
    },
    Set {
        name: "pairs4",
        id: 3,
        key: 8,
        flags: 0,
    },
    Set {
        name: "pairs6",
        id: 4,
        key: 20,
        flags: 0,
    },
];

/// Ranges that an open policy refuses.
const CLOSED_SETS: [Set; 2] = [
    Set {
        name: "closed4",
        id: 5,
        key: 4,
        flags: RANGES,
    },
    Set {
        name: "closed6",
        id: 6,
        key: 16,
        flags: RANGES,
    },
];

/// A change of the rules under construction.
struct Transaction {
    batch: Batch,
}

/// Creates everything, with nothing granted.
pub fn make(socket: impl AsFd, places: &Places, policy: &Policy) -> io::Result<()> {
    let mut change = Transaction::new();
    change.push(NEW_TABLE, CREATE, Attributes::default().text(1, TABLE));
    for set in SETS.iter().chain(&CLOSED_SETS) {
        let attributes = Attributes::default()
            .text(1, TABLE)
            .text(2, set.name)
            .number(3, set.flags)
            .number(4, 0)
            .number(5, set.key)
            .number(10, set.id);
        change.push(NEW_SET, CREATE, attributes);
    }
    change.chain(RULES, None);
    change.chain(REFUSE, None);
    change.chain(UNTRACKED, Some(("filter", -300, ACCEPT)));
    change.chain(OUT, Some(("filter", -150, DROP)));
    change.chain(TRANSLATE, Some(("nat", -100, ACCEPT)));
    // Traffic that stays inside need not be tracked.
    for range in [LOOPBACK_V4, LOOPBACK_V6] {
        change.rule(
            UNTRACKED,
            Rule::default()
                .to(range)
                .add("notrack", Attributes::default()),
        );
    }
    change.fixed_rules();
    change.translation(places);
    change.policy(policy);
    change.commit(socket)
}

/// Replaces the policy and its grants.
pub fn replace(socket: impl AsFd, policy: &Policy, grants: &[Grant]) -> io::Result<()> {
    let mut change = Transaction::new();
    let chain = Attributes::default().text(1, TABLE).text(2, RULES);
    change.push(DELETE_RULE, 0, chain);
    for set in SETS.iter().chain(&CLOSED_SETS) {
        let all = Attributes::default().text(1, TABLE).text(2, set.name);
        change.push(DELETE_ELEMENT, 0, all);
    }
    change.policy(policy);
    change.elements(NEW_ELEMENT, CREATE, grants);
    change.commit(socket)
}

/// Adds grants and removes others.
pub fn grant(socket: impl AsFd, taken: &[Grant], given: &[Grant]) -> io::Result<()> {
    let mut change = Transaction::new();
    change.elements(DELETE_ELEMENT, 0, taken);
    change.elements(NEW_ELEMENT, CREATE, given);
    change.commit(socket)
}

const LOOPBACK_V4: Range = Range {
    address: IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 0)),
    bits: 8,
};
const LOOPBACK_V6: Range = Range {
    address: IpAddr::V6(std::net::Ipv6Addr::LOCALHOST),
    bits: 128,
};

// === impl Transaction ===

impl Transaction {
    fn new() -> Self {
        let mut batch = Batch::default();
        batch.push(BATCH_BEGIN, 0, &[0, 0, 0, 10], Attributes::default());
        Self { batch }
    }

    fn push(&mut self, kind: u16, flags: u16, attributes: Attributes) {
        let header = [FAMILY_INET, 0, 0, 0];
        self.batch.push(kind, flags, &header, attributes);
    }

    fn commit(mut self, socket: impl AsFd) -> io::Result<()> {
        let last = self.batch.acknowledge_last();
        self.batch
            .push(BATCH_END, 0, &[0, 0, 0, 10], Attributes::default());
        self.batch.send(socket, last)
    }

    fn chain(&mut self, name: &str, hook: Option<(&str, i32, u32)>) {
        let mut attributes = Attributes::default().text(1, TABLE).text(3, name);
        if let Some((kind, priority, verdict)) = hook {
            let place = Attributes::default()
                .number(1, HOOK_OUTPUT)
                .number(2, priority as u32);
            attributes = attributes.nested(4, place).number(5, verdict).text(7, kind);
        }
        self.push(NEW_CHAIN, CREATE, attributes);
    }

    fn rule(&mut self, chain: &str, rule: Rule) {
        let attributes = Attributes::default()
            .text(1, TABLE)
            .text(2, chain)
            .nested(4, rule.0);
        self.push(NEW_RULE, CREATE | APPEND, attributes);
    }

    fn elements(&mut self, kind: u16, flags: u16, grants: &[Grant]) {
        for set in &SETS {
            let mut elements = Attributes::default();
            let mut count = 0;
            for key in grants.iter().filter_map(|grant| key(grant, set)) {
                let key = Attributes::default().bytes(1, &key);
                elements = elements.nested(1, Attributes::default().nested(1, key));
                count += 1;
            }
            if count > 0 {
                let list = Attributes::default()
                    .text(1, TABLE)
                    .text(2, set.name)
                    .nested(3, elements);
                self.push(kind, flags, list);
            }
        }
    }

    /// Fills a set with the ranges of its family.
    fn close(&mut self, set: &Set, ranges: &[Range]) {
        let length = set.key as usize;
        let mut elements = Attributes::default();
        let mut add = |address: u128, flags: u32| {
            let octets = &address.to_be_bytes()[16 - length..];
            let key = Attributes::default().bytes(1, octets);
            let element = Attributes::default().nested(1, key).number(3, flags);
            elements = std::mem::take(&mut elements).nested(1, element);
        };
        for (first, after) in merged(ranges, length) {
            add(first, 0);
            // A range up to the last address has no end.
            if let Some(after) = after {
                add(after, END_OF_RANGE);
            }
        }
        let list = Attributes::default()
            .text(1, TABLE)
            .text(2, set.name)
            .nested(3, elements);
        self.push(NEW_ELEMENT, CREATE, list);
    }

    fn fixed_rules(&mut self) {
        let known = Rule::default().established().verdict(ACCEPT, None);
        self.rule(OUT, known);
        self.rule(OUT, Rule::default().local().verdict(ACCEPT, None));
        for protocol in [TCP, UDP] {
            let question = Rule::default().protocol(protocol).port(DNS);
            self.rule(OUT, question.verdict(ACCEPT, None));
        }
        let judged = Rule::default().protocol(TCP);
        self.rule(OUT, judged.verdict(JUMP, Some(RULES)));
        self.rule(OUT, Rule::default().verdict(GOTO, Some(REFUSE)));

        let logged = Rule::default().limited(LOGGED_PER_SECOND).logged();
        self.rule(REFUSE, logged);
        let reset = Rule::default().protocol(TCP).rejected(1, 0);
        self.rule(REFUSE, reset);
        // Port unreachable, for either version of IP.
        self.rule(REFUSE, Rule::default().rejected(2, 1));
    }

    fn translation(&mut self, places: &Places) {
        self.rule(TRANSLATE, Rule::default().local().verdict(RETURN, None));
        for protocol in [UDP, TCP] {
            for place in places.resolver {
                let question = Rule::default()
                    .family(family(place.ip()))
                    .protocol(protocol)
                    .port(DNS);
                self.rule(TRANSLATE, question.lead_to(place));
            }
        }
        for place in places.gateway {
            let connection = Rule::default().family(family(place.ip())).protocol(TCP);
            self.rule(TRANSLATE, connection.lead_to(place));
        }
    }

    /// What is accepted; everything else is refused.
    fn policy(&mut self, policy: &Policy) {
        if policy.mode() == EgressMode::None {
            return;
        }
        for set in &SETS {
            let granted = Rule::default().in_set(set);
            self.rule(RULES, granted.verdict(ACCEPT, None));
        }
        for (range, port) in policy.opened() {
            let mut rule = Rule::default().to(range);
            if let Some(port) = port {
                rule = rule.port(port);
            }
            self.rule(RULES, rule.verdict(ACCEPT, None));
        }
        if policy.mode() != EgressMode::Open {
            return;
        }
        let machine = policy.machine().iter().copied().map(Range::exactly);
        let closed = CLOSED.iter().map(|(range, _)| *range).chain(machine);
        let closed = closed.flat_map(|range| [Some(range), range.through_nat64()]);
        let closed: Vec<Range> = closed.flatten().collect();
        for set in &CLOSED_SETS {
            self.close(set, &closed);
            let rule = Rule::default().in_set(set);
            self.rule(RULES, rule.verdict(GOTO, Some(REFUSE)));
        }
        self.rule(RULES, Rule::default().verdict(ACCEPT, None));
    }
}

/// The key of a grant in its set.
fn key(grant: &Grant, set: &Set) -> Option<Vec<u8>> {
    let mut key = octets(grant.address);
    if let Some(port) = grant.port {
        key.extend(port.to_be_bytes());
        key.extend([0, 0]);
    }
    (key.len() == set.key as usize).then_some(key)
}

fn family(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => FAMILY_V4,
        IpAddr::V6(_) => FAMILY_V6,
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

const DROP: u32 = 0;
const ACCEPT: u32 = 1;
const JUMP: u32 = -3_i32 as u32;
const GOTO: u32 = -4_i32 as u32;
const RETURN: u32 = -5_i32 as u32;

/// The first 16-byte register, and the first 4-byte register.
const REGISTER: u32 = 1;
const SMALL_REGISTER: u32 = 8;

const BASE_NETWORK: u32 = 1;
const BASE_TRANSPORT: u32 = 2;
const META_PROTOCOL_FAMILY: u32 = 15;
const META_PROTOCOL: u32 = 16;

/// The expressions of one rule.
#[derive(Default)]
struct Rule(Attributes);

// === impl Rule ===

impl Rule {
    fn add(self, name: &str, data: Attributes) -> Self {
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

    fn protocol(self, protocol: u8) -> Self {
        self.meta(META_PROTOCOL).equals(&[protocol])
    }

    fn port(self, port: u16) -> Self {
        self.load(REGISTER, BASE_TRANSPORT, 2, 2)
            .equals(&port.to_be_bytes())
    }

    fn family(self, family: u8) -> Self {
        self.meta(META_PROTOCOL_FAMILY).equals(&[family])
    }

    /// The destination is an address of the namespace itself.
    fn local(self) -> Self {
        const RESULT_KIND: u32 = 3;
        const OF_DESTINATION: u32 = 2;
        let data = Attributes::default()
            .number(1, REGISTER)
            .number(2, RESULT_KIND)
            .number(3, OF_DESTINATION);
        let kind = u32::from(libc::RTN_LOCAL);
        self.add("fib", data).equals(&kind.to_ne_bytes())
    }

    fn established(self) -> Self {
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

    fn to(self, range: Range) -> Self {
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
        let offset = if length == 4 { 16 } else { 24 };
        let rule =
            self.family(family(range.address))
                .load(REGISTER, BASE_NETWORK, offset, length as u32);
        rule.masked(&mask).equals(&value)
    }

    /// The destination is in a set.
    fn in_set(self, set: &Set) -> Self {
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
        let data = Attributes::default()
            .text(1, set.name)
            .number(2, SMALL_REGISTER)
            .number(4, set.id);
        rule.add("lookup", data)
    }

    fn verdict(self, code: u32, chain: Option<&str>) -> Self {
        let mut verdict = Attributes::default().number(1, code);
        if let Some(chain) = chain {
            verdict = verdict.text(2, chain);
        }
        let data = Attributes::default().nested(2, verdict);
        let data = Attributes::default().number(1, 0).nested(2, data);
        self.add("immediate", data)
    }

    fn limited(self, per_second: u64) -> Self {
        let data = Attributes::default()
            .bytes(1, &per_second.to_be_bytes())
            .bytes(2, &1u64.to_be_bytes())
            .number(3, per_second as u32)
            .number(4, 0);
        self.add("limit", data)
    }

    fn logged(self) -> Self {
        let data = Attributes::default()
            .bytes(1, &GROUP.to_be_bytes())
            .number(3, LENGTH)
            .bytes(4, &1u16.to_be_bytes());
        self.add("log", data)
    }

    fn rejected(self, how: u32, code: u8) -> Self {
        let data = Attributes::default().number(1, how).bytes(2, &[code]);
        self.add("reject", data)
    }

    fn lead_to(self, place: SocketAddr) -> Self {
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
