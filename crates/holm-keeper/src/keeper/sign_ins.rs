//! Sign-ins of agents that the gateway may use, each until the last run or session that got it has ended. Part of
//! [`super::secrets`].

use crate::wire::SignIn;
use holm_proxy::gateway::Placeholder;
use holm_secrets::authority::Leaf;
use std::collections::{BTreeMap, BTreeSet};

/// By the names of agents.
#[derive(Default)]
pub struct SignIns(BTreeMap<String, Held>);

#[derive(Default)]
struct Held {
    all: Vec<SignIn>,
    /// Ids of runs and sessions.
    holders: BTreeSet<String>,
}

// === impl SignIns ===

impl SignIns {
    /// Replaces the named parts of an agent's sign-in; none: all of it goes. Without a holder (a refresh) it changes
    /// only if there is one.
    pub fn set(&mut self, agent: String, sign_ins: Vec<SignIn>, holder: Option<String>) {
        if sign_ins.is_empty() {
            self.0.remove(&agent);
            return;
        }
        let held = self.0.entry(agent).or_default();
        held.holders.extend(holder);
        if held.holders.is_empty() {
            return;
        }
        // A refresh tells nothing about keys that came from a client's environment.
        held.all
            .retain(|old| sign_ins.iter().all(|new| new.name != old.name));
        held.all.extend(sign_ins);
    }

    /// A run or session has ended. Returns whether sign-ins ended with it.
    pub fn end_holder(&mut self, holder: &str) -> bool {
        let before = self.0.len();
        self.0
            .retain(|_, held| !held.holders.remove(holder) || !held.holders.is_empty());
        self.0.len() != before
    }

    /// What the gateway may use, with certificates for the hosts.
    pub fn usable(&self) -> impl Iterator<Item = (Placeholder, Vec<Leaf>)> {
        self.0.iter().flat_map(|(agent, held)| {
            let all = held.all.iter();
            all.map(move |it| (it.placeholder(agent), it.leaves.clone()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holm_secrets::Value;

    fn sign_in(name: &str) -> SignIn {
        SignIn {
            name: name.to_owned(),
            token: format!("{name}-token"),
            value: Value::parse(b"value".to_vec()).unwrap(),
            hosts: Vec::new(),
            paths: Vec::new(),
            leaves: Vec::new(),
            is_refresh: false,
        }
    }

    #[test]
    fn a_sign_in_ends_with_its_last_holder() {
        let mut all = SignIns::default();
        let count = |all: &SignIns| all.usable().count();
        let holder = |id: &str| Some(id.to_owned());
        all.set(
            "a".to_owned(),
            vec![sign_in("x"), sign_in("y")],
            holder("1"),
        );
        all.set("a".to_owned(), vec![sign_in("x")], holder("2"));
        all.set("b".to_owned(), vec![sign_in("z")], holder("2"));
        assert_eq!(count(&all), 3);
        assert!(!all.end_holder("1") && !all.end_holder("other"));
        assert_eq!(count(&all), 3);
        assert!(all.end_holder("2"));
        assert_eq!(count(&all), 0);
        // A refresh that comes too late brings nothing back.
        all.set("a".to_owned(), vec![sign_in("x")], None);
        assert_eq!(count(&all), 0);
        // The user took it back.
        all.set("a".to_owned(), vec![sign_in("x")], holder("3"));
        all.set("a".to_owned(), Vec::new(), None);
        assert_eq!(count(&all), 0);
        assert!(!all.end_holder("3"));
    }
}
