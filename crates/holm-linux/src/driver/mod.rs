//! The Linux driver of the engine.

mod base;
mod bring;
mod ca_certificates;
mod cache;
mod changed;
mod commands;
mod connect;
mod environment;
mod files;
mod first_start;
mod freeze;
mod generation;
mod halt;
mod head;
mod here;
mod launch;
mod layer;
mod measure;
mod observe;
mod order;
mod places;
mod protection;
mod reap;
mod renew;
mod rooms;
mod secrets;
mod seed;
mod services;
mod setup;
mod siblings;
mod snapshot;
mod spare;
mod storage;
mod sweep;
mod traces;
mod upper;
mod users;
mod volume;

use crate::Layout;
use crate::cgroup;
use crate::numbers::Meter;
use crate::probe;
use crate::programs::Programs;
use async_trait::async_trait;
use holm_core::config::DriverName;
use holm_core::fitness::Check;
use holm_core::head::Tip;
use holm_core::numbers::Usage;
use holm_core::plan::Action;
use holm_core::spec::WorkspaceSpec;
use holm_core::{Code, Fault, ProjectId, WorkspaceId};
use holm_engine::driver::{
    Blob, Driver, Journaled, LayerChanges, Observation, Since, Traces, Upper,
};
use holm_engine::progress::Progress;
use holm_engine::try_blocking;
use holm_keeper::client::KeeperClient;
use holm_keeper::container::{Given, Start, Started};
use holm_keeper::plan::{NetworkSource, SurroundingNetwork};
use holm_keeper::wire::{Defence, GrantSource, switched_off};
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::owned::remove as remove_tree;

/// Starts the processes of a workspace another way than as children of this process: in containers of an engine.
#[async_trait]
pub trait Starter: Send + Sync {
    async fn start(&self, start: Start) -> io::Result<Started>;
}

/// Runs workspaces with namespaces and overlayfs. Clones share everything.
#[derive(Clone)]
pub struct LinuxDriver {
    layout: Arc<Layout>,
    /// Our own programs, at paths that an upgrade does not remove.
    programs: Programs,
    spare: Arc<spare::Spare>,
    places: Arc<places::Places>,
    builds: Arc<base::Builds>,
    /// Where control groups may be created, or why nowhere.
    groups: Result<cgroup::GroupParents, String>,
    /// Provides a workspace's secrets when it is started.
    secrets: GrantSource,
    /// Says what the machine's network needs when a workspace is started.
    network: NetworkSource,
    /// Remembers which processes belong to which service.
    meter: Arc<Mutex<Meter>>,
    heads: Arc<head::Heads>,
    /// `None`: keepers are children of this process.
    starter: Option<Arc<dyn Starter>>,
    /// Addresses of the machine that keepers in containers cannot see.
    machine: Vec<IpAddr>,
    /// Defences that a test switched off.
    without: Vec<Defence>,
}

// === impl LinuxDriver ===

impl LinuxDriver {
    /// Creates what every workspace needs below the layout's roots. `roles` is the small program of keepers and inits;
    /// if it is empty, they run our own.
    pub fn new(layout: Layout, secrets: GrantSource, roles: &[u8]) -> Result<Self, Fault> {
        let programs = Programs::keep_copies(&layout, roles).map_err(|error| {
            disk_fault(
                error,
                format!(
                    "cannot keep a copy of holm in {}",
                    layout.data_dir.display()
                ),
            )
        })?;
        for directory in [
            layout.data_dir.join("workspaces"),
            layout.data_dir.join("trash"),
            layout.reap(),
            layout.run_dir.join("w"),
        ] {
            std::fs::create_dir_all(&directory).map_err(|error| {
                disk_fault(error, format!("cannot make {}", directory.display()))
            })?;
        }
        Ok(Self {
            layout: Arc::new(layout),
            programs,
            spare: Arc::default(),
            places: Arc::default(),
            builds: Arc::default(),
            // `doctor` reports why there are none, and so does a refused limit.
            groups: cgroup::find(),
            secrets,
            network: Arc::new(|| Ok(SurroundingNetwork::default())),
            meter: Arc::default(),
            heads: Arc::default(),
            starter: None,
            machine: Vec::new(),
            without: switched_off(),
        })
    }

