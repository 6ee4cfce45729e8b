//! What the engine remembers, and the trait of whatever remembers it.
//!
//! Every method is one transaction and blocks; the engine calls them only through
//! [`bridge`](crate::bridge). "Durable" methods have reached the disk when they return. The others
//! survive the death of the daemon, and after a loss of power they are missing together with
//! everything that came after them, never alone.

use crate::run::{RunFilter, RunRecord};
use crate::spec::WorkspaceSpec;
use holm_core::clock::Seen;
use holm_core::plan::{Action, Desired};
use holm_core::state::Birth;
use holm_core::trust::Ask;
use holm_core::{
    Code, Fault, Label, ProjectId, ProjectName, RequestId, RunId, TokenId, WorkspaceId,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

/// A repository that holm knows.
#[derive(Clone, Debug, PartialEq)]
pub struct ProjectRecord {
    pub id: ProjectId,
    pub name: ProjectName,
    /// The main work tree, where it was last seen.
    pub path: String,
    /// The common git directory, and what identifies it on disk.
    pub git_dir: String,
    pub device: u64,
    pub inode: u64,
    /// `sha1` or `sha256`.
    pub object_format: String,
    /// A digest of the refs that the daemon's bare repository has; `None` before the first.
    pub refs_digest: Option<String>,
    pub rules: ProjectRules,
    pub created_at: Timestamp,
}

/// What was asked of a project itself, for all of its workspaces. Its `holm.toml` adds to that.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProjectRules {
    /// Protected whatever `holm.toml` says; each a [`ProtectedPath`](holm_core::config::ProtectedPath).
    #[serde(default)]
    pub protected_paths: BTreeSet<String>,
    /// A word of [`Scope`](holm_core::config::Scope); `None`: `holm.toml` says.
    #[serde(default)]
    pub isolation: Option<String>,
}

/// A workspace that exists, is being made, or lies in the trash.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkspaceRecord {
    pub id: WorkspaceId,
    pub project_id: ProjectId,
    pub label: Label,
    pub owner: String,
    pub desired: Desired,
    pub birth: Birth,
    pub spec: Arc<WorkspaceSpec>,
    pub created_at: Timestamp,
    pub last_used_at: Timestamp,
    /// Whether it had uncommitted changes when it was last examined.
    pub dirty: Option<bool>,
    /// When it went to the trash. Until then it is live and its label is taken.
    pub removed_at: Option<Timestamp>,
    /// Since when it has its label: of two projects' workspaces with one label the first is reached
    /// by it.
    pub labelled_at: Timestamp,
}

/// A host port that leads to a port of a workspace, and to nothing else for as long as there is the
/// workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub workspace: WorkspaceId,
    pub port: u16,
    pub host_port: u16,
}

/// A port of the host that leads to the port of the same number of a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canonical {
    pub port: u16,
    pub workspace: WorkspaceId,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub at: Timestamp,
    /// `workspace.created`, `port.opened`, …
    pub kind: String,
    /// As it was called then; it may be gone for good now.
    pub workspace: WorkspaceId,
    /// A JSON object.
    pub detail: String,
}

/// An event with its place in the order of all.
#[derive(Clone, Debug, PartialEq)]
pub struct EventRecord {
    pub cursor: u64,
    pub event: Event,
}

/// How many events are kept; the oldest go.
pub const EVENTS_KEPT: u64 = 10_000;

/// What a client calls a request, so that sending it again does it once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestKey {
    /// Who asks, and for what: the same key of somebody else is another one.
    pub scope: String,
    pub key: String,
}

/// What is known of a request with a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyed {
    /// Of the request.
    pub digest: String,
    /// The id of what it makes, from when that has one.
    pub subject: Option<String>,
    /// Once it is carried out.
    pub answer: Option<String>,
    /// When it was asked for first.
    pub at: Timestamp,
}

/// What a person said yes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    /// Stands for exactly these asks.
    pub digest: String,
    pub asks: Vec<Ask>,
    pub at: Timestamp,
}

/// An API token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRecord {
    pub id: TokenId,
    pub name: String,
    /// The only workspace that it is for; `None`: it is the user's.
    pub workspace: Option<WorkspaceId>,
    /// SHA-256 of the whole token.
    pub digest: [u8; 32],
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    /// When it was first seen to be over. From then on it is, whatever the clock says.
    pub expired_at: Option<Timestamp>,
}

