//! `POST /workspaces/{id}/reload`: applies the `holm.toml` of a workspace's tree.

use crate::project::Ask;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Reload {
    /// Only report what would change.
    #[serde(default)]
    pub dry_run: bool,
    /// The content that the user saw ([`Reloaded::content`]); a different one is refused.
    #[serde(default)]
    pub content: Option<String>,
    /// A person approved its requests to the host.
    #[serde(default)]
    pub approve: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Reloaded {
    /// The differences, in words.
    pub changes: Vec<String>,
    /// Keys that take effect at the next start.
    pub at_next_start: Vec<String>,
    /// Keys that only a new workspace can take over.
    #[serde(default)]
    pub needs_new_workspace: Vec<String>,
    /// Requests to the host that are not in force and that the user has not approved.
    pub asks: Vec<Ask>,
    /// Identifies the content that was read.
    pub content: String,
    /// Whether the configuration is in force now.
    pub applied: bool,
}
