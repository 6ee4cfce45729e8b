//! Creates a workspace, completely or not at all.
//!
//! The record exists before the first file, as `Pending`. It is acknowledged when everything runs.
//! Until then any failure, and a client that disconnects, undoes the creation.

use crate::admission::Admission;
use crate::bridge::joined;
use crate::cancel::{Cancel, CancelOnDrop};
use crate::clock::now;
use crate::converge::Goal;
use crate::engine::{Engine, Inner, detached};
use crate::failpoint::{self, Moment};
use crate::notice::Notice;
use crate::once::Turn;
use crate::progress::Progress;
use crate::store::{StoreError, WorkspaceRecord};
use crate::view::View;
use holm_core::plan::Desired;
use holm_core::spec::WorkspaceSpec;
use holm_core::state::Birth;
use holm_core::{Code, Fault, Label, ProjectId, WorkspaceId};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedMutexGuard;

#[derive(Clone, Debug)]
pub struct NewWorkspace {
    pub project_id: ProjectId,
    /// `None`: generate one.
    pub label: Option<Label>,
    pub reuse: Reuse,
    pub owner: String,
    pub admission: Admission,
    pub failed_setup: FailedSetup,
    /// Complete except for `id` and `label`, which the engine sets.
    pub spec: WorkspaceSpec,
    /// For a request with an idempotency key, which stores the id before the workspace is
    /// acknowledged.
    pub turn: Option<Turn>,
}

/// What to do when a live workspace has the label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// Start it if it is stopped, and return it.
    Return,
    Refuse,
}

/// What happens to a workspace whose setup fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailedSetup {
    Undo,
    /// It stays, stopped, with the files as the setup left them; the creation still fails.
    Keep,
}

#[derive(Clone, Debug)]
pub enum Created {
    New(View),
    Existing(View),
}

/// How often to retry a taken label: generated ones first, then with numbers appended.
const MADE_UP_TRIES: usize = 16;
const MOST_TRIES: usize = 4096;

/// The pauses between attempts to undo a creation.
const UNDO_PAUSES: [Duration; 4] = [
    Duration::from_millis(20),
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::ZERO,
];

/// The message of a failed setup whose workspace was kept: its first line says so.
fn kept_message(record: &WorkspaceRecord, fault: &Fault) -> String {
    let message = fault.message();
    let (first, rest) = message.split_once('\n').unwrap_or((&message, ""));
    let label = &record.label;
    let mut text = format!("{first}; {label} was kept as `setup` left it");
    let seeded = record.spec.volumes.iter().filter(|it| it.seed.is_some());
    let seeded: Vec<&str> = seeded.map(|volume| volume.name.as_str()).collect();
    if !seeded.is_empty() {
        text.push_str(&format!(
            "; no seed ran, so these volumes are empty: {}",
            seeded.join(", ")
        ));
    }
    if !rest.is_empty() {
        text.push('\n');
        text.push_str(rest);
    }
    text
}

/// What a creation under way holds.
struct Making {
    turn: OwnedMutexGuard<()>,
    progress: Progress,
    cancel: Cancel,
    failed_setup: FailedSetup,
}

// === impl Engine ===

impl Engine {
    /// Creates a workspace. Dropping the future cancels and undoes the creation. `begun` gets the
    /// id as soon as the creation can be cancelled by [`cancel`](Self::cancel).
    pub async fn create(
        &self,
        new: NewWorkspace,
        progress: Progress,
        begun: impl FnOnce(&WorkspaceId) + Send + 'static,
    ) -> Result<Created, Fault> {
        // Before anything is written down: without its driver a workspace could not be undone.
        self.inner.drivers.require(new.spec.driver)?;
        let cancel = Cancel::default();
        let _guard = CancelOnDrop(cancel.clone());
        let inner = Arc::clone(&self.inner);
        let making = async move { inner.create(new, progress, begun, cancel).await };
        joined(tokio::spawn(making).await)?
    }

    /// The live workspace with this label, started if it is stopped. Waits for one that is being
    /// created.
    /// One of another driver than the given one is refused.
    pub async fn adopt(
        &self,
        project: &ProjectId,
        label: &Label,
        driver: Option<&str>,
    ) -> Result<Option<View>, Fault> {
        let (inner, project, label) = (Arc::clone(&self.inner), project.clone(), label.clone());
        let driver = driver.map(str::to_owned);
        detached(async move {
            let found = inner
                .store
                .read(|store| store.live_workspace(&project, &label));
            match found? {
                Some(record) => match driver {
                    Some(asked) if asked != record.spec.driver.as_str() => {
                        Err(of_another_driver(&record, &asked))
                    }
                    _ => inner.adopt(&record.id).await,
                },
                None => Ok(None),
            }
        })
        .await
    }

