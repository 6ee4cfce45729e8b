//! What isolation is in force. Filled from what was observed, never from what was asked for.

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
    /// Processes that the kernel killed since the start because the limit of memory was reached.
    #[serde(default)]
    pub oom_kills: u64,
    /// What programs inside cannot get any more of right now, of what the kernel counts for all programs
    /// of the user together: `descriptors_in_flight`, `inotify_instances` and the like.
    #[serde(default)]
    pub limits_reached: Vec<String>,
    /// Paths below the root that are protected; `None`: of a keeper that does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protected: Option<Vec<String>>,
}

/// By what each limit is kept (`cgroup`, `rlimit`, `measured`), or nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LimitsInForce {
    pub memory: Option<String>,
    pub cpus: Option<String>,
    pub processes: Option<String>,
    pub disk: Option<String>,
}

// === impl Isolation ===

impl Isolation {
    /// Why not everything in a workspace that runs does, as `reason` says it.
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
