//! Observe, plan, journal, apply, observe again: the one path of create, start, stop, restart,
//! remove and recovery. The caller holds the workspace's lock.

use crate::clock::now;
use crate::driver::{Journaled, Observation};
use crate::engine::{Engine, Inner, detached};
use crate::failpoint::{self, Moment};
use crate::notice::Notice;
use crate::progress::Progress;
use crate::store::{EntryId, Outcome, WorkspaceRecord};
use crate::view::View;
use holm_core::plan::{Action, Base, Desired, Files, Keeper, Observed, plan};
use holm_core::spec::WorkspaceSpec;
use holm_core::state::Birth;
use holm_core::state::Ended;
use holm_core::turn::TurnCause;
use holm_core::{Code, Fault, WorkspaceId};
use std::sync::Arc;

/// The goal of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    Reach(Desired),
    /// Running, with processes that were started after this request.
    Renew,
}

/// Whether services were started after the tree had the new commit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Processes {
    Older,
    Fresh,
}

/// The result of [`Engine::revive`](crate::Engine::revive).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revival {
    Started,
    /// The workspace runs, is meant to be stopped, or ended at its disk limit.
    Unneeded,
    /// Processes of the workspace still exist: they are ending, or the keeper is suspended and may continue.
    NotDown,
}

// === impl Engine ===

impl Engine {
    pub async fn start(&self, id: &WorkspaceId) -> Result<View, Fault> {
        self.change_state(id, Desired::Running, Goal::Reach(Desired::Running))
            .await
    }

    pub async fn stop(&self, id: &WorkspaceId) -> Result<View, Fault> {
        self.change_state(id, Desired::Stopped, Goal::Reach(Desired::Stopped))
            .await
    }

    /// Ends the processes and starts them again.
    pub async fn restart(&self, id: &WorkspaceId) -> Result<View, Fault> {
        self.change_state(id, Desired::Running, Goal::Renew).await
    }

    /// Starts a workspace that should run and has no processes. It does not count as use.
    pub async fn revive(&self, id: &WorkspaceId) -> Result<Revival, Fault> {
        let (inner, id) = (Arc::clone(&self.inner), id.clone());
        detached(async move {
            let _turn = inner.workspaces.lock(&id).await;
            let record = inner.live(&id).await?;
            let observation = inner.observe(&record.spec).await?;
            let has_hit_limit = observation.reason == Some(Ended::DiskLimit);
            if record.desired != Desired::Running || has_hit_limit {
                return Ok(Revival::Unneeded);
            }
            match observation.observed.keeper {
                Keeper::Running | Keeper::Outdated => return Ok(Revival::Unneeded),
                Keeper::Broken => return Ok(Revival::NotDown),
                Keeper::Absent => {}
            }
            let goal = Goal::Reach(Desired::Running);
            inner.reach(record, Desired::Running, goal).await?;
            Ok(Revival::Started)
        })
        .await
    }

    async fn change_state(
        &self,
        id: &WorkspaceId,
        desired: Desired,
        goal: Goal,
    ) -> Result<View, Fault> {
        let (inner, id) = (Arc::clone(&self.inner), id.clone());
        if goal != Goal::Reach(Desired::Running) {
            // A move under way is not waited for; the next start continues it.
            inner.moves.cancel(&id);
        }
        detached(async move {
            let _turn = inner.workspaces.lock(&id).await;
            let record = inner.live(&id).await?;
            if desired == Desired::Running {
                // A start counts as use, so that an idle workspace is not stopped again at once.
                let (key, at) = (id.clone(), now());
                inner.uses.note(&id, at);
                inner.store.call(move |store| store.touch(&key, at)).await?;
            }
            if desired == Desired::Stopped
                && !failpoint::is_test_over()
                && inner.observe(&record.spec).await?.observed.keeper == Keeper::Running
            {
                inner.record_turn(&id, TurnCause::Stop).await;
            }
            inner.reach(record, desired, goal).await
        })
        .await
    }
}

// === impl Inner ===

impl Inner {
    /// Stores the desired state of an acknowledged workspace and reaches it. The caller holds its
    /// lock.
    pub(crate) async fn reach(
        &self,
        mut record: WorkspaceRecord,
        desired: Desired,
        goal: Goal,
    ) -> Result<View, Fault> {
        if record.desired != desired {
            let id = record.id.clone();
            let changed = self
                .store
                .call(move |store| store.set_desired(&id, desired));
            changed.await?;
            record.desired = desired;
        }
        let observation = self.converge(&record, goal, &Progress::default()).await?;
        if observation.observed.keeper == Keeper::Running {
            self.settled.note(&record.id);
        }
        self.seen(record, observation).await
    }

