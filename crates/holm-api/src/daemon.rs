//! The daemon itself: `GET /ping` → `{}`; `GET /daemon` → [`Status`]; `POST /daemon/stop` ([`Stop`]) → [`Status`];
//! `GET /doctor` → [`Doctor`].

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Status {
    pub pid: u32,
    pub version: String,
    /// The user it runs as.
    pub user: String,
    pub uid: u32,
    pub data_dir: String,
    pub socket: String,
    /// The port of the front door.
    #[schema(required)]
    pub port: Option<u16>,
    pub started_at: String,
    pub workspaces: u64,
    pub running: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    /// Stop every workspace too.
    pub all: bool,
}

/// One check of `doctor`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Check {
    /// `user namespaces`
    pub name: String,
    /// ok warning missing
    pub status: String,
    /// What was found.
    pub detail: String,
    /// How to fix it, when it is not ok.
    #[schema(required)]
    pub fix: Option<String>,
    pub required: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Doctor {
    pub ok: bool,
    /// The pid of the daemon that ran the checks; null: no daemon answered, so `holm doctor` ran
    /// them itself.
    #[serde(default)]
    #[schema(required)]
    pub daemon: Option<u32>,
    pub checks: Vec<Check>,
}
