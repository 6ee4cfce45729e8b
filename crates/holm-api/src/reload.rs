//! `POST /workspaces/{id}/reload`: applies a changed `holm.toml` to a workspace.

use crate::project::Ask;
use holm_core::compose::ComposeFiles;
use holm_core::image_reference::ImageReference;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
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
    /// Which file to take over.
    #[serde(default)]
    pub from: ReloadFrom,
    /// The text of the file, if the client has read it.
    #[serde(default)]
    pub config: Option<String>,
    /// The Compose files that `config` names.
    #[serde(default, skip_serializing_if = "ComposeFiles::is_empty")]
    pub compose: ComposeFiles,
    /// The images that the client has built, by their services.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, String>)]
    pub built: BTreeMap<String, ImageReference>,
}

/// The file that a reload takes over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReloadFrom {
    /// Of the user's checkout as it is now, committed or not.
    #[default]
    Checkout,
    /// Of the commit that the workspace started from or was moved to.
    Commit,
    /// Of the workspace's tree, which programs inside can write.
    Inside,
}

/// The text of a project's `holm.toml`, as `holm reload --show-config` prints it for the daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConfigText {
    /// `None`: there is no such file.
    pub config: Option<String>,
    /// The Compose files that `config` names.
    #[serde(default, skip_serializing_if = "ComposeFiles::is_empty")]
    pub compose: ComposeFiles,
    /// The names of the images that are built from the files beside it, by their services.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub built: BTreeMap<String, ImageReference>,
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
    /// Notes for the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}