    /// The same files, for one action whose processes `starter` starts, with what the daemon gave for it.
    pub fn in_containers(&self, given: Given, starter: Arc<dyn Starter>) -> Self {
        let (grants, surrounding) = (given.grants, given.surrounding);
        Self {
            secrets: Arc::new(move |_| Ok(grants.clone())),
            network: Arc::new(move || Ok(surrounding.clone())),
            starter: Some(starter),
            machine: given.machine,
            without: given.without,
            ..self.clone()
        }
    }

    /// Where its files are.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Starts workspaces for the network that `source` describes.
    pub fn in_network(self, source: NetworkSource) -> Self {
        Self {
            network: source,
            ..self
        }
    }

    async fn set_aside(&self, spec: &WorkspaceSpec) -> Result<(), Fault> {
        let id = workspace_id(spec)?;
        let (from, to) = (self.layout.workspace(&id).dir, self.layout.trash(&id));
        move_files(&from, &to)
            .await
            .map_err(|error| disk_fault(error, format!("cannot move workspace {id} to the trash")))
    }

    async fn take_back(&self, spec: &WorkspaceSpec) -> Result<(), Fault> {
        let id = workspace_id(spec)?;
        let (from, to) = (self.layout.trash(&id), self.layout.workspace(&id).dir);
        move_files(&from, &to).await.map_err(|error| {
            disk_fault(
                error,
                format!("cannot move workspace {id} out of the trash"),
            )
        })
    }
}

#[async_trait]
impl Driver for LinuxDriver {
    fn name(&self) -> DriverName {
        DriverName::Linux
    }

    async fn probe(&self) -> Result<Vec<Check>, Fault> {
        let layout = Arc::clone(&self.layout);
        let means = probe::Means {
            programs: self.programs.clone(),
            groups: self.groups.clone(),
        };
        try_blocking(move || Ok(probe::doctor(&layout.data_dir, &means))).await
    }

    fn keeper(&self, id: &WorkspaceId) -> KeeperClient {
        connect::keeper(&self.layout, id)
    }

    fn check(&self, spec: &WorkspaceSpec) -> Result<(), Fault> {
        protection::check(spec)
    }

    async fn shortcomings(&self, spec: &WorkspaceSpec) -> Vec<String> {
        let (layout, spec) = (Arc::clone(&self.layout), spec.clone());
        let found = try_blocking(move || Ok(users::shortcomings(&layout, &spec)));
        // A remark is not worth an error.
        found.await.unwrap_or_default()
    }

    async fn observe(&self, spec: &WorkspaceSpec) -> Result<Observation, Fault> {
        observe::observe(&self.layout, spec).await
    }

    fn tip(&self, id: &WorkspaceId) -> Tip {
        self.heads.tip(&self.layout.workspace(id).upper())
    }

    fn processor_time(&self, id: &WorkspaceId) -> Option<Duration> {
        // While the processes are read, nothing is known of them.
        let meter = self.meter.try_lock().ok()?;
        meter.processor_time(&self.layout.workspace(id))
    }

    async fn apply(
        &self,
        journaled: Journaled,
        progress: Progress,
    ) -> Result<Option<Observation>, Fault> {
        let spec = Arc::clone(journaled.spec());
        let done = match journaled.action() {
            Action::BuildBase => self.builds.build(&self.layout, spec, progress).await,
            Action::MakeFiles => files::make(self, spec).await,
            Action::RemakeFiles => files::remake(self, spec).await,
            Action::RenewVolumes => renew::renew(self, &spec).await,
            Action::TakeSnapshot => snapshot::take(self, &spec).await,
            Action::Launch => return launch::launch(self, &spec).await,
            Action::Halt => halt::halt(&self.layout, &workspace_id(&spec)?).await,
            Action::BuildLayer => setup::build(self, &spec, &progress).await,
            Action::SetAside => self.set_aside(&spec).await,
            Action::TakeBack => self.take_back(&spec).await,
            // git inside sees the daemon's objects of the project as they are.
            Action::Switch => Ok(()),
            Action::SetUp => setup::set_up_in_place(self, &spec, &progress).await,
            Action::React => {
                let id = workspace_id(&spec)?;
                services::react(&self.layout.workspace(&id), &spec).await
            }
        };
        done.map(|()| None)
    }

    async fn usage(&self, ids: &[WorkspaceId]) -> Result<Vec<Option<Usage>>, Fault> {
        let places: Vec<_> = ids.iter().map(|id| self.layout.workspace(id)).collect();
        let meter = Arc::clone(&self.meter);
        try_blocking(move || {
            let mut meter = meter.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(meter.look(&places))
        })
        .await
    }

