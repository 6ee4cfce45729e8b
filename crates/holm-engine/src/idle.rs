//! Stops and removes idle workspaces, if the user's settings say so.
//!
//! `holm_core::idle` decides what counts as use. Work is never at risk: a removal of an idle
//! workspace is refused by the same examination as `rm` without force, and the obstacle is kept
//! here for `show`.

use crate::clock::since_epoch;
use crate::converge::Goal;
use crate::driver::Observation;
use crate::engine::{Engine, Inner};
use crate::remove::Losing;
use crate::store::WorkspaceRecord;
use crate::uses::Note;
use holm_core::idle::{IdleAction, IdleLimits, Usage, idle};
use holm_core::plan::{Desired, Keeper};
use holm_core::state::Birth;
use holm_core::{Fault, WorkspaceId};
use jiff::Timestamp;
use std::time::Duration;

/// A workspace with unsaved work is examined again after this, because the work may have been
/// fetched.
const ANOTHER_LOOK: Duration = Duration::from_secs(3600);

/// What was done to an idle workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swept {
    pub id: WorkspaceId,
    pub what: &'static str,
}

// === impl Engine ===

impl Engine {
    /// Checks every workspace once and applies the limits. Does nothing while the clock is not
    /// believed.
    pub async fn sweep_idle(&self, at: Timestamp, limits: IdleLimits) -> Result<Vec<Swept>, Fault> {
        let mut swept = Vec::new();
        if limits.is_off() || !self.inner.clock.look().is_plausible() {
            return Ok(swept);
        }
        let inner = &self.inner;
        let records = inner.store.call(|store| store.live_workspaces()).await?;
        for record in records {
            if record.birth == Birth::Pending || record.desired == Desired::Removed {
                continue;
            }
            // A workspace that was just used is not observed.
            let usage = inner.usage(&record, None);
            if idle(since_epoch(at), usage, limits) == IdleAction::Leave {
                continue;
            }
            let id = record.id;
            match inner.sweep_one(&id, at, limits).await {
                Ok(Some(what)) => swept.push(Swept { id, what }),
                Ok(None) => {}
                Err(fault) => tracing::warn!(%id, %fault, "an idle workspace stays as it is"),
            }
        }
        Ok(swept)
    }
}

// === impl Inner ===

impl Inner {
    /// The use of a workspace, as far as it was observed.
    fn usage(&self, record: &WorkspaceRecord, observation: Option<&Observation>) -> Usage {
        let noted = self
            .uses
            .locked()
            .get(&record.id)
            .and_then(|known| known.last_used);
        let last_used = noted.map_or(record.last_used_at, |noted| noted.max(record.last_used_at));
        Usage {
            last_used: since_epoch(last_used),
            running: observation.map_or(0, |observation| observation.commands),
            is_running: observation
                .is_none_or(|observation| observation.observed.keeper != Keeper::Absent),
        }
    }

    async fn sweep_one(
        &self,
        id: &WorkspaceId,
        at: Timestamp,
        limits: IdleLimits,
    ) -> Result<Option<&'static str>, Fault> {
        let _turn = self.workspaces.lock(id).await;
        let Ok(record) = self.live(id).await else {
            return Ok(None);
        };
        let observation = self.observe(&record.spec).await?;
        let (now, usage) = (since_epoch(at), self.usage(&record, Some(&observation)));
        let mut action = idle(now, usage, limits);
        if action == IdleAction::Remove && self.was_examined(id, at) {
            // Its work prevents its removal, but not its being stopped.
            let stop_only = IdleLimits {
                remove_after: None,
                ..limits
            };
            action = idle(now, usage, stop_only);
        }
        match action {
            IdleAction::Leave => Ok(None),
            IdleAction::NoteUse => {
                let key = id.clone();
                self.uses.note(id, at);
                let touched = self.store.call(move |store| store.touch(&key, at));
                touched.await.map(|()| None)
            }
            IdleAction::Stop => {
                self.stop_idle(record).await?;
                Ok(Some("stopped, because nobody used it"))
            }
            IdleAction::Remove => Ok(self.remove_idle(record, at).await),
        }
    }

    async fn stop_idle(&self, record: WorkspaceRecord) -> Result<(), Fault> {
        let id = record.id.clone();
        let goal = Goal::Reach(Desired::Stopped);
        {
            let mut uses = self.uses.locked();
            let note = &mut uses.entry(id.clone()).or_default().note;
            // The obstacle to removal is the more important note.
            note.get_or_insert(Note::Stopped);
        }
        self.reach(record, Desired::Stopped, goal).await?;
        tracing::info!(%id, "stopped, because nobody used it");
        Ok(())
    }

    /// Removes an idle workspace, unless unsaved work prevents it.
    async fn remove_idle(&self, record: WorkspaceRecord, at: Timestamp) -> Option<&'static str> {
        let id = record.id.clone();
        let removed = match self.refuse_unsaved(&record, Losing::Removal).await {
            Ok(()) => self.set_aside(record).await.map(|_| ()),
            Err(fault) => Err(fault),
        };
        let mut uses = self.uses.locked();
        match removed {
            Ok(()) => {
                tracing::info!(%id, "moved to the trash, because nobody used it");
                uses.remove(&id);
                Some("moved to the trash, because nobody used it")
            }
            Err(fault) => {
                let why = fault.to_string().replace("\n  ", "; ");
                uses.entry(id).or_default().note = Some(Note::Kept { at, why });
                None
            }
        }
    }

    fn was_examined(&self, id: &WorkspaceId, at: Timestamp) -> bool {
        match self
            .uses
            .locked()
            .get(id)
            .and_then(|known| known.note.as_ref())
        {
            Some(Note::Kept { at: before, .. }) => {
                at.duration_since(*before).unsigned_abs() < ANOTHER_LOOK
            }
            Some(Note::Stopped) | None => false,
        }
    }
}
