//! Progress notifications: only if the client sent a token, always increasing, and rate-limited.

use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

const OFTEN: Duration = Duration::from_millis(200);

pub struct Progress {
    words: Option<mpsc::UnboundedSender<String>>,
    last_sent: Mutex<Option<Instant>>,
}

// === impl Progress ===

impl Progress {
    pub fn new(context: &RequestContext<RoleServer>) -> Self {
        let token = context.meta.get_progress_token();
        let words = token.map(|token| {
            let (words, receiver) = mpsc::unbounded_channel();
            tokio::spawn(pass_on(context.peer.clone(), token, receiver));
            words
        });
        Self {
            words,
            last_sent: Mutex::new(None),
        }
    }

    /// For a client without a token.
    pub fn unheard() -> Self {
        Self {
            words: None,
            last_sent: Mutex::new(None),
        }
    }

    /// In the form of the API's progress.
    pub fn report(&self, step: &str, done: u64, total: u64) {
        let words = match (done, total) {
            (0, 0) => step.to_owned(),
            (done, 0) => format!("{step}: {done}"),
            (done, total) => format!("{step}: {done} of {total}"),
        };
        self.say(words);
    }

    pub fn say(&self, words: String) {
        let Some(sender) = &self.words else { return };
        let mut last_sent = self
            .last_sent
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if last_sent.is_some_and(|last_sent| last_sent.elapsed() < OFTEN) {
            return;
        }
        *last_sent = Some(Instant::now());
        // The client may be gone.
        let _ = sender.send(words);
    }
}

async fn pass_on(
    peer: Peer<RoleServer>,
    token: ProgressToken,
    mut receiver: mpsc::UnboundedReceiver<String>,
) {
    let mut count = 0.0;
    while let Some(words) = receiver.recv().await {
        count += 1.0;
        let param = ProgressNotificationParam::new(token.clone(), count).with_message(words);
        if peer.notify_progress(param).await.is_err() {
            return;
        }
    }
}
