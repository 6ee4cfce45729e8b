//! The trait that makes workspaces real. The engine decides and journals; a driver acts.

use async_trait::async_trait;
use holm_core::admission::Machine;
use holm_core::config::DriverName;
use holm_core::disk::DiskUsage;
use holm_core::egress::Carried;
use holm_core::fitness::Check;
use holm_core::head::Tip;
use holm_core::isolation::Isolation;
use holm_core::layer::{FileDate, InstalledLock, Layer, LayerKey};
use holm_core::numbers::Usage;
use holm_core::plan::{Action, Base, Files, Keeper, Observed};
use holm_core::service::status::ServiceStatus;
use holm_core::spec::WorkspaceSpec;
use holm_core::state::Ended;
use holm_core::trash::BaseKey;
use holm_core::{Code, Fault, ProjectId, WorkspaceId};
use holm_keeper::client::KeeperClient;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// An action that was written to the journal. Only the engine can construct it.
#[derive(Clone, Debug)]
pub struct Journaled {
    pub(crate) action: Action,
    pub(crate) spec: Arc<WorkspaceSpec>,
}

/// Reports the progress of long work. Without a listener the reports are dropped.
#[derive(Clone, Default)]
pub struct Progress(Option<mpsc::UnboundedSender<ProgressEvent>>);

#[derive(Clone, Debug, PartialEq)]
pub struct ProgressEvent {
    /// The current step in a few words (`checking out`).
    pub step: String,
    pub done: u64,
    pub total: u64,
}

/// What a driver sees of a workspace.
#[derive(Clone, Debug)]
pub struct Observation {
    pub observed: Observed,
    /// The isolation in force, when it runs.
    pub isolation: Option<Isolation>,
    /// Why it does not run although it did (`init was killed`, `reboot`), if known.
    pub reason: Option<Ended>,
    /// The number of running commands.
    pub commands: usize,
    /// The services; if it does not run, their state when it ended.
    pub services: Vec<ServiceStatus>,
    /// Bytes through its gateway since it was started, when it runs.
    pub carried: Option<Carried>,
    pub tip: Tip,
}

/// How the writable layer of a workspace's tree looks from outside.
#[derive(Clone, Debug)]
pub struct Upper {
    /// Equal digests: no file of the tree, of git or of its settings changed in between, if the
    /// first look was [`Stillness::Still`].
    pub files: [u8; 32],
    /// The same for git's objects, which git inside adds when it records a tree.
    pub objects: [u8; 32],
    pub stillness: Stillness,
}

/// Whether a change right after a look is certain to show in the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stillness {
    Still,
    /// The last change is so fresh that another one could have the same time; look again after this.
    After(Duration),
    /// Programs inside may be in the middle of a change.
    No,
}

/// What the writable layer of a workspace's tree has, without what the rules of the base ignore. Paths are
/// relative to the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LayerChanges {
    /// Files and symlinks.
    pub files: Vec<Vec<u8>>,
    /// Paths whose entries in the base are deleted: whiteouts, and directories that replace those of the base.
    pub gone: Vec<Vec<u8>>,
    /// Repositories of their own, which the base does not have.
    pub nested: Vec<Vec<u8>>,
    /// What could not be looked at, or is neither file, symlink nor directory.
    pub unread: Vec<Vec<u8>>,
    /// Equal digests: the same entries with the same times.
    pub digest: [u8; 32],
}

/// A file of the writable layer as git would store it, without filters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blob {
    Is {
        id: String,
        /// The id with LF line ends, if there are others.
        with_plain_lines: Option<String>,
        /// As in git's trees.
        mode: u32,
    },
    Absent,
    Unread,
    TooLarge,
}

