//! `GET /health` → [`Health`], with 503 when something is not well. Outside of the prefix, as whatever
//! watches services expects it, and open to everybody: it says that something is wrong, not what.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// `ok` when everything below is.
    pub status: Condition,
    /// It was read and written just now.
    pub store: Condition,
    /// A file was written there just now.
    pub data_dir: Condition,
    /// Whether workspaces can be made, by driver.
    pub drivers: BTreeMap<String, Condition>,
    pub timestamp: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    Ok,
    Failing,
}
