//! Runs a command inside a workspace, and starts the workspace first where that is allowed.

use crate::converge::Goal;
use crate::engine::{Engine, Inner, detached, now};
use holm_core::exec::{ExecRequest, Resume};
use holm_core::plan::{Desired, Keeper};
use holm_core::{Code, Fault, WorkspaceId};
use holm_keeper::client::ExecStream;
use std::sync::Arc;

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
        inner.awaken(id, stopped).await?;
        // Storing the time must not delay the command.
        tokio::spawn(async move {
            if let Err(error) = inner.store.call(move |store| store.touch(&key, at)).await {
                tracing::warn!(%error, "the time of use was not noted");
            }
        });
        self.inner.keeper(id).await?.exec(request).await
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
    pub(crate) async fn awaken(
        self: &Arc<Self>,
        id: &WorkspaceId,
        stopped: Stopped,
    ) -> Result<(), Fault> {
        let turn = self.workspaces.lock(id).await;
        let record = self.live(id).await?;
        let observation = self.observe(&record.spec).await?;
        if observation.observed.keeper == Keeper::Running {
            return Ok(());
        }
        if stopped == Stopped::Refuse {
            let label = &record.label;
            return Err(Fault::new(
                Code::NotRunning,
                format!("workspace `{label}` is not running"),
                format!("`holm start {id}` starts it"),
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
