//! The packet rules for services with a network namespace of their own. Their packets come through the workspace's
//! network, which routes between them and leads everything else to the gateway.

use super::packet::TCP;
use super::rule::{
    ACCEPT, GOTO, HOOK_POSTROUTING, HOOK_PREROUTING, Hook, JUMP, LOOPBACK_INTERFACE, META_COMES_BY,
    RETURN, Rule, Set,
};
use super::transaction::{
    DNS, LOOPBACK_V4, NEW_ELEMENT, OUT, Places, REFUSE, RULES, TABLE, TRANSLATE, Transaction, UDP,
    UNTRACKED,
};
use super::{Attributes, CREATE};
use holm_core::egress::Range;
use std::net::{Ipv4Addr, SocketAddr};

const FROM_SERVICES: &str = "from_services";
const TRANSLATE_FROM_SERVICES: &str = "translate_from_services";
const SOURCE: &str = "source";

/// Pairs of addresses between which services may connect, and addresses of those that reach nothing outside.
pub const LINKED: Set = Set {
    name: "linked",
    id: 7,
    key: 8,
    flags: 0,
};
pub const INTERNAL: Set = Set {
    name: "internal",
    id: 8,
    key: 4,
    flags: 0,
};

/// The services with a network namespace of their own, whose packets come through the workspace's.
#[derive(Clone, Debug, Default)]
pub struct Services {
    /// All of their addresses.
    pub range: Option<Range>,
    pub linked: Vec<(Ipv4Addr, Ipv4Addr)>,
    pub internal: Vec<Ipv4Addr>,
    pub published: Vec<Leading>,
}

/// A port of loopback that leads to a service.
#[derive(Clone, Copy, Debug)]
pub struct Leading {
    pub port: u16,
    pub to: SocketAddr,
}

// === impl Transaction ===

impl Transaction {
    /// The rules for packets of services with a network of their own. Ports that they publish are translated before
    /// anything else.
    pub fn services(&mut self, places: &Places, services: &Services) {
        for set in [&LINKED, &INTERNAL] {
            self.set(set);
        }
        let pairs = services.linked.iter();
        let pairs = pairs.map(|(from, to)| [from.octets(), to.octets()].concat());
        self.fill(&LINKED, pairs.collect());
        let internal = services.internal.iter();
        self.fill(&INTERNAL, internal.map(|it| it.octets().to_vec()).collect());
        self.judge_services(places, services.range);
        let after = Hook::new("nat", 100, ACCEPT).at(HOOK_POSTROUTING);
        self.chain(SOURCE, Some(after));
        // A service cannot answer to the address of loopback.
        let source = Rule::default().from(LOOPBACK_V4).leaves();
        self.rule(SOURCE, source.comes_from(places.gateway[0]));
        for leading in &services.published {
            let asked = || {
                Rule::default()
                    .to(LOOPBACK_V4)
                    .protocol(TCP)
                    .port(leading.port)
            };
            self.rule(UNTRACKED, asked().verdict(ACCEPT, None));
            self.rule(TRANSLATE, asked().lead_to(leading.to));
        }
        if let Some(range) = services.range {
            let inside = || Rule::default().to(range);
            self.rule(OUT, inside().verdict(ACCEPT, None));
            self.rule(TRANSLATE, inside().verdict(RETURN, None));
        }
    }

    /// As the chains for the workspace's own packets, for those that come from a service.
    fn judge_services(&mut self, places: &Places, range: Option<Range>) {
        let judged = Hook::new("filter", -150, ACCEPT).at(HOOK_PREROUTING);
        self.chain(FROM_SERVICES, Some(judged));
        let translated = Hook::new("nat", -100, ACCEPT).at(HOOK_PREROUTING);
        self.chain(TRANSLATE_FROM_SERVICES, Some(translated));
        let chain = FROM_SERVICES;
        let own = || {
            Rule::default()
                .meta(META_COMES_BY)
                .equals(&LOOPBACK_INTERFACE.to_ne_bytes())
        };
        self.rule(chain, own().verdict(ACCEPT, None));
        self.rule(chain, Rule::default().established().verdict(ACCEPT, None));
        self.rule(chain, Rule::default().local().verdict(ACCEPT, None));
        self.rule(
            chain,
            Rule::default().between(&LINKED).verdict(ACCEPT, None),
        );
        if let Some(range) = range {
            let other = Rule::default().to(range);
            self.rule(chain, other.verdict(GOTO, Some(REFUSE)));
        }
        let internal = Rule::default().sent_by(&INTERNAL);
        self.rule(chain, internal.verdict(GOTO, Some(REFUSE)));
        for protocol in [TCP, UDP] {
            let question = Rule::default().protocol(protocol).port(DNS);
            self.rule(chain, question.verdict(ACCEPT, None));
        }
        let judged = Rule::default().protocol(TCP);
        self.rule(chain, judged.verdict(JUMP, Some(RULES)));
        self.rule(chain, Rule::default().verdict(GOTO, Some(REFUSE)));

        let chain = TRANSLATE_FROM_SERVICES;
        self.rule(chain, own().verdict(RETURN, None));
        if let Some(range) = range {
            self.rule(chain, Rule::default().to(range).verdict(RETURN, None));
        }
        self.translation(chain, places);
    }

    fn fill(&mut self, set: &Set, keys: Vec<Vec<u8>>) {
        if keys.is_empty() {
            return;
        }
        let elements = keys.iter().fold(Attributes::default(), |elements, key| {
            let key = Attributes::default().bytes(1, key);
            elements.nested(1, Attributes::default().nested(1, key))
        });
        let list = Attributes::default()
            .text(1, TABLE)
            .text(2, set.name)
            .nested(3, elements);
        self.push(NEW_ELEMENT, CREATE, list);
    }
}
