//! The records of reviews: turns, looks, viewed files, checks and approvals; and their part of the store.

use crate::store_error::StoreError;
use holm_core::WorkspaceId;
use holm_core::check::CheckState;
use holm_core::comment::{Anchor, CommentOrigin, CommentState};
use holm_core::conflict::Conflict;
use holm_core::turn::{Discrepancy, TurnCause};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

/// The tree of a workspace at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnRecord {
    pub workspace: WorkspaceId,
    /// From 1.
    pub number: u64,
    pub at: Timestamp,
    pub cause: TurnCause,
    pub tree: String,
    pub details: TurnDetails,
}

/// The part of a record that is not searched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TurnDetails {
    /// Compared with the turn before, or with the commit that the workspace started from.
    pub files: u64,
    pub added: u64,
    pub removed: u64,
    /// That commit.
    pub start: Option<String>,
    /// How the writable layer looked, in hexadecimal; `None`: it was not looked at.
    pub layer: Option<String>,
    /// Where the layer and git inside differ.
    pub discrepancies: Vec<Discrepancy>,
    /// Found after it was recorded, with the last turns of the other live workspaces and the branch. Earlier
    /// records have none.
    #[serde(default)]
    pub conflicts: Vec<Conflict>,
}

/// The tree of a workspace could not be recorded, and has not been since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnFailure {
    pub workspace: WorkspaceId,
    pub at: Timestamp,
    /// Of the turn that is missing.
    pub cause: TurnCause,
    /// Why.
    pub text: String,
}

/// The last look of a person at a workspace's work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    pub turn: u64,
    pub tree: String,
    pub at: Timestamp,
}

/// A person's yes to one exact tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeApproval {
    pub tree: String,
    pub turn: u64,
    pub at: Timestamp,
    /// As in the audit record.
    pub actor: String,
    /// What holm had recorded about the tree, as JSON.
    pub evidence: String,
}

/// A remark of a person on lines of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommentRecord {
    pub workspace: WorkspaceId,
    /// From 1.
    pub number: u64,
    pub details: CommentDetails,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommentDetails {
    pub anchor: Anchor,
    pub turn: u64,
    pub text: String,
    pub origin: CommentOrigin,
    pub author: String,
    pub at: String,
    pub state: CommentState,
    /// `None`: not sent.
    pub round: Option<u64>,
    /// Who got it; `None`: nobody yet.
    pub delivered: Option<Delivered>,
    pub replies: Vec<ReplyRecord>,
    /// When the agent last answered or resolved it, unless a person acted on it since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_at: Option<String>,
}

/// Who got a comment, stored in the words that users see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Delivered {
    Session(String),
    /// Holm is about to type it into this session, or has typed it without an answer.
    Unconfirmed(String),
    Run(String),
}

#[derive(Debug, thiserror::Error)]
#[error("`{0}` names neither a session nor a run that got a comment")]
pub struct UnknownDelivery(String);

const NOT_CONFIRMED: &str = ", not confirmed";

// === impl Delivered ===

impl Display for Delivered {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session(session) => write!(f, "session {session}"),
            Self::Unconfirmed(session) => write!(f, "session {session}{NOT_CONFIRMED}"),
            Self::Run(run) => write!(f, "run {run}"),
        }
    }
}

impl From<Delivered> for String {
    fn from(delivered: Delivered) -> String {
        delivered.to_string()
    }
}

impl TryFrom<String> for Delivered {
    type Error = UnknownDelivery;

