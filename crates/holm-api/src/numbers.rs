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
    /// In bytes: what was changed in its tree, home, temporary files. `None`: not measured yet.
    #[schema(required)]
    pub disk: Option<u64>,
    /// Bytes through its gateway since it was started.
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
    pub history: Past,
}

/// The last minutes, the oldest value first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Past {
    pub cpu: Vec<f64>,
    pub memory: Vec<f64>,
}
