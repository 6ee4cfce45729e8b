//! Types of a run: the driver's order, its reports, and the stored record. The operations are in
//! [`crate::runs`].

use holm_core::{RunId, WorkspaceId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Who requested a run or a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asker {
    /// A program inside the workspace. It could read the secrets of what it starts, so the run gets
    /// none.
    #[default]
    Guest,
    User,
}

/// What a driver starts. It continues when the daemon dies.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunOrder {
    /// The run's id; a run with this id is not started twice.
    pub run: String,
    pub argv: Vec<Vec<u8>>,
    /// Added to the workspace's own environment.
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    /// For its stdin.
    pub message: String,
    pub timeout_ms: u64,
    #[serde(default)]
    pub asker: Asker,
}

/// The state of a run, as the keeper reports it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunSeen {
    /// Milliseconds since the epoch.
    pub started_ms: i64,
    /// Bytes of output so far, including those that are no longer stored.
    pub length: u64,
    /// `None`: it runs.
    pub end: Option<RunEnd>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunEnd {
    pub at_ms: i64,
    /// As in a shell.
    pub code: u8,
    pub how: How,
    /// Why, if known.
    pub cause: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// By itself.
    Exited,
    /// Its program could not be started.
    NotStarted,
    TimedOut,
    Cancelled,
    /// With the workspace, which was stopped on request.
    Stopped,
    /// With the workspace, which ended otherwise.
    Died,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    Queued,
    Running,
    Succeeded,
    Failed,
    TimedOut,
    Cancelled,
    Lost,
}

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

/// The part of a record that is not searched.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunDetails {
    /// `None`: a command.
    pub agent: Option<String>,
    pub command: Vec<String>,
    pub message: Option<String>,
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

// === impl RunState ===

impl RunState {
    pub const ALL: [RunState; 7] = [
        RunState::Queued,
        RunState::Running,
        RunState::Succeeded,
        RunState::Failed,
        RunState::TimedOut,
        RunState::Cancelled,
        RunState::Lost,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            RunState::Queued => "queued",
            RunState::Running => "running",
            RunState::Succeeded => "succeeded",
            RunState::Failed => "failed",
            RunState::TimedOut => "timed_out",
            RunState::Cancelled => "cancelled",
            RunState::Lost => "lost",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        RunState::ALL
            .into_iter()
            .find(|state| state.as_str() == text)
    }

    pub fn has_ended(self) -> bool {
        !matches!(self, RunState::Queued | RunState::Running)
    }
}

// === impl RunEnd ===

impl RunEnd {
    /// The resulting state.
    pub fn state(&self) -> RunState {
        match (self.how, self.code) {
            (How::Exited, 0) => RunState::Succeeded,
            (How::Exited | How::NotStarted, _) => RunState::Failed,
            (How::TimedOut, _) => RunState::TimedOut,
            (How::Cancelled | How::Stopped, _) => RunState::Cancelled,
            (How::Died, _) => RunState::Lost,
        }
    }

    pub fn reason(&self) -> Option<String> {
        let why = match self.how {
            How::Stopped => Some("the workspace was stopped"),
            How::Died => Some("the workspace ended"),
            How::Exited | How::NotStarted | How::TimedOut | How::Cancelled => None,
        };
        self.cause.clone().or(why.map(str::to_owned))
    }
}
