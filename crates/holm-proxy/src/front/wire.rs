//! A stream into a workspace that records two facts for the HTTP client: the server has sent bytes,
//! and the workspace is in use.

use super::Used;
use crate::visit::Visit;
use crate::watched::{Watch, Watched};
use holm_core::WorkspaceId;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub type Wire = Watched<Use, Visit>;

/// The facts.
pub struct Use {
    received: Received,
    id: WorkspaceId,
    used: Used,
    reported_at: Instant,
}

/// Whether the server sent bytes since the last call.
#[derive(Clone, Default)]
pub struct Received(Arc<AtomicBool>);

/// The interval at which use is reported again.
const OFTEN: Duration = Duration::from_secs(5);

// === impl Received ===

impl Received {
    pub fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub fn reset(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

// === impl Wire ===

impl Wire {
    pub fn new(stream: Visit, id: &WorkspaceId, used: &Used) -> (Self, Received) {
        // Latency only: without it the connection still works.
        if let Some(stream) = stream.tcp() {
            let _ = stream.set_nodelay(true);
        }
        let received = Received::default();
        let watch = Use {
            received: received.clone(),
            id: id.clone(),
            used: Arc::clone(used),
            reported_at: Instant::now(),
        };
        (Self { stream, watch }, received)
    }
}

// === impl Use ===

impl Use {
    fn note(&mut self) {
        if self.reported_at.elapsed() >= OFTEN {
            self.reported_at = Instant::now();
            (self.used)(&self.id);
        }
    }
}

impl Watch for Use {
    fn read(&mut self, bytes: usize) {
        if bytes > 0 {
            self.received.0.store(true, Ordering::Relaxed);
            self.note();
        }
    }

    fn written(&mut self, _: usize) {
        self.note();
    }
}
