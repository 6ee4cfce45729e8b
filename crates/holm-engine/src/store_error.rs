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
    #[error("the database {place} does not answer")]
    Unavailable { place: String, source: Cause },
    #[error(
        "the database {place} did not confirm a change, which is stored as soon as it answers again"
    )]
    Unconfirmed { place: String, source: Cause },
    #[error("{place} has content already")]
    NotEmpty { place: String },
    #[error("there is no state of holm in {place}")]
    Empty { place: String },
    #[error("what was written to {place} is not what was read: {tables}")]
    Unequal { place: String, tables: String },
    #[error("{what}")]
    Misconfigured { what: String, source: Option<Cause> },
    #[error("the database {place} is used by another process: {holder}")]
    InUse { place: String, holder: String },
}

// === impl StoreError ===

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        if let Some((code, hint)) = of_database(&error) {
            return Fault::of(code, error, hint);
        }
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
            _ => (
                Code::Internal,
                "see the daemon's log; `holm daemon status` says where its data is".to_owned(),
            ),
        };
        Fault::of(code, error, hint)
    }
}

/// The errors of stores as a whole, and of databases.
fn of_database(error: &StoreError) -> Option<(Code, &'static str)> {
    Some(match error {
        StoreError::Unavailable { .. } | StoreError::Unconfirmed { .. } => (
            Code::StoreUnavailable,
            "start the database, or mend the way to it; holm connects again by itself",
        ),
        StoreError::NotEmpty { .. } => (
            Code::StoreNotEmpty,
            "name another place; `holm store restore --force` keeps the earlier content aside",
        ),
        StoreError::Empty { .. } => (
            Code::BadRequest,
            "is the place right? a daemon makes its store when it starts",
        ),
        StoreError::Unequal { .. } => (
            Code::StoreUnequal,
            "check the disk and the database; the source is unchanged",
        ),
        StoreError::Misconfigured { .. } => (
            Code::InvalidConfig,
            "docs/store.md describes `[daemon] store` of config.toml",
        ),
        StoreError::InUse { .. } => (
            Code::StoreInUse,
            "stop that daemon first (`holm daemon stop` there); then `holm daemon start`",
        ),
        _ => return None,
    })
}
