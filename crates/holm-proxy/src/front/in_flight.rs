//! Counts the requests under way on one client connection, to tell an idle connection from one that
//! waits for an answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The counter of one connection; clones share it.
#[derive(Clone, Default)]
pub struct InFlight(Arc<Counts>);

#[derive(Default)]
struct Counts {
    begun: AtomicUsize,
    under_way: AtomicUsize,
}

/// A request under way; dropping it ends the request.
pub struct InFlightRequest(Arc<Counts>);

// === impl InFlight ===

impl InFlight {
    pub fn begin(&self) -> InFlightRequest {
        self.0.begun.fetch_add(1, Ordering::Relaxed);
        self.0.under_way.fetch_add(1, Ordering::Relaxed);
        InFlightRequest(Arc::clone(&self.0))
    }

    /// The number of requests so far, if none is under way.
    pub fn idle_after(&self) -> Option<usize> {
        let is_idle = self.0.under_way.load(Ordering::Relaxed) == 0;
        is_idle.then(|| self.0.begun.load(Ordering::Relaxed))
    }
}

// === impl InFlightRequest ===

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}
