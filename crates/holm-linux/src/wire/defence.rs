//! Single defences by name. Tests of debug builds switch one off, to show that an attack works without it.

use serde::{Deserialize, Serialize};

/// A single defence. Tests take one away to prove that the attack works without it; only debug
/// builds can ([`super::LaunchPlan::has`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Defence {
    Seccomp,
    Landlock,
    /// Protected paths are read-only.
    Protection,
    /// The ways to protected paths and to the tree are mount points.
    Pins,
    ProcMasks,
    NamespaceLimit,
    Keyring,
    CoreLimit,
    /// Inherited descriptors are closed.
    ClosedDescriptors,
    /// `/etc`, `/usr` and the like are read-only mounts without setuid.
    ReadOnlySystem,
    /// Sockets of the host in directories that are shown cannot be connected to.
    NoHostSockets,
    /// Renames that overlayfs refuses are done by copying.
    Mover,
    /// The kernel refuses connections that may not leave.
    EgressRules,
    /// Everything inside stands still while it is copied.
    Stillness,
    /// The gateway asks again before it dials, and the resolver before it answers.
    Gateway,
    /// Receivers of secrets, and everybody else, are each in a Landlock domain of their own.
    OwnDomain,
    /// What init says is only so long.
    ShortMessages,
    /// Trees of siblings are read-only mounts.
    SealedSiblings,
    /// One workspace takes only a share of what the kernel counts for the user as a whole.
    Share,
    /// Descriptors that the kernel does not send are taken by the keeper.
    TakenDescriptors,
    /// A person approves what a repository's own git configuration runs on the host.
    GitSettings,
}

/// The defences that the environment of a test switches off (`HOLM_TEST_WITHOUT=seccomp,pins`).
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
