//! Errors of the store, and how users see them.

use holm_core::{Cause, Code, Fault, Label, ProjectId, ProjectName, WorkspaceId};
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the label `{label}` is taken by {holder}")]
    LabelTaken { label: Label, holder: WorkspaceId },
    #[error("the project name `{0}` is taken")]
    NameTaken(ProjectName),
    #[error("there is no project {0}")]
    NoSuchProject(ProjectId),
    #[error("there is no live workspace {0}")]
    NoSuchWorkspace(WorkspaceId),
    #[error("project {project} has {live} workspaces")]
    ProjectInUse { project: ProjectId, live: u64 },
    #[error("the host port {0} is claimed")]
    PortTaken(u16),
    #[error("another run of workspace {0} got its review comments first")]
    CommentsTaken(WorkspaceId),
    #[error("workspace {0} belongs to the user and cannot be forgotten")]
    Acknowledged(WorkspaceId),
    #[error("the state in {path} was written by a newer holm (schema {found}, known {known})")]
    Newer {
        path: PathBuf,
        found: i64,
        known: i64,
    },
    #[error("the state in {path} is not understood: {what}")]
    Corrupt {
        path: PathBuf,
        what: String,
        source: Option<Cause>,
    },
    #[error("the disk is full; {path} could not be written")]
    DiskFull { path: PathBuf, source: Cause },
    #[error("{path} cannot be written")]
    ReadOnly { path: PathBuf, source: Cause },
    #[error("cannot use the state in {path}")]
    Failed { path: PathBuf, source: Cause },
}

// === impl StoreError ===

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        let (code, hint) = match &error {
            StoreError::LabelTaken { .. } => (
                Code::LabelTaken,
                "choose another label; `holm ls` lists those that are taken".to_owned(),
            ),
            StoreError::NameTaken(_) => (
                Code::BadRequest,
                "choose another name; `holm project ls` lists them".to_owned(),
            ),
            StoreError::NoSuchProject(_) => (
                Code::ProjectNotFound,
                "`holm project ls` lists the projects".to_owned(),
            ),
            StoreError::NoSuchWorkspace(_) => (
                Code::WorkspaceNotFound,
                "`holm ls` lists the workspaces".to_owned(),
            ),
            StoreError::ProjectInUse { .. } => (
                Code::ProjectInUse,
                "remove its workspaces first: `holm ls`, then `holm rm`".to_owned(),
            ),
            StoreError::Newer { .. } => (
                Code::NewerState,
                "use the newer holm, or another directory with HOLM_HOME".to_owned(),
            ),
            StoreError::Corrupt { path, .. } => (
                Code::CorruptState,
                format!(
                    "restore {} from a copy, or move it away and start anew; \
                     the workspaces' files are beside it",
                    path.display()
                ),
            ),
            StoreError::DiskFull { .. } => (
                Code::DiskFull,
                "free some space on that disk, then try again".to_owned(),
            ),
            StoreError::ReadOnly { .. } => (
                Code::ReadOnly,
                "make the directory writable, or use another one with HOLM_HOME".to_owned(),
            ),
            StoreError::PortTaken(_) => (
                Code::Busy,
                "`holm ports` lists the host ports that are claimed".to_owned(),
            ),
            StoreError::CommentsTaken(id) => (
                Code::Busy,
                format!("`holm comments {id}` says which run; then run again"),
            ),
            StoreError::Acknowledged(_) | StoreError::Failed { .. } => (
                Code::Internal,
                "see the daemon's log; `holm daemon status` says where its data is".to_owned(),
            ),
        };
        Fault::of(code, error, hint)
    }
}
