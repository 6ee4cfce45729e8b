//! Checks of turns, on the wire.
//!
//! - `POST /workspaces/{id}/checks` ([`RunChecks`]) → [`CheckList`]: begins the checks of the tree of now
//! - `GET  /workspaces/{id}/checks?tree=&after=` → [`CheckList`]; with `after` it waits for news
//! - `POST /workspaces/{id}/checks/cancel` → [`CheckList`]
//!
//! Logs are read by `GET /workspaces/{id}/logs?services=check/NAME`.

use holm_core::check::CheckState;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The checks of one tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckList {
    /// By name.
    pub checks: Vec<CheckResult>,
    /// The tree that they are about; null: nothing was ever checked or changed.
    #[schema(required)]
    pub tree: Option<String>,
    /// The turn with that tree; null: the starting commit.
    #[schema(required)]
    pub turn: Option<u64>,
    /// Changes with every news of a check; `after` waits for another one.
    pub revision: u64,
}

/// The newest result of a check of a tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckResult {
    pub name: String,
    pub state: CheckState,
    /// 124: it hit its time limit. Null until it has ended, and when it could not start.
    #[schema(required)]
    pub exit_code: Option<u8>,
    /// The id of a git tree.
    pub tree: String,
    /// How long its command ran.
    #[schema(required)]
    pub ms: Option<u64>,
    /// Why, where the exit code does not say it.
    #[schema(required)]
    pub reason: Option<String>,
    /// When its state last changed.
    pub at: String,
    /// This request found the result of an earlier one, and did not run it again.
    #[serde(default)]
    pub reused: bool,
}

/// `POST /workspaces/{id}/checks`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RunChecks {
    /// Default: all of the project.
    #[serde(default)]
    pub names: Vec<String>,
    /// Also those that have a result for this tree.
    #[serde(default)]
    pub again: bool,
}

// === impl CheckList ===

impl CheckList {
    pub fn has_ended(&self) -> bool {
        self.checks.iter().all(|check| check.state.has_ended())
    }

    /// Only the checks that a request began or found, as they are now.
    pub fn asked_by(self, begun: &CheckList) -> Self {
        let checks = begun.checks.iter().map(|asked| {
            let mut found = self.checks.iter().filter(|check| check.name == asked.name);
            let found = found.next().unwrap_or(asked);
            CheckResult {
                reused: asked.reused,
                ..found.clone()
            }
        });
        CheckList {
            checks: checks.collect(),
            tree: begun.tree.clone(),
            turn: begun.turn,
            revision: self.revision,
        }
    }

    /// Those that neither passed nor were skipped.
    pub fn bad(&self) -> impl Iterator<Item = &CheckResult> {
        let is_good = |state| matches!(state, CheckState::Passed | CheckState::Skipped);
        self.checks
            .iter()
            .filter(move |check| !is_good(check.state))
    }
}
