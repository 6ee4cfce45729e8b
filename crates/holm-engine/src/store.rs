//! The engine's records, and the trait that stores them.
//!
//! Every method is one transaction and blocks; the engine calls them only through
//! [`bridge`](crate::bridge). "Durable" methods have reached the disk when they return. The others
//! survive a crash of the daemon; after a power failure they are missing together with everything
//! after them, never alone.

use crate::inbox::InboxStore;
use crate::review::ReviewStore;
use crate::run::{RunFilter, RunRecord};
pub use crate::store_error::StoreError;
use holm_core::clock::ClockRecord;
use holm_core::plan::{Action, Desired};
use holm_core::spec::WorkspaceSpec;
use holm_core::state::Birth;
use holm_core::token::Holder;
use holm_core::trust::Ask;
use holm_core::{Label, ProjectId, ProjectName, RequestId, RunId, TokenId, WorkspaceId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A repository that holm knows.
#[derive(Clone, Debug, PartialEq)]
pub struct ProjectRecord {
    pub id: ProjectId,
    pub name: ProjectName,
    /// The main work tree, where it was last seen.
    pub path: String,
    /// The common git directory and its identity on disk.
    pub git_dir: String,
    pub device: u64,
    pub inode: u64,
    /// `sha1` or `sha256`.
    pub object_format: String,
    /// A digest of the refs in the daemon's bare repository; `None` before the first sync.
    pub refs_digest: Option<String>,
    pub rules: ProjectRules,
    pub created_at: Timestamp,
}

/// Settings of a project for all its workspaces. Its `holm.toml` adds to them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProjectRules {
    /// Protected whatever `holm.toml` says; each a
    /// [`ProtectedPath`](holm_core::config::ProtectedPath).
    #[serde(default)]
    pub protected_paths: BTreeSet<String>,
    /// A word of [`Scope`](holm_core::config::Scope); `None`: `holm.toml` decides.
    #[serde(default)]
    pub isolation: Option<String>,
}

/// A workspace that exists, is being created, or is in the trash.
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
    /// When it was moved to the trash. Until then it is live and its label is taken.
    pub removed_at: Option<Timestamp>,
    /// Since when it has its label: of two projects' workspaces with one label, the earlier one
    /// gets the site name.
    pub labelled_at: Timestamp,
}

/// A host port that is forwarded to a port of a workspace, for as long as the workspace exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub workspace: WorkspaceId,
    pub port: u16,
    pub host_port: u16,
}

/// A canonical port that is forwarded to the same port of a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canonical {
    pub port: u16,
    pub workspace: WorkspaceId,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub at: Timestamp,
    /// `workspace.created`, `port.opened`, …
    pub kind: String,
    /// The id of a workspace, which may be deleted by now.
    pub workspace: WorkspaceId,
    /// A JSON object.
    pub detail: String,
}

/// An event with its cursor.
#[derive(Clone, Debug, PartialEq)]
pub struct EventRecord {
    pub cursor: u64,
    pub event: Event,
}

/// How many events are kept; the oldest are deleted.
pub const EVENTS_KEPT: u64 = 10_000;

/// The idempotency key of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestKey {
    /// The caller and the kind of request: the same key of another caller is a different one.
    pub scope: String,
    pub key: String,
}

/// The row of a request with a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyed {
    /// Of the request.
    pub digest: String,
    /// The id of the workspace this request creates, once it is known.
    pub subject: Option<String>,
    /// Once the request is carried out.
    pub answer: Option<String>,
    /// When it was first sent.
    pub at: Timestamp,
}

/// A person's approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    /// Identifies exactly these requests.
    pub digest: String,
    pub asks: Vec<Ask>,
    pub at: Timestamp,
}

/// An API token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRecord {
    pub id: TokenId,
    pub name: String,
    /// The only workspace that it is for; `None`: it has the user's rights.
    pub workspace: Option<WorkspaceId>,
    /// SHA-256 of the whole token.
    pub digest: [u8; 32],
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    /// When it was first seen to be expired. From then on it is, whatever the clock says.
    pub expired_at: Option<Timestamp>,
    pub holder: Holder,
}

