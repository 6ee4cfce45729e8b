//! Turns and reviews, on the wire.
//!
//! - `GET  /workspaces/{id}/turns` → [`TurnList`]; `POST` records one by hand → [`Marked`]
//! - `POST /workspaces/{id}/turns/state` ([`TurnWish`]) → [`TurnState`]: a turn as the uncommitted state of a
//!   new workspace
//! - `GET  /workspaces/{id}/review?since=` → [`Review`]; `POST` ([`Looked`]) records a look
//! - `POST /workspaces/{id}/approve` ([`Approve`]) → [`Approved`]; `GET` → [`Approval`]
//! - `GET  /workspaces/{id}/diff?from=@2&to=@3` → a patch between two turns
//! - `GET  /compare?workspaces=ID,ID` → [`Comparison`]

use crate::comment::Comment;
use crate::workspace::Dirty;
use holm_core::check::CheckState;
use holm_core::turn::TurnCause;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TurnList {
    /// The oldest first.
    pub turns: Vec<Turn>,
    /// What the last turn changed since the commit that the workspace started from; null: there is no turn.
    #[schema(required)]
    pub since_start: Option<Extent>,
}

/// Changed files and lines.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Extent {
    pub files: u64,
    pub added: u64,
    pub removed: u64,
}

/// The tree of a workspace at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Turn {
    /// From 1.
    pub n: u64,
    pub at: String,
    pub cause: TurnCause,
    /// The id of a git tree.
    pub tree: String,
    /// Changed files and lines since the turn before, or since the commit that the workspace started from.
    pub files: u64,
    pub added: u64,
    pub removed: u64,
}

/// The result of recording a turn by hand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Marked {
    /// The last turn; null: nothing was ever changed.
    #[schema(required)]
    pub turn: Option<Turn>,
    /// False: the tree is that of the turn before.
    pub recorded: bool,
}

/// Names a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TurnWish {
    pub turn: u64,
    /// Only the commit is asked for; nothing is packed.
    #[serde(default)]
    pub only_commit: bool,
}

/// A turn as the uncommitted state of a new workspace.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TurnState {
    /// The commit that the workspace of the turn started from.
    #[schema(required)]
    pub commit: Option<String>,
    #[schema(required)]
    pub dirty: Option<Dirty>,
}

/// Risks, evidence and the changed files between two turns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Review {
    /// The number of a turn; null: the commit that the workspace started from.
    #[schema(required)]
    pub from: Option<u64>,
    /// The number of the last turn; null: nothing was ever changed.
    #[schema(required)]
    pub to: Option<u64>,
    #[schema(required)]
    pub tree: Option<String>,
    /// The heaviest first.
    pub risks: Vec<Risk>,
    pub evidence: Evidence,
    /// The riskiest first.
    pub files: Vec<ReviewFile>,
    /// When a person last looked.
    #[schema(required)]
    pub looked_at: Option<String>,
    /// The workspace changed since the last turn; `POST /workspaces/{id}/turns` records that.
    pub changed_since: bool,
    /// What could not be computed, and why.
    pub notes: Vec<String>,
    /// All comments, with what changed since in the lines of each.
    #[serde(default)]
    pub comments: Vec<Comment>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Risk {
    /// Empty if the risk is about the whole tree.
    pub path: String,
    pub kind: String,
    pub text: String,
    /// high middle low
    pub weight: String,
}

/// What holm recorded since `from`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Evidence {
    pub commands: Vec<CommandEvidence>,
    pub checks: Vec<CheckEvidence>,
    pub hosts: Vec<HostEvidence>,
    pub volumes: Vec<VolumeEvidence>,
    pub outside: Vec<OutsideEvidence>,
    pub processes: Vec<ProcessEvidence>,
}

/// A run, or the last end of a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CommandEvidence {
    /// run service
    pub kind: String,
    /// The id of the run, or the name of the service.
    pub name: String,
    pub command: String,
    pub state: String,
    #[schema(required)]
    pub exit_code: Option<i32>,
    #[schema(required)]
    pub at: Option<String>,
}

/// The result of a check of this tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckEvidence {
    pub name: String,
    pub state: CheckState,
    #[schema(required)]
    pub exit_code: Option<u8>,
    /// How long its command ran.
    #[schema(required)]
    pub ms: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostEvidence {
    pub host: String,
    #[schema(required)]
    pub port: Option<u16>,
    pub refused: bool,
    pub count: u64,
}

