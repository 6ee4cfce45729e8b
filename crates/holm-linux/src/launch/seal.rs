//! The last steps of a workspace's or a room's first process, after it entered its root: limits, Landlock,
//! capabilities, seccomp.

use super::devices::QUEUES;
use super::shares::{self, at_most};
use super::{LaunchPlan, SealPlan};
use crate::sys;
use crate::sys::seccomp::Nesting;
use holm_keeper::plan::Stepped;
use holm_keeper::plan::{LaunchFailure, Part};
use holm_keeper::wire::Defence;
use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use rustix::process::{Resource, setrlimit};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

/// The result of sealing.
pub struct Sealed {
    /// Whether Landlock is in force.
    pub landlock: bool,
    /// The descriptor that reports renames, unless the kernel is too old.
    pub renames: Option<OwnedFd>,
}

/// What Landlock lets programs write to.
pub enum Writable<'a> {
    /// The workspace's own directories.
    Own(&'a LaunchPlan),
    /// Everything. Each writable mount of a room is one that its service may write.
    Everything,
}

/// Whether renames are reported to the keeper.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Renames {
    Reported,
    Unreported,
}

/// What the first process and what it starts may do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    None,
    /// With files, users and processes of a user namespace that owns nothing else.
    RoomRoot,
}

/// Seals this process. Neither it nor what it starts gets any right back.
pub fn seal(
    plan: &SealPlan,
    writable: Writable<'_>,
    renames: Renames,
    rights: Rights,
) -> Result<Sealed, LaunchFailure> {
    set_limits(plan).step(Part::Other, "set the limits")?;
    if plan.has(Defence::Keyring) {
        sys::process::fresh_session_keyring().step(Part::Other, "leave the session keyring")?;
    }
    rustix::process::setsid().step(Part::Other, "start a session")?;
    sys::process::no_new_privileges().step(Part::NoNewPrivileges, "set no_new_privs")?;
    // Landlock forbids mounts, which nested user namespaces need.
    let landlock = !plan.nested
        && plan.has(Defence::Landlock)
        && restrict_files(writable)
            .map_err(io::Error::other)
            .step(Part::Other, "set up Landlock")?;
    let dropped = match rights {
        Rights::None => sys::capability::drop_all(),
        Rights::RoomRoot => sys::capability::drop_all_but_of_room_root(),
    };
    dropped.step(Part::User, "give up capabilities")?;
    // Dropping capabilities may have cleared it.
    sys::process::die_with_parent().step(Part::Other, "ask to die with the keeper")?;
    let renames = if renames == Renames::Reported && plan.has(Defence::Mover) {
        sys::notify::listen().step(Part::Seccomp, "have renames told")?
    } else {
        None
    };
    if plan.has(Defence::Seccomp) {
        let nesting = if plan.nested {
            Nesting::Allowed
        } else {
            Nesting::Forbidden
        };
        sys::seccomp::install(nesting).step(Part::Seccomp, "install the system call filter")?;
    }
    Ok(Sealed { landlock, renames })
}

fn set_limits(plan: &SealPlan) -> io::Result<()> {
    if plan.has(Defence::CoreLimit) {
        // The workspace's memory must not reach the host. A limit of 0 would prevent core files,
        // but not a call of the host's crash handler with the core on its stdin; 1 prevents both,
        // and the filter keeps programs from changing it.
        setrlimit(Resource::Core, at_most(1))?;
    }
    setrlimit(Resource::Rtprio, at_most(0))?;
    // The workspace must not take priority over the host's programs, even if the user may.
    setrlimit(Resource::Nice, at_most(0))?;
    shares::limit(plan)
}

type RuleError = Box<dyn std::error::Error + Send + Sync>;

/// A second line of defence behind the mounts: writing only in the workspace's own directories.
/// Where the kernel has no Landlock nothing happens, and the status says so.
fn restrict_files(writable: Writable<'_>) -> Result<bool, RuleError> {
    let everything = AccessFs::from_all(ABI::V5);
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(everything)?
        .scope(Scope::from_all(ABI::V6))?
        .create()?;
    let mut rules = match writable {
        Writable::Own(plan) => allow_own(rules, plan)?,
        Writable::Everything => rules.add_rule(PathBeneath::new(PathFd::new("/")?, everything))?,
    };
    // The kernel opens a queue through its own mount, not through the path below /dev.
    if let Ok(queues) = PathFd::new(QUEUES) {
        rules = rules.add_rule(PathBeneath::new(queues, everything))?;
    }
    let status = rules.restrict_self()?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}

/// Reading everywhere, writing in the workspace's own directories.
fn allow_own(mut rules: RulesetCreated, plan: &LaunchPlan) -> Result<RulesetCreated, RuleError> {
    let everything = AccessFs::from_all(ABI::V5);
    rules = rules.add_rule(PathBeneath::new(
        PathFd::new("/")?,
        AccessFs::from_read(ABI::V5),
    ))?;
    let own = [
        plan.keeper.root.as_path(),
        &plan.home,
        Path::new("/tmp"),
        Path::new("/run"),
    ];
    for place in own
        .into_iter()
        .chain([Path::new("/dev"), Path::new("/proc")])
    {
        rules = rules.add_rule(PathBeneath::new(PathFd::new(place)?, everything))?;
    }
    for cache in &plan.keeper.caches {
        // A cache that could not be mounted does not exist, or is below another place of the
        // workspace.
        if let Ok(place) = PathFd::new(&cache.inside) {
            rules = rules.add_rule(PathBeneath::new(place, everything))?;
        }
    }
    for volume in &plan.keeper.volumes {
        // Its parent directory too: a reset volume is another file system, which no current rule
        // covers. Everything else there is on read-only mounts.
        let inside = &volume.mount.inside;
        let parent = inside.parent().filter(|parent| *parent != Path::new("/"));
        for place in [Some(inside.as_path()), parent].into_iter().flatten() {
            rules = rules.add_rule(PathBeneath::new(PathFd::new(place)?, everything))?;
        }
    }
    Ok(rules)
}
