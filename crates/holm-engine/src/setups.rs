//! The builds of layers under way. Concurrent requests for one layer share its build.

use crate::progress::{Progress, ProgressEvent};
use crate::store::WorkspaceRecord;
use holm_core::{Fault, WorkspaceId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::sync::watch;

/// Builds under way.
#[derive(Default)]
pub(crate) struct Setups {
    runs: Mutex<HashMap<(String, String), Weak<Run>>>,
    /// The temporary workspaces, by the workspace that each was created for.
    builders: Mutex<HashMap<WorkspaceId, WorkspaceRecord>>,
}

/// One build, shared by all requests for the layer.
pub(crate) struct Run {
    /// Holds why the last attempt failed; the requests that waited for it fail too.
    turn: tokio::sync::Mutex<Option<Fault>>,
    pub(crate) progress: watch::Sender<Option<ProgressEvent>>,
}

// === impl Setups ===

impl Setups {
    pub(crate) fn run(&self, project: &str, key: &str) -> Arc<Run> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (project.to_owned(), key.to_owned());
        if let Some(run) = runs.get(&key).and_then(Weak::upgrade) {
            return run;
        }
        runs.retain(|_, run| run.strong_count() > 0);
        let run = Arc::new(Run {
            turn: tokio::sync::Mutex::new(None),
            progress: watch::Sender::new(None),
        });
        runs.insert(key, Arc::downgrade(&run));
        run
    }

    pub(crate) fn begin(&self, id: &WorkspaceId, builder: &WorkspaceRecord) {
        self.builders().insert(id.clone(), builder.clone());
    }

    /// The temporary workspace that was created for this one.
    pub(crate) fn of(&self, id: &WorkspaceId) -> Option<WorkspaceRecord> {
        self.builders().get(id).cloned()
    }

    pub(crate) fn end(&self, id: &WorkspaceId) -> Option<WorkspaceRecord> {
        self.builders().remove(id)
    }

    fn builders(&self) -> MutexGuard<'_, HashMap<WorkspaceId, WorkspaceRecord>> {
        self.builders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Run ===

impl Run {
    /// Waits for the lock and reports the progress of the build under way.
    pub(crate) async fn wait(
        &self,
        progress: &Progress,
    ) -> tokio::sync::MutexGuard<'_, Option<Fault>> {
        let mut reports = self.progress.subscribe();
        let turn = self.turn.lock();
        tokio::pin!(turn);
        loop {
            tokio::select! {
                biased;
                turn = &mut turn => return turn,
                // The sender is in `self`, so this ends only with a new value.
                _ = reports.changed() => {
                    let event = reports.borrow_and_update().clone();
                    if let Some(event) = event {
                        progress.report(&event.step, event.done, event.total);
                    }
                }
            }
        }
    }
}
