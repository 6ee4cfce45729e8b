//! How a workspace is made real. The engine decides and writes down; a driver acts.

use crate::exec::{ExecRequest, ExecStream, Resume};
use crate::isolation::Isolation;
use crate::run::{RunOrder, RunSeen};
use crate::service::{ServiceStatus, Services};
use crate::session::{Ask, Attach, AttachStream, SessionNotices, SessionStatus, Told};
use crate::spec::{Egress, Service, WorkspaceSpec};
use async_trait::async_trait;
use holm_core::admission::Machine;
use holm_core::config::DriverName;
use holm_core::disk::DiskUsage;
use holm_core::doctor::Check;
use holm_core::layer::{Dated, Layer, LayerKey};
use holm_core::numbers::Usage;
use holm_core::plan::{Action, Observed};
use holm_core::service::Wish;
use holm_core::trash::BaseKey;
use holm_core::{Code, Fault, ProjectId, RunId, WorkspaceId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc;

/// One action that was written to the journal. Only the engine makes these.
#[derive(Clone, Debug)]
pub struct Journaled {
    pub(crate) action: Action,
    pub(crate) spec: Arc<WorkspaceSpec>,
}

/// Where long work tells how far it is. Nobody listening is fine.
#[derive(Clone, Default)]
pub struct Progress(Option<mpsc::UnboundedSender<ProgressEvent>>);

#[derive(Clone, Debug, PartialEq)]
pub struct ProgressEvent {
    /// What is being done, in a few words (`checking out`).
    pub step: String,
    pub done: u64,
    pub total: u64,
}

/// What a driver sees of a workspace.
#[derive(Clone, Debug)]
pub struct Observation {
    pub observed: Observed,
    /// What is in force, when it runs.
    pub isolation: Option<Isolation>,
    /// Why it is not running although it once was (`init was killed`, `reboot`), when known.
    pub reason: Option<Ended>,
    /// Commands that are under way inside.
    pub commands: usize,
    /// The services; of one that does not run, how they were when it ended.
    pub services: Vec<ServiceStatus>,
    /// What left and came through its gateway since it was started, when it runs.
    pub carried: Option<Carried>,
    pub tip: Tip,
}

/// Where HEAD inside is, as far as that is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tip {
    /// The commit.
    pub head: Option<String>,
    /// Without `refs/heads/`; there is none while HEAD is detached.
    pub branch: Option<String>,
}

/// Bytes through a workspace's gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carried {
    pub bytes_in: u64,
    pub bytes_out: u64,
}

/// What a driver renames away, so that no other operation finds it, and then deletes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Discard {
    /// A workspace's files in the trash.
    Workspace(WorkspaceId),
    Base(BaseKey),
    Layer(LayerKey),
    /// All that there is of a project on this side.
    Project(ProjectId),
    /// One that a [`Survey`] named.
    Leftover(Leftover),
}

/// Files of interrupted work or of an earlier program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// Only the driver that gave the name knows what it stands for.
    pub name: String,
    /// What users see.
    pub shown: String,
}

/// Files that were renamed away, by the name they have now. The name of a workspace is its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discarded(String);

/// What the records know.
#[derive(Clone, Debug, Default)]
pub struct Known {
    pub projects: HashSet<ProjectId>,
    pub workspaces: HashSet<WorkspaceId>,
    pub trashed: HashSet<WorkspaceId>,
}

/// What lies on the disk.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// With the time at which each was built, since the epoch.
    pub bases: Vec<(BaseKey, Duration)>,
    pub layers: Vec<(LayerKey, Duration)>,
    /// They hold nothing of a user.
    pub leftovers: Vec<Leftover>,
    /// Files among those of workspaces that belong to no record, as users see them.
    pub unknown: Vec<String>,
}

/// What of the disk a driver measures.
#[derive(Clone, Debug)]
pub enum Measure {
    Everything,
    Trash,
    /// One workspace by itself, with directories that it closed.
    Workspace(Arc<WorkspaceSpec>),
    /// The volumes of these workspaces, without directories that they closed.
    Volumes(Vec<Arc<WorkspaceSpec>>),
}

/// A tree that a client brought, to become a layer: build output, or a snapshot of a cache. The
/// paths are those of files that the daemon received.
#[derive(Clone, Debug)]
pub struct BroughtTree {
    pub layer: LayerKey,
    /// Has the directory `tree`, which the client may have filled. The driver takes it away.
    pub directory: PathBuf,
    /// An archive of the files, of a client that could not fill the directory.
    pub archive: Option<PathBuf>,
    /// When the files of the client's checkout were changed.
    pub dates: Vec<Dated>,
}

/// The tree of a workspace, which other workspaces of its project may read.
#[derive(Debug)]
pub struct SiblingTree {
    pub project: ProjectId,
    pub workspace: WorkspaceId,
    /// A tar archive.
    pub archive: mpsc::Receiver<Piece>,
}

