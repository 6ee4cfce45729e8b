//! The isolation in force. Filled from observations, never from the spec.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Isolation {
    pub user: bool,
    pub mount: bool,
    pub pid: bool,
    pub net: bool,
    pub ipc: bool,
    pub seccomp: bool,
    pub no_new_privs: bool,
    pub landlock: bool,
    /// `v1`, `v2`, or nothing.
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protected: Option<Vec<String>>,
}

/// The mechanism that enforces each limit (`cgroup`, `rlimit`, `measured`), if any.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LimitsInForce {
    pub memory: Option<String>,
    pub cpus: Option<String>,
    pub processes: Option<String>,
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
