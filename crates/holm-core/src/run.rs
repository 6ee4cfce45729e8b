//! One run as values: what a keeper is asked to begin, and what it says of it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Who asked for a run or a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Requester {
    /// A program inside the workspace. It could read the secrets of what it starts, so what it starts
    /// gets none.
    #[default]
    Guest,
    User,
}

/// What a keeper begins. It goes on whatever becomes of the daemon.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunOrder {
    /// The run's id; one that is under way already is not begun again.
    pub run: String,
    pub argv: Vec<Vec<u8>>,
    /// Added to the workspace's own environment.
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    /// For its stdin.
    pub message: String,
    pub timeout_ms: u64,
    #[serde(default)]
    pub asker: Requester,
}

/// The state of a run, as the keeper reports or records it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunSeen {
    /// Milliseconds since the epoch.
    pub started_ms: i64,
    /// So many bytes of output were recorded, also of those that are gone from the record.
    pub length: u64,
    /// `None`: it runs.
    pub end: Option<RunEnd>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunEnd {
    pub at_ms: i64,
    /// As a shell would say it.
    pub code: u8,
    pub how: RunEnding,
    /// Why, where that is known.
    pub cause: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEnding {
    /// By itself.
    Exited,
    /// Its program could not be started.
    NotStarted,
    TimedOut,
    Cancelled,
    /// The run ended because a user stopped its workspace.
    Stopped,
    /// The run ended because its workspace ended in another way.
    Died,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Created and not started.
    Queued,
    Running,
    /// Exit code 0.
    Succeeded,
    /// Any other exit code, or it could not start.
    Failed,
    TimedOut,
    /// By a caller, or because its workspace was stopped or removed.
    Cancelled,
    /// Its workspace or the machine crashed.
    Lost,
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
    /// What the record says from now on.
    pub fn state(&self) -> RunState {
        match (self.how, self.code) {
            (RunEnding::Exited, 0) => RunState::Succeeded,
            (RunEnding::Exited | RunEnding::NotStarted, _) => RunState::Failed,
            (RunEnding::TimedOut, _) => RunState::TimedOut,
            (RunEnding::Cancelled | RunEnding::Stopped, _) => RunState::Cancelled,
            (RunEnding::Died, _) => RunState::Lost,
        }
    }

    pub fn reason(&self) -> Option<String> {
        let why = match self.how {
            RunEnding::Stopped => Some("the workspace was stopped"),
            RunEnding::Died => Some("the workspace ended"),
            RunEnding::Exited
            | RunEnding::NotStarted
            | RunEnding::TimedOut
            | RunEnding::Cancelled => None,
        };
        self.cause.clone().or(why.map(str::to_owned))
    }
}