/// A request that changed something, or several that were refused alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    pub at: Timestamp,
    /// `user me`, `token t… (ci)`, `workspace w…` (with `session s…` or `run r…`), `holm` or `nobody`.
    pub actor: String,
    pub request: RequestId,
    pub method: String,
    /// The route with its parameters' names, not their values.
    pub route: String,
    pub workspace: Option<WorkspaceId>,
    /// What else the path names (`run r…`, `project p…`).
    pub subject: Option<String>,
    pub status: u16,
    /// Of the error, if it was one.
    pub code: Option<String>,
    /// What came of it, where that was known only after the answer had begun.
    pub outcome: Option<String>,
    /// How many requests this stands for.
    pub count: u64,
}

/// An entry with its place in the order of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRecord {
    pub cursor: u64,
    pub entry: AuditEntry,
}

/// Which entries of the audit are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Only before this cursor.
    pub before: Option<u64>,
    /// Only of actors with this in them.
    pub actor: Option<String>,
    pub workspace: Option<WorkspaceId>,
    pub since: Option<Timestamp>,
    pub results: AuditResults,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuditResults {
    #[default]
    All,
    /// What failed or was refused.
    Bad,
}

/// What came of a request after its answer had begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditOutcome {
    pub request: RequestId,
    /// The workspace that was made.
    pub workspace: Option<WorkspaceId>,
    pub outcome: String,
    /// Of the error, if it was one.
    pub code: Option<String>,
}

/// How many entries of the audit are kept; the oldest go.
pub const AUDIT_KEPT: u64 = 20_000;

/// The newest line of a record that is kept in a file of its own, so that a cut is noticed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordHead {
    pub number: u64,
    pub hash: String,
}

/// The key of one planned action in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryId(pub i64);

/// How a planned action ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    Failed(String),
    /// It was never begun, and no longer is to be.
    Dropped,
}

/// What became of a project that was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProjectRemoval {
    /// Nothing refers to it any more; its files may go.
    Deleted,
    /// It is no longer shown, and its files are still needed by workspaces in the trash.
    Hidden,
}

