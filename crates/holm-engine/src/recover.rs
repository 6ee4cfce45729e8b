//! What a daemon does first: finish or undo what the one before it left in the middle.
//!
//! Only what the journal and the records say was left is touched. Running workspaces do not notice.

use crate::bridge::joined;
use crate::converge::Goal;
use crate::driver::{Ended, Progress};
use crate::engine::{Engine, Inner};
use crate::store::WorkspaceRecord;
use holm_core::Fault;
use holm_core::plan::{Desired, Keeper};
use holm_core::state::Birth;
use std::sync::Arc;
use tokio::sync::OwnedMutexGuard;
use tokio::task::JoinSet;

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    pub undone: usize,
    pub finished: usize,
    /// Left as they are after a reboot.
    pub left: usize,
    pub failed: usize,
}

enum Recovered {
    Undone,
    Finished,
    Left,
}

/// How many are recovered at a time.
const AT_ONCE: usize = 8;

// === impl Engine ===

impl Engine {
    /// Recovers everything that was left in the middle. One that cannot be recovered does not keep
    /// the daemon from starting; it shows as `failed`, and the log says why. State that is not
    /// understood does: it is better found now than in the middle of something.
    pub async fn recover(&self) -> Result<Recovery, Fault> {
        let inner = &self.inner;
        inner.store.call(|store| store.projects()).await?;
        inner.store.call(|store| store.live_workspaces()).await?;
        let mut unfinished = inner
            .store
            .call(|store| store.unfinished())
            .await?
            .into_iter();
        let mut recovery = Recovery::default();
        let mut tasks = JoinSet::new();
        loop {
            while tasks.len() < AT_ONCE
                && let Some(record) = unfinished.next()
            {
                let inner = Arc::clone(inner);
                tasks.spawn(async move {
                    let turn = inner.workspaces.lock(&record.id).await;
                    let id = record.id.clone();
                    if record.birth == Birth::Acknowledged && record.spec.moving.is_some() {
                        // Set-ups take their time; only who wants something of this one waits.
                        tokio::spawn(inner.recover_later(record, turn));
                        return (id, Ok(Recovered::Finished));
                    }
                    (id, inner.recover(record).await)
                });
            }
            let Some(task) = tasks.join_next().await else {
                return Ok(recovery);
            };
            let (id, recovered) = joined(task)?;
            match recovered {
                Ok(Recovered::Undone) => recovery.undone += 1,
                Ok(Recovered::Finished) => recovery.finished += 1,
                Ok(Recovered::Left) => recovery.left += 1,
                Err(fault) => {
                    tracing::error!(%id, %fault, "not recovered");
                    recovery.failed += 1;
                }
            }
        }
    }
}

// === impl Inner ===

impl Inner {
    async fn recover_later(self: Arc<Self>, record: WorkspaceRecord, _turn: OwnedMutexGuard<()>) {
        let id = record.id.clone();
        if let Err(fault) = self.recover(record).await {
            tracing::error!(%id, %fault, "not recovered");
        }
    }

    async fn recover(&self, record: WorkspaceRecord) -> Result<Recovered, Fault> {
        if record.birth == Birth::Pending {
            self.undo(&record).await?;
            return Ok(Recovered::Undone);
        }
        let observation = self.observe(&record.spec).await?;
        let id = record.id.clone();
        let dropped = self.store.call(move |store| store.drop_open_entries(&id));
        dropped.await?;
        if record.removed_at.is_some() {
            // In the trash already; an entry was left open by what was done before.
            return Ok(Recovered::Left);
        }
        if record.desired == Desired::Removed {
            self.set_aside(record).await?;
            return Ok(Recovered::Finished);
        }
        let is_down = observation.observed.keeper == Keeper::Absent;
        if is_down && observation.reason == Some(Ended::Reboot) {
            // Nobody asked for it since the machine started; it shows as stopped.
            return Ok(Recovered::Left);
        }
        let goal = Goal::Reach(record.desired);
        self.converge(&record, goal, &Progress::default()).await?;
        Ok(Recovered::Finished)
    }
}
