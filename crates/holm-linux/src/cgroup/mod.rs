//! Control groups: the limits of memory, processors and processes of one workspace.
//!
//! The daemon finds once where it may create groups ([`find`]); root prepares such a place before
//! it becomes the user `holm` ([`prepare`]). The keeper creates one [`Group`] per workspace, named
//! by its id, and everything inside is in it from its first instruction on.
//!
//! The limits are on the directory `<id>`, the processes are in `<id>/inside`, and their cgroup
//! namespace begins there: even a program that may mount cgroups inside cannot name the directory
//! that limits it. The keeper stays outside, so that it can report what happened.

mod counted;
mod frozen;
mod group;
mod kernel;
mod v1;
mod v2;

pub use counted::Counted;
pub use frozen::is_frozen;
pub use group::{Group, Kept, leftover, sweep};
pub use v2::Stay;

use kernel::{Membership, Mount};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// The version of the kernel's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Version {
    V1,
    V2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Controller {
    Memory,
    Cpu,
    Pids,
    Freezer,
}

/// Where groups of workspaces may be created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupParents {
    pub version: Version,
    /// In v1 one directory per controller, in v2 the same for all.
    pub directories: Vec<(Controller, PathBuf)>,
}

/// The parent of all groups of an installation.
const PARENT: &str = "holm";

// === impl Version ===

impl Version {
    pub fn as_str(self) -> &'static str {
        match self {
            Version::V1 => "v1",
            Version::V2 => "v2",
        }
    }
}

// === impl Controller ===

impl Controller {
    const ALL: [Controller; 4] = [
        Controller::Memory,
        Controller::Cpu,
        Controller::Pids,
        Controller::Freezer,
    ];

    /// The kernel's name.
    fn as_str(self) -> &'static str {
        match self {
            Controller::Memory => "memory",
            Controller::Cpu => "cpu",
            Controller::Pids => "pids",
            Controller::Freezer => "freezer",
        }
    }
}

/// Where this process may create groups, or why it may not. In v2 this process may move into a leaf
/// of its own group, because the kernel allows no processes beside limited groups.
pub fn find() -> Result<GroupParents, String> {
    let (mounts, memberships) = look()?;
    match kernel::version(&mounts) {
        Some(Version::V1) => v1::find(&mounts, rustix::process::geteuid().as_raw()),
        Some(Version::V2) => v2::find(&mounts, &memberships),
        None => Err("no control groups are mounted".to_owned()),
    }
}

/// Prepares a place for the groups of a daemon that will run as another user. Only root can. In v2
/// the returned value keeps this process where the daemon must be started, until it is dropped.
pub fn prepare(uid: u32, gid: u32) -> Result<Option<Stay>, String> {
    let (mounts, memberships) = look()?;
    match kernel::version(&mounts) {
        Some(Version::V1) => v1::prepare(&mounts, (uid, gid)).map(|()| None),
        Some(Version::V2) => v2::prepare(&mounts, &memberships, (uid, gid)).map(Some),
        None => Ok(None),
    }
}

/// How to get groups on this machine.
pub fn advice() -> &'static str {
    let version = look().ok().and_then(|(mounts, _)| kernel::version(&mounts));
    match version {
        Some(Version::V2) => {
            "run the daemon as a systemd unit, which is given a group of its own (`Delegate=yes`): \
             `holm daemon install`; or start it as root, which prepares one and runs it as the \
             user `holm`"
        }
        Some(Version::V1) => {
            "this machine has cgroup v1, which only root can prepare: start the daemon as root (it \
             runs as the user `holm`), or boot with `systemd.unified_cgroup_hierarchy=1` for v2"
        }
        None => "mount control groups at /sys/fs/cgroup (in a container: start it with them)",
    }
}

fn look() -> Result<(Vec<Mount>, Vec<Membership>), String> {
    let read = |path: &str| {
        fs::read_to_string(path).map_err(|error| format!("{path} cannot be read: {error}"))
    };
    Ok((
        kernel::mounts(&read("/proc/self/mountinfo")?),
        kernel::memberships(&read("/proc/self/cgroup")?),
    ))
}

/// The words in a file of a group; empty when it cannot be read.
fn words(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

/// Whether this process may create directories there.
fn is_writable(directory: &Path) -> bool {
    use rustix::fs::Access;
    let wanted = Access::WRITE_OK | Access::EXEC_OK;
    directory.is_dir() && rustix::fs::access(directory, wanted).is_ok()
}

fn make_directory(directory: &Path) -> std::io::Result<()> {
    match fs::create_dir(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

fn hand_over(paths: &[PathBuf], (uid, gid): (u32, u32)) -> Result<(), String> {
    for path in paths {
        std::os::unix::fs::lchown(path, Some(uid), Some(gid))
            .map_err(|error| format!("{} cannot be handed over: {error}", path.display()))?;
    }
    Ok(())
}
