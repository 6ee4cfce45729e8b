//! `POST /workspaces/{id}/reload`: taking over the `holm.toml` of a workspace's tree.

use crate::project::Ask;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Reload {
    /// Only say what would change.
    #[serde(default)]
    pub dry_run: bool,
    /// The content that was shown ([`Reloaded::content`]); another one is refused.
    #[serde(default)]
    pub content: Option<String>,
    /// A person approved what it asks of the host.
    #[serde(default)]
    pub approve: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Reloaded {
    /// What is different, in words.
    pub changes: Vec<String>,
    /// Keys that take effect at the next start.
    pub at_next_start: Vec<String>,
    /// Keys that this workspace does not take over: a new one begins with them.
    #[serde(default)]
    pub needs_new_workspace: Vec<String>,
    /// What it asks of the host that is not in force and that nobody approved.
    pub asks: Vec<Ask>,
    /// Identifies the file that was read.
    pub content: String,
    /// Whether it is in force now.
    pub applied: bool,
}
