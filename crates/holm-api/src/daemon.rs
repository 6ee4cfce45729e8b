//! The daemon itself: `GET /ping` → `{}`; `GET /daemon` → [`Status`]; `POST /daemon/stop` ([`Stop`]) → [`Status`];
//! `GET /doctor` → [`Doctor`].

use holm_core::fitness::Check;
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
