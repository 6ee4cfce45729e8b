//! Counts connections and traffic per workspace: it limits connections and reports which workspaces
//! are in use.

use crate::watched::{Watch, Watched};
use holm_core::WorkspaceId;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Connections from outside per workspace. Each takes two descriptors of the daemon.
const MOST_CONNECTIONS: usize = 512;

/// The counters. Clones share their state.
#[derive(Clone)]
pub struct Traffic {
    lines: Arc<Mutex<HashMap<WorkspaceId, Arc<Line>>>>,
    most: usize,
}

#[derive(Default)]
struct Line {
    connections: AtomicUsize,
    has_moved: AtomicBool,
}

/// A connection, counted until it is dropped.
pub struct Connection(Arc<Line>);

/// A stream whose bytes count as traffic.
pub type TrafficStream<S> = Watched<Connection, S>;

// === impl Traffic ===

impl Traffic {
    /// Limits for a daemon with `files` descriptors: one workspace takes at most a quarter.
    pub fn for_files(files: u64) -> Self {
        let fitting = usize::try_from(files / 8).unwrap_or(MOST_CONNECTIONS);
        Self {
            lines: Arc::default(),
            most: fitting.clamp(1, MOST_CONNECTIONS),
        }
    }

    /// Counts a new connection; `None` when the workspace is at its limit.
    pub fn connect(&self, id: &WorkspaceId) -> Option<Connection> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let line = lines.entry(id.clone()).or_default();
        if line.connections.load(Ordering::Relaxed) >= self.most {
            return None;
        }
        line.connections.fetch_add(1, Ordering::Relaxed);
        line.has_moved.store(true, Ordering::Relaxed);
        Some(Connection(Arc::clone(line)))
    }

    /// Records traffic that no [`Connection`] counted.
    pub fn note(&self, id: &WorkspaceId) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let line = lines.entry(id.clone()).or_default();
        line.has_moved.store(true, Ordering::Relaxed);
    }

    /// The workspaces with traffic since the last call.
    pub fn take_moved(&self) -> Vec<WorkspaceId> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let mut moved = Vec::new();
        lines.retain(|id, line| {
            if line.has_moved.swap(false, Ordering::Relaxed) {
                moved.push(id.clone());
            }
            line.connections.load(Ordering::Relaxed) > 0
        });
        moved
    }
}

// === impl Connection ===

impl Connection {
    pub fn counting<S>(self, stream: S) -> TrafficStream<S> {
        Watched {
            stream,
            watch: self,
        }
    }

    fn note(&self) {
        if !self.0.has_moved.load(Ordering::Relaxed) {
            self.0.has_moved.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Watch for Connection {
    fn read(&mut self, bytes: usize) {
        if bytes > 0 {
            self.note();
        }
    }

    fn written(&mut self, _: usize) {
        self.note();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_counted_and_have_a_limit() {
        let traffic = Traffic::for_files(4096);
        let (one, other) = (WorkspaceId::random(), WorkspaceId::random());
        let mut connections: Vec<_> = (0..MOST_CONNECTIONS)
            .map(|_| traffic.connect(&one).unwrap())
            .collect();
        assert!(traffic.connect(&one).is_none());
        assert!(traffic.connect(&other).is_some());
        connections.pop();
        assert!(traffic.connect(&one).is_some());
    }

    #[test]
    fn where_few_files_may_be_open_the_limit_is_lower() {
        for (files, most) in [(0, 1), (1024, 128), (4096, 512), (u64::MAX, 512)] {
            assert_eq!(Traffic::for_files(files).most, most, "{files}");
        }
    }

    #[test]
    fn what_moved_is_told_once() {
        let traffic = Traffic::for_files(4096);
        let one = WorkspaceId::random();
        let connection = traffic.connect(&one).unwrap();
        assert_eq!(traffic.take_moved(), std::slice::from_ref(&one));
        assert!(traffic.take_moved().is_empty());
        connection.note();
        assert_eq!(traffic.take_moved(), [one]);
    }
}
