//! What the store knows for the inbox: notices of programs inside, when an item opened, and a summary of runs, turns,
//! looks and comments of all live workspaces in one read.

use crate::review::{CheckRecord, CommentRecord, Look, TurnDetails, TurnFailure};
use crate::run::RunDetails;
use crate::store_error::StoreError;
use holm_core::run::RunState;
use holm_core::{RunId, WorkspaceId};
use jiff::Timestamp;
use std::collections::HashMap;

/// A program inside called `notify`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoticeRecord {
    pub workspace: WorkspaceId,
    pub at: Timestamp,
    /// The id of its session or run.
    pub source: Option<String>,
    pub text: String,
    /// How many calls before it were left out.
    pub left_out: u64,
}

/// How many notices of a workspace are kept.
pub const NOTICES_KEPT: u64 = 20;

/// An item of the inbox that is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenItem {
    pub workspace: WorkspaceId,
    /// Names the cause within the workspace.
    pub cause: String,
    pub reason: String,
    /// When its cause was first seen.
    pub opened_at: Timestamp,
    /// When its cause last happened, as far as was told.
    pub since: Timestamp,
}

/// What is stored about one workspace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InboxRecords {
    pub look: Option<Look>,
    pub unread: Option<UnreadTurns>,
    pub run: Option<LastRun>,
    /// The oldest first.
    pub notices: Vec<NoticeRecord>,
    /// Those that were sent.
    pub comments: Vec<CommentRecord>,
    /// Of its last turn.
    pub checks: Vec<CheckRecord>,
    /// Its last turn has conflicts, which may have ended since.
    pub has_conflicts: bool,
    /// Requests of the workspace that were refused, with their number and the time of the last.
    pub forbidden: Vec<(String, u64, Timestamp)>,
    /// Its last recording of a turn failed.
    pub turn_failure: Option<TurnFailure>,
    /// The causes of its open items, with the time when each was first seen.
    pub opened: Vec<OpenItem>,
}

/// Turns of runs after the last look and the last approval.
#[derive(Clone, Debug, PartialEq)]
pub struct UnreadTurns {
    pub count: u64,
    /// The newest one.
    pub number: u64,
    pub at: Timestamp,
    pub details: TurnDetails,
}

/// The newest run.
#[derive(Clone, Debug, PartialEq)]
pub struct LastRun {
    pub id: RunId,
    pub state: RunState,
    pub created_at: Timestamp,
    /// Only of one that did not succeed.
    pub details: Option<RunDetails>,
}

/// The part of the store that the inbox needs. Every method is one transaction.
pub trait InboxStore {
    /// Adds a notice and keeps the newest [`NOTICES_KEPT`] of its workspace. `NoSuchWorkspace`.
    fn add_notice(&self, notice: &NoticeRecord) -> Result<(), StoreError>;

    /// Of every live workspace that has any.
    fn inbox_records(&self) -> Result<HashMap<WorkspaceId, InboxRecords>, StoreError>;

    /// Replaces the open items: adds or updates some, and removes others.
    fn change_open_items(&self, open: &[OpenItem], closed: &[OpenItem]) -> Result<(), StoreError>;

    /// When the newest event of this kind was.
    fn last_event_of(&self, kind: &str) -> Result<Option<Timestamp>, StoreError>;
}
