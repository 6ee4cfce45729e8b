//! The isolation in force. Filled from observations, never from the spec.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The isolation in force. All false when the workspace does not run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Isolation {
    pub user: bool,
    pub mount: bool,
    pub pid: bool,
    pub net: bool,
    pub ipc: bool,
    pub seccomp: bool,
    pub no_new_privs: bool,
    pub landlock: bool,
    /// `v1`, `v2` or null.
    #[schema(required)]
    pub cgroup: Option<String>,
    pub limits: LimitsInForce,
    /// Names of the parts that are missing or weaker than the default.
    pub degraded: Vec<String>,
    /// Processes that the kernel killed since the start because the memory limit was reached.
    #[serde(default)]
    pub oom_kills: u64,
    /// Resources that the kernel counts per user and that are exhausted right now:
    /// `descriptors_in_flight`, `inotify_instances` and the like.
    #[serde(default)]
    pub limits_reached: Vec<String>,
    /// Protected paths below the root; `None`: the keeper does not report them.
    /// Sent to the daemon only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(ignore)]
    pub protected: Option<Vec<String>>,
}

/// The mechanism that enforces each limit (`cgroup`, `rlimit`, `measured`), or null.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LimitsInForce {
    #[schema(required)]
    pub memory: Option<String>,
    #[schema(required)]
    pub cpus: Option<String>,
    #[schema(required)]
    pub processes: Option<String>,
    #[schema(required)]
    pub disk: Option<String>,
}

// === impl Isolation ===

impl Isolation {
    /// The `reason` when a limit is reached in a running workspace.
    pub fn limit_reached(&self) -> Option<&'static str> {
        if self.oom_kills > 0 {
            Some("memory_limit")
        } else if !self.limits_reached.is_empty() {
            Some("limit")
        } else {
            None
        }
    }
}
