//! `GET /health` → [`Health`], with 503 when something is not well. Outside of the prefix, as whatever
//! watches services expects it, and open to everybody: it says what is wrong in words of its own, without
//! paths and without what the system said.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// `ok` when everything below is.
    pub status: Condition,
    /// It was read and written just now.
    pub store: Condition,
    /// A file was written there just now, and the directories that the daemon needs are there.
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
