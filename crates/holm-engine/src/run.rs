//! One run as it is stored. The operations are in [`crate::runs`].

use holm_core::run::RunState;
use holm_core::{RunId, WorkspaceId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The stored record of a run, without values of variables.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    pub id: RunId,
    pub workspace: WorkspaceId,
    /// The idempotency key, and a digest of the request.
    pub key: Option<String>,
    pub digest: String,
    pub created_at: Timestamp,
    pub state: RunState,
    pub details: RunDetails,
}

// === impl RunRecord ===

impl RunRecord {
    /// Whether its daemon died before it started the program.
    pub fn was_lost_before_start(&self) -> bool {
        self.state == RunState::Lost && self.details.started_ms.is_none()
    }
}

/// The part of a record that is not searched.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunDetails {
    /// `None`: a command.
    pub agent: Option<String>,
    pub command: Vec<String>,
    pub message: Option<String>,
    /// The numbers of the review comments in the message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comments: Vec<u64>,
    pub timeout_ms: u64,
    pub started_ms: Option<i64>,
    pub ended_ms: Option<i64>,
    pub exit_code: Option<u8>,
    pub reason: Option<String>,
    /// The hint when the agent's program is not found.
    pub how_to_add: Option<String>,
    /// The tree before the run.
    pub before: Option<String>,
    /// The user's files that were copied for it and must be removed again.
    pub brought: Vec<String>,
    pub changes: Option<Vec<RunChange>>,
    /// The number of further changes.
    pub changes_left_out: u64,
    pub notes: Vec<String>,
}

/// One file that changed while it ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunChange {
    pub path: Vec<u8>,
    /// create update delete rename
    pub operation: String,
    pub from: Option<Vec<u8>>,
    pub binary: bool,
    pub size: Option<u64>,
    pub content: Option<String>,
}

/// Filters for runs; the newest come first.
#[derive(Clone, Debug, Default)]
pub struct RunFilter {
    pub workspace: Option<WorkspaceId>,
    pub state: Option<RunState>,
    /// The beginning of an id.
    pub prefix: Option<String>,
    /// Only runs inserted before this one.
    pub before: Option<i64>,
    pub limit: usize,
}
