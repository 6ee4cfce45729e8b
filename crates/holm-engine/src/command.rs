//! Runs a command inside a workspace, and starts the workspace first where that is allowed.

use crate::clock::now;
use crate::converge::Goal;
use crate::engine::{Engine, Inner, detached};
use holm_core::exec::{ExecRequest, Resume};
use holm_core::plan::{Desired, Keeper};
use holm_core::{Code, Fault, WorkspaceId};
use holm_keeper::client::ExecStream;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// A keeper that has not answered by then is looked at.
const SLOW: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    Start,
    Refuse,
}

// === impl Engine ===

impl Engine {
    /// Runs a command inside. Counts as use of the workspace.
    pub async fn exec(
        &self,
        id: &WorkspaceId,
        request: ExecRequest,
        stopped: Stopped,
    ) -> Result<ExecStream, Fault> {
        let (inner, key, at) = (Arc::clone(&self.inner), id.clone(), now());
        // In memory at once, so that the workspace is not stopped as idle before the command runs.
        inner.uses.note(id, at);
        let stream = match inner.exec_settled(id, &request).await {
            Some(stream) => stream,
            None => {
                inner.awaken(id, stopped).await?;
                inner.keeper(id).await?.exec(request).await?
            }
        };
        // Storing the time must not delay the command.
        tokio::spawn(async move {
            if let Err(error) = inner.store.call(move |store| store.touch(&key, at)).await {
                tracing::warn!(%error, "the time of use was not noted");
            }
        });
        Ok(stream)
    }

    /// Reconnects to a command that an earlier daemon started. Starts nothing.
    pub async fn resume(&self, id: &WorkspaceId, resume: Resume) -> Result<ExecStream, Fault> {
        self.inner.uses.note(id, now());
        self.inner.awaken(id, Stopped::Refuse).await?;
        self.inner.keeper(id).await?.resume(resume).await
    }
}

// === impl Inner ===

impl Inner {
    /// Runs a command in a settled workspace without asking for its status first. `None`: it has to
    /// be looked at, because the keeper did not start the command.
    async fn exec_settled(&self, id: &WorkspaceId, request: &ExecRequest) -> Option<ExecStream> {
        let turn = self.workspaces.lock(id).await;
        if !self.settled.has(id) {
            return None;
        }
        drop(turn);
        let keeper = self.keeper(id).await.ok()?;
        let mut begun = pin!(keeper.exec_begun(request.clone()));
        loop {
            match tokio::time::timeout(SLOW, &mut begun).await {
                Ok(Ok(stream)) => return Some(stream),
                Ok(Err(fault)) => {
                    tracing::debug!(%id, %fault, "a keeper did not start a command");
                    self.settled.forget(id);
                    return None;
                }
                // A keeper that is frozen never answers.
                Err(_) if self.is_running(id).await => {}
                Err(_) => {
                    self.settled.forget(id);
                    return None;
                }
            }
        }
    }

    async fn is_running(&self, id: &WorkspaceId) -> bool {
        let Ok(record) = self.live(id).await else {
            return false;
        };
        let observation = self.observe(&record.spec).await;
        observation.is_ok_and(|seen| seen.observed.keeper == Keeper::Running)
    }

    pub(crate) async fn awaken(
        self: &Arc<Self>,
        id: &WorkspaceId,
        stopped: Stopped,
    ) -> Result<(), Fault> {
        let turn = self.workspaces.lock(id).await;
        let record = self.live(id).await?;
        let observation = match self.reported(&record).await {
            Some(reported) => reported.observation?,
            None => self.observe(&record.spec).await?,
        };
        if observation.observed.keeper == Keeper::Running {
            self.settled.note(id);
            return Ok(());
        }
        if stopped == Stopped::Refuse {
            let label = &record.label;
            return Err(Fault::new(
                Code::NotRunning,
                format!("{label} is stopped, and --no-start forbids starting it"),
                format!("start it: `holm start {id}`"),
            ));
        }
        let inner = Arc::clone(self);
        detached(async move {
            let _turn = turn;
            let goal = Goal::Reach(Desired::Running);
            inner.reach(record, Desired::Running, goal).await
        })
        .await
        .map(|_| ())
    }
}
