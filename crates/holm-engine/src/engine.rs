//! The engine: every operation on workspaces that the server offers.
//!
//! Operations on one workspace queue behind its lock. Every change runs in its own task, to its
//! end, even when the client that requested it disconnects; only a creation is undone then.

use crate::bridge::{Bridge, joined};
use crate::clock::{self, Clock};
use crate::converge::Goal;
use crate::create::Creations;
use crate::driver::{Carried, Driver, Drivers, Observation, Progress, Tip};
use crate::idle::Uses;
use crate::isolation::Isolation;
use crate::layers::Setups;
use crate::locks::Locks;
use crate::moves::unfinished_note;
use crate::notice::{Notice, Notices};
use crate::runs::LiveRuns;
use crate::service::{self, ServiceStatus};
use crate::spec::{Purpose, WorkspaceSpec};
use crate::store::{RequestKey, Store, WorkspaceRecord};
use holm_core::plan::{Desired, Keeper, State};
use holm_core::state::{Birth, state};
use holm_core::{Code, Fault, Label, ProjectId, ProjectName, WorkspaceId};
use holm_keeper::client::KeeperClient;
use jiff::{Timestamp, Unit};
use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;

/// Which of these objects the project's repository lacks. Blocks.
pub type MissingObjects =
    Arc<dyn Fn(&ProjectId, &[String]) -> Result<Vec<String>, Fault> + Send + Sync>;

/// What a spec becomes before its processes are started; `None`: unchanged. Blocks briefly.
pub type Bounds = Box<dyn Fn(&WorkspaceSpec) -> Result<Option<WorkspaceSpec>, Fault> + Send + Sync>;

/// The longest time that `show` waits for an operation under way.
const LONGEST_TURN: Duration = Duration::from_secs(2);

/// A handle; clones share everything.
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) drivers: Drivers,
    pub(crate) clock: Clock,
    pub(crate) store: Bridge,
    pub(crate) missing_objects: MissingObjects,
    pub(crate) bounds: OnceLock<Bounds>,
    /// The driver of each workspace that was asked for. A workspace never changes its driver.
    drivers_of: Mutex<HashMap<WorkspaceId, Arc<dyn Driver>>>,
    pub(crate) workspaces: Locks<WorkspaceId>,
    /// Keyed by project and commit.
    pub(crate) bases: Locks<(String, Option<String>)>,
    pub(crate) projects: tokio::sync::Mutex<()>,
    pub(crate) creations: Creations,
    /// Cancelled by a request to stop the workspace.
    pub(crate) moves: Creations,
    pub(crate) setups: Setups,
    /// Serialises inserting and counting.
    pub(crate) admissions: tokio::sync::Mutex<()>,
    /// Shared by creations and starts, exclusive for the removal of bases.
    pub(crate) making: tokio::sync::RwLock<()>,
    /// One collection at a time.
    pub(crate) collecting: tokio::sync::Mutex<()>,
    pub(crate) uses: Uses,
    /// Requests with an idempotency key.
    pub(crate) keys: Locks<RequestKey>,
    pub(crate) notices: Notices,
    pub(crate) runs: LiveRuns,
    /// Serialises copying files for an agent and removing them.
    pub(crate) credentials: Locks<WorkspaceId>,
}

/// A workspace: its record and its latest observation.
#[derive(Clone, Debug)]
pub struct View {
    pub record: WorkspaceRecord,
    pub project: ProjectName,
    pub state: State,
    pub reason: Option<String>,
    /// The isolation in force; `None` when it does not run.
    pub isolation: Option<Isolation>,
    /// All declared services.
    pub services: Vec<ServiceStatus>,
    /// Bytes through its gateway, when it runs.
    pub carried: Option<Carried>,
    pub tip: Tip,
    /// What was done or not done because it was idle.
    pub note: Option<String>,
}

// === impl Engine ===

