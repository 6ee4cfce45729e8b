//! `GET /audit`: who changed what.

use crate::id::WorkspaceId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A request that changed something, or several that were refused alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    /// Its place in the order of all; `before` takes it.
    pub cursor: u64,
    pub time: String,
    /// `user me`, `token t… (ci)`, `workspace w…`, `workspace w… session s…`, `workspace w… run r…`,
    /// `holm` (by itself) or `nobody`.
    pub actor: String,
    /// What the answer had as `X-Request-Id`.
    pub request_id: String,
    pub method: String,
    /// The route with its parameters' names.
    pub route: String,
    /// The workspace that the path names.
    #[schema(value_type = Option<WorkspaceId>, required)]
    pub workspace: Option<String>,
    /// What else the path names: `project p…`, `token t…`, `run r…`, `session s…`.
    #[serde(default)]
    #[schema(required)]
    pub subject: Option<String>,
    /// Of the answer's head; 101 for a WebSocket.
    pub status: u16,
    /// Of the error, if it was one.
    #[schema(required)]
    pub code: Option<String>,
    /// What came of it, where that was known only after the answer had begun: `exit 0`, `made`,
    /// `failed`.
    #[serde(default)]
    #[schema(required)]
    pub outcome: Option<String>,
    /// How many requests this stands for.
    pub count: u64,
}

/// The newest entries, the newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditList {
    pub audit: Vec<AuditEntry>,
    /// There are more than were asked for: `before` takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// Which entries are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditQuery {
    pub limit: Option<u64>,
    pub before: Option<u64>,
    pub actor: Option<String>,
    pub workspace: Option<String>,
    /// RFC 3339.
    pub since: Option<String>,
    /// Only what failed or was refused.
    pub bad: bool,
}
