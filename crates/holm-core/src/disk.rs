//! Disk use as a driver measured it. All sizes are bytes allocated on disk: holes count nothing,
//! and a file with several hard links counts once.

use crate::layer::LayerKey;
use crate::trash::BaseKey;
use crate::{ProjectId, WorkspaceId};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// A driver fills in the fields that it was asked for; the others are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Blobs and unpacked layers of images.
    pub images: u64,
    /// Interrupted work, and data that is being deleted.
    pub leftovers: u64,
    /// The store, logs, and files that no record knows.
    pub other: u64,
    /// Closed directories of workspaces, whose content is not counted.
    pub unread: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceUsage {
    /// Differences from the base.
    pub tree: u64,
    pub home: u64,
    pub tmp: u64,
    /// For forks, differences from their origin.
    pub volumes: u64,
    pub other: u64,
    /// Each snapshot by its key; part of `other`.
    pub each_snapshot: HashMap<String, u64>,
    /// In the order of the spec; for forks, differences from their origin. Shared ones are not part
    /// of the total.
    pub each_volume: Vec<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepositoryUsage {
    pub bytes: u64,
    /// The part that is hard-linked with the user's repository: deleting it here frees nothing.
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
            + self.images
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
        self.images += other.images;
        self.leftovers += other.leftovers;
        self.other += other.other;
        self.unread += other.unread;
    }
}