    fn try_from(text: String) -> Result<Self, UnknownDelivery> {
        let (who, id) = text.split_once(' ').unwrap_or_default();
        match (who, id.strip_suffix(NOT_CONFIRMED)) {
            ("session", Some(session)) => Ok(Self::Unconfirmed(session.to_owned())),
            ("session", None) => Ok(Self::Session(id.to_owned())),
            ("run", None) => Ok(Self::Run(id.to_owned())),
            _ => Err(UnknownDelivery(text)),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplyRecord {
    pub author: String,
    pub text: String,
    pub at: String,
}

/// The newest result of a check of one tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckRecord {
    pub workspace: WorkspaceId,
    pub tree: String,
    pub name: String,
    /// Identifies what was checked: the tree, the check and the layers.
    pub key: String,
    pub state: CheckState,
    /// The last turn that was checked with this tree; `None`: the starting commit itself.
    pub turn: Option<u64>,
    pub details: CheckDetails,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckDetails {
    pub exit_code: Option<u8>,
    /// Milliseconds from the start of the command to its end.
    pub ms: Option<u64>,
    /// Why, where the exit code does not say it.
    pub reason: Option<String>,
    /// When the state last changed, RFC 3339.
    pub at: String,
}

// === impl CommentRecord ===

impl CommentRecord {
    /// The id that people and agents use.
    pub fn id(&self) -> String {
        format!("c{}", self.number)
    }
}

/// The part of the store that reviews need. Every method is one transaction.
pub trait ReviewStore {
    /// Adds a turn, which ends a failure to record one. Durable. `NoSuchWorkspace`.
    fn add_turn(&self, turn: &TurnRecord) -> Result<(), StoreError>;

    /// The turns of a workspace, also of one in the trash, oldest first.
    fn turns(&self, id: &WorkspaceId) -> Result<Vec<TurnRecord>, StoreError>;

    fn last_turn(&self, id: &WorkspaceId) -> Result<Option<TurnRecord>, StoreError>;

    /// Replaces the details of a turn.
    fn save_turn(&self, turn: &TurnRecord) -> Result<(), StoreError>;

    /// Forgets the oldest turns beyond `kept` that nothing refers to, and returns their numbers. The last
    /// turn and those that were approved, commented, checked or looked at stay.
    fn forget_surplus_turns(&self, id: &WorkspaceId, kept: u64) -> Result<Vec<u64>, StoreError>;

    /// Durable. A workspace that does not exist is ignored.
    fn note_turn_failure(&self, failure: &TurnFailure) -> Result<(), StoreError>;

    fn turn_failure(&self, id: &WorkspaceId) -> Result<Option<TurnFailure>, StoreError>;

    fn forget_turn_failure(&self, id: &WorkspaceId) -> Result<(), StoreError>;

    /// Reads the comments of a workspace, oldest first, and writes those that `change` changed or added, in one
    /// transaction. Durable. `NoSuchWorkspace`.
    fn change_comments(
        &self,
        id: &WorkspaceId,
        change: &mut dyn FnMut(&mut Vec<CommentRecord>),
    ) -> Result<(), StoreError>;

    /// The comments of a workspace, oldest first.
    fn comments(&self, id: &WorkspaceId) -> Result<Vec<CommentRecord>, StoreError>;

    /// Inserts or replaces the result of a check of a tree. Durable. `NoSuchWorkspace`.
    fn save_check(&self, check: &CheckRecord) -> Result<(), StoreError>;

    /// The results for one tree of a workspace, by name.
    fn checks_of(&self, id: &WorkspaceId, tree: &str) -> Result<Vec<CheckRecord>, StoreError>;

    /// Checks that have not ended, of all workspaces.
    fn open_checks(&self) -> Result<Vec<CheckRecord>, StoreError>;

    fn look(&self, id: &WorkspaceId) -> Result<Option<Look>, StoreError>;

    /// Records a look, with the blob of every file that was viewed. Durable.
    fn set_look(
        &self,
        id: &WorkspaceId,
        look: &Look,
        viewed: &[(String, String)],
    ) -> Result<(), StoreError>;

    /// Adds viewed files; the look stays where it is. Durable.
    fn mark_viewed(&self, id: &WorkspaceId, viewed: &[(String, String)]) -> Result<(), StoreError>;

    /// The viewed files by path, with the blob that was viewed.
    fn viewed(&self, id: &WorkspaceId) -> Result<BTreeMap<String, String>, StoreError>;

    /// Durable.
    fn approve_tree(&self, id: &WorkspaceId, approval: &TreeApproval) -> Result<(), StoreError>;

    /// The newest approval of a workspace.
    fn tree_approval(&self, id: &WorkspaceId) -> Result<Option<TreeApproval>, StoreError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_is_read_as_it_was_written_and_nothing_else_is_one() {
        let (session, run) = ("s1".to_owned(), "r1".to_owned());
        for (delivered, text) in [
            (Delivered::Session(session.clone()), "session s1"),
            (Delivered::Unconfirmed(session), "session s1, not confirmed"),
            (Delivered::Run(run), "run r1"),
        ] {
            assert_eq!(delivered.to_string(), text);
            assert_eq!(Delivered::try_from(text.to_owned()).unwrap(), delivered);
        }
        for text in ["", "s1", "person me", "run r1, not confirmed"] {
            let error = Delivered::try_from(text.to_owned()).unwrap_err();
            assert!(error.to_string().contains(text), "{error}");
        }
    }
}
