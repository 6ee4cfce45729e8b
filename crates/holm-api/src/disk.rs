//! Disk use and garbage collection.
//!
//! - `GET  /disk` → [`Disk`]
//! - `POST /gc` ([`Gc`]) → JSON Lines of [`GcEvent`], the last of which is `done` or `error`

use crate::error::ErrorDetail;
use holm_core::trash::Removed;
use holm_core::{ProjectId, WorkspaceId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// All sizes are bytes allocated on disk: holes count nothing, and a file with several hard links
/// counts once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Disk {
    pub workspaces: Vec<WorkspaceSize>,
    pub trash: Vec<TrashSize>,
    pub bases: Vec<BaseSize>,
    pub layers: Vec<LayerSize>,
    pub repositories: Vec<RepositorySize>,
    /// Volumes shared by the workspaces of a project; other volumes are part of their workspace.
    pub volumes: Vec<VolumeSize>,
    /// Copies of the holm program that running workspaces use.
    pub programs: u64,
    /// Images, as they were pulled and unpacked.
    #[serde(default)]
    pub images: u64,
    /// Files of interrupted work, and files that are being deleted.
    pub leftovers: u64,
    /// The store, logs, and files that no record knows.
    pub other: u64,
    pub total: u64,
    /// Free space on the data directory's file system.
    pub free: u64,
    pub size: u64,
    pub data_dir: String,
    /// What could be deleted and with which command, what could not be measured, and whether the
    /// disk is nearly full.
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
    /// Differences from the base.
    pub upper: u64,
    pub home: u64,
    pub tmp: u64,
    /// For forks, the differences from their origin.
    pub volumes: u64,
    /// Part of `bytes`.
    pub snapshots: Vec<SnapshotSize>,
}

/// What a snapshot keeps besides the base and the layers that it shares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SnapshotSize {
    pub name: String,
    pub bytes: u64,
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
    /// A file that several bases share counts for the first of them.
    pub bytes: u64,
    /// Workspaces that need it, live and in the trash.
    pub used_by: u64,
}

/// Output of `setup` or of a volume's `seed`, or ignored files copied from a checkout.
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
    /// The part that is hard-linked with your own repository.
    pub shared: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Gc {
    /// Delete every entry of the trash and every unused base, however young.
    pub all: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Collected {
    pub freed_bytes: u64,
    pub removed: Vec<Removed>,
    /// Files in the workspace directories that no record knows. They are not deleted.
    pub unknown: Vec<String>,
    pub failed: Vec<ErrorDetail>,
    /// Warnings, such as a clock that jumped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// One line of the answer to `POST /gc`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum GcEvent {
    Progress { step: String, done: u64, total: u64 },
    Done(Collected),
    Error(ErrorDetail),
}