/// A request that changed something, or several refused requests of the same kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    pub at: Timestamp,
    /// `user me`, `token t… (ci)`, `workspace w…` (with `session s…` or `run r…`), `holm` or `nobody`.
    pub actor: String,
    pub request: RequestId,
    pub method: String,
    /// The route with the names of its parameters, not their values.
    pub route: String,
    pub workspace: Option<WorkspaceId>,
    /// The other object in the path (`run r…`, `project p…`).
    pub subject: Option<String>,
    pub status: u16,
    /// The error code, if the request failed.
    pub code: Option<String>,
    /// The result, if it was known only after the response began.
    pub outcome: Option<String>,
    /// What holm had recorded about an approved tree, as JSON.
    pub evidence: Option<String>,
    /// How many requests this entry stands for.
    pub count: u64,
}

/// An entry with its cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRecord {
    pub cursor: u64,
    pub entry: AuditEntry,
}

/// A change of the audit record.
#[derive(Clone, Debug)]
pub enum AuditNote {
    Entry(Box<AuditEntry>),
    Outcome(AuditOutcome),
}

/// Filters for the audit record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Only before this cursor.
    pub before: Option<u64>,
    /// Only actors that contain this text.
    pub actor: Option<String>,
    pub workspace: Option<WorkspaceId>,
    pub since: Option<Timestamp>,
    pub results: AuditResults,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuditResults {
    #[default]
    All,
    /// Requests that failed or were refused.
    Bad,
}

/// The result of a request, known after its response began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditOutcome {
    pub request: RequestId,
    /// The workspace that was created.
    pub workspace: Option<WorkspaceId>,
    pub outcome: String,
    /// The error code, if it failed.
    pub code: Option<String>,
}

/// How many audit entries are kept; the oldest are deleted.
pub const AUDIT_KEPT: u64 = 20_000;

/// The newest line of a record in a file of its own, so that a truncation is detected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordHead {
    pub number: u64,
    pub hash: String,
}

/// The key of a journal entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryId(pub i64);

/// How a journaled action ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    Failed(String),
    /// It was never begun and will not be.
    Dropped,
}

/// The result of removing a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProjectRemoval {
    /// Nothing refers to it any more; its files may be deleted.
    Deleted,
    /// It is no longer shown, but workspaces in the trash still need its files.
    Hidden,
}