    /// Cancels a creation, and returns when it is undone.
    pub async fn cancel(&self, id: &WorkspaceId) -> Result<(), Fault> {
        self.inner.creations.cancel(id);
        let _turn = self.inner.workspaces.lock(id).await;
        let key = id.clone();
        let found = self.inner.store.call(move |store| store.workspace(&key));
        match found.await? {
            None => Ok(()),
            Some(record) => Err(Fault::new(
                Code::AlreadyExists,
                format!(
                    "workspace `{}` was made before it could be cancelled",
                    record.label
                ),
                format!("`holm rm {id}` removes it"),
            )),
        }
    }
}

// === impl Inner ===

impl Inner {
    async fn create(
        &self,
        new: NewWorkspace,
        progress: Progress,
        begun: impl FnOnce(&WorkspaceId) + Send + 'static,
        cancel: Cancel,
    ) -> Result<Created, Fault> {
        let mut made_up = random_label();
        for attempt in 1..=MOST_TRIES {
            let label = new.label.clone().unwrap_or_else(|| made_up.clone());
            let id = WorkspaceId::random();
            // An operation that finds the record waits for this lock, and so for the end of the
            // creation.
            let turn = self.workspaces.lock(&id).await;
            let record = pending(&new, id, label);
            let row = record.clone();
            let admitting = self.admissions.lock().await;
            let inserted = self.store.ask(move |store| store.insert_workspace(&row));
            match inserted.await? {
                Ok(()) => {
                    if let Err(fault) = self.admit_keyed(&new, &record).await {
                        let key = record.id.clone();
                        let forgotten = self.store.call(move |store| store.forget_unborn(&key));
                        forgotten.await?;
                        return Err(fault);
                    }
                    drop(admitting);
                    self.creations.begin(&record.id, &cancel);
                    begun(&record.id);
                    let making = Making {
                        turn,
                        progress,
                        cancel,
                        failed_setup: new.failed_setup,
                    };
                    return self.make(record, making).await;
                }
                Err(StoreError::LabelTaken { label, holder }) => match (&new.label, new.reuse) {
                    (None, _) if attempt < MADE_UP_TRIES => made_up = random_label(),
                    (None, _) => made_up = label.numbered(attempt + 2 - MADE_UP_TRIES),
                    (Some(_), Reuse::Refuse) => return Err(already_exists(&label, &holder)),
                    (Some(_), Reuse::Return) => {
                        drop((turn, admitting));
                        if let Some(view) = self.adopt(&holder).await? {
                            return Ok(Created::Existing(view));
                        }
                        // It was being created and was undone, or has just been removed.
                    }
                },
                Err(error) => return Err(error.into()),
            }
        }
        Err(Fault::new(
            Code::Busy,
            "no free label was found",
            "name one: `holm up LABEL`",
        ))
    }

    /// Checks admission, then stores the id with the idempotency key, if there is one.
    async fn admit_keyed(&self, new: &NewWorkspace, record: &WorkspaceRecord) -> Result<(), Fault> {
        if new.admission == Admission::Check {
            self.admit(record).await?;
        }
        match &new.turn {
            Some(turn) => self.begun(turn, record.id.as_str()).await,
            None => Ok(()),
        }
    }

    async fn make(&self, mut record: WorkspaceRecord, making: Making) -> Result<Created, Fault> {
        let Making {
            turn,
            progress,
            cancel,
            failed_setup,
        } = making;
        let goal = Goal::Reach(Desired::Running);
        let made = tokio::select! {
            biased;
            () = cancel.requested() => Err(cancelled(&record)),
            made = self.converge(&record, goal, &progress) => made,
        };
        let made = match made {
            Ok(observation) => self.acknowledge(&record).await.map(|()| observation),
            Err(fault) => Err(fault),
        };
        let outcome = match made {
            Ok(observation) => {
                record.birth = Birth::Acknowledged;
                self.settled.note(&record.id);
                self.notices.send(&record.id, Notice::Created);
                self.seen(record.clone(), observation)
                    .await
                    .map(Created::New)
            }
            Err(fault) if fault.code == Code::SetupFailed && failed_setup == FailedSetup::Keep => {
                Err(self.keep_or_undo(&record, fault).await)
            }
            Err(fault) => {
                self.undo_or_try_again(&record).await;
                Err(fault)
            }
        };
        self.creations.end(&record.id);
        drop(turn);
        outcome
    }

    /// Keeps the workspace of a failed setup, and says so in the error.
    async fn keep_or_undo(&self, record: &WorkspaceRecord, mut fault: Fault) -> Fault {
        let kept = match self.keep_failed(record, &fault).await {
            Some(Ok((kept, _))) => self.acknowledge_durably(&kept).await.map(|()| kept),
            Some(Err(failed)) => Err(failed),
            None => {
                self.undo_or_try_again(record).await;
                fault.hint = "another `up` ran this set-up; type the command again".to_owned();
                return fault;
            }
        };
        match kept {
            Ok(kept) => {
                self.undo_builder(&kept.id).await;
                self.notices.send(&kept.id, Notice::Created);
                let label = &kept.label;
                // Its other lines say what `--keep` has done.
                let log = fault
                    .hint
                    .lines()
                    .find(|line| line.starts_with("whole output"));
                let look = format!("look inside: `holm enter {label}`");
                let remove = format!("remove it: `holm rm {label}`");
                let lines = [Some(look.as_str()), Some(&remove), log];
                let hint = lines.into_iter().flatten().collect::<Vec<_>>().join("\n");
                fault = Fault::new(fault.code, kept_message(record, &fault), hint);
            }
            Err(failed) => {
                self.undo_or_try_again(record).await;
                let why = failed.message();
                fault.hint = format!("it could not be kept ({why}); {}", fault.hint);
            }
        }
        fault
    }

