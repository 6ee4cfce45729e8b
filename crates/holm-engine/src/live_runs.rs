//! The runs under way in this daemon: waiters learn when a run has started, how much output it has,
//! and when its end is stored.

use holm_core::{Fault, RunId};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// By id.
#[derive(Default)]
pub struct LiveRuns(Mutex<HashMap<RunId, Arc<Live>>>);

pub struct Live {
    progress: watch::Sender<RunProgress>,
    is_cancelled: AtomicBool,
}

#[derive(Clone, Debug, Default)]
pub struct RunProgress {
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
    pub fn enter(&self, run: &RunId) -> Option<Arc<Live>> {
        let mut all = self.all();
        if all.contains_key(run) {
            return None;
        }
        let live = Arc::new(Live {
            progress: watch::channel(RunProgress::default()).0,
            is_cancelled: AtomicBool::new(false),
        });
        all.insert(run.clone(), Arc::clone(&live));
        Some(live)
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Live ===

impl Live {
    pub fn subscribe(&self) -> watch::Receiver<RunProgress> {
        self.progress.subscribe()
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

    pub async fn wait_over(&self) {
        let mut progress = self.subscribe();
        let _ = progress.wait_for(|progress| progress.is_over).await;
    }
}
