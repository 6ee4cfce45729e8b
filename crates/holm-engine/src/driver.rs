//! How a workspace is made real. The engine decides and writes down; a driver acts.

use crate::exec::{ExecRequest, ExecStream, Resume};
use crate::isolation::Isolation;
use crate::run::{RunOrder, RunSeen};
use crate::service::{ServiceStatus, Services};
use crate::session::{Ask, Attach, AttachStream, SessionNotices, SessionStatus, Told};
use crate::spec::{Egress, Service, WorkspaceSpec};
use holm_core::layer::LayerKey;
use holm_core::plan::{Action, Observed};
use holm_core::service::Wish;
use holm_core::trash::BaseKey;
use holm_core::{Fault, ProjectId, RunId, WorkspaceId};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::future::Future;
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

/// What a driver saw of a workspace.
#[derive(Clone, Debug)]
pub struct Sighting {
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

/// What is to be renamed away, so that nobody finds it any more, and then deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condemn {
    /// A workspace's files in the trash.
    Workspace(WorkspaceId),
    Base(BaseKey),
    Layer(LayerKey),
    /// All that there is of a project on this side.
    Project(ProjectId),
    /// One that a [`Survey`] named.
    Leftover(PathBuf),
}

/// What was renamed away, by the name it has now; of a workspace that is its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condemned(String);

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
    /// Of interrupted work and earlier programs; nothing of a user is in them.
    pub leftovers: Vec<PathBuf>,
    /// What is where workspaces are and belongs to no record.
    pub unknown: Vec<PathBuf>,
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

pub trait Driver: Send + Sync + 'static {
    /// The name users see (`linux`).
    fn name(&self) -> &'static str;

    /// Looks, changes nothing.
    fn observe(&self, spec: &WorkspaceSpec)
    -> impl Future<Output = Result<Sighting, Fault>> + Send;

    /// Does one journaled action. Dropping the future cancels it; what it left is `Partial`.
    fn apply(
        &self,
        journaled: Journaled,
        progress: Progress,
    ) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Whether a layer is there.
    fn has_layer(&self, layer: &LayerKey) -> impl Future<Output = Result<bool, Fault>> + Send;

    /// Runs a command inside a running workspace.
    fn exec(
        &self,
        id: &WorkspaceId,
        request: ExecRequest,
    ) -> impl Future<Output = Result<ExecStream, Fault>> + Send;

    /// Goes on with a command whose client lost its daemon.
    fn resume(
        &self,
        id: &WorkspaceId,
        resume: Resume,
    ) -> impl Future<Output = Result<ExecStream, Fault>> + Send;

    /// Asks something of the sessions of a running workspace.
    fn session(
        &self,
        id: &WorkspaceId,
        ask: Ask,
    ) -> impl Future<Output = Result<Told, Fault>> + Send;

    /// The sessions that a workspace had when it last ran, all of them ended.
    fn ended_sessions(
        &self,
        id: &WorkspaceId,
    ) -> impl Future<Output = Result<Vec<SessionStatus>, Fault>> + Send;

    fn attach_session(
        &self,
        id: &WorkspaceId,
        attach: Attach,
    ) -> impl Future<Output = Result<AttachStream, Fault>> + Send;

    /// Tells what happens to sessions, what was not written down yet first. The stream ends with the
    /// workspace's processes.
    fn watch_sessions(
        &self,
        id: &WorkspaceId,
    ) -> impl Future<Output = Result<SessionNotices, Fault>> + Send;

    /// Begins a run in a running workspace, and tells how it is: at once, and whenever that changes. The
    /// stream ends with the run or the workspace. The run goes on without it, and is not begun again.
    fn begin_run(
        &self,
        id: &WorkspaceId,
        order: RunOrder,
    ) -> impl Future<Output = Result<mpsc::Receiver<RunSeen>, Fault>> + Send;

    /// The same, of one that was begun before. `None`: nothing of the workspace runs.
    fn watch_run(
        &self,
        id: &WorkspaceId,
        run: &RunId,
    ) -> impl Future<Output = Result<Option<mpsc::Receiver<RunSeen>>, Fault>> + Send;

    /// Ends every process of a run; does not wait for it.
    fn cancel_run(
        &self,
        id: &WorkspaceId,
        run: &RunId,
    ) -> impl Future<Output = Result<(), Fault>> + Send;

    /// How a run was when that was last written down; `None`: it never began.
    fn recorded_run(
        &self,
        id: &WorkspaceId,
        run: &RunId,
    ) -> impl Future<Output = Result<Option<RunSeen>, Fault>> + Send;

    /// Deletes what there is of a run that has ended.
    fn forget_run(
        &self,
        id: &WorkspaceId,
        run: &RunId,
    ) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Connects to a port of a running workspace's own loopback.
    fn dial(
        &self,
        id: &WorkspaceId,
        port: u16,
    ) -> impl Future<Output = io::Result<TcpStream>> + Send;

    /// Tells what listens inside: at once, and whenever it changes. The stream ends with the
    /// workspace's processes.
    fn watch_ports(
        &self,
        id: &WorkspaceId,
    ) -> impl Future<Output = Result<mpsc::Receiver<Vec<u16>>, Fault>> + Send;

    /// Tells a running workspace how its ports are reached, for whoever asks inside.
    fn tell_ports(
        &self,
        id: &WorkspaceId,
        ports: Vec<ToldPort>,
    ) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Changes where a running workspace's gateway may go; what is no longer allowed is cut.
    fn set_egress(
        &self,
        id: &WorkspaceId,
        egress: &Egress,
    ) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Connects outward as the workspace may, through its gateway.
    fn dial_out(
        &self,
        id: &WorkspaceId,
        host: &str,
        port: u16,
    ) -> impl Future<Output = io::Result<UnixStream>> + Send;

    /// Tells how the services are: at once, and whenever it changes. The stream ends with the
    /// workspace's processes.
    fn watch_services(
        &self,
        id: &WorkspaceId,
    ) -> impl Future<Output = Result<mpsc::Receiver<Services>, Fault>> + Send;

    /// Starts, stops or restarts one service of a running workspace; does not wait for it.
    fn service(
        &self,
        id: &WorkspaceId,
        name: &str,
        wish: Wish,
    ) -> impl Future<Output = Result<(), Fault>> + Send;

    /// These are the services of a running workspace from now on: new ones are started, others ended,
    /// changed ones started anew. Does not wait for them.
    fn set_services(
        &self,
        id: &WorkspaceId,
        services: &[Service],
    ) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Tells a running workspace its new label (display only).
    fn relabel(
        &self,
        id: &WorkspaceId,
        label: &str,
    ) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Throws away a workspace that was never acknowledged to anybody.
    fn discard(&self, spec: &WorkspaceSpec) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Looks for what could go. Nothing is being made or started meanwhile.
    fn survey(&self, known: Known) -> impl Future<Output = Result<Survey, Fault>> + Send;

    /// Renames something away, in one step; `None` when it is not there.
    fn condemn(
        &self,
        what: Condemn,
    ) -> impl Future<Output = Result<Option<Condemned>, Fault>> + Send;

    /// Everything that was condemned and not deleted yet.
    fn condemned(&self) -> impl Future<Output = Result<Vec<Condemned>, Fault>> + Send;

    /// Deletes what was condemned; says how many bytes the disk got back.
    fn reap(
        &self,
        condemned: Condemned,
        progress: Progress,
    ) -> impl Future<Output = Result<u64, Fault>> + Send;
}

// === impl Condemned ===

impl Condemned {
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