pub trait Store: ReviewStore + InboxStore + Send + Sync + 'static {
    /// Every project that was not removed, with the number of its live workspaces.
    fn projects(&self) -> Result<Vec<(ProjectRecord, u64)>, StoreError>;

    /// A project by its id, also a removed one that is still needed.
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

    /// The workspaces of all projects that have this label and are not in the trash.
    fn workspaces_labelled(&self, label: &str) -> Result<Vec<WorkspaceRecord>, StoreError>;

    /// Every workspace in the trash, the last removed first.
    fn trashed_workspaces(&self) -> Result<Vec<WorkspaceRecord>, StoreError>;

    /// The project's acknowledged workspace that was created last, also from the trash.
    fn latest_workspace(&self, project: &ProjectId) -> Result<Option<WorkspaceRecord>, StoreError>;

    /// Changes the label of a live workspace and nothing else. Durable. `LabelTaken`.
    fn set_label(&self, id: &WorkspaceId, label: &Label, at: Timestamp) -> Result<(), StoreError>;

    /// Replaces the spec of a live workspace; its id, project and label stay.
    fn set_spec(&self, id: &WorkspaceId, spec: &WorkspaceSpec) -> Result<(), StoreError>;

    /// Durable.
    fn set_desired(&self, id: &WorkspaceId, desired: Desired) -> Result<(), StoreError>;

    /// Waits until everything that was written before is on the disk. Other transactions do not wait for it.
    fn flush(&self) -> Result<(), StoreError>;

    /// Marks the workspace as the user's and ends its open entries as `Done`.
    fn acknowledge(&self, id: &WorkspaceId) -> Result<(), StoreError>;

    /// Moves the record to the trash, which frees its label. Durable.
    fn set_removed(&self, id: &WorkspaceId, at: Timestamp) -> Result<(), StoreError>;

    /// Makes a workspace of the trash live under this label, with desired state stopped and last
    /// use `at`. It is unfinished until its files are back and its open entries are dropped.
    /// Durable. `LabelTaken`, `NoSuchWorkspace`.
    fn take_back(&self, id: &WorkspaceId, label: &Label, at: Timestamp) -> Result<(), StoreError>;

    /// Undoes [`take_back`](Self::take_back): the workspace is in the trash again, as `earlier`
    /// says. Durable.
    fn return_to_trash(&self, earlier: &WorkspaceRecord) -> Result<(), StoreError>;

    /// Deletes a workspace of the trash whose files are gone. A live one is an error. Durable.
    fn forget_trashed(&self, id: &WorkspaceId) -> Result<(), StoreError>;

    /// Removed projects that no workspace needs any more.
    fn abandoned_projects(&self) -> Result<Vec<ProjectId>, StoreError>;

    /// Deletes a workspace that was never acknowledged. An acknowledged one is an error. Durable: after a power failure a
    /// record that is still there may be kept.
    fn forget_unborn(&self, id: &WorkspaceId) -> Result<(), StoreError>;

    fn touch(&self, id: &WorkspaceId, at: Timestamp) -> Result<(), StoreError>;

    fn set_dirty(&self, id: &WorkspaceId, is_dirty: bool) -> Result<(), StoreError>;

    /// Journals actions that are about to be done, in order. Durable.
    fn journal(&self, id: &WorkspaceId, actions: &[Action]) -> Result<Vec<EntryId>, StoreError>;

    fn end_entry(&self, entry: EntryId, outcome: &Outcome) -> Result<(), StoreError>;

    /// Ends several entries as `Done`.
    fn end_entries(&self, entries: &[EntryId]) -> Result<(), StoreError>;

    /// Moves what was written from the log into the file, once there is enough of it. Writers do not
    /// wait for it. Changes nothing that a caller sees.
    fn checkpoint(&self) -> Result<(), StoreError>;

    /// Ends every open entry of the workspace as `Dropped`.
    fn drop_open_entries(&self, id: &WorkspaceId) -> Result<(), StoreError>;

    /// What a crashed daemon left unfinished: workspaces that were never acknowledged, have open
    /// journal entries, or were to be removed and are not in the trash.
    fn unfinished(&self) -> Result<Vec<WorkspaceRecord>, StoreError>;

    /// Stores an approval. Durable.
    fn approve(&self, project: &ProjectId, approval: &Approval) -> Result<(), StoreError>;

    /// Forgets an approval. Durable.
    fn revoke(&self, project: &ProjectId, digest: &str) -> Result<(), StoreError>;

    /// The newest approval of a `holm.toml` with stored requests. Approvals of other things have a
    /// colon in their digest and do not count.
    fn last_approval(&self, project: &ProjectId) -> Result<Option<Approval>, StoreError>;

    fn is_approved(&self, project: &ProjectId, digest: &str) -> Result<bool, StoreError>;

    /// The claims of every workspace, also of those in the trash, by host port.
    fn claims(&self) -> Result<Vec<Claim>, StoreError>;

    /// Claims a host port. An earlier claim for the same port of the workspace ends, and its host
    /// port stays without an owner. A host port that the workspace has for another port is moved to
    /// this one. `PortTaken` when it is or was another workspace's, `NoSuchWorkspace`.
    fn claim_port(&self, claim: &Claim, at: Timestamp) -> Result<(), StoreError>;

    /// Claimed host ports without an owner, oldest claim first.
    fn abandoned_ports(&self) -> Result<Vec<u16>, StoreError>;

    /// Makes a host port without an owner available again.
    fn forget_abandoned_port(&self, host_port: u16) -> Result<(), StoreError>;

    /// The canonical ports and their workspaces, by port.
    fn canonical(&self) -> Result<Vec<Canonical>, StoreError>;

    /// Replaces all of them. Durable. `NoSuchWorkspace` when one of them is not live, and then
    /// nothing changes.
    fn set_canonical(&self, wanted: &[Canonical]) -> Result<(), StoreError>;

    /// Inserts a run that is about to start, and records its comments as delivered to it. If the workspace has a run with
    /// the same key, that one is returned and nothing is written. `CommentsTaken`.
    fn insert_run(&self, run: &RunRecord) -> Result<Option<RunRecord>, StoreError>;

    fn run(&self, id: &RunId) -> Result<Option<RunRecord>, StoreError>;

    /// Updates a run; an unknown one is ignored. The comments of a run that was lost before it started wait again.
    fn save_run(&self, run: &RunRecord) -> Result<(), StoreError>;

    /// Updates a run that did not start and is about to, and records its comments as delivered to it. `CommentsTaken`.
    fn renew_run(&self, run: &RunRecord) -> Result<(), StoreError>;

    /// Deletes a run that did not start. Its comments wait again.
    fn take_back_run(&self, run: &RunRecord) -> Result<(), StoreError>;

    fn forget_run(&self, id: &RunId) -> Result<(), StoreError>;

    /// Runs with their positions, newest first.
    fn runs(&self, filter: &RunFilter) -> Result<Vec<(i64, RunRecord)>, StoreError>;

    /// Runs that have not ended.
    fn open_runs(&self) -> Result<Vec<RunRecord>, StoreError>;

    /// The ended runs of a workspace, without the newest `kept`.
    fn surplus_runs(&self, id: &WorkspaceId, kept: usize) -> Result<Vec<RunId>, StoreError>;

    /// Appends an event and returns its cursor. Keeps at most [`EVENTS_KEPT`].
    fn add_event(&self, event: &Event) -> Result<u64, StoreError>;

    /// At most `most` events after a cursor, in order.
    fn events(&self, after: u64, most: usize) -> Result<Vec<EventRecord>, StoreError>;

    /// The cursor of the newest event, or 0.
    fn last_event(&self) -> Result<u64, StoreError>;

    /// Reads and writes, to test the store.
    fn check(&self) -> Result<(), StoreError>;

    /// How often the store was lost and came back. While it is lost, reads are answered, what has happened is recorded in
    /// memory, and changes are refused.
    fn outages(&self) -> u64;

    fn key(&self, key: &RequestKey) -> Result<Option<Keyed>, StoreError>;

    /// Assigns the key to this request, replacing an earlier assignment.
    fn note_key(&self, key: &RequestKey, digest: &str, at: Timestamp) -> Result<(), StoreError>;

    /// Stores the id of what the request creates.
    fn begin_key(&self, key: &RequestKey, subject: &str) -> Result<(), StoreError>;

    fn answer_key(&self, key: &RequestKey, answer: &str) -> Result<(), StoreError>;

    fn forget_key(&self, key: &RequestKey) -> Result<(), StoreError>;

    /// Deletes the keys noted before this time.
    fn forget_keys(&self, before: Timestamp) -> Result<(), StoreError>;

    /// Every token, oldest first, also expired ones.
    fn tokens(&self) -> Result<Vec<TokenRecord>, StoreError>;

    /// Durable.
    fn add_token(&self, token: &TokenRecord) -> Result<(), StoreError>;

    /// Marks the token as expired for good. An unknown one is no error. Durable.
    fn expire_token(&self, id: &TokenId, at: Timestamp) -> Result<(), StoreError>;

    /// An unknown one is no error. Durable.
    fn remove_token(&self, id: &TokenId) -> Result<(), StoreError>;

    /// Appends an entry. Keeps at most [`AUDIT_KEPT`].
    fn add_audit(&self, entry: &AuditEntry) -> Result<(), StoreError>;

    /// Adds entries, and outcomes to the entries of their requests, in order, all or none.
    fn note_audit(&self, notes: &[AuditNote]) -> Result<(), StoreError>;

    /// At most `most` entries, newest first.
    fn audit(&self, filter: &AuditFilter, most: usize) -> Result<Vec<AuditRecord>, StoreError>;

    /// The last clock reading.
    fn clock(&self) -> Result<Option<ClockRecord>, StoreError>;

    fn set_clock(&self, seen: &ClockRecord) -> Result<(), StoreError>;

    /// The last known head of the secrets record.
    fn secrets_head(&self) -> Result<Option<RecordHead>, StoreError>;

    /// An older line than the stored one changes nothing.
    fn set_secrets_head(&self, head: &RecordHead) -> Result<(), StoreError>;
}
