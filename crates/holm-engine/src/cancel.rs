//! Operations that a request, or a client that disconnects, cancels.

use holm_core::WorkspaceId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// Operations under way that can be cancelled, by id: creations, or moves.
#[derive(Default)]
pub(crate) struct Creations(Mutex<HashMap<WorkspaceId, Cancel>>);

/// Cancels on request, or when its client drops it.
#[derive(Clone)]
pub struct Cancel(Arc<watch::Sender<bool>>);

pub(crate) struct CancelOnDrop(pub(crate) Cancel);

// === impl Creations ===

impl Creations {
    pub(crate) fn begin(&self, id: &WorkspaceId, cancel: &Cancel) {
        self.locked().insert(id.clone(), cancel.clone());
    }

    pub(crate) fn end(&self, id: &WorkspaceId) {
        self.locked().remove(id);
    }

    pub(crate) fn cancel(&self, id: &WorkspaceId) {
        if let Some(cancel) = self.locked().get(id) {
            cancel.request();
        }
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, HashMap<WorkspaceId, Cancel>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Cancel ===

impl Default for Cancel {
    fn default() -> Self {
        Self(Arc::new(watch::channel(false).0))
    }
}

impl Cancel {
    pub fn request(&self) {
        self.0.send_replace(true);
    }

    pub fn is_requested(&self) -> bool {
        *self.0.borrow()
    }

    /// Whether both are the same.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub async fn requested(&self) {
        let mut receiver = self.0.subscribe();
        // The sender is in `self`, so the channel stays open while this waits.
        let _ = receiver.wait_for(|is_requested| *is_requested).await;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.request();
    }
}
