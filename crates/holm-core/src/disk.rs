//! What takes room on the disk, as a driver measured it. Every size is what the disk really holds:
//! holes take nothing, and a file with several names counts once.

use holm_core::layer::LayerKey;
use holm_core::trash::BaseKey;
use holm_core::{ProjectId, WorkspaceId};
use std::collections::HashMap;
use std::io;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskUsage {
    pub workspaces: HashMap<WorkspaceId, WorkspaceUsage>,
    /// By the id of what was removed.
    pub trash: HashMap<WorkspaceId, u64>,
    /// A file that several bases share counts with the first of them.
    pub bases: Vec<(BaseKey, u64)>,
    pub layers: Vec<(LayerKey, u64)>,
    pub repositories: Vec<(ProjectId, RepositoryUsage)>,
    /// Those that the workspaces of a project share, by name.
    pub volumes: Vec<(ProjectId, String, u64)>,
    /// Copies of holm that keepers run.
    pub programs: u64,
    /// What was condemned or interrupted and not deleted yet.
    pub leftovers: u64,
    /// The store, logs, and what no record knows.
    pub other: u64,
    pub free: u64,
    /// The size of the file system.
    pub size: u64,
    /// Directories that a workspace closed, and whose content is not counted.
    pub unread: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkspaceUsage {
    /// What differs from the base.
    pub upper: u64,
    pub home: u64,
    pub tmp: u64,
    /// Of forks, what differs from what they began with.
    pub volumes: u64,
    pub other: u64,
}

/// What one workspace takes by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnDisk {
    /// With home and temporary files.
    pub total: u64,
    /// What differs from the base.
    pub tree: u64,
    /// In the order of the specification: of forks, what differs from what they began with. Those
    /// that are shared are not part of the total.
    pub volumes: Vec<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RepositoryUsage {
    pub bytes: u64,
    /// The part that also has a name elsewhere, in the user's repository: deleting it here frees
    /// nothing.
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
