//! The last tree that git inside recorded of each workspace, and how the writable layer looked then.
//!
//! While the layer looks the same, git would say the same, so it is not asked: a run that changes
//! nothing starts no git, and neither does a second `changes`. A daemon that starts knows nothing.
//! [`crate::capture`] fills and asks it.

use crate::captured::Captured;
use crate::driver::Upper;
use holm_core::WorkspaceId;
use holm_core::spec::WorkspaceSpec;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// By workspace.
#[derive(Default)]
pub struct Trees(Mutex<HashMap<WorkspaceId, Arc<Known>>>);

pub struct Known {
    pub spec: WorkspaceSpec,
    /// What git ignored, which no look needs to see.
    pub ignored: Arc<HashSet<Vec<u8>>>,
    pub recorded: Option<Recorded>,
}

pub struct Recorded {
    pub upper: Upper,
    pub captured: Captured,
}

// === impl Trees ===

impl Trees {
    /// Called when something else than a capture stores whether a workspace has uncommitted changes.
    pub fn forget(&self, id: &WorkspaceId) {
        self.all().remove(id);
    }

    /// What was kept for this spec: another one may have other layers.
    pub fn find(&self, id: &WorkspaceId, spec: &WorkspaceSpec) -> Option<Arc<Known>> {
        let known = self.all().get(id).cloned();
        known.filter(|known| known.spec == *spec)
    }

    pub fn keep(&self, id: &WorkspaceId, known: Known) {
        self.all().insert(id.clone(), Arc::new(known));
    }

    fn all(&self) -> MutexGuard<'_, HashMap<WorkspaceId, Arc<Known>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Known ===

impl Known {
    pub fn captured(&self, seen: &Upper) -> Option<&Captured> {
        let recorded = self.recorded.as_ref()?;
        let is_same = recorded.upper.files == seen.files && recorded.upper.objects == seen.objects;
        is_same.then_some(&recorded.captured)
    }
}