    async fn upper(&self, spec: &WorkspaceSpec, ignored: Arc<HashSet<Vec<u8>>>) -> Option<Upper> {
        let dirs = self.layout.workspace(&workspace_id(spec).ok()?);
        let spec = spec.clone();
        let looked = try_blocking(move || Ok(upper::look(&dirs, &spec, &ignored)));
        looked.await.ok().flatten()
    }

    async fn layer_changes(&self, spec: &WorkspaceSpec) -> Result<Option<LayerChanges>, Fault> {
        let (id, project) = (workspace_id(spec)?, project_id(spec)?);
        let upper = self.layout.workspace(&id).upper();
        let base = base::tree(&self.layout, &project, spec);
        let excluded = spec.code.excluded.clone();
        try_blocking(move || {
            let listed = changed::list(&upper, &base, &excluded);
            listed.map_err(|error| not_read(&id, error))
        })
        .await
    }

    async fn blobs(&self, spec: &WorkspaceSpec, paths: Vec<Vec<u8>>) -> Result<Vec<Blob>, Fault> {
        let id = workspace_id(spec)?;
        let upper = self.layout.workspace(&id).upper();
        let format = spec.code.object_format.clone();
        try_blocking(move || {
            let read = changed::blobs(&upper, &format, &paths);
            read.map_err(|error| not_read(&id, error))
        })
        .await
    }

    async fn traces(&self, spec: &WorkspaceSpec, since: Since) -> Result<Traces, Fault> {
        let (layout, spec) = (Arc::clone(&self.layout), spec.clone());
        let dirs = layout.workspace(&workspace_id(&spec)?);
        try_blocking(move || Ok(traces::look(&layout, &dirs, &spec, since))).await
    }

    async fn volume_digests(
        &self,
        spec: &WorkspaceSpec,
    ) -> Result<BTreeMap<String, Option<String>>, Fault> {
        let (layout, spec) = (Arc::clone(&self.layout), spec.clone());
        let dirs = layout.workspace(&workspace_id(&spec)?);
        try_blocking(move || Ok(traces::digests(&layout, &dirs, &spec))).await
    }

    async fn undo(&self, spec: &WorkspaceSpec) -> Result<(), Fault> {
        let id = workspace_id(spec)?;
        self.builds.ended(&spec.id).await;
        halt::halt(&self.layout, &id).await?;
        // A keeper that a daemon before this one started may be about to take its lock.
        let disk = |error| disk_fault(error, format!("cannot undo workspace {id}"));
        let mut held = halt::hold(&self.layout, &id).map_err(disk)?;
        if held.is_none() {
            halt::halt(&self.layout, &id).await?;
            held = halt::hold(&self.layout, &id).map_err(disk)?;
        }
        let dir = self.layout.workspace(&id).dir;
        try_blocking(move || {
            let _held = held;
            remove_tree(&dir)
                .map_err(|error| disk_fault(error, format!("cannot remove {}", dir.display())))
        })
        .await
    }
}

fn not_read(id: &WorkspaceId, error: io::Error) -> Fault {
    disk_fault(
        error,
        format!("cannot read the changed files of workspace {id}"),
    )
}

/// One rename; it is fine if it was done before.
async fn move_files(from: &Path, to: &Path) -> io::Result<()> {
    match tokio::fs::rename(from, to).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound && to.exists() => Ok(()),
        moved => moved,
    }
}

/// The id was valid when it was stored; anything else is a damaged store.
fn workspace_id(spec: &WorkspaceSpec) -> Result<WorkspaceId, Fault> {
    WorkspaceId::parse(&spec.id).map_err(corrupt)
}

fn project_id(spec: &WorkspaceSpec) -> Result<ProjectId, Fault> {
    ProjectId::parse(&spec.project_id).map_err(corrupt)
}

fn corrupt(error: holm_core::id::NotAnId) -> Fault {
    Fault::new(
        Code::CorruptState,
        "a stored workspace is damaged",
        "holm doctor",
    )
    .because(error)
}

/// The fault for a file system error.
fn disk_fault(error: io::Error, what: String) -> Fault {
    let (code, hint) = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => (
            Code::DiskFull,
            "make room on the disk, then try again; `holm df` shows what could go, `holm gc` deletes it",
        ),
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => (
            Code::ReadOnly,
            "holm must be able to write there; see `holm doctor`",
        ),
        _ => (
            Code::Internal,
            "see the daemon's log; `holm daemon status` names its directory",
        ),
    };
    Fault::new(code, what, hint).because(error)
}
