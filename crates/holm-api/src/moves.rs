//! Moving a live workspace to another commit, on the wire.
//!
//! - `POST /workspaces/{id}/assign` ([`Assign`]) → JSON Lines of [`MoveEvent`], the last of which
//!   is
//!   `moved` or `error`: the tree is switched, then services react
//! - `POST /workspaces/{id}/sync` ([`Sync`]) → the same, only forward
//!
//! The daemon must have a `commit` already (`/projects/sync`). A `ref` alone is looked up in the user's repository,
//! which the client's own program does. A client that disconnects cancels a
//! `setup` that runs for its request, and nothing else.

use crate::Workspace;
use crate::error::ErrorDetail;
use holm_core::image_reference::ImageReference;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Assign {
    /// A commit that the daemon has. Without it, `ref` is looked up in the user's repository.
    #[serde(default)]
    pub commit: Option<String>,
    /// The name as the user typed it; `None` for a commit id.
    #[serde(default, rename = "ref")]
    pub reference: Option<String>,
    /// Stash uncommitted changes instead of failing.
    #[serde(default)]
    pub stash: bool,
    /// Lines of a shallow clone's `shallow` file.
    #[serde(default)]
    pub shallow: Vec<String>,
    /// The images that the client has built for the commit, by their services.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, String>)]
    pub built: BTreeMap<String, ImageReference>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = WorkspaceSync)]
pub struct Sync {
    /// The newest commit of the branch, if the daemon has it. Without it, `ref`, or the branch that the workspace
    /// started from, is looked up in the user's repository.
    #[serde(default)]
    pub commit: Option<String>,
    #[serde(default, rename = "ref")]
    pub reference: Option<String>,
    #[serde(default)]
    pub shallow: Vec<String>,
    /// As for an assignment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, String>)]
    pub built: BTreeMap<String, ImageReference>,
}

/// One line of the response.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MoveEvent {
    Progress { step: String, done: u64, total: u64 },
    Moved(Box<Moved>),
    Error(ErrorDetail),
}

/// The workspace afterwards, and what was done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Moved {
    #[serde(flatten)]
    pub workspace: Workspace,
    #[serde(rename = "move")]
    pub done: Move,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Move {
    /// The commit before, if the tree was switched.
    #[schema(required)]
    pub from: Option<String>,
    /// How many files differ.
    pub changed: u64,
    /// The stash with the workspace's changes.
    #[schema(required)]
    pub stash: Option<String>,
    /// `setup` ran in place, because its inputs changed.
    pub setup: bool,
    /// All processes were restarted, because protected paths changed.
    pub restarted: bool,
    /// How each service reacted.
    pub services: Vec<Reaction>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reaction {
    pub name: String,
    /// none hot restart rebuild
    pub reaction: String,
}
