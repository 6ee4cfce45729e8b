//! The facts that the inbox is decided from. The server gathers them from the store and from the reports of keepers.

use crate::notify::Millis;
use crate::plan::State;
use crate::run::RunState;
use crate::service::status::ServiceStatus;
use std::collections::BTreeMap;

/// What is recorded about one workspace.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// `None`: it was not observed.
    pub state: Option<State>,
    /// The reason of that state, as the API says it.
    pub reason: Option<String>,
    pub services: Vec<ServiceStatus>,
    /// Those that run.
    pub sessions: Vec<SessionFact>,
    /// Calls of `notify`, oldest first.
    pub notices: Vec<NoticeFact>,
    /// The newest run.
    pub run: Option<RunFact>,
    /// Turns of ended runs that no person has looked at or approved.
    pub unread: Option<UnreadFact>,
    /// When a person last looked at the work.
    pub looked_at: Option<Millis>,
    pub refusals: Vec<Refusal>,
    pub limits: LimitFacts,
    pub comments: Vec<CommentFact>,
    /// The newest result of each check, for the newest tree that was checked.
    pub checks: Vec<CheckFact>,
    pub conflicts: Vec<ConflictFact>,
    /// The tree could not be recorded, and has not been since.
    pub turn_failure: Option<TurnFailureFact>,
    /// When each cause was first seen, by its name. Only for causes that nothing else dates.
    pub seen: BTreeMap<String, Millis>,
}

#[derive(Clone, Debug, Default)]
pub struct TurnFailureFact {
    pub at: Millis,
    /// Why.
    pub text: String,
}

/// A running session.
#[derive(Clone, Debug, Default)]
pub struct SessionFact {
    pub id: String,
    pub agent: Option<String>,
    pub title: Option<String>,
    /// Its last request for attention that no client has answered.
    pub attention: Option<(Millis, Option<String>)>,
    /// The latest of its start, its output, its input and its use of a processor.
    pub active_at: Millis,
    /// When a client last wrote to it.
    pub answered_at: Option<Millis>,
    /// A client is attached, so a person sees it.
    pub is_watched: bool,
}

/// A call of `notify`.
#[derive(Clone, Debug, Default)]
pub struct NoticeFact {
    pub at: Millis,
    /// The session or run that called.
    pub source: Option<String>,
    pub text: String,
    /// So many calls were left out before it, because there were too many.
    pub left_out: u64,
}

#[derive(Clone, Debug)]
pub struct RunFact {
    pub id: String,
    pub state: RunState,
    pub created_at: Millis,
    pub ended_at: Option<Millis>,
    /// The agent, or the first word of the command.
    pub program: String,
    pub exit_code: Option<u8>,
    pub reason: Option<String>,
    pub timeout_ms: u64,
}

#[derive(Clone, Debug, Default)]
pub struct UnreadFact {
    /// The number of the newest one.
    pub turn: u64,
    pub at: Millis,
    /// How many turns are unread.
    pub turns: u64,
    /// What the newest one changed.
    pub files: u64,
    pub added: u64,
    pub removed: u64,
}

/// Refusals of one kind since the last look.
#[derive(Clone, Debug, Default)]
pub struct Refusal {
    /// `errors.example.net:443`, or the request that policy refused.
    pub what: String,
    pub count: u64,
    pub last_at: Millis,
}

#[derive(Clone, Debug, Default)]
pub struct LimitFacts {
    /// Processes that the kernel killed since the start.
    pub memory_kills: u64,
    pub memory: Option<u64>,
    pub disk: Option<u64>,
    /// Resources that are used up right now.
    pub used_up: Vec<String>,
}

/// A comment that was sent.
#[derive(Clone, Debug, Default)]
pub struct CommentFact {
    pub round: u64,
    pub is_open: bool,
    /// When the agent last answered or resolved it, unless a person acted on it since.
    pub answered_at: Option<Millis>,
}

#[derive(Clone, Debug, Default)]
pub struct CheckFact {
    pub name: String,
    pub turn: Option<u64>,
    pub has_passed: bool,
    /// What failed: `2 of 31 failed`, `exit 1`.
    pub text: String,
    pub at: Millis,
}

#[derive(Clone, Debug, Default)]
pub struct ConflictFact {
    /// The id and the label of the other workspace.
    pub other: String,
    pub label: String,
    pub path: String,
    pub lines: Option<(u64, u64)>,
    /// `None`: no record dates it.
    pub since: Option<Millis>,
}
