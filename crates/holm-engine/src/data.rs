//! Snapshots, forks and resets. Called by the server.
//!
//! The wanted state is stored first: an increased generation, and its origin. Then the common path
//! applies it, also after a crash of the daemon. A snapshot is stored when it is complete.

use crate::admission::Admission;
use crate::clock::now;
use crate::converge::Goal;
use crate::create::{Created, FailedSetup, NewWorkspace, Reuse};
use crate::engine::{Engine, Inner, detached};
use crate::progress::Progress;
use crate::remove::Losing;
use crate::store::WorkspaceRecord;
use crate::view::View;
use holm_core::config::Policy;
use holm_core::plan::{Action, Desired, Keeper};
use holm_core::spec::{
    Brought, Code as WorkspaceCode, Manner, Move, Origin, Owed, Snapshot, Volume, WorkspaceSpec,
};
use holm_core::trash::Removal;
use holm_core::{Code, Fault, Label, WorkspaceId};
use std::sync::Arc;

/// The result of a reset.
#[derive(Clone, Debug)]
pub struct WasReset {
    pub view: View,
    /// The snapshot of the replaced work, if one was taken.
    pub kept: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub struct Reset {
    /// Reset only this volume.
    pub volume: Option<String>,
    /// The snapshot; `None`: the initial state.
    pub at: Option<String>,
}

/// The name of the snapshot taken before work is discarded.
const BEFORE_RESET: &str = "before-reset";

// === impl Engine ===

impl Engine {
    /// Takes a snapshot of a workspace's code and volumes.
    pub async fn snapshot(&self, id: &WorkspaceId, name: &Label) -> Result<View, Fault> {
        let (inner, id, name) = (Arc::clone(&self.inner), id.clone(), name.to_string());
        detached(async move {
            let _turn = inner.workspaces.lock(&id).await;
            let record = inner.live(&id).await?;
            if record.spec.snapshots.iter().any(|found| found.name == name) {
                let label = &record.label;
                return Err(Fault::new(
                    Code::AlreadyExists,
                    format!("workspace `{label}` has a snapshot `{name}`"),
                    "a snapshot does not change: give the new one another name",
                ));
            }
            let record = inner.take_snapshot(record, name).await?;
            inner.view(record).await
        })
        .await
    }

    /// Creates a workspace as a copy of another one or of its snapshot.
    pub async fn fork(
        &self,
        id: &WorkspaceId,
        label: Option<Label>,
        at: Option<&str>,
        admission: Admission,
    ) -> Result<View, Fault> {
        // Locks the original while it is copied.
        let _turn = self.inner.workspaces.lock(id).await;
        let record = self.inner.live(id).await?;
        let new = NewWorkspace {
            project_id: record.project_id.clone(),
            label,
            reuse: Reuse::Refuse,
            owner: record.owner.clone(),
            admission,
            failed_setup: FailedSetup::Undo,
            spec: forked(&record, at)?,
            turn: None,
        };
        match self.create(new, Progress::default(), |_| {}).await? {
            Created::New(view) | Created::Existing(view) => Ok(view),
        }
    }

    /// Resets code and volumes, or one volume.
    pub async fn reset(
        &self,
        id: &WorkspaceId,
        reset: Reset,
        removal: Removal,
    ) -> Result<WasReset, Fault> {
        let (inner, id) = (Arc::clone(&self.inner), id.clone());
        detached(async move {
            let _turn = inner.workspaces.lock(&id).await;
            let record = inner.live(&id).await?;
            inner.reset(record, reset, removal).await
        })
        .await
    }
}

// === impl Inner ===

impl Inner {
    async fn take_snapshot(
        &self,
        record: WorkspaceRecord,
        name: String,
    ) -> Result<WorkspaceRecord, Fault> {
        let mut spec = WorkspaceSpec::clone(&record.spec);
        let frozen = WorkspaceSpec {
            snapshots: Vec::new(),
            ..spec.clone()
        };
        spec.snapshots.push(Snapshot {
            name,
            key: WorkspaceId::random().to_string(),
            created_at: now().to_string(),
            spec: Box::new(frozen),
        });
        let next = WorkspaceRecord {
            spec: Arc::new(spec),
            ..record
        };
        // Its bases are not collected meanwhile.
        let _making = self.making.read().await;
        self.act(&next, &[Action::TakeSnapshot], &Progress::default())
            .await?;
        self.store_spec(&next).await?;
        Ok(next)
    }