pub trait Store: Send + Sync + 'static {
    /// Every project that was not removed, with the number of its live workspaces.
    fn projects(&self) -> Result<Vec<(ProjectRecord, u64)>, StoreError>;

    /// A project by its id, also one that was removed and is still needed.
    fn project(&self, id: &ProjectId) -> Result<Option<ProjectRecord>, StoreError>;

    /// Inserts or replaces a project and makes it visible. Durable. `NameTaken` when another
    /// visible project has its name.
    fn save_project(&self, project: &ProjectRecord) -> Result<(), StoreError>;

    /// Removes a project that has no live workspaces (`ProjectInUse`). Durable.
    fn remove_project(&self, id: &ProjectId) -> Result<ProjectRemoval, StoreError>;

    /// Claims the label and the id. `LabelTaken`, `NoSuchProject`.
    fn insert_workspace(&self, workspace: &WorkspaceRecord) -> Result<(), StoreError>;

    fn workspace(&self, id: &WorkspaceId) -> Result<Option<WorkspaceRecord>, StoreError>;

    /// Every workspace that is not in the trash, oldest first.
    fn live_workspaces(&self) -> Result<Vec<WorkspaceRecord>, StoreError>;

    fn live_workspace(
        &self,
        project: &ProjectId,
        label: &Label,
    ) -> Result<Option<WorkspaceRecord>, StoreError>;

    /// Every workspace in the trash, the last removed first.
    fn trashed_workspaces(&self) -> Result<Vec<WorkspaceRecord>, StoreError>;

    /// The project's acknowledged workspace that was made last, also from the trash.
    fn latest_workspace(&self, project: &ProjectId) -> Result<Option<WorkspaceRecord>, StoreError>;

    /// Changes the label of a live workspace and nothing else. Durable. `LabelTaken`.
    fn set_label(&self, id: &WorkspaceId, label: &Label, at: Timestamp) -> Result<(), StoreError>;

    /// Stores another spec of a live workspace; id, project and label in it stay as they are.
    fn set_spec(&self, id: &WorkspaceId, spec: &WorkspaceSpec) -> Result<(), StoreError>;

    /// Durable.
    fn set_desired(&self, id: &WorkspaceId, desired: Desired) -> Result<(), StoreError>;

    /// The workspace is the user's from now on. Durable.
    fn acknowledge(&self, id: &WorkspaceId) -> Result<(), StoreError>;

    /// The workspace lies in the trash; its label is free. Durable.
    fn set_removed(&self, id: &WorkspaceId, at: Timestamp) -> Result<(), StoreError>;

    /// A workspace of the trash is live again under this label, wanted stopped and used at `at`. It
    /// is unfinished until its files are back and its open entries are dropped. Durable.
    /// `LabelTaken`, `NoSuchWorkspace`.
    fn take_back(&self, id: &WorkspaceId, label: &Label, at: Timestamp) -> Result<(), StoreError>;

    /// Undoes [`take_back`](Self::take_back): the workspace is in the trash as `earlier` says. Durable.
    fn return_to_trash(&self, earlier: &WorkspaceRecord) -> Result<(), StoreError>;

    /// Forgets a workspace of the trash whose files are gone. A live one is an error. Durable.
    fn forget_trashed(&self, id: &WorkspaceId) -> Result<(), StoreError>;

    /// Projects that were removed and that no workspace needs any more.
    fn abandoned_projects(&self) -> Result<Vec<ProjectId>, StoreError>;

    /// Forgets a workspace that was never acknowledged. One that was is an error.
    fn forget_unborn(&self, id: &WorkspaceId) -> Result<(), StoreError>;

    fn touch(&self, id: &WorkspaceId, at: Timestamp) -> Result<(), StoreError>;

    fn set_dirty(&self, id: &WorkspaceId, is_dirty: bool) -> Result<(), StoreError>;

    /// Writes down what is about to be done, in order. Durable.
    fn journal(&self, id: &WorkspaceId, actions: &[Action]) -> Result<Vec<EntryId>, StoreError>;

    fn end_entry(&self, entry: EntryId, outcome: &Outcome) -> Result<(), StoreError>;

    /// Ends every entry of the workspace that is still open as `Dropped`.
    fn drop_open_entries(&self, id: &WorkspaceId) -> Result<(), StoreError>;

    /// What a daemon that died left in the middle: workspaces that were never acknowledged, have
    /// open journal entries, or were to be removed and are not in the trash.
    fn unfinished(&self) -> Result<Vec<WorkspaceRecord>, StoreError>;

    /// A person approved exactly this. Durable.
    fn approve(&self, project: &ProjectId, approval: &Approval) -> Result<(), StoreError>;

    /// The newest approval of a `holm.toml` whose asks were stored. Approvals of git settings
    /// (`SETTINGS_DIGEST`) do not count.
    fn last_approval(&self, project: &ProjectId) -> Result<Option<Approval>, StoreError>;

    fn is_approved(&self, project: &ProjectId, digest: &str) -> Result<bool, StoreError>;

    /// The claims of every workspace, also of those in the trash, by host port.
    fn claims(&self) -> Result<Vec<Claim>, StoreError>;

    /// Claims a host port; an earlier claim of the same port of the workspace ends, and its host
    /// port is nobody's. One that the workspace has for another port leads to this one from now on.
    /// `PortTaken` when it is or was another workspace's, `NoSuchWorkspace`.
    fn claim_port(&self, claim: &Claim, at: Timestamp) -> Result<(), StoreError>;

    /// Host ports that were claimed and are nobody's now, those that were claimed first first.
    fn abandoned_ports(&self) -> Result<Vec<u16>, StoreError>;

    /// A host port that is nobody's may be claimed again.
    fn forget_abandoned_port(&self, host_port: u16) -> Result<(), StoreError>;

    /// Which workspaces have which canonical ports, by port.
    fn canonical(&self) -> Result<Vec<Canonical>, StoreError>;

    /// Replaces all of them. Durable. `NoSuchWorkspace` when one of them is not live, and then
    /// nothing changes.
    fn set_canonical(&self, wanted: &[Canonical]) -> Result<(), StoreError>;

    /// Writes down a run that is about to begin. Durable. Where the workspace has one with the same
    /// key, nothing is written, and that one is returned.
    fn insert_run(&self, run: &RunRecord) -> Result<Option<RunRecord>, StoreError>;

    fn run(&self, id: &RunId) -> Result<Option<RunRecord>, StoreError>;

    /// Replaces what is known of a run; one that is not known is left so.
    fn save_run(&self, run: &RunRecord) -> Result<(), StoreError>;

    fn forget_run(&self, id: &RunId) -> Result<(), StoreError>;

    /// Runs with their places in the order of all, the newest first.
    fn runs(&self, filter: &RunFilter) -> Result<Vec<(i64, RunRecord)>, StoreError>;

    /// Those that have not ended.
    fn open_runs(&self) -> Result<Vec<RunRecord>, StoreError>;

    /// Those of a workspace that have ended, without the newest `kept`.
    fn surplus_runs(&self, id: &WorkspaceId, kept: usize) -> Result<Vec<RunId>, StoreError>;

    /// Appends an event and returns its cursor. Of more than [`EVENTS_KEPT`] the oldest go.
    fn add_event(&self, event: &Event) -> Result<u64, StoreError>;

    /// At most `most` events behind a cursor, in order.
    fn events(&self, after: u64, most: usize) -> Result<Vec<EventRecord>, StoreError>;

    /// The cursor of the newest event, 0 when there was none.
    fn last_event(&self) -> Result<u64, StoreError>;

    /// Reads and writes, to find out whether that can be done.
    fn check(&self) -> Result<(), StoreError>;

    fn key(&self, key: &RequestKey) -> Result<Option<Keyed>, StoreError>;

    /// The key stands for this request from now on, and for nothing that it stood for before.
    fn note_key(&self, key: &RequestKey, digest: &str, at: Timestamp) -> Result<(), StoreError>;

    /// What the request makes has this id.
    fn begin_key(&self, key: &RequestKey, subject: &str) -> Result<(), StoreError>;

    fn answer_key(&self, key: &RequestKey, answer: &str) -> Result<(), StoreError>;

    fn forget_key(&self, key: &RequestKey) -> Result<(), StoreError>;

    /// Forgets those that were noted until then.
    fn forget_keys(&self, before: Timestamp) -> Result<(), StoreError>;

    /// Every token, oldest first, also those that have expired.
    fn tokens(&self) -> Result<Vec<TokenRecord>, StoreError>;

    /// Durable.
    fn add_token(&self, token: &TokenRecord) -> Result<(), StoreError>;

    /// The token is over for good. One that is not there is no error. Durable.
    fn expire_token(&self, id: &TokenId, at: Timestamp) -> Result<(), StoreError>;

    /// One that is not there is no error. Durable.
    fn remove_token(&self, id: &TokenId) -> Result<(), StoreError>;

    /// Appends an entry. Of more than [`AUDIT_KEPT`] the oldest go.
    fn add_audit(&self, entry: &AuditEntry) -> Result<(), StoreError>;

    /// Adds what came of a request to its entry, if there is one.
    fn end_audit(&self, outcome: &AuditOutcome) -> Result<(), StoreError>;

    /// At most `most` of the newest entries, the newest first.
    fn audit(&self, filter: &AuditFilter, most: usize) -> Result<Vec<AuditRecord>, StoreError>;

    /// What was last seen of the clocks of the machine.
    fn clock(&self) -> Result<Option<Seen>, StoreError>;

    fn set_clock(&self, seen: &Seen) -> Result<(), StoreError>;

    /// Where the record of what happens to secrets was last seen.
    fn secrets_head(&self) -> Result<Option<RecordHead>, StoreError>;

    /// An earlier line than the known one changes nothing.
    fn set_secrets_head(&self, head: &RecordHead) -> Result<(), StoreError>;
}

type Cause = Box<dyn Error + Send + Sync>;

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
            StoreError::Acknowledged(_) | StoreError::Failed { .. } => (
                Code::Internal,
                "see the daemon's log; `holm daemon status` says where its data is".to_owned(),
            ),
        };
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(inner) = cause {
            let text = inner.to_string();
            // Some errors repeat their cause in their own text.
            if !message.ends_with(&text) {
                message.push_str(": ");
                message.push_str(&text);
            }
            cause = inner.source();
        }
        Fault::new(code, message, hint)
    }
}
