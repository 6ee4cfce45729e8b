//! The deadline of a program that holm itself runs inside, git mostly: a workspace's own filters,
//! hooks and files in `.git` can hold it for ever. Called by [`super::relay`].

use super::Registry;
use super::place::Place;
use super::services::{self, Marked};
use crate::inside::{END_EXEC, EXEC_MARK};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a program may be silent, and since when it is.
pub struct Quiet {
    mark: String,
    limit: Duration,
    since: Instant,
}

// === impl Quiet ===

impl Quiet {
    pub fn new(limit: Duration) -> Self {
        static MARKS: AtomicU64 = AtomicU64::new(1);
        Self {
            mark: MARKS.fetch_add(1, Ordering::Relaxed).to_string(),
            limit,
            since: Instant::now(),
        }
    }

    /// The variable that marks its processes, also those that left its session.
    pub fn mark(&self) -> (Vec<u8>, Vec<u8>) {
        (EXEC_MARK.into(), self.mark.clone().into())
    }

    /// Restarts the clock: it printed something, read input, or its client does not read.
    pub fn begin_anew(&mut self) {
        self.since = Instant::now();
    }

    pub fn until(&self) -> Instant {
        self.since + self.limit
    }

    /// Ends the program and everything that it started.
    pub fn end(&self, registry: &Registry, place: &Place, pid: i32) {
        let program = Marked {
            verb: END_EXEC,
            name: &self.mark,
            pid,
        };
        services::end_tree(registry, place, &program);
    }
}