    async fn reset(
        &self,
        mut record: WorkspaceRecord,
        reset: Reset,
        removal: Removal,
    ) -> Result<WasReset, Fault> {
        let snapshot = reset
            .at
            .as_deref()
            .map(|at| found(&record, at))
            .transpose()?;
        let snapshot = snapshot.cloned();
        // A stopped workspace is started for the examination only.
        let before = self.observe(&record.spec).await?.observed.keeper;
        let mut kept = None;
        let spec = match &reset.volume {
            Some(volume) => with_volume_anew(&record, volume, snapshot.as_ref())?,
            None => {
                if removal == Removal::RefuseUnsaved {
                    self.refuse_unsaved(&record, Losing::Reset).await?;
                }
                // holm cannot tell whether the data of a volume matters, so a snapshot keeps it.
                let has_data = record.spec.volumes.iter().any(is_own);
                if removal == Removal::Force || has_data {
                    let name = free_name(&record);
                    record = self.take_snapshot(record, name.clone()).await?;
                    kept = Some(name);
                }
                // The stored dirty flag describes the tree before the reset.
                self.note_dirty(&record.id, false).await?;
                all_anew(&record, snapshot.as_ref())
            }
        };
        record.spec = Arc::new(spec);
        self.store_spec(&record).await?;
        let goal = match before {
            Keeper::Absent => Goal::Reach(Desired::Stopped),
            Keeper::Running | Keeper::Outdated | Keeper::Broken => Goal::Reach(Desired::Running),
        };
        let observation = self.converge(&record, goal, &Progress::default()).await?;
        let view = self.seen(record, observation).await?;
        Ok(WasReset { view, kept })
    }

