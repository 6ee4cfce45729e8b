//! The driver that the engine sees: observe and apply on this machine's kernel.

mod base;
mod bring;
mod cache;
mod commands;
mod environment;
mod exec;
mod files;
mod freeze;
mod halt;
mod head;
mod here;
mod keeper;
mod launch;
mod layer;
mod measure;
mod network;
mod observe;
mod program;
mod reap;
mod remove;
mod runs;
mod secrets;
mod seed;
mod services;
mod sessions;
mod siblings;
mod snapshot;
mod trust;
pub(crate) mod unpack;
#[cfg(test)]
mod unpack_tests;
mod volume;

use crate::Layout;
use crate::cgroup;
use crate::numbers::Meter;
use crate::probe;
use async_trait::async_trait;
use holm_core::admission::Machine;
use holm_core::config::DriverName;
use holm_core::disk::DiskUsage;
use holm_core::doctor::Check;
use holm_core::layer::{Layer, LayerKey};
use holm_core::numbers::Usage;
use holm_core::plan::Action;
use holm_core::service::Wish;
use holm_core::{Code, Fault, ProjectId, RunId, WorkspaceId};
use holm_engine::driver::{
    BroughtTree, Discard, Discarded, Driver, Journaled, Known, Measure, Observation, Progress,
    Running, SiblingTree, Survey, ToldPort,
};
use holm_engine::exec::{ExecRequest, ExecStream, Resume};
use holm_engine::run::{RunOrder, RunSeen};
use holm_engine::service::Services;
use holm_engine::session::{Ask, Attach, AttachStream, SessionNotices, SessionStatus, Told};
use holm_engine::spec::{Egress, Service, WorkspaceSpec};
use holm_engine::try_blocking;
use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc;

pub(crate) use files::make_directories;
pub use remove::{is_mount, remove_at, remove_tree};
pub use secrets::Giver;

/// Workspaces of namespaces and overlayfs.
pub struct LinuxDriver {
    layout: Arc<Layout>,
    /// Our own program, at a path that an upgrade does not pull away.
    program: PathBuf,
    builds: base::Builds,
    /// Where control groups may be made, or why nowhere.
    groups: Result<cgroup::Place, String>,
    /// Says what a workspace is given of its secrets when it is started.
    giver: Giver,
    /// Remembers which processes belong to which service.
    meter: Arc<Mutex<Meter>>,
}

// === impl LinuxDriver ===

impl LinuxDriver {
    /// Makes what every workspace needs below the layout's roots.
    pub fn new(layout: Layout, giver: Giver) -> Result<Self, Fault> {
        let program = program::keep_copy(&layout).map_err(|error| {
            disk_fault(
                &error,
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
                disk_fault(&error, format!("cannot make {}", directory.display()))
            })?;
        }
        Ok(Self {
            layout: Arc::new(layout),
            program,
            builds: base::Builds::default(),
            // Why there are none is said by `doctor`, and where a limit is refused.
            groups: cgroup::find(),
            giver,
            meter: Arc::default(),
        })
    }

    /// The files in which is written what left a workspace, the oldest first.
    pub fn egress_record(&self, id: &WorkspaceId) -> Vec<PathBuf> {
        crate::keeper::record::files(&self.layout.workspace(id).egress())
    }

    /// Where the logs of a workspace's services are, also of one in the trash.
    pub fn logs(&self, id: &WorkspaceId) -> PathBuf {
        let logs = self.layout.workspace(id).logs();
        match logs.exists() {
            true => logs,
            false => self.layout.trash(id).join("logs"),
        }
    }

    /// Where the record of a run is, also of a workspace in the trash.
    pub fn run_record(&self, id: &WorkspaceId, run: &RunId) -> PathBuf {
        let trashed = crate::runs::directory(&self.layout.trash(id), run.as_str());
        match trashed.exists() {
            true => trashed,
            false => crate::runs::directory(&self.layout.workspace(id).dir, run.as_str()),
        }
    }

    async fn set_aside(&self, spec: &WorkspaceSpec) -> Result<(), Fault> {
        let id = workspace_id(spec)?;
        let (from, to) = (self.layout.workspace(&id).dir, self.layout.trash(&id));
        move_files(&from, &to)
            .await
            .map_err(|error| disk_fault(&error, format!("cannot move workspace {id} to the trash")))
    }

