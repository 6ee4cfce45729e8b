//! The stored form of checks, and of the purpose of a workspace that runs one.

use super::Volume;
use crate::config::CheckVolumes;
use serde::{Deserialize, Serialize};

/// One of `[checks]`, as stored with a workspace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    pub name: String,
    /// A shell command.
    pub run: String,
    pub timeout_ms: u64,
    /// Patterns of paths; empty: every change concerns it.
    pub when: Vec<String>,
    #[serde(with = "crate::spec::word")]
    pub volumes: CheckVolumes,
}

/// What a workspace of a check is made for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckFor {
    /// The id of the workspace whose turn is checked. Its secrets and uploads count.
    pub workspace: String,
    /// Volumes of that workspace whose content is copied.
    pub volumes: Vec<Volume>,
}
