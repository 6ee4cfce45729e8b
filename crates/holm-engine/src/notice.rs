//! What the engine tells of its doings, at once, to those who asked to hear it (the server's routes
//! and tokens): whatever leads to a workspace follows what becomes of it.

use crate::engine::Engine;
use crate::run::RunState;
use holm_core::{Label, RunId, WorkspaceId};
use std::sync::{PoisonError, RwLock};

/// What became of a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// It is there and runs.
    Created,
    Started,
    Stopped,
    Renamed {
        earlier: Label,
    },
    /// Its tree has another commit.
    Moved {
        /// As the user sees it, or the commit.
        to: String,
    },
    /// A run in it began.
    RunStarted {
        run: RunId,
    },
    RunEnded {
        run: RunId,
        state: RunState,
        exit_code: Option<u8>,
    },
    /// It lies in the trash.
    Removed,
    /// It is back from the trash.
    Restored,
    /// It is gone for good.
    Forgotten,
}

type Listener = Box<dyn Fn(&WorkspaceId, Notice) + Send + Sync>;

/// Whoever listens; nobody is fine.
#[derive(Default)]
pub(crate) struct Notices(RwLock<Vec<Listener>>);

// === impl Engine ===

impl Engine {
    /// Calls `listener` from now on, before the operation in question returns. It must not block.
    pub fn tell_changes_to(&self, listener: impl Fn(&WorkspaceId, Notice) + Send + Sync + 'static) {
        let listeners = &self.inner.notices.0;
        let mut listeners = listeners.write().unwrap_or_else(PoisonError::into_inner);
        listeners.push(Box::new(listener));
    }
}

// === impl Notices ===

impl Notices {
    pub(crate) fn tell(&self, id: &WorkspaceId, notice: Notice) {
        let listeners = self.0.read().unwrap_or_else(PoisonError::into_inner);
        for listener in listeners.iter() {
            listener(id, notice.clone());
        }
    }
}
