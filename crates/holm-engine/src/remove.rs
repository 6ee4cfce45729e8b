//! Removes a workspace: into the trash, and only without unsaved work or by force.

use crate::clock::now;
use crate::converge::Goal;
use crate::engine::{Engine, Inner, detached, in_the_trash, no_workspace};
use crate::failpoint::{self, Moment};
use crate::notice::Notice;
use crate::progress::Progress;
use crate::store::WorkspaceRecord;
use crate::unsaved::{Unsaved, examine};
use crate::view::View;
use holm_core::plan::{Desired, Keeper};
use holm_core::state::Birth;
use holm_core::trash::Removal;
use holm_core::{Code, Fault, WorkspaceId};
use std::sync::Arc;

/// The operation that would lose unsaved work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Losing {
    Removal,
    Reset,
}

// === impl Engine ===

impl Engine {
    /// Moves a workspace to the trash.
    pub async fn remove(&self, id: &WorkspaceId, removal: Removal) -> Result<View, Fault> {
        let (inner, id) = (Arc::clone(&self.inner), id.clone());
        inner.moves.cancel(&id);
        detached(async move {
            let _turn = inner.workspaces.lock(&id).await;
            let record = inner.record(&id).await?;
            if record.removed_at.is_some() {
                return Err(in_the_trash(&record));
            }
            if record.birth == Birth::Pending {
                // A creation that ended without being undone. It was never acknowledged.
                inner.undo(&record).await?;
                return Err(no_workspace(&id));
            }
            if removal == Removal::RefuseUnsaved {
                inner.refuse_unsaved(&record, Losing::Removal).await?;
            }
            inner.set_aside(record).await
        })
        .await
    }
}

// === impl Inner ===

impl Inner {
    pub(crate) async fn refuse_unsaved(
        &self,
        record: &WorkspaceRecord,
        losing: Losing,
    ) -> Result<(), Fault> {
        let before = self.observe(&record.spec).await?.observed.keeper;
        let unsaved = self.examine_awake(record).await;
        if let Some(is_dirty) = unsaved.is_dirty() {
            self.note_dirty(&record.id, is_dirty).await?;
        }
        if unsaved.is_empty() {
            return Ok(());
        }
        // A stopped workspace (after a reboot, say) was started for the examination only.
        let back = match before {
            Keeper::Absent => Goal::Reach(Desired::Stopped),
            Keeper::Running | Keeper::Outdated | Keeper::Broken => Goal::Reach(record.desired),
        };
        if let Err(fault) = self.converge(record, back, &Progress::default()).await {
            tracing::warn!(id = %record.id, %fault, "not put back as it was after examination");
        }
        let (id, label) = (&record.id, &record.label);
        let all_the_same = match losing {
            Losing::Removal => format!("to the trash: `holm rm {id} --force`"),
            Losing::Reset => format!("go back, a snapshot keeps it: `holm reset {id} --force`"),
        };
        Err(Fault::new(
            Code::UnsavedWork,
            format!(
                "{label} has work that your repository does not have\n{}",
                unsaved.rows()
            ),
            format!("keep it: `holm fetch {id} --commit \"…\"`\n{all_the_same}"),
        ))
    }

    /// Examines a workspace, which has to run for that.
    async fn examine_awake(&self, record: &WorkspaceRecord) -> Unsaved {
        let goal = Goal::Reach(Desired::Running);
        match self.converge(record, goal, &Progress::default()).await {
            Ok(observation) if observation.observed.keeper == Keeper::Running => {
                self.examine(record).await
            }
            Ok(_) => Unsaved {
                unexamined: Some("it does not run".to_owned()),
                ..Unsaved::default()
            },
            Err(fault) => Unsaved::unexamined(fault),
        }
    }

    async fn examine(&self, record: &WorkspaceRecord) -> Unsaved {
        match self.driver(&record.spec) {
            Ok(driver) => examine(&driver.keeper(&record.id), &self.missing_objects, record).await,
            Err(fault) => Unsaved::unexamined(fault),
        }
    }

    /// Moves an acknowledged workspace to the trash. If that fails its desired state is restored.
    pub(crate) async fn set_aside(&self, mut record: WorkspaceRecord) -> Result<View, Fault> {
        let earlier = record.desired;
        let id = record.id.clone();
        let wanted = self
            .store
            .call(move |store| store.set_desired(&id, Desired::Removed));
        wanted.await?;
        record.desired = Desired::Removed;
        let goal = Goal::Reach(Desired::Removed);
        let observation = match self.converge(&record, goal, &Progress::default()).await {
            Ok(observation) => observation,
            Err(fault) => {
                let id = record.id.clone();
                let back = self
                    .store
                    .call(move |store| store.set_desired(&id, earlier));
                if let Err(error) = back.await {
                    tracing::error!(id = %record.id, %error, "a failed removal stays wanted");
                }
                return Err(fault);
            }
        };
        failpoint::pass("removed", Moment::Before)?;
        let (id, at) = (record.id.clone(), now());
        self.store
            .call(move |store| store.set_removed(&id, at))
            .await?;
        record.removed_at = Some(at);
        self.notices.send(&record.id, Notice::Removed);
        self.seen(record, observation).await
    }
}
