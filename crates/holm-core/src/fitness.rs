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
