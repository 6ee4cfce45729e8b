//! `GET /audit`: the record of requests that changed something.

use crate::review::ApprovalBasis;
use holm_core::WorkspaceId;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// A request that changed something, or several refused requests of the same kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    /// Position in the record; use it as `before`.
    pub cursor: u64,
    pub time: String,
    /// `user me`, `token t… (ci)`, `workspace w…`, `workspace w… session s…`, `workspace w… run
    /// r…`, `holm` (by itself) or `nobody`.
    pub actor: String,
    /// The `X-Request-Id` of the response.
    pub request_id: String,
    pub method: String,
    /// The route with the names of its parameters.
    pub route: String,
    /// The workspace in the path.
    #[schema(value_type = Option<WorkspaceId>, required)]
    pub workspace: Option<String>,
    /// The other object in the path: `project p…`, `token t…`, `run r…`, `session s…`.
    #[serde(default)]
    #[schema(required)]
    pub subject: Option<String>,
    /// HTTP status; 101 for a WebSocket.
    pub status: u16,
    /// The error code, if the request failed.
    #[schema(required)]
    pub code: Option<String>,
    /// The result, if it was known only after the response began: `exit 0`, `made`, `failed`.
    #[serde(default)]
    #[schema(required)]
    pub outcome: Option<String>,
    /// For an approval: what holm had recorded about the tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis: Option<ApprovalBasis>,
    /// How many requests this entry stands for.
    pub count: u64,
}

/// Entries, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditList {
    pub audit: Vec<AuditEntry>,
    /// Set if there are more entries; use it as `before`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// Filters for the record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AuditQuery {
    #[param(minimum = 1, maximum = 10000)]
    pub limit: Option<usize>,
    /// A cursor.
    pub before: Option<u64>,
    /// Only actors that contain this text.
    pub actor: Option<String>,
    /// Only about this workspace.
    pub workspace: Option<String>,
    /// Only from this time on; RFC 3339.
    pub since: Option<String>,
    /// Only requests that failed or were refused.
    #[serde(default)]
    pub bad: bool,
}
