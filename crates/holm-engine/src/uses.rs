//! When each workspace was last used, and what was done because it was idle.

use holm_core::WorkspaceId;
use holm_core::plan::State;
use jiff::Timestamp;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// This daemon's knowledge of workspace use. The store gets the times a moment later.
#[derive(Default)]
pub(crate) struct Uses(Mutex<HashMap<WorkspaceId, Known>>);

#[derive(Clone, Default)]
pub(crate) struct Known {
    pub(crate) last_used: Option<Timestamp>,
    /// What was done or not done because it was idle, until it is used again.
    pub(crate) note: Option<Note>,
}

#[derive(Clone)]
pub(crate) enum Note {
    Stopped,
    Kept { at: Timestamp, why: String },
}

// === impl Uses ===

impl Uses {
    /// Records a use before the operation starts.
    pub(crate) fn note(&self, id: &WorkspaceId, at: Timestamp) {
        let known = Known {
            last_used: Some(at),
            note: None,
        };
        self.locked().insert(id.clone(), known);
    }

    /// What was done or not done because the workspace was idle.
    pub(crate) fn idle_note(&self, id: &WorkspaceId, state: State) -> Option<String> {
        let uses = self.locked();
        Some(match uses.get(id)?.note.as_ref()? {
            Note::Stopped if state != State::Stopped => return None,
            Note::Stopped => "stopped, because nobody used it (`stop_after`)".to_owned(),
            Note::Kept { why, .. } => {
                format!("not removed, although nobody used it (`remove_after`): {why}")
            }
        })
    }

    pub(crate) fn locked(&self) -> MutexGuard<'_, HashMap<WorkspaceId, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
