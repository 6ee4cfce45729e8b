//! What workspaces take of the machine, on the wire.
//!
//! - `GET /numbers` → [`NumbersList`]: of every live workspace
//! - `GET /workspaces/{id}/numbers` → [`WorkspaceNumbers`]

use crate::id::WorkspaceId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NumbersList {
    /// Between two values of a history.
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
    /// Processors that are busy with it; 1.5 is one and a half.
    pub cpu: f64,
    /// In bytes, without what the kernel could drop at once.
    pub memory: u64,
    pub processes: u64,
    /// In bytes: what was changed in its tree, home, temporary files and own volumes. `None`: not
    /// measured yet.
    #[schema(required)]
    pub disk: Option<u64>,
    /// Of it, the tree alone.
    #[serde(default)]
    #[schema(required)]
    pub disk_tree: Option<u64>,
    #[serde(default)]
    pub volumes: Vec<VolumeNumbers>,
    /// Bytes through its gateway since it was started, and to its ports from outside since it or the
    /// daemon was.
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
    /// In bytes; memory that processes share is counted for each.
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
    /// `isolated`, `fork` or `shared`; what is shared is not counted in the workspace's disk.
    pub policy: String,
    /// Of a fork, what differs from what it began with. `None`: not measured yet.
    #[schema(required)]
    pub bytes: Option<u64>,
}

/// The last minutes, the oldest value first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Past {
    pub cpu: Vec<f64>,
    pub memory: Vec<f64>,
}
