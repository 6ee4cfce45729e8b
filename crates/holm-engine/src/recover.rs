//! Recovery at the daemon's start: finishes or undoes what the earlier daemon left unfinished.
//!
//! Only records that are marked as unfinished are touched. Running workspaces do not notice.

use crate::bridge::joined;
use crate::converge::Goal;
use crate::engine::{Engine, Inner};
use crate::progress::Progress;
use crate::store::WorkspaceRecord;
use holm_core::plan::{Desired, Files, Keeper};
use holm_core::spec::Purpose;
use holm_core::state::Birth;
use holm_core::state::Ended;
use holm_core::{Fault, WorkspaceId};
use std::sync::Arc;
use tokio::sync::OwnedMutexGuard;
use tokio::task::JoinSet;

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

/// Of which boot the unfinished work is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Boot {
    Same,
    /// The machine was started again since, perhaps after a power failure.
    Earlier,
}

/// How many are recovered concurrently.
const AT_ONCE: usize = 8;

// === impl Engine ===

impl Engine {
    /// Recovers everything unfinished. A workspace that cannot be recovered shows as `failed`, the
    /// log says why, and the daemon starts anyway. An unknown stored value stops the daemon: it is
    /// better found now than in the middle of an operation.
    pub async fn recover(&self) -> Result<Recovery, Fault> {
        let inner = &self.inner;
        inner.store.call(|store| store.projects()).await?;
        inner.store.call(|store| store.live_workspaces()).await?;
        let mut unfinished = inner
            .store
            .call(|store| store.unfinished())
            .await?
            .into_iter();
        let boot = match inner.clock.is_later_boot() {
            true => Boot::Earlier,
            false => Boot::Same,
        };
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
                        // Setups take long; only requests for this workspace wait.
                        tokio::spawn(inner.recover_later(record, turn));
                        return (id, Ok(Recovered::Finished));
                    }
                    (id, inner.recover(record, boot).await)
                });
            }
            let Some(task) = tasks.join_next().await else {
                // Before anything new is created: the next daemon has to know of which boot that is.
                self.keep_clock().await?;
                return Ok(recovery);
            };
            let (id, recovered) = joined(task)?;
            recovery.count(&id, recovered);
        }
    }

    /// Recovers what an outage of the store left unfinished, while this daemon serves. An operation that is under way holds
    /// the lock of its workspace, and has finished it then.
    pub async fn catch_up(&self) -> Result<Recovery, Fault> {
        let inner = &self.inner;
        let unfinished = || inner.store.call(|store| store.unfinished());
        let mut recovery = Recovery::default();
        for WorkspaceRecord { id, .. } in unfinished().await? {
            let turn = inner.workspaces.lock(&id).await;
            let found = unfinished()
                .await?
                .into_iter()
                .find(|record| record.id == id);
            let Some(record) = found else {
                continue;
            };
            if record.birth == Birth::Acknowledged && record.spec.moving.is_some() {
                tokio::spawn(Arc::clone(inner).recover_later(record, turn));
                recovery.finished += 1;
                continue;
            }
            recovery.count(&id, inner.recover(record, Boot::Same).await);
        }
        Ok(recovery)
    }
}

// === impl Recovery ===

impl Recovery {
    fn count(&mut self, id: &WorkspaceId, recovered: Result<Recovered, Fault>) {
        match recovered {
            Ok(Recovered::Undone) => self.undone += 1,
            Ok(Recovered::Finished) => self.finished += 1,
            Ok(Recovered::Left) => self.left += 1,
            Err(fault) => {
                tracing::error!(%id, %fault, "not recovered");
                self.failed += 1;
            }
        }
    }
}

// === impl Inner ===

impl Inner {
    async fn recover_later(self: Arc<Self>, record: WorkspaceRecord, _turn: OwnedMutexGuard<()>) {
        let id = record.id.clone();
        if let Err(fault) = self.recover(record, Boot::Same).await {
            tracing::error!(%id, %fault, "not recovered");
        }
    }

    async fn recover(&self, record: WorkspaceRecord, boot: Boot) -> Result<Recovered, Fault> {
        if record.birth == Birth::Pending {
            if boot == Boot::Earlier && self.may_be_acknowledged(&record).await? {
                let id = record.id.clone();
                let kept = self.store.call(move |store| {
                    store.acknowledge(&id)?;
                    store.set_desired(&id, Desired::Stopped)
                });
                kept.await?;
                return Ok(Recovered::Left);
            }
            self.undo(&record).await?;
            return Ok(Recovered::Undone);
        }
        let observation = self.observe(&record.spec).await?;
        let id = record.id.clone();
        let dropped = self.store.call(move |store| store.drop_open_entries(&id));
        dropped.await?;
        if record.removed_at.is_some() {
            // In the trash already, with an open entry of an earlier operation.
            return Ok(Recovered::Left);
        }
        if record.desired == Desired::Removed {
            self.set_aside(record).await?;
            return Ok(Recovered::Finished);
        }
        let is_down = observation.observed.keeper == Keeper::Absent;
        if is_down && observation.reason == Some(Ended::Reboot) {
            // Not requested since the reboot; it shows as stopped.
            return Ok(Recovered::Left);
        }
        let goal = Goal::Reach(record.desired);
        self.converge(&record, goal, &Progress::default()).await?;
        Ok(Recovered::Finished)
    }

    /// Whether the user may have been told that this workspace exists. An acknowledgement reaches the disk a moment later
    /// than the complete files do, so a power failure can have taken it.
    async fn may_be_acknowledged(&self, record: &WorkspaceRecord) -> Result<bool, Fault> {
        let observed = self.observe(&record.spec).await?.observed;
        Ok(record.spec.purpose == Purpose::Work && observed.files == Files::Complete)
    }
}
