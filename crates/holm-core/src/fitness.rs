//! What `holm doctor` finds out about a machine: one check per requirement.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One check of `doctor`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Check {
    /// `user namespaces`
    pub name: String,
    pub status: Status,
    /// What was found.
    pub detail: String,
    /// How to fix it, when it is not ok.
    #[schema(required)]
    pub fix: Option<String>,
    /// Without it no workspace starts.
    pub required: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = CheckStatus)]
pub enum Status {
    Ok,
    Warning,
    Missing,
}

// === impl Check ===

impl Check {
    /// Something that every workspace needs; `fix` says how to get it when it is not there.
    pub fn required(name: &str, detail: String, fix: Option<String>) -> Self {
        Self {
            name: name.to_owned(),
            status: fix.as_ref().map_or(Status::Ok, |_| Status::Missing),
            detail,
            fix,
            required: true,
        }
    }

    /// As [`Self::required`], for something that workspaces can do without.
    pub fn optional(name: &str, detail: String, fix: Option<String>) -> Self {
        Self {
            name: name.to_owned(),
            status: fix.as_ref().map_or(Status::Ok, |_| Status::Warning),
            detail,
            fix,
            required: false,
        }
    }
}
