//! The services of a workspace, as its keeper tells of them and as users see them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

// The words are those of `crate::service::State`.
/// One service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Service)]
pub struct ServiceStatus {
    pub name: String,
    pub state: String,
    /// Its pid inside.
    #[schema(required)]
    pub pid: Option<u32>,
    pub restarts: u32,
    #[schema(required)]
    pub port: Option<u16>,
    #[schema(required)]
    pub reason: Option<String>,
    /// How its last run ended. Sent to the daemon only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(ignore)]
    pub exit_code: Option<u8>,
}

/// All of them. The verdict is a word of [`crate::service::graph::Verdict`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Services {
    pub services: Vec<ServiceStatus>,
    pub verdict: String,
}

// === impl ServiceStatus ===

impl ServiceStatus {
    /// It ended by itself, with success.
    pub fn is_done(&self) -> bool {
        self.state == "exited" && self.reason.as_deref() == Some("exited with 0")
    }

    /// It ended, and nothing starts it again.
    pub fn has_failed(&self) -> bool {
        self.state == "failed" || (self.state == "exited" && !self.is_done())
    }
}
