//! The last walls, after the new root was entered: limits, Landlock, capabilities, the filter.

use super::Stepped;
use super::devices::QUEUES;
use super::shares::{self, at_most};
use crate::sys;
use crate::sys::seccomp::Nesting;
use crate::wire::{Defence, LaunchFailure, LaunchPlan, Part};
use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope,
};
use rustix::process::{Resource, setrlimit};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

/// What the seal came to.
pub struct Sealed {
    /// Whether Landlock is in force.
    pub landlock: bool,
    /// Where renames are told, unless the kernel is too old.
    pub renames: Option<OwnedFd>,
}

pub fn seal(plan: &LaunchPlan) -> Result<Sealed, LaunchFailure> {
    set_limits(plan).step(Part::Other, "set the limits")?;
    if plan.has(Defence::Keyring) {
        sys::process::fresh_session_keyring().step(Part::Other, "leave the session keyring")?;
    }
    rustix::process::setsid().step(Part::Other, "start a session")?;
    sys::process::no_new_privileges().step(Part::NoNewPrivileges, "set no_new_privs")?;
    // Landlock forbids mounts, which nested user namespaces are there for.
    let landlock = !plan.nested
        && plan.has(Defence::Landlock)
        && restrict_files(plan)
            .map_err(io::Error::other)
            .step(Part::Other, "set up Landlock")?;
    sys::capability::drop_all().step(Part::User, "give up all capabilities")?;
    // Losing capabilities may have cleared it.
    sys::process::die_with_parent().step(Part::Other, "ask to die with the keeper")?;
    let renames = if plan.has(Defence::Mover) {
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

fn set_limits(plan: &LaunchPlan) -> io::Result<()> {
    if plan.has(Defence::CoreLimit) {
        // Memory of the workspace does not belong into the host's hands. A limit of 0 would keep
        // files from being written, but not the host's crash handler from being called with the
        // core on its stdin; 1 is the kernel's word for neither, and the filter keeps it.
        setrlimit(Resource::Core, at_most(1))?;
    }
    setrlimit(Resource::Rtprio, at_most(0))?;
    // What the user may take from other programs of the host is not the workspace's to take.
    setrlimit(Resource::Nice, at_most(0))?;
    shares::limit(plan)
}

/// A second layer behind the mounts: writing only where a workspace has its own places. Where the
/// kernel has no Landlock nothing happens, and the status says so.
fn restrict_files(plan: &LaunchPlan) -> Result<bool, Box<dyn std::error::Error + Send + Sync>> {
    let everything = AccessFs::from_all(ABI::V5);
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(everything)?
        .scope(Scope::from_all(ABI::V6))?
        .create()?
        .add_rule(PathBeneath::new(
            PathFd::new("/")?,
            AccessFs::from_read(ABI::V5),
        ))?;
    let own = [
        plan.root.as_path(),
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
    for cache in &plan.caches {
        // One that could not be mounted is not there, or below a place of the workspace's own.
        if let Ok(place) = PathFd::new(&cache.inside) {
            rules = rules.add_rule(PathBeneath::new(place, everything))?;
        }
    }
    for volume in &plan.volumes {
        // The directory that it is mounted in, too: one that is begun anew is another file system,
        // which no rule of today knows. What else is there is on read-only mounts.
        let inside = &volume.mount.inside;
        let parent = inside.parent().filter(|parent| *parent != Path::new("/"));
        for place in [Some(inside.as_path()), parent].into_iter().flatten() {
            rules = rules.add_rule(PathBeneath::new(PathFd::new(place)?, everything))?;
        }
    }
    // The kernel opens a queue by a mount of its own, not by the path below /dev.
    if let Ok(queues) = PathFd::new(QUEUES) {
        rules = rules.add_rule(PathBeneath::new(queues, everything))?;
    }
    let status = rules.restrict_self()?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}