    async fn store_spec(&self, record: &WorkspaceRecord) -> Result<(), Fault> {
        let (id, spec) = (record.id.clone(), Arc::clone(&record.spec));
        self.settled.forget(&record.id);
        let stored = self.store.call(move |store| store.set_spec(&id, &spec));
        stored.await
    }
}

/// Whether a volume has data that a reset would lose.
fn is_own(volume: &Volume) -> bool {
    volume.policy != Policy::Shared
}

/// The spec of a workspace that starts as a copy of `record` or of its snapshot.
fn forked(record: &WorkspaceRecord, at: Option<&str>) -> Result<WorkspaceSpec, Fault> {
    let snapshot = at.map(|at| found(record, at)).transpose()?;
    let earlier = snapshot.map_or(&*record.spec, |snapshot| &*snapshot.spec);
    let volumes = earlier.volumes.iter().map(|volume| Volume {
        generation: 0,
        snapshot: None,
        ..volume.clone()
    });
    Ok(WorkspaceSpec {
        id: String::new(),
        label: String::new(),
        // Limits and egress are the current ones.
        limits: record.spec.limits.clone(),
        network: record.spec.network.clone(),
        nested: record.spec.nested,
        siblings: record.spec.siblings,
        protected_paths: record.spec.protected_paths.clone(),
        secrets: record.spec.secrets.clone(),
        brought: Brought::default(),
        volumes: volumes.collect(),
        retired_volumes: Vec::new(),
        generation: 0,
        origin: Some(Origin {
            workspace: record.id.to_string(),
            label: branch_of(record, earlier),
            snapshot: snapshot.map(|snapshot| snapshot.key.clone()),
            volumes: earlier.volumes.clone(),
        }),
        snapshots: Vec::new(),
        agents: record.spec.agents.clone(),
        moving: None,
        ..earlier.clone()
    })
}

/// The label in the branch name: the one at creation.
fn branch_of(record: &WorkspaceRecord, earlier: &WorkspaceSpec) -> String {
    if earlier.label.is_empty() {
        record.label.to_string()
    } else {
        earlier.label.clone()
    }
}

fn with_volume_anew(
    record: &WorkspaceRecord,
    name: &str,
    snapshot: Option<&Snapshot>,
) -> Result<WorkspaceSpec, Fault> {
    let mut spec = WorkspaceSpec::clone(&record.spec);
    let names: Vec<_> = spec
        .volumes
        .iter()
        .map(|volume| volume.name.clone())
        .collect();
    let Some(volume) = spec.volumes.iter_mut().find(|volume| volume.name == name) else {
        let hint = match names.as_slice() {
            [] => "[volumes] in holm.toml declares some".to_owned(),
            names => format!("there are: {}", names.join(", ")),
        };
        let message = format!("workspace `{}` has no volume `{name}`", record.label);
        return Err(Fault::new(Code::VolumeNotFound, message, hint));
    };
    if volume.policy == Policy::Shared {
        return Err(Fault::new(
            Code::Refused,
            format!("the volume `{name}` is shared: it is not this workspace's to reset"),
            "empty it from inside, if nobody else needs it",
        ));
    }
    volume.generation += 1;
    volume.snapshot = snapshot.map(|snapshot| snapshot.key.clone());
    Ok(spec)
}

/// The spec with a new generation of the tree and of every volume; home, limits and egress stay.
fn all_anew(record: &WorkspaceRecord, snapshot: Option<&Snapshot>) -> WorkspaceSpec {
    let mut spec = WorkspaceSpec::clone(&record.spec);
    let now = [
        spec.volumes.clone(),
        std::mem::take(&mut spec.retired_volumes),
    ]
    .concat();
    // The branch is recreated under the current label, or is the snapshot's.
    spec.label = match snapshot {
        Some(snapshot) => snapshot.spec.label.clone(),
        None => record.label.to_string(),
    };
    if let Some(snapshot) = snapshot {
        spec.code = snapshot.spec.code.clone();
        spec.layers = snapshot.spec.layers.clone();
        spec.services = snapshot.spec.services.clone();
        spec.dev_container = snapshot.spec.dev_container.clone();
        spec.volumes = snapshot.spec.volumes.clone();
        spec.moving = None;
    } else {
        spec.layers.failed = None;
        spec.moving = set_up_again(&mut spec.code, spec.layers.setup.is_some());
    }
    for volume in &mut spec.volumes {
        let mut current = now.iter().filter(|current| current.name == volume.name);
        let current = current
            .next()
            .map_or(volume.generation, |current| current.generation);
        volume.generation = current.max(volume.generation) + 1;
        volume.snapshot = snapshot.map(|snapshot| snapshot.key.clone());
    }
    // The snapshot does not have these volumes, so they stay.
    let is_gone = |volume: &Volume| !spec.volumes.iter().any(|kept| kept.name == volume.name);
    spec.retired_volumes = now.into_iter().filter(is_gone).collect();
    spec.generation += 1;
    spec.origin = snapshot.map(|snapshot| Origin {
        workspace: record.id.to_string(),
        label: record.label.to_string(),
        snapshot: Some(snapshot.key.clone()),
        volumes: Vec::new(),
    });
    spec
}

/// A workspace that was moved restarts with the commit it was moved to. Its setup layer belongs to
/// the earlier commit, so `setup` runs in place, as it did after the move.
fn set_up_again(code: &mut WorkspaceCode, has_setup: bool) -> Option<Move> {
    code.base.take()?;
    let commit = code.commit.clone().filter(|_| has_setup)?;
    Some(Move {
        commit,
        ref_name: code.ref_name.clone(),
        at: now().strftime("%Y%m%dT%H%M%S%3fZ").to_string(),
        manner: Manner::Refuse,
        shallow: Vec::new(),
        is_there: true,
        owed: Owed {
            set_up: true,
            reactions: Vec::new(),
        },
        images: Vec::new(),
    })
}

fn found<'a>(record: &'a WorkspaceRecord, name: &str) -> Result<&'a Snapshot, Fault> {
    let mut snapshots = record.spec.snapshots.iter();
    snapshots.find(|found| found.name == name).ok_or_else(|| {
        let names: Vec<_> = record
            .spec
            .snapshots
            .iter()
            .map(|found| &*found.name)
            .collect();
        let hint = match names.as_slice() {
            [] => format!("`holm snapshot {} {name}` takes one", record.id),
            names => format!("there are: {}", names.join(", ")),
        };
        let message = format!("workspace `{}` has no snapshot `{name}`", record.label);
        Fault::new(Code::SnapshotNotFound, message, hint)
    })
}

/// `before-reset`, with the next free number if necessary.
fn free_name(record: &WorkspaceRecord) -> String {
    let is_free = |name: &String| {
        let mut snapshots = record.spec.snapshots.iter();
        !snapshots.any(|found| found.name == *name)
    };
    let numbered = (2..).map(|number: u32| format!("{BEFORE_RESET}-{number}"));
    let mut names = std::iter::once(BEFORE_RESET.to_owned()).chain(numbered);
    names
        .find(is_free)
        .unwrap_or_else(|| BEFORE_RESET.to_owned())
}
