//! Sessions: requests, responses, and the stream of an attached client. Called by the server; the
//! driver talks to the keeper.

use crate::clock::now;
use crate::command::Stopped;
use crate::engine::Engine;
use crate::runs::Provision;
use crate::view::View;
use holm_core::plan::{Keeper, State};
use holm_core::session::protocol::{Attach, NewSession, Session, SessionRequest, SessionResponse};
use holm_core::state::Birth;
use holm_core::{Code, Fault, WorkspaceId};
use holm_keeper::client::{AttachStream, SessionNotices};

// === impl Engine ===

impl Engine {
    /// Starts a session, and starts the workspace first where that is allowed. Counts as use. The
    /// caller must remove the credentials when it ends.
    pub async fn start_session(
        &self,
        id: &WorkspaceId,
        new: NewSession,
        provision: Provision,
        stopped: Stopped,
    ) -> Result<(Session, Vec<String>), Fault> {
        self.inner.uses.note(id, now());
        self.inner.awaken(id, stopped).await?;
        let holder = new.id.clone();
        let has_sign_in = provision.sign_ins.is_some();
        let (places, notes) = self.bring_credentials(id, &holder, provision).await?;
        let keeper = self.inner.keeper(id).await?;
        let fault = match keeper.session(SessionRequest::Start(Box::new(new))).await {
            Ok(SessionResponse::Started(status)) => return Ok((*status, notes)),
            Ok(_) => nonsense(),
            Err(fault) => fault,
        };
        self.take_credentials_away(id, &holder, &places).await;
        if has_sign_in {
            self.end_sign_ins(id, &holder).await;
        }
        Err(fault)
    }

    /// The sessions of a workspace, oldest first; if it does not run, the ended ones.
    pub async fn sessions(&self, id: &WorkspaceId) -> Result<Vec<Session>, Fault> {
        let record = self.inner.live(id).await?;
        let driver = self.inner.driver(&record.spec)?;
        let observation = driver.observe(&record.spec).await?;
        if observation.observed.keeper != Keeper::Running {
            return driver.keeper(id).last_sessions().await;
        }
        match driver.keeper(id).session(SessionRequest::List).await? {
            SessionResponse::Sessions(sessions) => Ok(sessions),
            _ => Err(nonsense()),
        }
    }

    /// The sessions of all workspaces, with the workspaces' ids.
    pub async fn all_sessions(&self) -> Result<Vec<(WorkspaceId, Vec<Session>)>, Fault> {
        let mut all = Vec::new();
        for view in self.list().await? {
            if view.record.birth == Birth::Acknowledged {
                let sessions = self.sessions_seen(&view).await?;
                all.push((view.record.id, sessions));
            }
        }
        Ok(all)
    }

    /// The sessions that run in a workspace that was just observed.
    pub async fn running_sessions(&self, view: &View) -> Result<Vec<Session>, Fault> {
        if view.state != State::Running {
            return Ok(Vec::new());
        }
        let mut sessions = self.sessions_seen(view).await?;
        sessions.retain(|session| session.exit_code.is_none());
        Ok(sessions)
    }

    /// The sessions of a workspace that was just observed. Its keeper is asked only if it did not report them and the
    /// stored list has some.
    async fn sessions_seen(&self, view: &View) -> Result<Vec<Session>, Fault> {
        if let Some(sessions) = &view.sessions {
            return Ok(sessions.clone());
        }
        let keeper = self
            .inner
            .driver(&view.record.spec)?
            .keeper(&view.record.id);
        let stored = keeper.last_sessions().await?;
        if stored.is_empty() || view.state != State::Running {
            return Ok(stored);
        }
        match keeper.session(SessionRequest::List).await {
            Ok(SessionResponse::Sessions(live)) => Ok(live),
            // It has just ended.
            Ok(_) | Err(_) => Ok(stored),
        }
    }

    /// Sends a request to a session. Sending input counts as use of the workspace.
    pub async fn session_request(
        &self,
        id: &WorkspaceId,
        request: SessionRequest,
    ) -> Result<SessionResponse, Fault> {
        if matches!(request, SessionRequest::Send { .. }) {
            self.inner.uses.note(id, now());
        }
        self.require_keeper(id).await?;
        let response = self.inner.keeper(id).await?.session(request).await;
        // It may have waited for a change that the keeper has not reported yet.
        self.inner.reports.mark(id);
        response
    }

    pub async fn attach_session(
        &self,
        id: &WorkspaceId,
        attach: Attach,
    ) -> Result<AttachStream, Fault> {
        self.inner.uses.note(id, now());
        self.require_keeper(id).await?;
        self.inner.keeper(id).await?.attach_session(attach).await
    }

    /// Notices about the sessions of a running workspace, until it stops.
    pub async fn watch_sessions(&self, id: &WorkspaceId) -> Result<SessionNotices, Fault> {
        self.inner.reader(id).await?.watch_sessions().await
    }

    async fn require_keeper(&self, id: &WorkspaceId) -> Result<(), Fault> {
        let record = self.inner.live(id).await?;
        let observation = self.inner.observe(&record.spec).await?;
        if observation.observed.keeper == Keeper::Running {
            return Ok(());
        }
        let label = &record.label;
        Err(Fault::new(
            Code::NotRunning,
            format!("workspace `{label}` is not running, so none of its sessions is either"),
            format!("`holm session new {label}` starts it with a new session"),
        ))
    }
}

fn nonsense() -> Fault {
    Fault::new(
        Code::Internal,
        "the workspace's keeper gave a wrong answer",
        "`holm restart` starts it anew",
    )
}
