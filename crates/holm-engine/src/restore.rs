//! Restores a workspace from the trash: the same id, stopped, with everything it had.
//!
//! The desired state is stored first, then the common path applies it. After a crash the next
//! daemon finds it unfinished and continues.

use crate::clock::now;
use crate::converge::Goal;
use crate::engine::{Engine, Inner, detached};
use crate::notice::Notice;
use crate::progress::Progress;
use crate::projects::free_name;
use crate::store::{StoreError, WorkspaceRecord};
use crate::view::View;
use holm_core::plan::{Desired, Files};
use holm_core::{Code, Fault, Label, ProjectId, WorkspaceId};
use std::sync::Arc;

/// A restored workspace and its earlier label.
#[derive(Clone, Debug)]
pub struct Restored {
    pub view: View,
    pub earlier_label: Label,
}

/// How many numbers to try after a taken label.
const MOST_TRIES: usize = 4096;

// === impl Engine ===

impl Engine {
    /// Every workspace in the trash, the last removed first.
    pub async fn trash(&self) -> Result<Vec<View>, Fault> {
        let inner = &self.inner;
        let records = inner.store.call(|store| store.trashed_workspaces()).await?;
        let mut views = Vec::with_capacity(records.len());
        for record in records {
            views.push(inner.view(record).await?);
        }
        Ok(views)
    }

    /// Brings a workspace back from the trash.
    pub async fn restore(&self, id: &WorkspaceId) -> Result<Restored, Fault> {
        let (inner, id) = (Arc::clone(&self.inner), id.clone());
        detached(async move {
            let _turn = inner.workspaces.lock(&id).await;
            let record = inner.record(&id).await?;
            if record.removed_at.is_none() {
                return Err(not_in_the_trash(&record));
            }
            inner.restore(record).await
        })
        .await
    }
}

// === impl Inner ===

impl Inner {
    async fn restore(&self, earlier: WorkspaceRecord) -> Result<Restored, Fault> {
        let observation = self.observe(&earlier.spec).await?;
        if observation.observed.files == Files::Absent {
            return Err(files_gone(&earlier));
        }
        self.show_project(&earlier.project_id).await?;
        let label = self.claim(&earlier).await?;
        let record = WorkspaceRecord {
            label,
            desired: Desired::Stopped,
            removed_at: None,
            ..earlier.clone()
        };
        let goal = Goal::Reach(Desired::Stopped);
        let observation = match self.converge(&record, goal, &Progress::default()).await {
            Ok(observation) => observation,
            Err(fault) => {
                let row = earlier.clone();
                let back = self.store.call(move |store| store.return_to_trash(&row));
                if let Err(error) = back.await {
                    tracing::error!(id = %earlier.id, %error, "a failed return stays wanted");
                }
                return Err(fault);
            }
        };
        let id = record.id.clone();
        let dropped = self.store.call(move |store| store.drop_open_entries(&id));
        dropped.await?;
        self.uses.note(&record.id, now());
        self.notices.send(&record.id, Notice::Restored);
        let record = self.record(&record.id).await?;
        Ok(Restored {
            view: self.seen(record, observation).await?,
            earlier_label: earlier.label,
        })
    }

    /// Makes the workspace live under its label, or with the next free number.
    async fn claim(&self, earlier: &WorkspaceRecord) -> Result<Label, Fault> {
        let at = now();
        for number in 1..MOST_TRIES {
            let label = match number {
                1 => earlier.label.clone(),
                number => earlier.label.numbered(number),
            };
            let (id, text) = (earlier.id.clone(), label.clone());
            let taken = self.store.ask(move |store| store.take_back(&id, &text, at));
            match taken.await? {
                Ok(()) => return Ok(label),
                Err(StoreError::LabelTaken { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let label = &earlier.label;
        Err(Fault::new(
            Code::LabelTaken,
            format!("no label like `{label}` is free"),
            "rename a workspace first: `holm rename WS LABEL`",
        ))
    }

    /// Shows a project again that was removed while the workspace was in the trash.
    async fn show_project(&self, id: &ProjectId) -> Result<(), Fault> {
        let _turn = self.projects.lock().await;
        let shown: Vec<_> = self
            .store
            .call(|store| store.projects())
            .await?
            .into_iter()
            .map(|(project, _)| project)
            .collect();
        if shown.iter().any(|project| project.id == *id) {
            return Ok(());
        }
        let key = id.clone();
        let found = self.store.call(move |store| store.project(&key)).await?;
        let mut project = found.ok_or_else(|| crate::projects::no_project(id))?;
        project.name = free_name(project.name, &shown);
        self.store
            .call(move |store| store.save_project(&project))
            .await
    }
}

fn not_in_the_trash(record: &WorkspaceRecord) -> Fault {
    let (id, label) = (&record.id, &record.label);
    Fault::new(
        Code::WorkspaceNotFound,
        format!("workspace `{label}` ({id}) is not in the trash"),
        format!("it is there already: `holm show {id}`"),
    )
}

fn files_gone(record: &WorkspaceRecord) -> Fault {
    let (id, label) = (&record.id, &record.label);
    Fault::new(
        Code::CorruptState,
        format!("the files of workspace `{label}` ({id}) are no longer in the trash"),
        "`holm ls --trash` lists what can be restored; `holm gc` forgets the others",
    )
}
