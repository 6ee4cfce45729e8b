//! What takes room on the disk, as a driver measured it. Every size is what the disk really holds:
//! holes take nothing, and a file with several names counts once.

use crate::layer::LayerKey;
use crate::trash::BaseKey;
use crate::{ProjectId, WorkspaceId};
use std::collections::HashMap;

/// A driver fills in the fields that it was asked for; the others are empty.
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
    /// Files of interrupted work, and files that are discarded and not deleted yet.
    pub leftovers: u64,
    /// The store, logs, and what no record knows.
    pub other: u64,
    /// Directories that a workspace closed, and whose content is not counted.
    pub unread: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkspaceUsage {
    /// The files that differ from the base.
    pub tree: u64,
    pub home: u64,
    pub tmp: u64,
    /// Of a forked volume, what differs from its seed.
    pub volumes: u64,
    pub other: u64,
    /// The size of each volume in the order of the specification. Shared volumes are not part of
    /// the total.
    pub each_volume: Vec<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RepositoryUsage {
    pub bytes: u64,
    /// The part that also has a name elsewhere, in the user's repository: deleting it here frees
    /// nothing.
    pub shared: u64,
}

// === impl WorkspaceUsage ===

impl WorkspaceUsage {
    pub fn total(&self) -> u64 {
        self.tree + self.home + self.tmp + self.volumes + self.other
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

    /// Adds what another driver measured.
    pub fn add(&mut self, other: Self) {
        self.workspaces.extend(other.workspaces);
        self.trash.extend(other.trash);
        self.bases.extend(other.bases);
        self.layers.extend(other.layers);
        self.repositories.extend(other.repositories);
        self.volumes.extend(other.volumes);
        self.programs += other.programs;
        self.leftovers += other.leftovers;
        self.other += other.other;
        self.unread += other.unread;
    }
}
