//! What takes room on the disk, and making room.
//!
//! - `GET  /disk` → [`Disk`]
//! - `POST /gc` ([`Gc`]) → JSON Lines of [`GcEvent`], the last of which is `done` or `error`

use crate::error::ErrorDetail;
use crate::id::{ProjectId, WorkspaceId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Every size is in bytes that the disk really holds: holes take nothing, and a file with several
/// names counts once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Disk {
    pub workspaces: Vec<WorkspaceSize>,
    pub trash: Vec<TrashSize>,
    pub bases: Vec<BaseSize>,
    pub layers: Vec<LayerSize>,
    pub repositories: Vec<RepositorySize>,
    /// Those that the workspaces of a project share; others are part of their workspace.
    pub volumes: Vec<VolumeSize>,
    /// Copies of holm that workspaces run.
    pub programs: u64,
    /// Of interrupted work, and what is being deleted.
    pub leftovers: u64,
    /// The store, logs, and what no record knows.
    pub other: u64,
    pub total: u64,
    /// Of the data directory's file system.
    pub free: u64,
    pub size: u64,
    pub data_dir: String,
    /// What could go and the command; what could not be measured; that the disk is nearly full.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkspaceSize {
    #[schema(value_type = WorkspaceId)]
    pub id: String,
    pub label: String,
    pub project: String,
    pub bytes: u64,
    /// What differs from the base.
    pub upper: u64,
    pub home: u64,
    pub tmp: u64,
    /// Of forks, what differs from what they began with.
    pub volumes: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TrashSize {
    #[schema(value_type = WorkspaceId)]
    pub id: String,
    pub label: String,
    pub project: String,
    pub bytes: u64,
    pub removed_at: String,
    pub expires_at: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BaseSize {
    #[schema(value_type = ProjectId)]
    pub project_id: String,
    #[schema(required)]
    pub project: Option<String>,
    #[schema(required)]
    pub commit: Option<String>,
    /// A file that several bases share counts with the first of them.
    pub bytes: u64,
    /// Workspaces that need it, live and in the trash.
    pub used_by: u64,
}

/// What `setup` or a volume's `seed` made, or what was taken of a checkout.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LayerSize {
    #[schema(value_type = ProjectId)]
    pub project_id: String,
    #[schema(required)]
    pub project: Option<String>,
    pub key: String,
    pub bytes: u64,
    /// Workspaces that need it, live and in the trash.
    pub used_by: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct VolumeSize {
    #[schema(value_type = ProjectId)]
    pub project_id: String,
    #[schema(required)]
    pub project: Option<String>,
    pub name: String,
    pub bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RepositorySize {
    #[schema(value_type = ProjectId)]
    pub project_id: String,
    #[schema(required)]
    pub project: Option<String>,
    pub bytes: u64,
    /// The part that your own repository has too, as the same files.
    pub shared: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Gc {
    /// Every entry of the trash and every unused base, however young.
    pub all: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Collected {
    pub freed_bytes: u64,
    pub removed: Vec<Removed>,
    /// Files where workspaces are that no record knows. They stay.
    pub unknown: Vec<String>,
    pub failed: Vec<ErrorDetail>,
    /// What has to be known of it: that the clock was not believed before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Removed {
    /// workspace base layer project leftover
    pub kind: String,
    /// An id, a commit, a key or a path.
    pub name: String,
    #[schema(required)]
    pub label: Option<String>,
    pub bytes: u64,
}

/// One line of the answer to `POST /gc`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum GcEvent {
    Progress { step: String, done: u64, total: u64 },
    Done(Collected),
    Error(ErrorDetail),
}
