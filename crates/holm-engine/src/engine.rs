//! The engine that every operation works on, and what all operations need: drivers, records, clock.
//!
//! Operations on one workspace queue behind its lock. Every change runs in its own task, to its
//! end, even when the client that requested it disconnects; only a creation is undone then.

use crate::bridge::{Bridge, joined};
use crate::cancel::Creations;
use crate::clock::{Clock, now};
use crate::driver::{Driver, Drivers, Observation};
use crate::live_runs::LiveRuns;
use crate::locks::Locks;
use crate::notice::{Notice, Notices};
use crate::reports::Reports;
use crate::settled::Settled;
use crate::setups::Setups;
use crate::store::{RequestKey, Store, WorkspaceRecord};
use crate::trees::Trees;
use crate::uses::Uses;
use holm_core::spec::WorkspaceSpec;
use holm_core::state::Birth;
use holm_core::turn::TurnCause;
use holm_core::{Code, Fault, ProjectId, WorkspaceId};
use holm_keeper::client::KeeperClient;
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Which of these objects the project's repository lacks. Blocks.
pub type MissingObjects =
    Arc<dyn Fn(&ProjectId, &[String]) -> Result<Vec<String>, Fault> + Send + Sync>;

/// What a spec becomes before its processes are started; `None`: unchanged. Blocks briefly.
pub type Bounds = Box<dyn Fn(&WorkspaceSpec) -> Result<Option<WorkspaceSpec>, Fault> + Send + Sync>;

/// Records a turn of a running workspace, and reports its own failures.
pub type TurnRecorder =
    Box<dyn Fn(WorkspaceId, TurnCause) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

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
    recorder: OnceLock<TurnRecorder>,
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
    pub(crate) settled: Settled,
    pub(crate) reports: Reports,
    /// Requests with an idempotency key.
    pub(crate) keys: Locks<RequestKey>,
    pub(crate) notices: Notices,
    pub(crate) runs: LiveRuns,
    pub(crate) trees: Trees,
    /// Serialises copying files for an agent and removing them.
    pub(crate) credentials: Locks<WorkspaceId>,
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
                recorder: OnceLock::new(),
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
                settled: Settled::default(),
                reports: Reports::default(),
                keys: Locks::new(),
                notices: Notices::default(),
                runs: LiveRuns::default(),
                trees: Trees::default(),
                credentials: Locks::new(),
            }),
        }
    }

    /// Sets the bounds within which everything starts. Called once, before anything starts.
    pub fn keep_within(&self, bounds: Bounds) {
        // A second call would be a bug of the caller; the first bounds stay.
        let _ = self.inner.bounds.set(bounds);
    }

    /// Sets what records turns. Called once, before anything runs.
    pub fn record_turns(&self, recorder: TurnRecorder) {
        // A second call would be a bug of the caller; the first recorder stays.
        let _ = self.inner.recorder.set(recorder);
    }

    pub fn clock(&self) -> &Clock {
        &self.inner.clock
    }

    /// Stores the reading, if it is old enough.
    pub async fn keep_clock(&self) -> Result<(), Fault> {
        let Some(seen) = self.inner.clock.unstored() else {
            return Ok(());
        };
        let stored = seen.clone();
        let store = &self.inner.store;
        store.call(move |store| store.set_clock(&stored)).await?;
        self.inner.clock.note_stored(seen);
        Ok(())
    }

    /// Moves what was written from the store's log into its file, so that no request has to.
    pub async fn tidy_store(&self) -> Result<(), Fault> {
        self.inner.store.call(|store| store.checkpoint()).await
    }

    /// How often the store was lost and came back; see [`Store::outages`].
    pub fn store_outages(&self) -> u64 {
        self.inner.store.outages()
    }

    /// Calls `listener` from now on, before the operation returns. It must not block.
    pub fn subscribe(&self, listener: impl Fn(&WorkspaceId, Notice) + Send + Sync + 'static) {
        let listeners = &self.inner.notices.0;
        let mut listeners = listeners.write().unwrap_or_else(PoisonError::into_inner);
        listeners.push(Box::new(listener));
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

    /// As [`keeper`](Self::keeper), for a caller that changes nothing that a status says.
    pub async fn reader(&self, id: &WorkspaceId) -> Result<KeeperClient, Fault> {
        self.inner.reader(id).await
    }
}

// === impl Inner ===

impl Inner {
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
        self.reports.mark(id);
        self.reader(id).await
    }

    /// As [`keeper`](Self::keeper), for a caller that changes nothing that a status says: what the keeper told stays valid.
    pub(crate) async fn reader(&self, id: &WorkspaceId) -> Result<KeeperClient, Fault> {
        Ok(self.driver_of(id).await?.keeper(id))
    }

    pub(crate) fn forget_driver_of(&self, id: &WorkspaceId) {
        let mut known = self
            .drivers_of
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        known.remove(id);
    }

    /// Records a turn, if turns are recorded.
    pub(crate) async fn record_turn(&self, id: &WorkspaceId, cause: TurnCause) {
        if let Some(recorder) = self.recorder.get() {
            recorder(id.clone(), cause).await;
        }
    }

    pub(crate) async fn observe(&self, spec: &WorkspaceSpec) -> Result<Observation, Fault> {
        self.driver(spec)?.observe(spec).await
    }

    pub(crate) async fn record(&self, id: &WorkspaceId) -> Result<WorkspaceRecord, Fault> {
        let found = self.store.read(|store| store.workspace(id))?;
        found.ok_or_else(|| no_workspace(id))
    }

    /// Stores the time of use, without waiting for it.
    pub(crate) fn store_use(self: &Arc<Self>, id: &WorkspaceId) {
        let (inner, id, at) = (Arc::clone(self), id.clone(), now());
        tokio::spawn(async move {
            if let Err(error) = inner.store.call(move |store| store.touch(&id, at)).await {
                tracing::warn!(%error, "the time of use was not noted");
            }
        });
    }

    /// Stores whether a workspace has uncommitted changes.
    pub(crate) async fn note_dirty(&self, id: &WorkspaceId, is_dirty: bool) -> Result<(), Fault> {
        self.trees.forget(id);
        let id = id.clone();
        self.store
            .call(move |store| store.set_dirty(&id, is_dirty))
            .await
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
}

/// Runs an operation to its end, even when the caller is dropped.
pub(crate) async fn detached<T: Send + 'static>(
    operation: impl Future<Output = Result<T, Fault>> + Send + 'static,
) -> Result<T, Fault> {
    joined(tokio::spawn(operation).await)?
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
