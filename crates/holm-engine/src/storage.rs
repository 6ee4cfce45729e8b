//! The part of a driver that keeps files for many workspaces: layers, shared trees, the trash and what can be deleted.

use crate::progress::Progress;
use async_trait::async_trait;
use holm_core::admission::Machine;
use holm_core::disk::DiskUsage;
use holm_core::layer::{FileDate, InstalledLock, Layer, LayerKey};
use holm_core::spec::WorkspaceSpec;
use holm_core::trash::BaseKey;
use holm_core::{Fault, ProjectId, WorkspaceId};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// What to rename away, and then delete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leftover {
    /// Only the driver that gave the name knows what it stands for.
    pub name: String,
    /// What users see.
    pub shown: String,
}

/// Files that were renamed away, by the name they have now. The name of a workspace is its id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Discarded(String);

/// What the store knows.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Known {
    pub projects: HashSet<ProjectId>,
    pub workspaces: HashSet<WorkspaceId>,
    pub trashed: HashSet<WorkspaceId>,
}

/// What is on disk.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
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
#[derive(Clone, Debug, Serialize, Deserialize)]
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

/// Keeps the files of workspaces, measures them and deletes them.
#[async_trait]
pub trait Storage: Send + Sync + 'static {
    /// The files of a commit that holm reads (`holm_git::COMMIT_FILES`), if the driver has them at hand; `None` for one that
    /// the commit does not have.
    fn commit_files(&self, _: &ProjectId, _commit: &str) -> Option<Vec<Option<Vec<u8>>>> {
        None
    }

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

    /// Looks for what could go. Nothing is being made or started meanwhile.
    async fn survey(&self, known: Known) -> Result<Survey, Fault>;

    /// Renames something away, in one step; `None` when it is not there.
    async fn discard(&self, what: Discard) -> Result<Option<Discarded>, Fault>;

    /// Everything that was discarded and is not deleted yet.
    async fn discarded(&self) -> Result<Vec<Discarded>, Fault>;

    /// Deletes files that were discarded; returns how many bytes the disk got back.
    async fn delete(&self, discarded: Discarded, progress: Progress) -> Result<u64, Fault>;
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
