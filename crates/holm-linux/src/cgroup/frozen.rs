//! Whether a process does not run because its control group is frozen. `/proc` shows this only for
//! v1, as uninterruptible sleep.

use super::kernel::{directory, memberships, mount_of, mounts, unified};
use super::{Controller, Version};
use holm_keeper::process::read_proc_text;

/// Whether the group of a process, or one above it, is frozen. False where the kernel does not say.
pub fn is_frozen(pid: i32) -> bool {
    let (Ok(mountinfo), Ok(groups)) = (
        read_proc_text("/proc/self/mountinfo"),
        read_proc_text(format!("/proc/{pid}/cgroup")),
    ) else {
        return false;
    };
    let mounts = mounts(&mountinfo);
    memberships(&groups).iter().any(|group| {
        let freezer = Controller::Freezer.as_str();
        let mount = match group.controllers.as_slice() {
            [] => unified(&mounts),
            some if some.iter().any(|name| name == freezer) => {
                mount_of(&mounts, Controller::Freezer)
            }
            _ => None,
        };
        let Some((mount, place)) =
            mount.and_then(|mount| Some((mount, directory(mount, &group.path)?)))
        else {
            return false;
        };
        let (file, word) = match mount.version {
            Version::V1 => ("freezer.state", "FROZEN"),
            Version::V2 => ("cgroup.events", "frozen 1"),
        };
        let text = read_proc_text(place.join(file)).unwrap_or_default();
        text.lines().any(|line| line == word)
    })
}
