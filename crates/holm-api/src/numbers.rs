//! Resource use of workspaces, on the wire.
//!
//! - `GET /numbers` → [`NumbersList`]: of every live workspace
//! - `GET /workspaces/{id}/numbers` → [`WorkspaceNumbers`]

use holm_core::WorkspaceId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NumbersList {
    /// The interval between two values of a history.
    pub history_seconds: u64,
    pub workspaces: Vec<WorkspaceNumbers>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkspaceNumbers {
    #[schema(value_type = WorkspaceId)]
    pub id: String,
    pub label: String,
    pub project: String,
    pub state: String,
    #[schema(required)]
    pub reason: Option<String>,
    /// Busy processors; 1.5 is one and a half.
    pub cpu: f64,
    /// In bytes, without memory that the kernel could reclaim at once.
    pub memory: u64,
    pub processes: u64,
    /// In bytes: changes in its tree, home, temporary files and own volumes. `None`: not measured
    /// yet.
    #[schema(required)]
    pub disk: Option<u64>,
    /// The tree's part of `disk`.
    #[serde(default)]
    #[schema(required)]
    pub disk_tree: Option<u64>,
    #[serde(default)]
    pub volumes: Vec<VolumeNumbers>,
    /// Bytes through its gateway since it was started, plus bytes to its ports from outside since
    /// it or the daemon was started.
    pub network_in: u64,
    pub network_out: u64,
    pub history: Past,
    pub services: Vec<ServiceNumbers>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ServiceNumbers {
    pub name: String,
    pub state: String,
    pub cpu: f64,
    /// In bytes; memory shared between processes counts for each.
    pub memory: u64,
    pub processes: u64,
    /// Bytes to and from its port from outside: previews, host ports, the browser.
    #[serde(default)]
    pub network_in: u64,
    #[serde(default)]
    pub network_out: u64,
    pub history: Past,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct VolumeNumbers {
    pub name: String,
    /// `isolated`, `fork` or `shared`; shared volumes do not count as the workspace's disk use.
    pub policy: String,
    /// For a fork, the difference from its origin. `None`: not measured yet.
    #[schema(required)]
    pub bytes: Option<u64>,
}

/// The last minutes, oldest value first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Past {
    pub cpu: Vec<f64>,
    pub memory: Vec<f64>,
}
