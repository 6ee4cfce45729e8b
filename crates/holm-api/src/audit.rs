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
    /// `user me`, `token t… (ci)`, `workspace w…` or `nobody`.
    pub actor: String,
    /// What the answer had as `X-Request-Id`.
    pub request_id: String,
    pub method: String,
    /// The route with its parameters' names.
    pub route: String,
    /// The workspace that the path names.
    #[schema(value_type = Option<WorkspaceId>, required)]
    pub workspace: Option<String>,
    /// Of the answer's head; 101 for a WebSocket.
    pub status: u16,
    /// Of the error, if it was one.
    #[schema(required)]
    pub code: Option<String>,
    /// How many requests this stands for.
    pub count: u64,
}

/// The newest entries, the newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditList {
    pub audit: Vec<AuditEntry>,
}
