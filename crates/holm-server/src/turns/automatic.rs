//! Turns that no person asked for: the engine says when.

use super::Effort;
use crate::App;
use holm_core::turn::TurnCause;
use holm_core::{Code, Fault, WorkspaceId};
use holm_engine::review::{TurnFailure, TurnRecord};
use holm_engine::{Notice, clock};
use serde_json::json;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A stop waits no longer for its turn.
const PATIENCE_AT_STOP: Duration = Duration::from_secs(15);

/// Records turns when the engine says so, and deletes those of deleted workspaces.
pub fn begin(app: &Arc<App>) {
    let listening: Weak<App> = Arc::downgrade(app);
    app.engine.record_turns(Box::new(move |id, cause| {
        let app = listening.upgrade();
        Box::pin(async move {
            let Some(app) = app else { return };
            let recorded = app.record_by_itself(&id, cause).await;
            if let Some(turn) = recorded.filter(|_| cause == TurnCause::Run) {
                // The run does not wait for it.
                tokio::spawn(async move { app.check_by_itself(&id, turn).await });
            }
        })
    }));
    let listening: Weak<App> = Arc::downgrade(app);
    app.engine.subscribe(move |id, notice| {
        if notice == Notice::Forgotten
            && let Some(app) = listening.upgrade()
        {
            let id = id.clone();
            tokio::task::spawn_blocking(move || {
                if let Err(error) = app.turns.delete(&id) {
                    tracing::warn!(%id, %error, "turns were not deleted; the next start does it");
                }
            });
        }
    });
}

// === impl App ===

impl App {
    /// Records a turn that no person asked for, and returns it if it is new. A failure is stored, shown in the inbox and
    /// the review, and sent as an event.
    pub async fn record_by_itself(&self, id: &WorkspaceId, cause: TurnCause) -> Option<TurnRecord> {
        let recording = self.record_turn(id, cause, Effort::Look);
        let recorded = if cause == TurnCause::Stop {
            let limited = tokio::time::timeout(PATIENCE_AT_STOP, recording).await;
            limited.unwrap_or_else(|_| Err(took_too_long(id)))
        } else {
            recording.await
        };
        // A run that ended because its workspace was stopped: the stop has recorded the turn.
        let is_over = cause == TurnCause::Run && recorded.is_err() && !self.is_running(id).await;
        match recorded {
            Ok(recorded) => return recorded.turn.filter(|_| recorded.is_new),
            Err(_) if is_over => {}
            Err(fault) => self.note_turn_failure(id, cause, fault).await,
        }
        None
    }

    /// The inbox shows the failure until a turn is recorded or a person looks.
    async fn note_turn_failure(&self, id: &WorkspaceId, cause: TurnCause, fault: Fault) {
        tracing::warn!(%id, %fault, "a turn was not recorded");
        let failure = TurnFailure {
            workspace: id.clone(),
            at: clock::wall(),
            cause,
            text: fault.message(),
        };
        if let Err(fault) = self.engine.note_turn_failure(failure).await {
            tracing::warn!(%id, %fault, "that a turn was not recorded is not in the store");
        }
        let detail = json!({ "cause": cause.as_str(), "error": fault.message() });
        self.events.emit(id, "turn.failed", detail).await;
        self.inbox.poke();
    }
}

fn took_too_long(id: &WorkspaceId) -> Fault {
    let seconds = PATIENCE_AT_STOP.as_secs();
    Fault::new(
        Code::GitTimedOut,
        format!("git inside workspace {id} did not write its tree within {seconds} s"),
        format!("`holm start {id}`, then `holm review {id} --mark` tries again"),
    )
}
