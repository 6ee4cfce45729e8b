//! The kernel's packet rules (nf_tables) of one workspace, built from a [`Policy`].
//!
//! Three fixed chains: `translate` redirects every TCP connection to the gateway and every DNS
//! question to the resolver; `out` sees the destination before that, accepts what `policy` accepts
//! and sends the rest to `refuse`, which logs and rejects it at once. Only `policy` and the sets of
//! granted and closed addresses change, and only in one transaction, so there is no state between an old
//! policy and a new one. The bytes follow `linux/netfilter/nf_tables.h`.

use super::packet::TCP;
use super::ranges::merged;
use super::rule::{ACCEPT, DROP, GOTO, HOOK_INPUT, Hook, JUMP, RETURN, Rule, Set, octets};
use super::services::Services;
use super::transaction::{
    DELETE_ELEMENT, DELETE_RULE, DNS, IN, LOOPBACK_V4, LOOPBACK_V6, NEW_ELEMENT, NEW_TABLE, OUT,
    Places, REFUSE, RULES, TABLE, TRANSLATE, Transaction, UDP, UNTRACKED, elements,
};
use super::{Attributes, CREATE};
use holm_core::config::EgressMode;
use holm_core::egress::{CLOSED, Policy, Range};
use holm_proxy::gateway::Grant;
use std::io;
use std::os::fd::AsFd;

/// Logged refusals per second; the others are refused silently.
const LOGGED_PER_SECOND: u64 = 200;

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

const ICMPV6: u8 = 58;

/// Where the gateway's own connections leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WayOut {
    /// By another network namespace.
    Elsewhere,
    /// By an interface of this one: the gateway's process has this group, and no program inside has it.
    Here { group: u32 },
}

/// Creates everything, with nothing granted.
pub fn make(
    socket: impl AsFd,
    places: &Places,
    policy: &Policy,
    services: Option<&Services>,
    way_out: WayOut,
) -> io::Result<()> {
    let mut change = Transaction::new();
    change.push(NEW_TABLE, CREATE, Attributes::default().text(1, TABLE));
    for set in SETS.iter().chain(&CLOSED_SETS) {
        change.set(set);
    }
    change.chain(RULES, None);
    change.chain(REFUSE, None);
    change.chain(UNTRACKED, Some(Hook::new("filter", -300, ACCEPT)));
    change.chain(OUT, Some(Hook::new("filter", -150, DROP)));
    change.chain(TRANSLATE, Some(Hook::new("nat", -100, ACCEPT)));
    if let Some(services) = services {
        change.services(places, services);
    }
    // Traffic that stays inside need not be tracked.
    for range in [LOOPBACK_V4, LOOPBACK_V6] {
        change.rule(
            UNTRACKED,
            Rule::default()
                .to(range)
                .add("notrack", Attributes::default()),
        );
    }
    if let WayOut::Here { group } = way_out {
        change.share_with_gateway(group);
    }
    change.fixed_rules();
    change.translation(TRANSLATE, places);
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

// === impl Transaction ===

impl Transaction {
    fn elements(&mut self, kind: u16, flags: u16, grants: &[Grant]) {
        for set in &SETS {
            let keys = grants.iter().filter_map(|grant| key(grant, set));
            if let Some(list) = elements(set, &keys.collect::<Vec<_>>()) {
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

    /// The gateway's packets pass, and nothing comes in by the interface that it uses, except answers to it.
    fn share_with_gateway(&mut self, group: u32) {
        let own = || Rule::default().sent_by_group(group);
        self.rule(OUT, own().verdict(ACCEPT, None));
        // The kernel sends these by itself, for the interface. They are no program's, so they are not recorded.
        let by_itself = Rule::default().protocol(ICMPV6);
        self.rule(OUT, by_itself.verdict(DROP, None));
        self.rule(TRANSLATE, own().verdict(RETURN, None));
        self.chain(IN, Some(Hook::new("filter", 0, DROP).at(HOOK_INPUT)));
        self.rule(
            IN,
            Rule::default().comes_by_loopback().verdict(ACCEPT, None),
        );
        self.rule(IN, Rule::default().established().verdict(ACCEPT, None));
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