/// A volume whose files changed: since it had its first content, or since `from`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VolumeEvidence {
    pub name: String,
    /// Files that were written; 0 if files were only deleted. A server writes files by itself.
    #[serde(default)]
    pub files: u64,
    /// It was reset, or restored from a snapshot, since `from`.
    #[serde(default)]
    pub replaced: bool,
    /// Other workspaces write it too.
    #[serde(default)]
    pub shared: bool,
    /// Holm did not look at all of its files: there are too many, or some cannot be read.
    #[serde(default)]
    pub partial: bool,
    /// The services that name its path in their command or environment.
    #[serde(default)]
    pub services: Vec<String>,
}

/// Files that were written outside of the tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OutsideEvidence {
    pub path: String,
    pub files: u64,
    /// Holm did not look at all files of this directory: there are too many, or some cannot be read.
    #[serde(default)]
    pub partial: bool,
}

/// A process that runs now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProcessEvidence {
    /// The pid inside.
    pub pid: u32,
    pub command: String,
    #[schema(required)]
    pub service: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReviewFile {
    pub path: String,
    /// create update delete rename
    pub operation: String,
    /// Lines; null for a binary file.
    #[schema(required)]
    pub added: Option<u64>,
    #[schema(required)]
    pub removed: Option<u64>,
    /// A person looked at exactly this content.
    pub viewed: bool,
    /// The earlier path of a renamed file.
    #[schema(required)]
    pub from: Option<String>,
    /// The kinds of its risks.
    pub risks: Vec<String>,
}

/// Records that a person looked at a turn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Looked {
    /// Default: the last one.
    #[serde(default)]
    pub turn: Option<u64>,
    /// Only these files were viewed, and the look stays where it is. Default: all that changed, with a look at the turn.
    #[serde(default)]
    pub paths: Option<Vec<String>>,
}

/// `POST /workspaces/{id}/approve`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Approve {
    /// The tree that the person saw; another one is refused. Default: the tree of now.
    #[serde(default)]
    pub tree: Option<String>,
}

/// A person's yes to one exact tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Approved {
    pub turn: u64,
    pub tree: String,
    /// Files that changed since the last look.
    pub files: Vec<String>,
    /// How many risks the tree has, compared with the start.
    pub risks: u64,
    /// The recorded results of checks of exactly this tree.
    pub checks: Vec<CheckEvidence>,
}

// === impl Approved ===

impl Approved {
    /// How many checks passed.
    pub fn passed(&self) -> usize {
        let checks = self.checks.iter();
        checks
            .filter(|check| check.state == CheckState::Passed)
            .count()
    }
}

/// The newest approval of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Approval {
    #[schema(required)]
    pub tree: Option<String>,
    #[schema(required)]
    pub turn: Option<u64>,
    #[schema(required)]
    pub at: Option<String>,
    #[schema(required)]
    pub by: Option<String>,
    #[schema(required)]
    pub basis: Option<ApprovalBasis>,
    /// `fetch`, `apply` and `merge` demand an approval.
    pub required: bool,
    /// Who demands it: `settings`, `policy` or `holm.toml`.
    #[schema(required)]
    pub required_by: Option<String>,
}

/// What holm had recorded about a tree when a person approved it, since the commit that the workspace started from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApprovalBasis {
    /// The heaviest first, at most 1000.
    pub risks: Vec<Risk>,
    pub evidence: Evidence,
}

/// Workspaces of one project side by side, each with its last turn. No winner is named.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Comparison {
    /// In the order of the request.
    pub workspaces: Vec<Compared>,
    /// What could not be computed, and why.
    pub notes: Vec<String>,
}

/// What a workspace did since the commit that it started from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Compared {
    pub id: String,
    pub label: String,
    /// The number of the last turn; null: nothing was ever changed.
    #[schema(required)]
    pub turn: Option<u64>,
    #[schema(required)]
    pub tree: Option<String>,
    pub files: u64,
    pub added: u64,
    pub removed: u64,
    /// The checks of this tree.
    pub checks: Vec<CheckEvidence>,
    /// How long its runs took together.
    pub ms: u64,
    pub hosts: Vec<HostEvidence>,
    pub volumes: Vec<VolumeEvidence>,
    /// The heaviest first, without conflicts.
    pub risks: Vec<Risk>,
    /// With every live workspace of the project, and with the branch that it started from.
    pub conflicts: Vec<ConflictWith>,
    /// The branch that `conflicts` was compared with; null: it started from none that is known.
    #[schema(required)]
    pub branch: Option<String>,
    /// The workspace changed since the last turn.
    pub changed_since: bool,
}

/// Paths that cannot be merged with another workspace or with a branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConflictWith {
    /// The label of the workspace, or the name of the branch.
    pub with: String,
    /// The id of the workspace; null: a branch.
    #[schema(required)]
    pub workspace: Option<String>,
    pub paths: Vec<String>,
    /// How many further paths there are.
    pub more: u64,
}