/// A part of an archive. Without the end the archive is not whole.
#[derive(Debug)]
pub enum Piece {
    Bytes(Vec<u8>),
    End,
}

/// A port of a workspace as `holm here` shows it inside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToldPort {
    pub name: String,
    pub port: u16,
    pub host_port: Option<u16>,
    pub url: Option<String>,
    /// Whether `localhost:<port>` of the host leads here.
    pub canonical: bool,
    /// declared discovered
    pub source: String,
}

/// How the last run of a workspace's processes ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    /// The machine was started anew since.
    Reboot,
    /// Its keeper stopped it, because it took more disk than it may.
    DiskLimit,
    /// It ended by itself or by force; says how.
    Died(String),
}

/// Makes workspaces real, looks at them and deletes them.
#[async_trait]
pub trait Driver: Running {
    /// The name users see (`linux`).
    fn name(&self) -> DriverName;

    /// Whether this machine is fit, found by trying.
    async fn probe(&self) -> Result<Vec<Check>, Fault>;

    /// Refuses a spec that could not be started.
    fn check(&self, spec: &WorkspaceSpec) -> Result<(), Fault>;

    /// Looks, changes nothing.
    async fn observe(&self, spec: &WorkspaceSpec) -> Result<Observation, Fault>;

    /// Does one journaled action. Dropping the future cancels it; what it left is `Partial`.
    async fn apply(&self, journaled: Journaled, progress: Progress) -> Result<(), Fault>;

    /// A layer that was built or brought; `None`: it is not there.
    async fn layer(&self, key: &LayerKey) -> Result<Option<Layer>, Fault>;

    /// Makes a layer of a tree that a client brought, unless the layer is there by now.
    async fn keep_tree(&self, tree: BroughtTree) -> Result<(), Fault>;

    /// Shows a tree to the workspaces of its project, in place of the one it showed before.
    async fn show_tree(&self, tree: SiblingTree) -> Result<(), Fault>;

    /// Hides the trees of all workspaces but these.
    async fn show_only(&self, shown: HashMap<ProjectId, HashSet<WorkspaceId>>)
    -> Result<(), Fault>;

    /// What the machine has, and how much of its disk is free.
    async fn room(&self) -> Result<Machine, Fault>;

    async fn measure(&self, what: Measure) -> Result<DiskUsage, Fault>;

    /// The processor time and memory of each workspace; `None` of one that does not run.
    async fn usage(&self, ids: &[WorkspaceId]) -> Result<Vec<Option<Usage>>, Fault>;

    /// Removes a workspace that was never acknowledged to a user.
    async fn undo(&self, spec: &WorkspaceSpec) -> Result<(), Fault>;

    /// Looks for what could go. Nothing is being made or started meanwhile.
    async fn survey(&self, known: Known) -> Result<Survey, Fault>;

    /// Renames something away, in one step; `None` when it is not there.
    async fn discard(&self, what: Discard) -> Result<Option<Discarded>, Fault>;

    /// Everything that was discarded and is not deleted yet.
    async fn discarded(&self) -> Result<Vec<Discarded>, Fault>;

    /// Deletes files that were discarded; returns how many bytes the disk got back.
    async fn delete(&self, discarded: Discarded, progress: Progress) -> Result<u64, Fault>;
}

