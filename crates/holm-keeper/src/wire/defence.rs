//! Names of single defences. Tests of debug builds switch one off, to show that an attack works
//! without it.

use serde::{Deserialize, Serialize};

/// A single defence. Tests take one away to prove that the attack works without it; only debug
/// builds can ([`super::Plan::has`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Defence {
    Seccomp,
    Landlock,
    /// Protected paths are read-only.
    Protection,
    /// The directories above protected paths and above the tree are mount points.
    Pins,
    ProcMasks,
    NamespaceLimit,
    Keyring,
    CoreLimit,
    /// Inherited descriptors are closed.
    ClosedDescriptors,
    /// `/etc`, `/usr` and the like are read-only mounts without setuid.
    ReadOnlySystem,
    /// Sockets of the host in shown directories cannot be connected to.
    NoHostSockets,
    /// The mover copies where overlayfs refuses a rename.
    Mover,
    /// The kernel refuses connections that the policy forbids.
    EgressRules,
    /// All processes inside are stopped while files are copied.
    Stillness,
    /// The gateway checks again before it dials, and the resolver before it answers.
    Gateway,
    /// Every program is in its own Landlock domain, receivers of secrets and others.
    OwnDomain,
    /// The length of init's messages is limited.
    ShortMessages,
    /// Trees of siblings are read-only mounts.
    SealedSiblings,
    /// One workspace gets only a share of per-user kernel resources.
    Share,
    /// The keeper takes descriptors that the kernel does not send.
    TakenDescriptors,
    /// The user approves what a repository's own git configuration runs on the host.
    GitSettings,
    /// Files of the tree belong to the workspace's user only, although rooms have several users.
    OwnTree,
    /// Services of images have several users, where the user has ranges of ids.
    SubIds,
}

// === impl Defence ===

impl Defence {
    /// Whether it is in force where a test switched off `without`. In a release build all are.
    pub fn is_in_force(self, without: &[Self]) -> bool {
        !cfg!(debug_assertions) || !without.contains(&self)
    }
}

/// The defences that a test's environment switches off (`HOLM_TEST_WITHOUT=seccomp,pins`).
pub fn switched_off() -> Vec<Defence> {
    if !cfg!(debug_assertions) {
        return Vec::new();
    }
    let asked = std::env::var("HOLM_TEST_WITHOUT").unwrap_or_default();
    asked
        .split(',')
        .filter_map(|name| serde_json::from_value(serde_json::Value::String(name.to_owned())).ok())
        .collect()
}