/// What programs of a workspace left outside of its tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traces {
    /// A digest of the names, sizes and times of each volume's files.
    pub volumes: BTreeMap<String, String>,
    /// Files that changed since the time that was asked for.
    pub outside: Vec<OutsideFiles>,
    /// Everything that runs, besides init.
    pub processes: Vec<RunningProcess>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutsideFiles {
    /// A file or a directory, as programs inside see it.
    pub path: String,
    pub files: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningProcess {
    /// The pid inside.
    pub pid: u32,
    pub command: String,
    pub service: Option<String>,
}

/// What to rename away, and then delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Discard {
    /// A workspace's files in the trash.
    Workspace(WorkspaceId),
    Base(BaseKey),
    Layer(LayerKey),
    /// All files of a project.
    Project(ProjectId),
    /// A leftover that a [`Survey`] found.
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

/// What the store knows.
#[derive(Clone, Debug, Default)]
pub struct Known {
    pub projects: HashSet<ProjectId>,
    pub workspaces: HashSet<WorkspaceId>,
    pub trashed: HashSet<WorkspaceId>,
}

/// What is on disk.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// With the build time of each, since the epoch.
    pub bases: Vec<(BaseKey, Duration)>,
    pub layers: Vec<(LayerKey, Duration)>,
    /// They contain no user data.
    pub leftovers: Vec<Leftover>,
    /// Files among the workspaces that belong to no record, as users see them.
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
    pub dates: Vec<FileDate>,
    /// Lock files whose packages are all in the tree.
    pub installed: Vec<InstalledLock>,
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

/// Makes workspaces real, looks at them and deletes them.
#[async_trait]
pub trait Driver: Send + Sync + 'static {
    /// The name users see (`linux`).
    fn name(&self) -> DriverName;

    /// Whether this machine is fit, found by trying.
    async fn probe(&self) -> Result<Vec<Check>, Fault>;

    /// The client of a workspace's keeper. It also reads the records of a workspace that does not run.
    fn keeper(&self, id: &WorkspaceId) -> KeeperClient;

    /// Refuses a spec that could not be started.
    fn check(&self, spec: &WorkspaceSpec) -> Result<(), Fault>;

    /// Observes a workspace without changing it.
    async fn observe(&self, spec: &WorkspaceSpec) -> Result<Observation, Fault>;

    /// HEAD of a workspace, as its files say it now.
    fn tip(&self, id: &WorkspaceId) -> Tip;

    /// The processor time that the keeper and the processes of a workspace have used, as far as that costs next to nothing
    /// to say. Two equal times: none of them ran in between, so none of them changed anything.
    fn processor_time(&self, id: &WorkspaceId) -> Option<Duration>;

    /// Does one journaled action. Dropping the future cancels it; what it left is `Partial`. A launch may return what
    /// its keeper reported, which saves an observation.
    async fn apply(
        &self,
        journaled: Journaled,
        progress: Progress,
    ) -> Result<Option<Observation>, Fault>;

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

    /// Looks at the writable layer of a running workspace's tree, without the given paths, which git
    /// ignores. `None`: the look would not show every change, or the driver has no such layer.
    async fn upper(&self, _spec: &WorkspaceSpec, _ignored: Arc<HashSet<Vec<u8>>>) -> Option<Upper> {
        None
    }

    /// Lists the writable layer of a workspace's tree. `None`: the driver has no such layer, or it has too
    /// many entries.
    async fn layer_changes(&self, _spec: &WorkspaceSpec) -> Result<Option<LayerChanges>, Fault> {
        Ok(None)
    }

    /// The files of the writable layer as git would store them, in order. Only after
    /// [`layer_changes`](Self::layer_changes) listed them.
    async fn blobs(&self, _spec: &WorkspaceSpec, paths: Vec<Vec<u8>>) -> Result<Vec<Blob>, Fault> {
        Ok(paths.iter().map(|_| Blob::Unread).collect())
    }

    /// What programs of a workspace left outside of its tree, since a time after the epoch.
    async fn traces(&self, _spec: &WorkspaceSpec, _since: Duration) -> Result<Traces, Fault> {
        Ok(Traces::default())
    }

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

// === impl Observation ===

impl Observation {
    /// Of a workspace that does not exist.
    pub(crate) fn nothing() -> Self {
        Self {
            observed: Observed {
                base: Base::Absent,
                files: Files::Absent,
                keeper: Keeper::Absent,
            },
            isolation: None,
            reason: None,
            services: Vec::new(),
            commands: 0,
            carried: None,
            tip: Tip::default(),
        }
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

    pub fn report(&self, step: &str, done: u64, total: u64) {
        if let Some(sender) = &self.0 {
            // A listener that has gone does not stop the work.
            let _ = sender.send(ProgressEvent {
                step: step.to_owned(),
                done,
                total,
            });
        }
    }
}
