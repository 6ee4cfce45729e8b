//! One change of the kernel's packet rules: chains, sets and rules that come into force together. The bytes follow
//! `linux/netfilter/nf_tables.h`.

use super::packet::TCP;
use super::rule::{Hook, RETURN, Rule, Set, family};
use super::{APPEND, Attributes, Batch, CREATE};
use holm_core::egress::Range;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

pub const TABLE: &str = "holm";
pub const OUT: &str = "out";
pub const IN: &str = "in";
pub const RULES: &str = "policy";
pub const REFUSE: &str = "refuse";
pub const TRANSLATE: &str = "translate";
pub const UNTRACKED: &str = "untracked";

pub const SUBSYSTEM: u16 = 10 << 8;
pub const BATCH_BEGIN: u16 = 0x10;
pub const BATCH_END: u16 = 0x11;
pub const NEW_TABLE: u16 = SUBSYSTEM;
pub const NEW_CHAIN: u16 = SUBSYSTEM | 3;
pub const NEW_RULE: u16 = SUBSYSTEM | 6;
pub const DELETE_RULE: u16 = SUBSYSTEM | 8;
pub const NEW_SET: u16 = SUBSYSTEM | 9;
pub const NEW_ELEMENT: u16 = SUBSYSTEM | 12;
pub const DELETE_ELEMENT: u16 = SUBSYSTEM | 14;

pub const FAMILY_INET: u8 = 1;
pub const UDP: u8 = 17;
pub const DNS: u16 = 53;

pub const LOOPBACK_V4: Range = Range {
    address: IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 0)),
    bits: 8,
};
pub const LOOPBACK_V6: Range = Range {
    address: IpAddr::V6(std::net::Ipv6Addr::LOCALHOST),
    bits: 128,
};

/// The targets of `translate`.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    pub gateway: [SocketAddr; 2],
    pub resolver: [SocketAddr; 2],
}

/// A change of the rules under construction.
pub struct Transaction {
    batch: Batch,
}

/// The attributes of a change of a set's elements; `None`: there are no keys.
pub fn elements(set: &Set, keys: &[Vec<u8>]) -> Option<Attributes> {
    let elements = keys.iter().fold(Attributes::default(), |elements, key| {
        let key = Attributes::default().bytes(1, key);
        elements.nested(1, Attributes::default().nested(1, key))
    });
    let list = Attributes::default().text(1, TABLE).text(2, set.name);
    (!keys.is_empty()).then(|| list.nested(3, elements))
}

// === impl Transaction ===

impl Transaction {
    pub fn new() -> Self {
        let mut batch = Batch::default();
        batch.push(BATCH_BEGIN, 0, &[0, 0, 0, 10], Attributes::default());
        Self { batch }
    }

    pub fn push(&mut self, kind: u16, flags: u16, attributes: Attributes) {
        let header = [FAMILY_INET, 0, 0, 0];
        self.batch.push(kind, flags, &header, attributes);
    }

    pub fn commit(mut self, socket: impl AsFd) -> io::Result<()> {
        let last = self.batch.acknowledge_last();
        self.batch
            .push(BATCH_END, 0, &[0, 0, 0, 10], Attributes::default());
        self.batch.send(socket, last)
    }

    pub fn chain(&mut self, name: &str, hook: Option<Hook>) {
        let mut attributes = Attributes::default().text(1, TABLE).text(3, name);
        if let Some(hook) = hook {
            let place = Attributes::default()
                .number(1, hook.place)
                .number(2, hook.priority as u32);
            attributes = attributes
                .nested(4, place)
                .number(5, hook.verdict)
                .text(7, hook.kind);
        }
        self.push(NEW_CHAIN, CREATE, attributes);
    }

    pub fn set(&mut self, set: &Set) {
        let attributes = Attributes::default()
            .text(1, TABLE)
            .text(2, set.name)
            .number(3, set.flags)
            .number(4, 0)
            .number(5, set.key)
            .number(10, set.id);
        self.push(NEW_SET, CREATE, attributes);
    }

    pub fn rule(&mut self, chain: &str, rule: Rule) {
        let attributes = Attributes::default()
            .text(1, TABLE)
            .text(2, chain)
            .nested(4, rule.0);
        self.push(NEW_RULE, CREATE | APPEND, attributes);
    }

    pub fn translation(&mut self, chain: &str, places: &Places) {
        self.rule(chain, Rule::default().local().verdict(RETURN, None));
        for protocol in [UDP, TCP] {
            for place in places.resolver {
                let question = Rule::default()
                    .family(family(place.ip()))
                    .protocol(protocol)
                    .port(DNS);
                self.rule(chain, question.lead_to(place));
            }
        }
        for place in places.gateway {
            let connection = Rule::default().family(family(place.ip())).protocol(TCP);
            self.rule(chain, connection.lead_to(place));
        }
    }
}
