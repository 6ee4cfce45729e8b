//! Reports of long work, from drivers to the request that waits for it.

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

/// Reports the progress of long work. Without a listener the reports are dropped.
#[derive(Clone, Default)]
pub struct Progress(Option<mpsc::UnboundedSender<ProgressEvent>>);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProgressEvent {
    /// The current step in a few words (`checking out`).
    pub step: String,
    pub done: u64,
    pub total: u64,
}

// === impl Progress ===

impl Progress {
    pub fn to(sender: mpsc::UnboundedSender<ProgressEvent>) -> Self {
        Self(Some(sender))
    }

    pub fn report(&self, step: &str, done: u64, total: u64) {
        if let Some(sender) = &self.0 {
            // A listener that has gone does not stop the work.
            let _ = sender.send(ProgressEvent {
                step: step.to_owned(),
                done,
                total,
            });
        }
    }
}
