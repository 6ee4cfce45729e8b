//! The one place where the asynchronous engine meets the blocking store.
//!
//! A call runs on tokio's pool for blocking work. It is carried out to its end even when nobody
//! waits for it any more, so a transaction is never torn by a client that went away.

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

    /// As [`call`](Self::call), for those who decide by the store's own error.
    pub(crate) async fn ask<T, F>(&self, operation: F) -> Result<Result<T, StoreError>, Fault>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Store) -> Result<T, StoreError> + Send + 'static,
    {
        let store = Arc::clone(&self.0);
        blocking(move || operation(&*store)).await
    }
}

/// As [`blocking`], for work that can fail by itself; also for what calls the engine.
pub async fn try_blocking<T, F>(work: F) -> Result<T, Fault>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, Fault> + Send + 'static,
{
    blocking(work).await?
}

/// Runs blocking work. A panic in it becomes an error of this one operation.
pub(crate) async fn blocking<T, F>(work: F) -> Result<T, Fault>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    joined(tokio::task::spawn_blocking(work).await)
}

/// Takes the result out of a finished task.
pub(crate) fn joined<T>(result: Result<T, tokio::task::JoinError>) -> Result<T, Fault> {
    result.map_err(|error| {
        Fault::new(
            Code::Internal,
            format!("a task of holm ended early: {error}"),
            "see the daemon's log, then try again",
        )
    })
}
