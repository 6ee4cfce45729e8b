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
}

/// By what each limit is kept (`cgroup`, `rlimit`, `measured`), or nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LimitsInForce {
    pub memory: Option<String>,
    pub cpus: Option<String>,
    pub processes: Option<String>,
    pub disk: Option<String>,
}
