//! Work that reaches the user's checkout, on the wire. The user's own program does it there, as if the user had typed
//! `holm apply` or `holm merge`.
//!
//! - `GET    /workspaces/{id}/apply` → [`Effect`]: what an apply would change
//! - `POST   /workspaces/{id}/apply` ([`Apply`]) → [`Applied`]
//! - `DELETE /workspaces/{id}/apply` → [`TakenBack`]
//! - `POST   /workspaces/{id}/merge` ([`Merge`]) → [`Merged`]

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What an apply would change in the user's checkout, which stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Effect {
    pub id: String,
    pub label: String,
    /// The tree of the workspace that would be taken over.
    pub tree: String,
    /// The path of the checkout.
    pub checkout: String,
    /// The branch that is checked out; `None`: detached.
    #[schema(required)]
    pub into: Option<String>,
    /// How many files would change, and how many lines.
    pub changed: usize,
    pub added: u64,
    pub removed: u64,
    /// Tracked files with uncommitted edits. An apply leaves them as they are; a merge refuses to begin.
    pub edited: Vec<String>,
    /// How many files inside are in no commit. A merge takes commits only.
    pub uncommitted: u64,
    /// The number of stashes inside, and refs with commits that are not in the tree.
    pub stashes: u64,
    pub aside: Vec<String>,
    /// Entries that need consent.
    pub flagged: Vec<Flagged>,
}

/// An entry that needs consent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Flagged {
    pub path: String,
    /// The kind of risk of each reason.
    pub kinds: Vec<String>,
    pub why: Vec<String>,
}

/// `POST /workspaces/{id}/apply`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Apply {
    /// Consent to the flagged entries.
    #[serde(default)]
    pub yes: bool,
    /// Take exactly the approved tree, or refuse.
    #[serde(default)]
    pub approved: bool,
}

/// What an apply changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Applied {
    pub id: String,
    pub label: String,
    /// How many paths of the checkout were changed.
    pub changed: usize,
    /// The number of stashes inside, and refs with commits that are not in the tree.
    pub stashes: u64,
    pub aside: Vec<String>,
    /// Entries that needed consent.
    pub flagged: Vec<Flagged>,
}

/// An apply that was undone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TakenBack {
    pub id: String,
    /// How many paths of the checkout are as before the apply.
    pub undone: usize,
}

/// `POST /workspaces/{id}/merge`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Merge {
    /// Consent to the flagged entries.
    #[serde(default)]
    pub yes: bool,
    /// Take exactly the approved tree, or refuse.
    #[serde(default)]
    pub approved: bool,
    /// Commit everything inside first, with this message.
    #[serde(default)]
    pub commit: Option<String>,
}

/// What a merge did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Merged {
    pub id: String,
    pub label: String,
    /// The branch of the user's repository that has the workspace's commits.
    pub branch: String,
    /// Whether HEAD of the checkout moved; if not, it had everything.
    pub merged: bool,
    /// HEAD of the checkout afterwards.
    #[schema(required)]
    pub head: Option<String>,
}