/// What can be asked of the processes of a workspace, and of what they left behind.
#[async_trait]
pub trait Running: Send + Sync + 'static {
    /// Runs a command inside a running workspace.
    async fn exec(&self, id: &WorkspaceId, request: ExecRequest) -> Result<ExecStream, Fault>;

    /// Goes on with a command whose client lost its daemon.
    async fn resume(&self, id: &WorkspaceId, resume: Resume) -> Result<ExecStream, Fault>;

    /// Asks something of the sessions of a running workspace.
    async fn session(&self, id: &WorkspaceId, ask: Ask) -> Result<Told, Fault>;

    /// The sessions that a workspace had when it last ran, all of them ended.
    async fn ended_sessions(&self, id: &WorkspaceId) -> Result<Vec<SessionStatus>, Fault>;

    async fn attach_session(&self, id: &WorkspaceId, attach: Attach)
    -> Result<AttachStream, Fault>;

    /// Tells what happens to sessions, what was not written down yet first. The stream ends with the
    /// workspace's processes.
    async fn watch_sessions(&self, id: &WorkspaceId) -> Result<SessionNotices, Fault>;

    /// Begins a run in a running workspace, and tells how it is: at once, and whenever that changes. The
    /// stream ends with the run or the workspace. The run goes on without it, and is not begun again.
    async fn begin_run(
        &self,
        id: &WorkspaceId,
        order: RunOrder,
    ) -> Result<mpsc::Receiver<RunSeen>, Fault>;

    /// The same, of one that was begun before. `None`: nothing of the workspace runs.
    async fn watch_run(
        &self,
        id: &WorkspaceId,
        run: &RunId,
    ) -> Result<Option<mpsc::Receiver<RunSeen>>, Fault>;

    /// Ends every process of a run; does not wait for it.
    async fn cancel_run(&self, id: &WorkspaceId, run: &RunId) -> Result<(), Fault>;

    /// How a run was when that was last written down; `None`: it never began.
    async fn recorded_run(&self, id: &WorkspaceId, run: &RunId) -> Result<Option<RunSeen>, Fault>;

    /// Deletes what there is of a run that has ended.
    async fn forget_run(&self, id: &WorkspaceId, run: &RunId) -> Result<(), Fault>;

    /// Connects to a port of a running workspace's own loopback.
    async fn dial(&self, id: &WorkspaceId, port: u16) -> io::Result<TcpStream>;

    /// Tells what listens inside: at once, and whenever it changes. The stream ends with the
    /// workspace's processes.
    async fn watch_ports(&self, id: &WorkspaceId) -> Result<mpsc::Receiver<Vec<u16>>, Fault>;

    /// Tells a running workspace how its ports are reached, for whoever asks inside.
    async fn tell_ports(&self, id: &WorkspaceId, ports: Vec<ToldPort>) -> Result<(), Fault>;

    /// Changes where a running workspace's gateway may go; what is no longer allowed is cut.
    async fn set_egress(&self, id: &WorkspaceId, egress: &Egress) -> Result<(), Fault>;

    /// Connects outward as the workspace may, through its gateway.
    async fn dial_out(&self, id: &WorkspaceId, host: &str, port: u16) -> io::Result<UnixStream>;

    /// Tells how the services are: at once, and whenever it changes. The stream ends with the
    /// workspace's processes.
    async fn watch_services(&self, id: &WorkspaceId) -> Result<mpsc::Receiver<Services>, Fault>;

    /// Starts, stops or restarts one service of a running workspace; does not wait for it.
    async fn service(&self, id: &WorkspaceId, name: &str, wish: Wish) -> Result<(), Fault>;

    /// These are the services of a running workspace from now on: new ones are started, others ended,
    /// changed ones started anew. Does not wait for them.
    async fn set_services(&self, id: &WorkspaceId, services: &[Service]) -> Result<(), Fault>;

    /// Tells a running workspace its new label (display only).
    async fn relabel(&self, id: &WorkspaceId, label: &str) -> Result<(), Fault>;
}

/// The drivers of this daemon by name. A workspace's spec names its driver.
#[derive(Clone, Default)]
pub struct Drivers(BTreeMap<&'static str, Arc<dyn Driver>>);

// === impl Drivers ===

impl Drivers {
    pub fn of(drivers: impl IntoIterator<Item = Arc<dyn Driver>>) -> Self {
        let named = drivers.into_iter();
        Self(
            named
                .map(|driver| (driver.name().as_str(), driver))
                .collect(),
        )
    }

    pub fn get(&self, name: DriverName) -> Option<&Arc<dyn Driver>> {
        self.0.get(name.as_str())
    }

    /// As [`get`](Self::get), for a name that a user wrote.
    pub fn require(&self, name: DriverName) -> Result<&Arc<dyn Driver>, Fault> {
        self.get(name).ok_or_else(|| {
            let known: Vec<_> = self
                .0
                .keys()
                .map(|name| format!("`driver = \"{name}\"`"))
                .collect();
            Fault::new(
                Code::DriverUnavailable,
                format!("the driver `{}` is not available here", name.as_str()),
                format!(
                    "use {} in [project] of holm.toml, or leave it out",
                    known.join(" or ")
                ),
            )
        })
    }

    pub fn all(&self) -> impl Iterator<Item = &Arc<dyn Driver>> {
        self.0.values()
    }
}

// === impl Discarded ===

impl Discarded {
    pub fn new(name: String) -> Self {
        Self(name)
    }

    pub fn name(&self) -> &str {
        &self.0
    }
}

// === impl Journaled ===

impl Journaled {
    pub fn action(&self) -> Action {
        self.action
    }

    pub fn spec(&self) -> &Arc<WorkspaceSpec> {
        &self.spec
    }
}

// === impl Progress ===

impl Progress {
    pub fn to(sender: mpsc::UnboundedSender<ProgressEvent>) -> Self {
        Self(Some(sender))
    }

    pub fn tell(&self, step: &str, done: u64, total: u64) {
        if let Some(sender) = &self.0 {
            // A listener that went away is not a reason to stop.
            let _ = sender.send(ProgressEvent {
                step: step.to_owned(),
                done,
                total,
            });
        }
    }
}