    async fn take_back(&self, spec: &WorkspaceSpec) -> Result<(), Fault> {
        let id = workspace_id(spec)?;
        let (from, to) = (self.layout.trash(&id), self.layout.workspace(&id).dir);
        move_files(&from, &to).await.map_err(|error| {
            disk_fault(
                &error,
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
            program: self.program.clone(),
            groups: self.groups.clone(),
        };
        try_blocking(move || Ok(probe::doctor(&layout.data_dir, &means))).await
    }

    fn check(&self, spec: &WorkspaceSpec) -> Result<(), Fault> {
        launch::check(spec)
    }

    async fn observe(&self, spec: &WorkspaceSpec) -> Result<Observation, Fault> {
        observe::observe(&self.layout, spec).await
    }

    async fn apply(&self, journaled: Journaled, progress: Progress) -> Result<(), Fault> {
        let spec = Arc::clone(journaled.spec());
        match journaled.action() {
            Action::BuildBase => self.builds.build(&self.layout, spec, progress).await,
            Action::MakeFiles => files::make(self, spec).await,
            Action::RemakeFiles => files::remake(self, spec).await,
            Action::RenewVolumes => volume::renew(self, &spec).await,
            Action::TakeSnapshot => snapshot::take(self, &spec).await,
            Action::Launch => launch::launch(self, &spec).await,
            Action::Halt => halt::halt(&self.layout, &workspace_id(&spec)?).await,
            Action::BuildLayer => layer::build(self, &spec, &progress).await,
            Action::SetAside => self.set_aside(&spec).await,
            Action::TakeBack => self.take_back(&spec).await,
            // The engine does it by a command inside, and so does a launch.
            Action::Switch => Ok(()),
            Action::SetUp => layer::set_up_in_place(self, &spec, &progress).await,
            Action::React => {
                let id = workspace_id(&spec)?;
                services::react(&self.layout.workspace(&id), &spec).await
            }
        }
    }

    async fn layer(&self, key: &LayerKey) -> Result<Option<Layer>, Fault> {
        Ok(layer::look(&self.layout, key))
    }

    async fn keep_tree(&self, tree: BroughtTree) -> Result<(), Fault> {
        let layout = Arc::clone(&self.layout);
        try_blocking(move || bring::keep(&layout, &tree)).await
    }

    async fn show_tree(&self, tree: SiblingTree) -> Result<(), Fault> {
        let layout = Arc::clone(&self.layout);
        try_blocking(move || siblings::show(&layout, tree)).await
    }

    async fn show_only(
        &self,
        shown: HashMap<ProjectId, HashSet<WorkspaceId>>,
    ) -> Result<(), Fault> {
        let layout = Arc::clone(&self.layout);
        try_blocking(move || siblings::show_only(&layout, &shown)).await
    }

    async fn room(&self) -> Result<Machine, Fault> {
        let layout = Arc::clone(&self.layout);
        try_blocking(move || measure::room(&layout)).await
    }

    async fn measure(&self, what: Measure) -> Result<DiskUsage, Fault> {
        let (layout, program) = (Arc::clone(&self.layout), self.program.clone());
        try_blocking(move || match what {
            Measure::Everything => measure::everything(&layout),
            Measure::Trash => measure::trash(&layout),
            Measure::Workspace(spec) => measure::workspace(&layout, &program, &spec),
            Measure::Volumes(specs) => measure::volumes(&layout, &specs),
        })
        .await
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

    async fn undo(&self, spec: &WorkspaceSpec) -> Result<(), Fault> {
        let id = workspace_id(spec)?;
        self.builds.ended(&spec.id).await;
        halt::halt(&self.layout, &id).await?;
        // A keeper that a daemon before this one started may be about to take its lock.
        let disk = |error| disk_fault(&error, format!("cannot undo workspace {id}"));
        let mut held = halt::hold(&self.layout, &id).map_err(disk)?;
        if held.is_none() {
            halt::halt(&self.layout, &id).await?;
            held = halt::hold(&self.layout, &id).map_err(disk)?;
        }
        let dir = self.layout.workspace(&id).dir;
        try_blocking(move || {
            let _held = held;
            remove_tree(&dir)
                .map_err(|error| disk_fault(&error, format!("cannot remove {}", dir.display())))
        })
        .await
    }

    async fn survey(&self, known: Known) -> Result<Survey, Fault> {
        let programs = reap::programs_in_use(&self.layout, &self.program, &known).await?;
        let layout = Arc::clone(&self.layout);
        try_blocking(move || reap::survey(&layout, &known, programs.as_ref())).await
    }

    async fn discard(&self, what: Discard) -> Result<Option<Discarded>, Fault> {
        let layout = Arc::clone(&self.layout);
        try_blocking(move || reap::discard(&layout, what)).await
    }

    async fn discarded(&self) -> Result<Vec<Discarded>, Fault> {
        let layout = Arc::clone(&self.layout);
        try_blocking(move || reap::discarded(&layout)).await
    }

    async fn delete(&self, discarded: Discarded, progress: Progress) -> Result<u64, Fault> {
        let layout = Arc::clone(&self.layout);
        try_blocking(move || reap::delete(&layout, &discarded, &progress)).await
    }
}

#[async_trait]
impl Running for LinuxDriver {
    async fn exec(&self, id: &WorkspaceId, request: ExecRequest) -> Result<ExecStream, Fault> {
        exec::exec(&self.layout.workspace(id), request).await
    }

    async fn resume(&self, id: &WorkspaceId, resume: Resume) -> Result<ExecStream, Fault> {
        exec::resume(&self.layout.workspace(id), resume).await
    }

    async fn session(&self, id: &WorkspaceId, ask: Ask) -> Result<Told, Fault> {
        sessions::ask(&self.layout.workspace(id), ask).await
    }

    async fn ended_sessions(&self, id: &WorkspaceId) -> Result<Vec<SessionStatus>, Fault> {
        Ok(sessions::ended(&self.layout.workspace(id)))
    }

    async fn attach_session(
        &self,
        id: &WorkspaceId,
        attach: Attach,
    ) -> Result<AttachStream, Fault> {
        sessions::attach(&self.layout.workspace(id), attach).await
    }

    async fn watch_sessions(&self, id: &WorkspaceId) -> Result<SessionNotices, Fault> {
        sessions::watch(&self.layout.workspace(id)).await
    }

    async fn begin_run(
        &self,
        id: &WorkspaceId,
        order: RunOrder,
    ) -> Result<mpsc::Receiver<RunSeen>, Fault> {
        let op = crate::wire::Op::Run(order);
        let seen = runs::followed(&self.layout.workspace(id), op).await?;
        seen.ok_or_else(|| keeper::keeper_fault("it is gone"))
    }

    async fn watch_run(
        &self,
        id: &WorkspaceId,
        run: &RunId,
    ) -> Result<Option<mpsc::Receiver<RunSeen>>, Fault> {
        let run = run.to_string();
        let op = crate::wire::Op::WatchRun { run };
        runs::followed(&self.layout.workspace(id), op).await
    }

    async fn cancel_run(&self, id: &WorkspaceId, run: &RunId) -> Result<(), Fault> {
        let run = run.to_string();
        let op = crate::wire::Op::CancelRun { run };
        keeper::ask(&self.layout.workspace(id), op).await.map(drop)
    }

    async fn recorded_run(&self, id: &WorkspaceId, run: &RunId) -> Result<Option<RunSeen>, Fault> {
        runs::recorded(self.run_record(id, run)).await
    }

    async fn forget_run(&self, id: &WorkspaceId, run: &RunId) -> Result<(), Fault> {
        runs::forget(self.run_record(id, run)).await
    }

    async fn dial(&self, id: &WorkspaceId, port: u16) -> io::Result<TcpStream> {
        network::dial(&self.layout.workspace(id), port).await
    }

    async fn watch_ports(&self, id: &WorkspaceId) -> Result<mpsc::Receiver<Vec<u16>>, Fault> {
        network::watch_ports(&self.layout.workspace(id)).await
    }

    async fn tell_ports(&self, id: &WorkspaceId, ports: Vec<ToldPort>) -> Result<(), Fault> {
        let op = crate::wire::Op::TellPorts(ports);
        keeper::ask(&self.layout.workspace(id), op).await.map(drop)
    }

    async fn set_egress(&self, id: &WorkspaceId, egress: &Egress) -> Result<(), Fault> {
        let op = crate::wire::Op::SetEgress(egress.clone());
        keeper::ask(&self.layout.workspace(id), op).await.map(drop)
    }

    async fn dial_out(&self, id: &WorkspaceId, host: &str, port: u16) -> io::Result<UnixStream> {
        network::dial_out(&self.layout.workspace(id), host, port).await
    }

    async fn watch_services(&self, id: &WorkspaceId) -> Result<mpsc::Receiver<Services>, Fault> {
        services::watch(&self.layout.workspace(id)).await
    }

    async fn service(&self, id: &WorkspaceId, name: &str, wish: Wish) -> Result<(), Fault> {
        services::wish(&self.layout.workspace(id), name, wish).await
    }

    async fn set_services(&self, id: &WorkspaceId, services: &[Service]) -> Result<(), Fault> {
        let op = crate::wire::Op::SetServices(services.to_vec());
        keeper::ask(&self.layout.workspace(id), op).await.map(drop)
    }

    async fn relabel(&self, id: &WorkspaceId, label: &str) -> Result<(), Fault> {
        let op = crate::wire::Op::Relabel {
            label: label.to_owned(),
        };
        keeper::ask(&self.layout.workspace(id), op).await.map(drop)
    }
}

/// One rename; having been done already is fine.
async fn move_files(from: &Path, to: &Path) -> io::Result<()> {
    match tokio::fs::rename(from, to).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound && to.exists() => Ok(()),
        moved => moved,
    }
}

/// The spec's id was an id when it was written; anything else is a damaged store.
fn workspace_id(spec: &WorkspaceSpec) -> Result<WorkspaceId, Fault> {
    WorkspaceId::parse(&spec.id).map_err(|error| corrupt(&error))
}

fn project_id(spec: &WorkspaceSpec) -> Result<ProjectId, Fault> {
    ProjectId::parse(&spec.project_id).map_err(|error| corrupt(&error))
}

fn corrupt(error: &holm_core::id::NotAnId) -> Fault {
    Fault::new(
        Code::CorruptState,
        format!("a stored workspace is damaged: {error}"),
        "holm doctor",
    )
}

/// An error of the file system as users see it.
fn disk_fault(error: &io::Error, what: String) -> Fault {
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
    Fault::new(code, format!("{what}: {error}"), hint)
}
