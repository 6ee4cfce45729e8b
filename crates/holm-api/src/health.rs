//! `GET /health` → [`Health`], with 503 when a check fails. The route is outside the prefix, where
//! monitoring programs expect it, and open to everyone: problems are described without paths and
//! without system error messages.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// `ok` when every check passed.
    pub status: Condition,
    /// The daemon could read and write its store.
    pub store: Condition,
    /// The daemon could write a file there, and the directories that it needs exist.
    pub data_dir: Condition,
    /// Whether workspaces can be made, by driver.
    pub drivers: BTreeMap<String, Condition>,
    pub timestamp: String,
    /// The checks that failed, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    Ok,
    Failing,
}