    /// For a workspace that was not launched, so that it may not be on the disk yet.
    async fn acknowledge_durably(&self, record: &WorkspaceRecord) -> Result<(), Fault> {
        self.acknowledge(record).await?;
        self.store.call(|store| store.flush()).await
    }

    /// The record and the files are on the disk, so that a power failure after this loses nothing: recovery acknowledges
    /// the workspace again.
    async fn acknowledge(&self, record: &WorkspaceRecord) -> Result<(), Fault> {
        failpoint::pass("acknowledge", Moment::Before)?;
        let id = record.id.clone();
        let kept = self.store.call(move |store| store.acknowledge(&id));
        kept.await?;
        // It is acknowledged from here on: no later failure undoes it.
        let _ = failpoint::pass("acknowledge", Moment::After);
        Ok(())
    }

    /// What made a creation fail, such as too many open files, may also make undoing fail, and
    /// pass. If undoing keeps failing, the record stays and the next daemon undoes it.
    pub(crate) async fn undo_or_try_again(&self, record: &WorkspaceRecord) {
        for pause in UNDO_PAUSES {
            let Err(error) = self.undo(record).await else {
                return;
            };
            tracing::error!(id = %record.id, %error, "a creation could not be undone");
            tokio::time::sleep(pause).await;
        }
    }

    /// Removes everything of a workspace that was not acknowledged. The caller holds its lock.
    pub(crate) async fn undo(&self, record: &WorkspaceRecord) -> Result<(), Fault> {
        self.undo_builder(&record.id).await;
        self.driver(&record.spec)?.undo(&record.spec).await?;
        let id = record.id.clone();
        self.store.call(move |store| store.forget_unborn(&id)).await
    }

    async fn adopt(&self, id: &WorkspaceId) -> Result<Option<View>, Fault> {
        let _turn = self.workspaces.lock(id).await;
        let found = self.store.read(|store| store.workspace(id))?;
        let Some(record) = found.filter(|record| record.removed_at.is_none()) else {
            return Ok(None);
        };
        if record.birth == Birth::Pending {
            // Its creation ended without being undone; undo it now.
            self.undo(&record).await?;
            return Ok(None);
        }
        let key = id.clone();
        let at = now();
        self.uses.note(id, at);
        self.store.call(move |store| store.touch(&key, at)).await?;
        let was_stopped = record.desired == Desired::Stopped;
        let goal = Goal::Reach(Desired::Running);
        let mut view = self.reach(record, Desired::Running, goal).await?;
        view.record.last_used_at = at;
        view.was_stopped = was_stopped;
        Ok(Some(view))
    }
}

fn pending(new: &NewWorkspace, id: WorkspaceId, label: Label) -> WorkspaceRecord {
    let mut spec = new.spec.clone();
    spec.id = id.to_string();
    spec.label = label.to_string();
    let at = now();
    WorkspaceRecord {
        id,
        project_id: new.project_id.clone(),
        label,
        owner: new.owner.clone(),
        desired: Desired::Running,
        birth: Birth::Pending,
        spec: Arc::new(spec),
        created_at: at,
        last_used_at: at,
        dirty: None,
        removed_at: None,
        labelled_at: at,
    }
}

fn random_label() -> Label {
    // A new `RandomState` has random keys from the system.
    Label::made_up(RandomState::new().build_hasher().finish())
}

fn already_exists(label: &Label, holder: &WorkspaceId) -> Fault {
    Fault::new(
        Code::AlreadyExists,
        format!("workspace `{label}` exists ({holder})"),
        format!("start it: `holm up {label}`\nanother label: `holm up LABEL`"),
    )
}

fn of_another_driver(record: &WorkspaceRecord, asked: &str) -> Fault {
    let WorkspaceRecord { id, label, .. } = record;
    let driver = record.spec.driver.as_str();
    Fault::new(
        Code::AlreadyExists,
        format!("workspace `{label}` exists ({id}), and its driver is `{driver}`"),
        format!("start it: `holm up {label}`\nanother label: `holm up LABEL --driver {asked}`"),
    )
}

fn cancelled(record: &WorkspaceRecord) -> Fault {
    Fault::new(
        Code::Cancelled,
        format!("the creation of workspace `{}` was cancelled", record.label),
        "nothing of it is left; `holm up` makes it again",
    )
}
