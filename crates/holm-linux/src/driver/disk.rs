//! Disk use as a driver measured it. All sizes are bytes allocated on disk: holes count nothing,
//! and a file with several hard links counts once.

use holm_core::layer::LayerKey;
use holm_core::trash::BaseKey;
use holm_core::{ProjectId, WorkspaceId};
use std::collections::HashMap;
use std::io;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskUsage {
    pub workspaces: HashMap<WorkspaceId, WorkspaceUsage>,
    /// By workspace id.
    pub trash: HashMap<WorkspaceId, u64>,
    /// A file that several bases share counts for the first of them.
    pub bases: Vec<(BaseKey, u64)>,
    pub layers: Vec<(LayerKey, u64)>,
    pub repositories: Vec<(ProjectId, RepositoryUsage)>,
    /// Shared volumes of projects, by name.
    pub volumes: Vec<(ProjectId, String, u64)>,
    /// Copies of holm that keepers run.
    pub programs: u64,
    /// Interrupted work, and data that is being deleted.
    pub leftovers: u64,
    /// The store, logs, and files that no record knows.
    pub other: u64,
    pub free: u64,
    /// The size of the file system.
    pub size: u64,
    /// Closed directories of workspaces, whose content is not counted.
    pub unread: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkspaceUsage {
    /// Differences from the base.
    pub upper: u64,
    pub home: u64,
    pub tmp: u64,
    /// For forks, differences from their origin.
    pub volumes: u64,
    pub other: u64,
}

/// The disk use of one workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnDisk {
    /// Including home and temporary files.
    pub total: u64,
    /// Differences from the base.
    pub tree: u64,
    /// In the order of the spec; for forks, differences from their origin. Shared ones are not part
    /// of the total.
    pub volumes: Vec<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RepositoryUsage {
    pub bytes: u64,
    /// The part that is hard-linked with the user's repository: deleting it here frees nothing.
    pub shared: u64,
}

// === impl OwnDisk ===

impl OwnDisk {
    /// From the sizes of the whole, of the tree and of each volume.
    pub fn of(mut sizes: Vec<u64>) -> io::Result<Self> {
        if sizes.len() < 2 {
            return Err(io::Error::other("the measuring process said too little"));
        }
        let volumes = sizes.split_off(2);
        Ok(Self {
            total: sizes[0],
            tree: sizes[1],
            volumes,
        })
    }
}

// === impl WorkspaceUsage ===

impl WorkspaceUsage {
    pub fn total(&self) -> u64 {
        self.upper + self.home + self.tmp + self.volumes + self.other
    }
}

// === impl DiskUsage ===

impl DiskUsage {
    pub fn total(&self) -> u64 {
        let workspaces = self.workspaces.values().map(WorkspaceUsage::total);
        let bases = self.bases.iter().map(|(_, bytes)| bytes);
        let layers = self.layers.iter().map(|(_, bytes)| bytes);
        let repositories = self.repositories.iter().map(|(_, usage)| usage.bytes);
        let volumes = self.volumes.iter().map(|(_, _, bytes)| bytes);
        workspaces.sum::<u64>()
            + volumes.sum::<u64>()
            + self.trash.values().sum::<u64>()
            + bases.sum::<u64>()
            + layers.sum::<u64>()
            + repositories.sum::<u64>()
            + self.programs
            + self.leftovers
            + self.other
    }
}
