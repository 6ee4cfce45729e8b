//! The requests of one client that are under way, counted so that a connection on which nothing is
//! asked can be told from one that waits for an answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Of one connection; clones share everything.
#[derive(Clone, Default)]
pub struct Turns(Arc<Counts>);

#[derive(Default)]
struct Counts {
    begun: AtomicUsize,
    under_way: AtomicUsize,
}

/// One request, until its answer has been passed on.
pub struct Turn(Arc<Counts>);

// === impl Turns ===

impl Turns {
    pub fn begin(&self) -> Turn {
        self.0.begun.fetch_add(1, Ordering::Relaxed);
        self.0.under_way.fetch_add(1, Ordering::Relaxed);
        Turn(Arc::clone(&self.0))
    }

    /// How many there were so far, if none is under way.
    pub fn idle_after(&self) -> Option<usize> {
        let is_idle = self.0.under_way.load(Ordering::Relaxed) == 0;
        is_idle.then(|| self.0.begun.load(Ordering::Relaxed))
    }
}

// === impl Turn ===

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}