impl Engine {
    pub fn new(
        drivers: Drivers,
        store: Arc<dyn Store>,
        missing_objects: MissingObjects,
        clock: Clock,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                drivers,
                clock,
                store: Bridge::new(store),
                missing_objects,
                bounds: OnceLock::new(),
                drivers_of: Mutex::default(),
                workspaces: Locks::new(),
                bases: Locks::new(),
                projects: tokio::sync::Mutex::new(()),
                creations: Creations::default(),
                moves: Creations::default(),
                setups: Setups::default(),
                admissions: tokio::sync::Mutex::new(()),
                making: tokio::sync::RwLock::new(()),
                collecting: tokio::sync::Mutex::new(()),
                uses: Uses::default(),
                keys: Locks::new(),
                notices: Notices::default(),
                runs: LiveRuns::default(),
                credentials: Locks::new(),
            }),
        }
    }

    /// Sets the bounds within which everything starts. Called once, before anything starts.
    pub fn keep_within(&self, bounds: Bounds) {
        // A second call would be a bug of the caller; the first bounds stay.
        let _ = self.inner.bounds.set(bounds);
    }

    /// Every driver of this daemon.
    pub fn drivers(&self) -> &Drivers {
        &self.inner.drivers
    }

    /// The driver that a spec names.
    pub fn driver(&self, spec: &WorkspaceSpec) -> Result<&Arc<dyn Driver>, Fault> {
        self.inner.driver(spec)
    }

    /// Those of these workspaces that a driver has.
    pub async fn of_driver(
        &self,
        ids: &[WorkspaceId],
        driver: &Arc<dyn Driver>,
    ) -> Result<Vec<WorkspaceId>, Fault> {
        let mut of_driver = Vec::new();
        for id in ids {
            if self.driver_of(id).await?.name() == driver.name() {
                of_driver.push(id.clone());
            }
        }
        Ok(of_driver)
    }

    /// As [`driver`](Self::driver), by the id of the workspace.
    pub async fn driver_of(&self, id: &WorkspaceId) -> Result<Arc<dyn Driver>, Fault> {
        self.inner.driver_of(id).await
    }

    /// The client of a workspace's keeper.
    pub async fn keeper(&self, id: &WorkspaceId) -> Result<KeeperClient, Fault> {
        self.inner.keeper(id).await
    }

    /// Every live workspace, oldest first, all observed concurrently.
    pub async fn list(&self) -> Result<Vec<View>, Fault> {
        let inner = &self.inner;
        let records = inner.shown_workspaces().await?;
        let names = inner.project_names().await?;
        let mut looks = JoinSet::new();
        for (position, record) in records.into_iter().enumerate() {
            let inner = Arc::clone(inner);
            let name = names.get(&record.project_id).cloned();
            looks.spawn(async move {
                let name = match name {
                    Some(name) => name,
                    None => inner.project_name(&record.project_id).await?,
                };
                let view = inner.look(record, name).await;
                Ok::<_, Fault>((position, view))
            });
        }
        let mut views = Vec::with_capacity(looks.len());
        while let Some(look) = looks.join_next().await {
            views.push(joined(look)??);
        }
        views.sort_by_key(|(position, _)| *position);
        Ok(views.into_iter().map(|(_, view)| view).collect())
    }

    /// The names of every live workspace, oldest first. No workspace is observed, so this is cheap.
    pub async fn names(&self) -> Result<Vec<(WorkspaceRecord, ProjectName)>, Fault> {
        let inner = &self.inner;
        let records = inner.shown_workspaces().await?;
        let names = inner.project_names().await?;
        let mut named = Vec::with_capacity(records.len());
        for record in records {
            let name = match names.get(&record.project_id) {
                Some(name) => name.clone(),
                None => inner.project_name(&record.project_id).await?,
            };
            named.push((record, name));
        }
        Ok(named)
    }

    /// One workspace, live or in the trash.
    pub async fn show(&self, id: &WorkspaceId) -> Result<View, Fault> {
        let record = self.inner.record(id).await?;
        let view = self.inner.view(record).await?;
        if view.state != State::Failed {
            return Ok(view);
        }
        // A workspace that is being restarted or stopped is not failed: observe it again
        // afterwards.
        let turn = self.inner.workspaces.lock(id);
        let Ok(_turn) = tokio::time::timeout(LONGEST_TURN, turn).await else {
            return Ok(view);
        };
        let record = self.inner.record(id).await?;
        self.inner.view(record).await
    }

    /// As [`show`](Self::show), after the operations under way have ended.
    pub async fn show_in_turn(&self, id: &WorkspaceId) -> Result<View, Fault> {
        let _turn = self.inner.workspaces.lock(id).await;
        let record = self.inner.record(id).await?;
        self.inner.view(record).await
    }

    /// Changes a workspace's label and nothing else.
    pub async fn rename(&self, id: &WorkspaceId, label: Label) -> Result<View, Fault> {
        let (inner, id) = (Arc::clone(&self.inner), id.clone());
        detached(async move {
            let _turn = inner.workspaces.lock(&id).await;
            let earlier = inner.live(&id).await?.label;
            let (key, text) = (id.clone(), label.clone());
            let renamed = inner
                .store
                .call(move |store| store.set_label(&key, &text, now()));
            renamed.await?;
            if earlier != label {
                inner.notices.tell(&id, Notice::Renamed { earlier });
            }
            let record = inner.live(&id).await?;
            let view = inner.view(record).await?;
            if view.state == State::Running
                && let Err(fault) = inner.relabel(&view.record).await
            {
                // The label is display only; the workspace gets it at its next start.
                tracing::warn!(%id, %fault, "a running workspace was not told its new label");
            }
            Ok(view)
        })
        .await
    }

    pub async fn start(&self, id: &WorkspaceId) -> Result<View, Fault> {
        self.lead_to(id, Desired::Running, Goal::Reach(Desired::Running))
            .await
    }

    pub async fn stop(&self, id: &WorkspaceId) -> Result<View, Fault> {
        self.lead_to(id, Desired::Stopped, Goal::Reach(Desired::Stopped))
            .await
    }

    /// Ends the processes and starts them again.
    pub async fn restart(&self, id: &WorkspaceId) -> Result<View, Fault> {
        self.lead_to(id, Desired::Running, Goal::Renew).await
    }

    async fn lead_to(&self, id: &WorkspaceId, desired: Desired, goal: Goal) -> Result<View, Fault> {
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
                inner.note_use(&id, at);
                inner.store.call(move |store| store.touch(&key, at)).await?;
            }
            inner.lead(record, desired, goal).await
        })
        .await
    }
}