    /// Brings a workspace to the goal and returns what was observed then.
    pub(crate) async fn converge(
        &self,
        record: &WorkspaceRecord,
        goal: Goal,
        progress: &Progress,
    ) -> Result<Observation, Fault> {
        if goal != Goal::Reach(Desired::Stopped) && goal != Goal::Reach(Desired::Removed) {
            self.ensure_layers(record, progress).await?;
        }
        // No base is collected while a workspace is created or started from it.
        let _making = self.making.read().await;
        let observation = self.observe(&record.spec).await?;
        let actions = steps(record, goal, observation.observed)?;
        if actions.is_empty() {
            if observation.observed.keeper == Keeper::Running {
                self.go_on_moving(record, Processes::Older, progress).await;
            }
            return Ok(observation);
        }
        let reported = self.act(record, &actions, progress).await?;
        if actions.contains(&Action::Launch) {
            self.go_on_moving(record, Processes::Fresh, progress).await;
        }
        let mut observation = match reported.filter(|_| record.spec.moving.is_none()) {
            Some(reported) => reported,
            None => self.observe(&record.spec).await?,
        };
        if actions.contains(&Action::TakeBack) {
            // Files from the trash may be of an earlier generation.
            let actions = steps(record, goal, observation.observed)?;
            self.act(record, &actions, progress).await?;
            observation = self.observe(&record.spec).await?;
        }
        let settled = match goal {
            Goal::Reach(desired) => Goal::Reach(desired),
            Goal::Renew => Goal::Reach(Desired::Running),
        };
        match steps(record, settled, observation.observed)?.first() {
            None => Ok(observation),
            Some(next) => Err(not_reached(record, *next, observation.reason)),
        }
    }

    /// Journals the actions, then applies them in order until one fails. Their entries end together,
    /// after the last one: until then recovery would look at the workspace anyway, and every action
    /// may be repeated. A workspace that is being created needs no entries: its record is not
    /// acknowledged, so recovery undoes everything. Returns what the last action reported.
    pub(crate) async fn act(
        &self,
        record: &WorkspaceRecord,
        actions: &[Action],
        progress: &Progress,
    ) -> Result<Option<Observation>, Fault> {
        self.settled.forget(&record.id);
        let mut spec = under_its_label(record);
        if actions.contains(&Action::Launch) {
            // Before any process is ended: a workspace that may not start keeps running.
            let narrowed = self.within_bounds(record, &spec).await?;
            spec = narrowed.unwrap_or(spec);
        }
        if actions.contains(&Action::Halt) {
            self.reports.forget(&record.id);
        }
        let entries = match record.birth {
            Birth::Pending => Vec::new(),
            Birth::Acknowledged => {
                let (id, planned) = (record.id.clone(), actions.to_vec());
                let entries = self.store.call(move |store| store.journal(&id, &planned));
                entries.await?
            }
        };
        let mut reported = None;
        for (place, action) in actions.iter().enumerate() {
            let journaled = Journaled {
                action: *action,
                spec: Arc::clone(&spec),
            };
            let applied = self.apply_between_moments(journaled, progress);
            let done = match (record.birth, action) {
                (Birth::Pending, Action::Launch) => self.while_flushing(applied).await,
                _ => applied.await,
            };
            self.reports.mark(&record.id);
            match done {
                Ok(observation) => reported = observation,
                Err(fault) => {
                    if !entries.is_empty() {
                        self.end_failed(&record.id, &entries, place, &fault).await;
                    }
                    return Err(fault);
                }
            }
            self.notify(record, *action);
        }
        if !entries.is_empty() {
            let ended = self.store.call(move |store| store.end_entries(&entries));
            ended.await?;
        }
        Ok(reported)
    }

    /// Starts the processes of a new workspace while its record and its files reach the disk. Then nothing has to wait for the
    /// disk when it is acknowledged: if power fails before the acknowledgement is on the disk, recovery keeps the workspace.
    async fn while_flushing(
        &self,
        launching: impl Future<Output = Result<Option<Observation>, Fault>>,
    ) -> Result<Option<Observation>, Fault> {
        let flushing = self.store.call(|store| store.flush());
        let (launched, flushed) = tokio::join!(launching, flushing);
        launched.and_then(|reported| flushed.map(|()| reported))
    }

    /// Ends the entries of actions of which the one at `place` failed.
    async fn end_failed(&self, id: &WorkspaceId, entries: &[EntryId], place: usize, fault: &Fault) {
        let (key, why) = (id.clone(), fault.to_string());
        let (done, failed) = (entries[..place].to_vec(), entries.get(place).copied());
        let ended = self.store.call(move |store| {
            store.end_entries(&done)?;
            if let Some(entry) = failed {
                store.end_entry(entry, &Outcome::Failed(why))?;
            }
            store.drop_open_entries(&key)
        });
        if let Err(error) = ended.await {
            tracing::warn!(%id, %error, "the journal keeps open entries");
        }
    }

