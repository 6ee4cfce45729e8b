//! The share of one workspace in resources that the kernel counts per user. Without it one
//! workspace could use up all inotify instances, pending signals, message queues or terminals, and
//! leave none to its siblings, to holm and to the user.
//!
//! The kernel counts in three ways. Counters of `/proc/sys/user` and most resource limits count in
//! each user namespace and in those above it: a lower limit inside is the share. Descriptors in
//! flight count per uid, in any namespace, and are compared with the sender's limit of open files:
//! a lower limit inside leaves the rest to processes with a higher one. Terminals count for the
//! machine, and each devpts has its own limit.

use super::{LaunchPlan, SealPlan};
use crate::open_files;
use holm_core::share;
use holm_keeper::wire::Defence;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::{self, File};
use std::io::{self, Read};

/// The kernel's limits per user namespace.
pub const COUNTED: &str = "/proc/sys/user";

/// Counted in the user namespace and in those above it.
const LIMITED: [Resource; 3] = [Resource::Sigpending, Resource::Msgqueue, Resource::Memlock];

/// One workspace's share of the host's resources.
#[derive(Default)]
pub struct Shares {
    /// Files of [`COUNTED`] with their values.
    pub counted: Vec<(String, u64)>,
    pub terminals: Option<u64>,
}

/// Set while the user namespace is created: the kernel remembers its creator's limits, and does not
/// let the user's total grow beyond them from inside. So all workspaces together leave half to the
/// host.
pub struct Together(Vec<(Resource, Rlimit)>);

// === impl Shares ===

impl Shares {
    /// Read on the host: in the new namespace the files have the kernel's defaults.
    pub fn of_one(plan: &LaunchPlan) -> Self {
        if !plan.keeper.has(Defence::Share) {
            return Self::default();
        }
        let names = fs::read_dir(COUNTED).into_iter().flatten().flatten();
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        // Namespaces are created inside only with `nested`.
        let names = names.filter(|name| plan.nested || !name.ends_with("_namespaces"));
        let counted = names.filter_map(|name| {
            let most = most_of(&name)?;
            Some((name, share::of_one(most)))
        });
        Self {
            counted: counted.collect(),
            terminals: terminals(),
        }
    }
}

/// The terminals of one workspace.
pub fn terminals() -> Option<u64> {
    let most = number("/proc/sys/kernel/pty/max")?;
    Some(share::terminals(
        most,
        number("/proc/sys/kernel/pty/reserve")?,
    ))
}

/// The host's limit. If holm itself runs in a user namespace, the machine's limit may be lower.
fn most_of(name: &str) -> Option<u64> {
    let own = number(&format!("{COUNTED}/{name}"))?;
    // `max_inotify_watches` is `fs.inotify.max_user_watches`.
    let parts = name
        .strip_prefix("max_")
        .and_then(|rest| rest.split_once('_'));
    let machine =
        parts.and_then(|(kind, what)| number(&format!("/proc/sys/fs/{kind}/max_user_{what}")));
    Some(machine.map_or(own, |machine| machine.min(own)))
}

fn number(path: &str) -> Option<u64> {
    let mut text = [0; 32];
    let length = File::open(path).ok()?.read(&mut text).ok()?;
    std::str::from_utf8(&text[..length])
        .ok()?
        .trim()
        .parse()
        .ok()
}

// === impl Together ===

impl Together {
    pub fn begin(plan: &LaunchPlan) -> Self {
        let mut changed = Vec::new();
        for resource in LIMITED
            .into_iter()
            .filter(|_| plan.keeper.has(Defence::Share))
        {
            let limit = getrlimit(resource);
            let half = Rlimit {
                current: limit.maximum.map(share::of_all),
                ..limit
            };
            // Lowering a limit is always allowed.
            if setrlimit(resource, half).is_ok() {
                changed.push((resource, limit));
            }
        }
        Self(changed)
    }
}

impl Drop for Together {
    fn drop(&mut self) {
        for (resource, limit) in self.0.drain(..) {
            // The earlier value is not above the hard limit.
            let _ = setrlimit(resource, limit);
        }
    }
}

/// Called in the first process of a workspace or a room. `processes` is the limit of the plan.
pub fn limit(plan: &SealPlan) -> io::Result<()> {
    let share = |resource| {
        let most = getrlimit(resource)
            .maximum
            .filter(|_| plan.has(Defence::Share));
        most.map(share::of_one)
    };
    for resource in LIMITED {
        if let Some(most) = share(resource) {
            setrlimit(resource, at_most(most))?;
        }
    }
    // Counted in this user namespace, so other workspaces do not matter. All of them count against
    // the user's own limit.
    let processes = [plan.processes, share(Resource::Nproc)];
    if let Some(most) = processes.into_iter().flatten().min() {
        setrlimit(Resource::Nproc, at_most(most))?;
    }
    Ok(())
}

/// The same for open files; programs start with the limit that holm was started with.
pub fn limit_open_files(plan: &SealPlan) -> io::Result<()> {
    let hard = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let hard = if plan.has(Defence::Share) {
        share::open_files(hard)
    } else {
        hard
    };
    let limit = Rlimit {
        current: Some(open_files::inherited().min(hard)),
        maximum: Some(hard),
    };
    Ok(setrlimit(Resource::Nofile, limit)?)
}

pub fn at_most(most: u64) -> Rlimit {
    Rlimit {
        current: Some(most),
        maximum: Some(most),
    }
}
