//! Turns session notices into events. One task per workspace with live sessions; the keeper stores
//! unacknowledged notices, so a daemon that was away gets them too.

use super::super::{App, stopped};
use holm_core::session::protocol::{Happened, SessionNotice};
use holm_core::{Fault, WorkspaceId};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The watched workspaces.
#[derive(Default)]
pub struct Watchers(Mutex<HashMap<WorkspaceId, Again>>);

/// Whether a session started since the watch did: the watch may be about to end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Again {
    No,
    Yes,
}

// === impl Watchers ===

impl Watchers {
    fn all(&self) -> MutexGuard<'_, HashMap<WorkspaceId, Again>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is not watched yet.
    fn takes(&self, id: &WorkspaceId) -> bool {
        let mut all = self.all();
        match all.get_mut(id) {
            Some(again) => {
                *again = Again::Yes;
                false
            }
            None => {
                all.insert(id.clone(), Again::No);
                true
            }
        }
    }

    /// Whether to watch again, after a watch has ended.
    fn goes_on(&self, id: &WorkspaceId) -> bool {
        let mut all = self.all();
        match all.insert(id.clone(), Again::No) {
            Some(Again::Yes) => true,
            Some(Again::No) | None => {
                all.remove(id);
                false
            }
        }
    }
}

// === impl App ===

impl App {
    /// Watches the sessions that existed before this daemon.
    pub async fn resume_sessions(self: &Arc<Self>) -> Result<(), Fault> {
        for (record, _) in self.engine.names().await? {
            let id = record.id;
            if !self
                .engine
                .reader(&id)
                .await?
                .last_sessions()
                .await?
                .is_empty()
            {
                begin(self, &id);
            }
        }
        Ok(())
    }

    async fn note_session(&self, id: &WorkspaceId, notice: SessionNotice) {
        if let (Happened::Exited { .. }, Some(agent)) = (&notice.what, &notice.agent) {
            self.take_back(id, &notice.session, agent).await;
        }
        let (kind, mut detail) = match notice.what {
            Happened::Started => ("session.started", json!({})),
            Happened::Exited { code, reason } => (
                "session.exited",
                json!({ "exit_code": code, "reason": reason }),
            ),
            Happened::Attention { text, left_out } => (
                "session.attention",
                json!({ "text": text, "left_out": left_out }),
            ),
        };
        detail["session"] = json!(notice.session);
        detail["name"] = json!(notice.name);
        let label = match self.engine.named(id).await {
            Ok(Some((record, _))) => json!(record.label.as_str()),
            _ => Value::Null,
        };
        detail["label"] = label;
        self.events.emit(id, kind, detail).await;
    }

    /// Removes the credentials of an agent's session. In a stopped workspace they are gone already.
    async fn take_back(&self, id: &WorkspaceId, session: &str, agent: &str) {
        let Ok(spec) = self.engine.spec(id).await else {
            return;
        };
        if let Ok(called) = self.agent(&spec, Some(agent)).await {
            let engine = &self.engine;
            engine
                .take_credentials_away(id, session, &called.borrowed_files(&spec.home))
                .await;
        }
    }
}

/// Watches the sessions of a workspace, unless it is watched already.
pub fn begin(app: &Arc<App>, id: &WorkspaceId) {
    if !app.watchers.takes(id) {
        return;
    }
    let (app, id) = (Arc::clone(app), id.clone());
    tokio::spawn(async move {
        let watching = async {
            loop {
                follow(&app, &id).await;
                if !app.watchers.goes_on(&id) {
                    return;
                }
            }
        };
        tokio::select! {
            () = watching => {}
            () = stopped(Arc::clone(&app)) => {}
        }
    });
}

/// Runs until the keeper has nothing more to report, or is gone.
async fn follow(app: &App, id: &WorkspaceId) {
    let Ok(mut watch) = app.engine.watch_sessions(id).await else {
        return;
    };
    while let Some(notice) = watch.notices.recv().await {
        let number = notice.number;
        // A client that has seen the event sees in a list what it says.
        app.engine.mark(id);
        app.note_session(id, notice).await;
        if watch.written.send(number).await.is_err() {
            return;
        }
    }
}
