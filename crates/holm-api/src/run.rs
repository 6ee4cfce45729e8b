//! Runs on the wire: each is one execution of an agent or command, with a message, a time limit and
//! a result.
//!
//! - `POST /workspaces/{id}/runs` ([`CreateRun`]) → 201 [`Run`], which has started or is about to.
//!   With
//!   an `Idempotency-Key` a repeated request returns the same run
//! - `GET  /workspaces/{id}/runs?state=&limit=&after=` → [`RunList`], newest first
//! - `GET  /workspaces/{id}/runs/{run}` → [`Run`] with its changes
//! - `POST /workspaces/{id}/runs/{run}/cancel` → [`Run`], when all its processes have ended
//! - `GET  /workspaces/{id}/runs/{run}/output?after=` → a WebSocket: text messages, each a
//!   [`RunEvent`], the last of which is `ended` or `error`
//! - `GET  /runs?prefix=&state=&limit=&after=` → [`RunList`] of all workspaces; `prefix` is the
//!   beginning of an id

use crate::error::ErrorDetail;
use crate::exec::Bytes;
use holm_core::run::RunState;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::{IntoParams, ToSchema};

/// The largest message, in bytes.
pub const MOST_MESSAGE: usize = 512 << 10;
/// The largest number of context files of a run, and their largest total size.
pub const MOST_FILES: usize = 256;
pub const MOST_FILE_BYTES: usize = 32 << 20;

/// What to run: `agent` or `command`, or neither for the default agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateRun {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<Bytes>>,
    /// Sent to its stdin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Added to the workspace's own environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Values of the caller's variables. The agent gets those that `[agents.X] env` in the user's
    /// settings names; for a missing one, the daemon's own value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub agent_env: BTreeMap<String, String>,
    /// Written below the project's root before the run starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<ContextFile>,
    /// `None`: the agent's, or five minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Fail instead of starting a stopped workspace.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_start: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ContextFile {
    /// Below the project's root, without `..` and without symlinks on the way.
    pub path: String,
    /// Text, or an array of bytes.
    pub content: Bytes,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub executable: bool,
}

/// The record of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Run {
    pub id: String,
    /// The workspace's id.
    pub workspace: String,
    /// `None`: a command.
    pub agent: Option<String>,
    pub command: Vec<String>,
    /// Abbreviated in lists.
    pub message: Option<String>,
    pub state: RunState,
    /// Why, where the state alone does not say it.
    pub reason: Option<String>,
    /// 0–255 as in a shell: 124 time-out, 126/127, 128+n.
    pub exit_code: Option<u8>,
    pub created_at: String,
    pub started_at: Option<String>,
    pub ended_at: Option<String>,
    pub duration_ms: Option<u64>,
    pub timeout_ms: u64,
    /// How many files it changed; `None`: not known (yet).
    pub changed: Option<u64>,
    /// The changed files. Not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Vec<RunChange>>,
    /// Remarks for the caller.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// One file that changed while it ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunChange {
    /// Bytes that are not UTF-8 are written `\xNN`.
    pub path: String,
    /// create update delete rename
    pub operation: String,
    /// The earlier path of a renamed file.
    pub from: Option<String>,
    pub binary: bool,
    /// In bytes; `None` for a deleted file.
    pub size: Option<u64>,
    /// The complete new content; `None`: deleted, binary, or too long.
    pub content: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunList {
    /// Newest first.
    pub runs: Vec<Run>,
    /// For `after=` of the next page, if there is one.
    pub next: Option<String>,
}

/// Filters for runs.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RunQuery {
    /// Only those in this state.
    #[param(value_type = Option<RunState>)]
    pub state: Option<String>,
    /// Only those whose ids begin with this.
    pub prefix: Option<String>,
    /// The maximum number, up to 1000; default: 100.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<usize>,
    /// `next` of the page before.
    pub after: Option<String>,
}

/// A message on the WebSocket of a run's output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunEvent {
    /// The first message where the run was asked for by its key: the run, whose program has started.
    Begun(Box<Run>),
    Output(RunPiece),
    /// This many bytes of output are no longer stored.
    Truncated {
        bytes: u64,
        cursor: u64,
    },
    /// The last message: the finished run.
    Ended(Box<Run>),
    Error(ErrorDetail),
}

/// A piece of output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunPiece {
    /// The position after this piece, for `after=`.
    pub cursor: u64,
    /// When it was read.
    pub time: String,
    /// stdout stderr
    pub stream: String,
    /// Text, or an array of bytes if it is not UTF-8.
    pub data: Bytes,
}
