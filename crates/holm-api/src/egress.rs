//! `/workspaces/{id}/egress`: outgoing connections and refusals.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EgressList {
    /// The oldest first.
    pub egress: Vec<EgressEntry>,
}

/// One connection that ended, or one refusal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EgressEntry {
    pub time: String,
    /// `connect`, `cut` (by a change of policy), `fail` (allowed, but the other side did not
    /// answer), `refuse`, or `resolve` (a name was refused).
    pub kind: String,
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub address: Option<String>,
    #[serde(default)]
    pub port: Option<u16>,
    /// Bytes to the workspace.
    #[serde(default)]
    pub bytes_in: Option<u64>,
    /// Bytes from the workspace.
    #[serde(default)]
    pub bytes_out: Option<u64>,
    #[serde(default)]
    pub duration_ms: Option<u64>,
    /// The process that connected, if it could be found cheaply.
    #[serde(default)]
    pub process: Option<EgressProcess>,
    /// Names of secrets whose values the gateway put into requests.
    #[serde(default)]
    pub secrets: Vec<String>,
    #[serde(default)]
    pub reason: Option<String>,
    /// The line of `holm.toml` that would allow it.
    #[serde(default)]
    pub allow: Option<String>,
    /// How often it happened; repetitions within some seconds are counted in one entry.
    #[serde(default = "once")]
    pub count: u64,
}

fn once() -> u64 {
    1
}

// === impl EgressEntry ===

impl EgressEntry {
    /// The gateway or the resolver said no.
    pub fn is_refusal(&self) -> bool {
        matches!(self.kind.as_str(), "refuse" | "resolve")
    }

    /// The destination did not answer.
    pub fn is_failure(&self) -> bool {
        self.kind == "fail"
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EgressProcess {
    /// The pid inside the workspace.
    pub pid: i32,
    pub name: String,
}