// === impl Inner ===

impl Inner {
    /// Stores the desired state of an acknowledged workspace and reaches it. The caller holds its
    /// lock.
    pub(crate) async fn lead(
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
        self.seen(record, observation).await
    }

    /// The driver that a spec names.
    pub(crate) fn driver(&self, spec: &WorkspaceSpec) -> Result<&Arc<dyn Driver>, Fault> {
        self.drivers.get(spec.driver).ok_or_else(|| no_driver(spec))
    }

    /// As [`driver`](Self::driver), for callers that have no record. Every connection into a
    /// workspace asks, so the store is asked only once.
    pub(crate) async fn driver_of(&self, id: &WorkspaceId) -> Result<Arc<dyn Driver>, Fault> {
        let known = || {
            self.drivers_of
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        if let Some(driver) = known().get(id) {
            return Ok(Arc::clone(driver));
        }
        let driver = Arc::clone(self.driver(&self.record(id).await?.spec)?);
        known().insert(id.clone(), Arc::clone(&driver));
        Ok(driver)
    }

    pub(crate) async fn keeper(&self, id: &WorkspaceId) -> Result<KeeperClient, Fault> {
        Ok(self.driver_of(id).await?.keeper(id))
    }

    pub(crate) fn forget_driver_of(&self, id: &WorkspaceId) {
        let mut known = self
            .drivers_of
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        known.remove(id);
    }

    pub(crate) async fn observe(&self, spec: &WorkspaceSpec) -> Result<Observation, Fault> {
        self.driver(spec)?.observe(spec).await
    }

    async fn relabel(&self, record: &WorkspaceRecord) -> Result<(), Fault> {
        let keeper = self.driver(&record.spec)?.keeper(&record.id);
        keeper.relabel(record.label.as_str()).await
    }

    /// Live workspaces, without the temporary ones that holm creates itself.
    async fn shown_workspaces(&self) -> Result<Vec<WorkspaceRecord>, Fault> {
        let mut records = self.store.call(|store| store.live_workspaces()).await?;
        records.retain(|record| record.spec.purpose == Purpose::Work);
        Ok(records)
    }

    pub(crate) async fn record(&self, id: &WorkspaceId) -> Result<WorkspaceRecord, Fault> {
        let key = id.clone();
        let found = self.store.call(move |store| store.workspace(&key)).await?;
        found.ok_or_else(|| no_workspace(id))
    }

    /// The record of an acknowledged workspace that is not in the trash.
    pub(crate) async fn live(&self, id: &WorkspaceId) -> Result<WorkspaceRecord, Fault> {
        let record = self.record(id).await?;
        match (record.birth, record.removed_at) {
            (Birth::Acknowledged, None) => Ok(record),
            (Birth::Pending, _) => Err(no_workspace(id)),
            (Birth::Acknowledged, Some(_)) => Err(in_the_trash(&record)),
        }
    }

    pub(crate) async fn view(&self, record: WorkspaceRecord) -> Result<View, Fault> {
        let name = self.project_name(&record.project_id).await?;
        Ok(self.look(record, name).await)
    }

    /// The view of a workspace that was just observed.
    pub(crate) async fn seen(
        &self,
        record: WorkspaceRecord,
        observation: Observation,
    ) -> Result<View, Fault> {
        let name = self.project_name(&record.project_id).await?;
        Ok(self.judge(record, name, Ok(observation)))
    }

    async fn look(&self, record: WorkspaceRecord, project: ProjectName) -> View {
        let is_settled = record.birth == Birth::Pending || record.removed_at.is_some();
        let observation = match is_settled {
            true => Ok(crate::converge::nothing()),
            false => self.observe(&record.spec).await,
        };
        self.judge(record, project, observation)
    }

    fn judge(
        &self,
        record: WorkspaceRecord,
        project: ProjectName,
        observation: Result<Observation, Fault>,
    ) -> View {
        let declared = &record.spec.services;
        let seen = observation.as_ref().ok();
        let carried = seen.and_then(|observation| observation.carried);
        let tip = seen.map(|observation| observation.tip.clone());
        let (state, reason, isolation, services) = match observation {
            Ok(observation) => {
                let last_run = observation.reason.as_ref();
                let seen = observation.observed;
                let (word, reason) = state(record.desired, record.birth, seen, last_run);
                let runs = seen.keeper == Keeper::Running;
                let isolation = observation.isolation.filter(|_| runs);
                // It runs, but a part of it does not.
                let of_kernel = isolation.as_ref().and_then(Isolation::limit_reached);
                let services = service::all(declared, observation.services, word);
                let reason = reason
                    .or(of_kernel.map(str::to_owned))
                    .or_else(|| service::trouble(&services).filter(|_| word == State::Running));
                (word, reason, isolation, services)
            }
            // A workspace that cannot be observed counts as failed.
            Err(fault) => {
                let services = service::all(declared, Vec::new(), State::Failed);
                (State::Failed, Some(fault.message), None, services)
            }
        };
        let note = self.idle_note(&record.id, state);
        let note = note.or_else(|| unfinished_note(&record.spec, &record.id));
        View {
            note,
            record,
            project,
            state,
            reason,
            isolation,
            services,
            carried,
            tip: tip.unwrap_or_default(),
        }
    }

    async fn project_names(&self) -> Result<HashMap<ProjectId, ProjectName>, Fault> {
        let projects = self.store.call(|store| store.projects()).await?;
        let names = projects.into_iter();
        Ok(names
            .map(|(project, _)| (project.id, project.name))
            .collect())
    }

    pub(crate) async fn project_name(&self, id: &ProjectId) -> Result<ProjectName, Fault> {
        let key = id.clone();
        let project = self.store.call(move |store| store.project(&key)).await?;
        let project = project.ok_or_else(|| crate::projects::no_project(id))?;
        Ok(project.name)
    }
}

/// Runs an operation to its end, even when the caller is dropped.
pub(crate) async fn detached<T: Send + 'static>(
    operation: impl Future<Output = Result<T, Fault>> + Send + 'static,
) -> Result<T, Fault> {
    joined(tokio::spawn(operation).await)?
}

/// The time in milliseconds, so that stored and shown times are equal.
pub(crate) fn now() -> Timestamp {
    let now = clock::wall();
    now.round(Unit::Millisecond).unwrap_or(now)
}

fn no_driver(spec: &WorkspaceSpec) -> Fault {
    let (id, driver) = (&spec.id, spec.driver.as_str());
    Fault::new(
        Code::DriverUnavailable,
        format!("the driver `{driver}` of workspace `{id}` is not available here"),
        "start the daemon with a holm that has this driver; `holm doctor` lists those of this one",
    )
}

pub(crate) fn no_workspace(id: &WorkspaceId) -> Fault {
    Fault::new(
        Code::WorkspaceNotFound,
        format!("no workspace `{id}`"),
        "`holm ls` lists the workspaces",
    )
}

/// As [`no_workspace`], for one that can be restored.
pub(crate) fn in_the_trash(record: &WorkspaceRecord) -> Fault {
    let (id, label) = (&record.id, &record.label);
    Fault::new(
        Code::WorkspaceNotFound,
        format!("no workspace `{id}`: `{label}` is in the trash"),
        format!("`holm restore {id}` brings it back"),
    )
}
