//! Which workspaces run as their record says, so that a command need not ask first.
//!
//! A workspace is settled when its keeper was seen running, or was started, while its lock was held.
//! It is forgotten before an action is journaled, when its spec changes, and when its keeper does
//! not start a command. A wrong entry costs one refused request.

use holm_core::WorkspaceId;
use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Default)]
pub(crate) struct Settled(Mutex<HashSet<WorkspaceId>>);

// === impl Settled ===

impl Settled {
    /// The caller holds the workspace's lock.
    pub(crate) fn note(&self, id: &WorkspaceId) {
        self.locked().insert(id.clone());
    }

    pub(crate) fn forget(&self, id: &WorkspaceId) {
        self.locked().remove(id);
    }

    pub(crate) fn has(&self, id: &WorkspaceId) -> bool {
        self.locked().contains(id)
    }

    fn locked(&self) -> MutexGuard<'_, HashSet<WorkspaceId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