    /// The spec to start, narrowed by the current policy. It is stored first, so that the store
    /// always shows what runs.
    async fn within_bounds(
        &self,
        record: &WorkspaceRecord,
        spec: &WorkspaceSpec,
    ) -> Result<Option<Arc<WorkspaceSpec>>, Fault> {
        let Some(bounds) = self.bounds.get() else {
            return Ok(None);
        };
        let Some(narrowed) = bounds(spec)? else {
            return Ok(None);
        };
        tracing::info!(id = %record.id, "is narrowed to what this machine allows");
        let stored = WorkspaceSpec {
            label: record.spec.label.clone(),
            ..narrowed.clone()
        };
        let id = record.id.clone();
        let storing = self.store.call(move |store| store.set_spec(&id, &stored));
        storing.await?;
        Ok(Some(Arc::new(narrowed)))
    }

    /// Listeners learn of a workspace only when it is complete.
    fn notify(&self, record: &WorkspaceRecord, action: Action) {
        let notice = match (record.birth, action) {
            (Birth::Acknowledged, Action::Launch) => Notice::Started,
            (Birth::Acknowledged, Action::Halt) => Notice::Stopped,
            _ => return,
        };
        self.notices.send(&record.id, notice);
    }

    pub(crate) async fn apply_between_moments(
        &self,
        journaled: Journaled,
        progress: &Progress,
    ) -> Result<Option<Observation>, Fault> {
        let step = journaled.action().as_str();
        failpoint::pass(step, Moment::Before)?;
        let reported = self.apply(journaled, progress).await?;
        failpoint::pass(step, Moment::After)?;
        Ok(reported)
    }

    async fn apply(
        &self,
        journaled: Journaled,
        progress: &Progress,
    ) -> Result<Option<Observation>, Fault> {
        if journaled.action() != Action::BuildBase {
            let driver = self.driver(journaled.spec())?;
            return driver.apply(journaled, progress.clone()).await;
        }
        // Workspaces of one commit share its base: the first builds it, the others wait and find
        // it.
        let spec = journaled.spec();
        let commit = spec.code.base_commit().map(str::to_owned);
        let key = (spec.project_id.clone(), commit);
        let _turn = self.bases.lock(&key).await;
        let driver = self.driver(spec)?;
        match driver.observe(spec).await?.observed.base {
            Base::Present => Ok(None),
            Base::Absent => driver.apply(journaled, progress.clone()).await,
        }
    }
}

/// The spec with the current label: it was stored with the label at creation.
fn under_its_label(record: &WorkspaceRecord) -> Arc<WorkspaceSpec> {
    let spec = &record.spec;
    if spec.label == record.label.as_str() {
        return Arc::clone(spec);
    }
    Arc::new(WorkspaceSpec {
        label: record.label.to_string(),
        ..WorkspaceSpec::clone(spec)
    })
}

/// The actions that lead to the goal.
///
/// Files of an acknowledged workspace are never recreated: if they are gone, an error is better
/// than an empty workspace in their place.
fn steps(record: &WorkspaceRecord, goal: Goal, observed: Observed) -> Result<Vec<Action>, Fault> {
    let mut actions = match goal {
        Goal::Reach(desired) => plan(desired, observed),
        Goal::Renew => renewal(observed),
    };
    if record.birth == Birth::Acknowledged && actions.contains(&Action::MakeFiles) {
        if goal != Goal::Reach(Desired::Stopped) {
            return Err(files_missing(record, observed.files));
        }
        actions.retain(|action| *action == Action::Halt);
    }
    Ok(actions)
}

fn renewal(observed: Observed) -> Vec<Action> {
    let halted = Observed {
        keeper: Keeper::Absent,
        ..observed
    };
    let mut actions = plan(Desired::Stopped, observed);
    actions.retain(|action| *action == Action::Halt);
    actions.extend(plan(Desired::Running, halted));
    actions
}

fn files_missing(record: &WorkspaceRecord, files: Files) -> Fault {
    let what = match files {
        Files::Absent => "missing",
        Files::Partial | Files::Complete | Files::Outdated | Files::SetAside => "incomplete",
    };
    let (id, label) = (&record.id, &record.label);
    Fault::new(
        Code::CorruptState,
        format!("the files of workspace `{label}` ({id}) are {what}"),
        format!("bring them back, or give it up with `holm rm {id} --force`"),
    )
}

fn not_reached(record: &WorkspaceRecord, next: Action, reason: Option<Ended>) -> Fault {
    let why = match reason {
        Some(Ended::Died(how)) => how,
        Some(Ended::DiskLimit) => "it takes more disk than it may".to_owned(),
        Some(Ended::Reboot) | None => format!("`{}` had no effect", next.as_str()),
    };
    let code = match next {
        Action::Launch => Code::StartFailed,
        _ => Code::Internal,
    };
    let (id, label) = (&record.id, &record.label);
    Fault::new(
        code,
        format!("workspace `{label}` is not as it should be: {why}"),
        format!("`holm show {id}` says what there is; `holm doctor` checks this machine"),
    )
}
