//! Notifications about what the engine did, sent at once to listeners (the server's ports and
//! tokens).

use holm_core::run::RunState;
use holm_core::{Label, RunId, WorkspaceId};
use std::sync::{PoisonError, RwLock};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// It exists and runs.
    Created,
    Started,
    Stopped,
    Renamed {
        earlier: Label,
    },
    /// Its tree has another commit.
    Moved {
        /// The name as the user typed it, or the commit.
        to: String,
    },
    /// A run in it started.
    RunStarted {
        run: RunId,
    },
    RunEnded {
        run: RunId,
        state: RunState,
        exit_code: Option<u8>,
    },
    /// It is in the trash.
    Removed,
    /// It was restored from the trash.
    Restored,
    /// It was deleted.
    Forgotten,
}

type Listener = Box<dyn Fn(&WorkspaceId, Notice) + Send + Sync>;

/// The listeners; may be empty.
#[derive(Default)]
pub(crate) struct Notices(pub(crate) RwLock<Vec<Listener>>);

// === impl Notices ===

impl Notices {
    pub(crate) fn send(&self, id: &WorkspaceId, notice: Notice) {
        let listeners = self.0.read().unwrap_or_else(PoisonError::into_inner);
        for listener in listeners.iter() {
            listener(id, notice.clone());
        }
    }
}
