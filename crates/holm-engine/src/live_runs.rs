//! The runs under way in this daemon: waiters learn when a run has started, how much output it has,
//! and when its end is stored.

use crate::run::RunRecord;
use holm_core::{Code, Fault, RunId, WorkspaceId};
use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, watch};

#[derive(Default)]
pub struct LiveRuns {
    by_id: Mutex<HashMap<RunId, Arc<Live>>>,
    entered: Notify,
}

pub struct Live {
    workspace: WorkspaceId,
    /// The idempotency key of the request that creates it.
    key: Option<String>,
    progress: watch::Sender<RunProgress>,
    is_cancelled: AtomicBool,
}

#[derive(Clone, Debug, Default)]
pub struct RunProgress {
    /// Once its program runs, which is before its row is on the disk.
    pub started: Option<Arc<RunRecord>>,
    /// `None`: not yet.
    pub begun: Option<Result<(), Fault>>,
    /// Bytes of output so far.
    pub length: u64,
    /// Its end is in the store.
    pub is_over: bool,
}

// === impl LiveRuns ===

impl LiveRuns {
    /// Registers a run; `None`: it is registered already.
    pub fn enter(&self, run: &RunRecord) -> Option<Arc<Live>> {
        let mut all = self.all();
        if all.contains_key(&run.id) {
            return None;
        }
        let live = Arc::new(Live {
            workspace: run.workspace.clone(),
            key: run.key.clone(),
            progress: watch::channel(RunProgress::default()).0,
            is_cancelled: AtomicBool::new(false),
        });
        all.insert(run.id.clone(), Arc::clone(&live));
        drop(all);
        self.entered.notify_waiters();
        Some(live)
    }

    /// Waits for a run that a request with this key creates.
    pub async fn with_key(&self, workspace: &WorkspaceId, key: &str) -> Arc<Live> {
        loop {
            let mut entered = pin!(self.entered.notified());
            // From here on no run enters unnoticed.
            entered.as_mut().enable();
            let is_meant = |live: &&Arc<Live>| {
                live.workspace == *workspace && live.key.as_deref() == Some(key)
            };
            let found = self.all().values().find(is_meant).cloned();
            if let Some(live) = found {
                return live;
            }
            entered.await;
        }
    }

    pub fn leave(&self, run: &RunId) {
        self.all().remove(run);
    }

    pub fn find(&self, run: &RunId) -> Option<Arc<Live>> {
        self.all().get(run).cloned()
    }

    pub fn is_empty(&self) -> bool {
        self.all().is_empty()
    }

    fn all(&self) -> MutexGuard<'_, HashMap<RunId, Arc<Live>>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Live ===

impl Live {
    pub fn subscribe(&self) -> watch::Receiver<RunProgress> {
        self.progress.subscribe()
    }

    pub fn started(&self, run: &RunRecord) {
        let run = Arc::new(run.clone());
        self.progress
            .send_modify(|progress| progress.started = Some(run));
    }

    pub fn begun(&self, how: Result<(), Fault>) {
        self.progress
            .send_modify(|progress| progress.begun = Some(how));
    }

    pub fn said(&self, length: u64) {
        self.progress.send_if_modified(|progress| {
            let is_more = progress.length != length;
            progress.length = length;
            is_more
        });
    }

    pub fn over(&self) {
        self.progress
            .send_modify(|progress| progress.is_over = true);
    }

    /// A run that has not started is not started any more.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::SeqCst);
    }

    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::SeqCst)
    }

    /// Waits until it has started or failed to.
    pub async fn wait_begun(&self) -> Result<(), Fault> {
        let mut progress = self.subscribe();
        let begun = progress.wait_for(|progress| progress.begun.is_some()).await;
        match begun.as_deref() {
            Ok(RunProgress {
                begun: Some(Err(fault)),
                ..
            }) => Err(fault.clone()),
            // The sender is part of `self`.
            _ => Ok(()),
        }
    }

    /// Waits until its program runs. The run is not acknowledged yet.
    pub async fn wait_started(&self) -> Result<Arc<RunRecord>, Fault> {
        let mut progress = self.subscribe();
        let is_known = |progress: &RunProgress| {
            progress.started.is_some() || progress.begun.is_some() || progress.is_over
        };
        // The sender is part of `self`.
        let known = progress.wait_for(is_known).await;
        let progress = known.map(|known| known.clone()).unwrap_or_default();
        match progress {
            RunProgress {
                started: Some(run), ..
            } => Ok(run),
            RunProgress {
                begun: Some(Err(fault)),
                ..
            } => Err(fault),
            _ => Err(Fault::new(
                Code::RunNotFound,
                "the run did not begin",
                "send the request again with the same key",
            )),
        }
    }

    pub async fn wait_over(&self) {
        let mut progress = self.subscribe();
        let _ = progress.wait_for(|progress| progress.is_over).await;
    }
}
