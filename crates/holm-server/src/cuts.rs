//! Which connections end with which token and which workspace.
//!
//! The gate and the listener for guests register them; revoking a token or removing a workspace
//! cuts them.

use holm_proxy::sever::{Sever, WeakSever};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// By the id of a token or of a workspace.
#[derive(Default)]
pub struct Cuts(Mutex<HashMap<String, Held>>);

#[derive(Default)]
struct Held {
    connections: Vec<WeakSever>,
    /// Closed connections are removed when there are this many.
    sweep_at: usize,
}

const FIRST_SWEEP: usize = 16;

// === impl Cuts ===

impl Cuts {
    /// Registers a connection to be cut with the id.
    pub fn hold(&self, id: &str, sever: &Sever) {
        let mut all = self.all();
        let held = all.entry(id.to_owned()).or_default();
        if held
            .connections
            .iter()
            .rev()
            .any(|known| known.is_of(sever))
        {
            return;
        }
        held.connections.push(sever.downgrade());
        if held.connections.len() > held.sweep_at.max(FIRST_SWEEP) {
            held.connections.retain(|known| known.upgrade().is_some());
            held.sweep_at = held.connections.len() * 2;
        }
    }

    /// Cuts all connections of an id.
    pub fn cut(&self, id: &str) {
        let held = self.all().remove(id).unwrap_or_default();
        for sever in held.connections.iter().filter_map(WeakSever::upgrade) {
            sever.cut();
        }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Held>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_held_is_cut_and_nothing_else() {
        let cuts = Cuts::default();
        let [one, two, other] = [Sever::default(), Sever::default(), Sever::default()];
        cuts.hold("a", &one);
        cuts.hold("a", &one);
        cuts.hold("a", &two);
        cuts.hold("b", &other);
        cuts.cut("a");
        cuts.cut("nobody");
        assert!(one.is_cut() && two.is_cut() && !other.is_cut());
    }

    #[test]
    fn what_is_over_is_forgotten() {
        let cuts = Cuts::default();
        let kept = Sever::default();
        cuts.hold("a", &kept);
        for _ in 0..1000 {
            cuts.hold("a", &Sever::default());
        }
        assert!(cuts.all()["a"].connections.len() <= FIRST_SWEEP + 1);
        cuts.cut("a");
        assert!(kept.is_cut());
    }
}
