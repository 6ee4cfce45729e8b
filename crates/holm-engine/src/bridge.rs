//! The only place where the asynchronous engine calls the blocking store.
//!
//! A call runs on tokio's blocking pool. It runs to its end even when the caller is dropped, so a
//! disconnected client never interrupts a transaction. A read of one record runs on the caller's
//! thread: it takes some microseconds, readers do not wait for writers, and the way to another
//! thread and back would cost more.

use crate::store::{Store, StoreError};
use holm_core::{Code, Fault};
use std::sync::Arc;

/// The store, as the engine uses it.
pub(crate) struct Bridge(Arc<dyn Store>);

// === impl Bridge ===

impl Bridge {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self(store)
    }

    pub(crate) async fn call<T, F>(&self, operation: F) -> Result<T, Fault>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Store) -> Result<T, StoreError> + Send + 'static,
    {
        self.ask(operation).await?.map_err(Fault::from)
    }

    /// Reads one record on this thread.
    pub(crate) fn read<T>(
        &self,
        operation: impl FnOnce(&dyn Store) -> Result<T, StoreError>,
    ) -> Result<T, Fault> {
        operation(&*self.0).map_err(Fault::from)
    }

    /// Does not ask the store.
    pub(crate) fn outages(&self) -> u64 {
        self.0.outages()
    }

    /// As [`call`](Self::call), for callers that handle the store's own error.
    pub(crate) async fn ask<T, F>(&self, operation: F) -> Result<Result<T, StoreError>, Fault>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Store) -> Result<T, StoreError> + Send + 'static,
    {
        let store = Arc::clone(&self.0);
        blocking(move || operation(&*store)).await
    }
}

/// As [`blocking`], for fallible work; also for callers of the engine.
pub async fn try_blocking<T, F>(work: F) -> Result<T, Fault>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, Fault> + Send + 'static,
{
    blocking(work).await?
}

/// Runs blocking work. A panic becomes an error of this operation.
pub(crate) async fn blocking<T, F>(work: F) -> Result<T, Fault>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    joined(tokio::task::spawn_blocking(work).await)
}

pub(crate) fn joined<T>(result: Result<T, tokio::task::JoinError>) -> Result<T, Fault> {
    result.map_err(|error| {
        Fault::new(
            Code::Internal,
            "a task of holm ended early",
            "see the daemon's log, then try again",
        )
        .because(error)
    })
}
