//! Comments of a review, on the wire.
//!
//! - `GET  /workspaces/{id}/comments?open=` → [`CommentList`]
//! - `POST /workspaces/{id}/comments` ([`NewComment`]) → [`Comment`]
//! - `POST /workspaces/{id}/comments/send` ([`Send`]) → [`Round`]
//! - `POST /workspaces/{id}/comments/act` ([`Act`]) → [`CommentList`]

use holm_core::comment::{CommentOrigin, CommentSide, CommentState};
use holm_core::hunk::Hunk;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CommentList {
    /// The oldest first.
    pub comments: Vec<Comment>,
}

/// A remark on lines of a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Comment {
    /// Unique in its workspace: `c4`.
    pub id: String,
    pub path: String,
    /// `62` or `62-64`.
    pub lines: String,
    pub text: String,
    pub state: CommentState,
    /// The lines were changed or deleted since; `lines` are those that it was made on.
    pub stale: bool,
    /// The round that it was sent in; null: not sent.
    #[schema(required)]
    pub round: Option<u64>,
    pub replies: Vec<Reply>,
    /// The turn that it was made on.
    pub turn: u64,
    /// The id of the file's blob when it was made.
    pub blob: String,
    /// The lines that it was made on.
    pub snippet: String,
    pub side: CommentSide,
    pub origin: CommentOrigin,
    pub author: String,
    pub at: String,
    /// The session or the run that got it: `session s…` or `run r…`; null: none yet.
    #[schema(required)]
    pub delivered: Option<String>,
    /// What changed since in the lines that it was made on, and next to them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Hunk>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Reply {
    pub author: String,
    pub text: String,
    pub at: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewComment {
    pub path: String,
    /// The first and the last line, from 1.
    pub first: u64,
    pub last: u64,
    pub text: String,
    #[serde(default)]
    pub side: CommentSide,
    #[serde(default)]
    pub origin: CommentOrigin,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Send {
    /// The id of a session. Default: the only live one of an agent, or the next run.
    #[serde(default)]
    pub session: Option<String>,
}

/// The comments that were sent together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Round {
    pub round: u64,
    pub ids: Vec<String>,
    /// `session s…`, or `the next run`.
    pub to: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Act {
    pub ids: Vec<String>,
    pub action: Action,
    /// An answer.
    #[serde(default)]
    pub text: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    Reply,
    Resolve,
    Reopen,
}
