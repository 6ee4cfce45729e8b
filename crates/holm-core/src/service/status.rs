//! The services of a workspace, as its keeper tells of them and as users see them.

use serde::{Deserialize, Serialize};

/// One service. The words are those of [`crate::service::State`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServiceStatus {
    pub name: String,
    pub state: String,
    /// Its number inside.
    pub pid: Option<u32>,
    pub restarts: u32,
    pub port: Option<u16>,
    pub reason: Option<String>,
    /// How its last run ended.
    pub exit_code: Option<u8>,
}

/// All of them. The verdict is a word of [`crate::service::graph::Verdict`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Services {
    pub services: Vec<ServiceStatus>,
    pub verdict: String,
}
