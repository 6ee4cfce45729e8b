//! The packet rules for services with a network namespace of their own. Their packets come through the workspace's
//! network, which routes between them and leads everything else to the gateway.

use super::CREATE;
use super::packet::TCP;
use super::rule::{ACCEPT, GOTO, HOOK_POSTROUTING, HOOK_PREROUTING, Hook, JUMP, RETURN, Rule, Set};
use super::transaction::{
    DNS, LOOPBACK_V4, NEW_ELEMENT, OUT, Places, REFUSE, RULES, TRANSLATE, Transaction, UDP,
    UNTRACKED, elements,
};
use holm_core::egress::Range;
use std::net::{Ipv4Addr, SocketAddr};

const FROM_SERVICES: &str = "from_services";
const TRANSLATE_FROM_SERVICES: &str = "translate_from_services";
const SOURCE: &str = "source";

const MOST_AT_ONCE: usize = 1000;

/// The members of all networks, each as the number of its network and its address.
const MEMBERS: Set = Set {
    name: "members",
    id: 7,
    key: 8,
    flags: 0,
};
/// The addresses of services that reach nothing outside.
const INTERNAL: Set = Set {
    name: "internal",
    id: 8,
    key: 4,
    flags: 0,
};

/// The services with a network namespace of their own, whose packets come through the workspace's.
#[derive(Clone, Debug)]
pub struct Services {
    /// All of their addresses.
    pub range: Range,
    /// The members of each network. Only members of one network may talk to each other.
    pub networks: Vec<Vec<Ipv4Addr>>,
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
        for set in [&MEMBERS, &INTERNAL] {
            self.set(set);
        }
        let networks = (0_u32..).zip(&services.networks);
        let members = networks.flat_map(|(number, members)| {
            let key = move |it: &Ipv4Addr| [number.to_ne_bytes(), it.octets()].concat();
            members.iter().map(key)
        });
        self.fill(&MEMBERS, members.collect());
        let internal = services.internal.iter();
        self.fill(&INTERNAL, internal.map(|it| it.octets().to_vec()).collect());
        self.judge_services(places, services);
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
        let inside = || Rule::default().to(services.range);
        self.rule(OUT, inside().verdict(ACCEPT, None));
        self.rule(TRANSLATE, inside().verdict(RETURN, None));
    }

    /// As the chains for the workspace's own packets, for those that come from a service.
    fn judge_services(&mut self, places: &Places, services: &Services) {
        let judged = Hook::new("filter", -150, ACCEPT).at(HOOK_PREROUTING);
        self.chain(FROM_SERVICES, Some(judged));
        let translated = Hook::new("nat", -100, ACCEPT).at(HOOK_PREROUTING);
        self.chain(TRANSLATE_FROM_SERVICES, Some(translated));
        let chain = FROM_SERVICES;
        let own = || Rule::default().comes_by_loopback();
        let to_service = || Rule::default().to(services.range);
        self.rule(chain, own().verdict(ACCEPT, None));
        self.rule(chain, Rule::default().established().verdict(ACCEPT, None));
        self.rule(chain, Rule::default().local().verdict(ACCEPT, None));
        for (number, _) in (0_u32..).zip(&services.networks) {
            let within = Rule::default().within_network(number, &MEMBERS);
            self.rule(chain, within.verdict(ACCEPT, None));
        }
        self.rule(chain, to_service().verdict(GOTO, Some(REFUSE)));
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
        self.rule(chain, to_service().verdict(RETURN, None));
        self.translation(chain, places);
    }

    fn fill(&mut self, set: &Set, keys: Vec<Vec<u8>>) {
        // The kernel counts the bytes of a list with 16 bits.
        for part in keys.chunks(MOST_AT_ONCE) {
            if let Some(list) = elements(set, part) {
                self.push(NEW_ELEMENT, CREATE, list);
            }
        }
    }
}
