//! The trait that makes workspaces real. The engine decides and journals; a driver acts. [`Storage`] is the part of a driver
//! that keeps files for many workspaces.

use crate::progress::Progress;
use crate::storage::Storage;
use async_trait::async_trait;
use holm_core::config::DriverName;
use holm_core::egress::Carried;
use holm_core::fitness::Check;
use holm_core::head::Tip;
use holm_core::isolation::Isolation;
use holm_core::numbers::Usage;
use holm_core::plan::{Action, Base, Files, Keeper, Observed};
use holm_core::service::status::ServiceStatus;
use holm_core::spec::WorkspaceSpec;
use holm_core::state::Ended;
use holm_core::{Code, Fault, WorkspaceId};
use holm_keeper::client::KeeperClient;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// An action that was written to the journal. Only the engine can construct it.
#[derive(Clone, Debug)]
pub struct Journaled {
    pub(crate) action: Action,
    pub(crate) spec: Arc<WorkspaceSpec>,
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
    /// How each of them looked, in the same order; `None`: it changed so shortly before that a later change
    /// could look the same.
    pub stamps: Vec<Option<Stamp>>,
    /// Paths whose entries in the base are deleted: whiteouts, and directories that replace those of the base.
    pub gone: Vec<Vec<u8>>,
    /// Repositories of their own, which the base does not have.
    pub nested: Vec<Vec<u8>>,
    /// What could not be looked at, or is neither file, symlink nor directory.
    pub unread: Vec<Vec<u8>>,
    /// Equal digests: the same entries with the same times.
    pub digest: [u8; 32],
}

/// What the kernel says of a file. A program inside can set the time of modification, and none of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    pub inode: u64,
    pub size: u64,
    pub mode: u32,
    /// Seconds and nanoseconds of the last change.
    pub changed: (i64, u64),
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
    /// The volumes that changed since the time that was asked for.
    pub volumes: Vec<ChangedVolume>,
    /// Files that changed since the time that was asked for.
    pub outside: Vec<OutsideFiles>,
    /// Everything that runs, besides init.
    pub processes: Vec<RunningProcess>,
}

/// From when on changes are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// The workspace was created at this time. A volume counts from the moment that it had its first content.
    Creation(Duration),
    /// A turn was recorded at this time. A volume that was replaced since then has changed.
    Turn(Duration),
}

/// A volume whose files changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedVolume {
    pub name: String,
    /// Files that were written; none if files were only deleted.
    pub files: u64,
    /// It was reset, or restored from a snapshot.
    pub is_replaced: bool,
    /// Other workspaces write it too.
    pub is_shared: bool,
    /// Holm did not look at all of its files: there are too many, or some cannot be read.
    pub is_partial: bool,
    /// The services that name its path in their command or environment, or whose image it is mounted into.
    pub services: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutsideFiles {
    /// A file or a directory, as programs inside see it.
    pub path: String,
    pub files: u64,
    /// Holm did not look at all files of this directory: there are too many, or some cannot be read.
    pub is_partial: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningProcess {
    /// The pid inside.
    pub pid: u32,
    pub command: String,
    pub service: Option<String>,
}

/// Makes workspaces real, starts, observes and ends them.
#[async_trait]
pub trait Driver: Storage {
    /// The name users see (`linux`).
    fn name(&self) -> DriverName;

    /// Whether this machine is fit, found by trying.
    async fn probe(&self) -> Result<Vec<Check>, Fault>;

    /// The client of a workspace's keeper. It also reads the records of a workspace that does not run.
    fn keeper(&self, id: &WorkspaceId) -> KeeperClient;

    /// Refuses a spec that could not be started.
    fn check(&self, spec: &WorkspaceSpec) -> Result<(), Fault>;

    /// What does not work in this workspace as its configuration may expect it, in sentences.
    async fn shortcomings(&self, _spec: &WorkspaceSpec) -> Vec<String> {
        Vec::new()
    }

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
    async fn traces(&self, spec: &WorkspaceSpec, since: Since) -> Result<Traces, Fault>;

    /// A digest of the names, sizes and times of the files of each volume; `None`: not all of them can be read.
    async fn volume_digests(
        &self,
        spec: &WorkspaceSpec,
    ) -> Result<BTreeMap<String, Option<String>>, Fault>;

    /// Removes a workspace that was never acknowledged to a user.
    async fn undo(&self, spec: &WorkspaceSpec) -> Result<(), Fault>;
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

// === impl Journaled ===

impl Journaled {
    pub fn action(&self) -> Action {
        self.action
    }

    pub fn spec(&self) -> &Arc<WorkspaceSpec> {
        &self.spec
    }
}
