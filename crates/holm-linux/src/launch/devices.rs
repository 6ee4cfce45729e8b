//! A minimal `/dev`: harmless devices, and the workspace's own terminals and shared memory.

use super::root::{NewRoot, attach_new, clone_tree, filesystem};
use super::shares::Shares;
use crate::sys::mount::{NO_EXEC, NO_SUID, Reach, set_attributes};
use holm_keeper::plan::Stepped;
use holm_keeper::plan::{LaunchFailure, Part};
use rustix::io::Errno;
use rustix::mount::MountAttrFlags;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// The workspace's message queues, which Landlock would otherwise not cover.
pub const QUEUES: &str = "/dev/mqueue";

const LINKS: [(&str, &str); 5] = [
    ("/proc/self/fd", "dev/fd"),
    ("/proc/self/fd/0", "dev/stdin"),
    ("/proc/self/fd/1", "dev/stdout"),
    ("/proc/self/fd/2", "dev/stderr"),
    ("pts/ptmx", "dev/ptmx"),
];

fn show(directory: &OwnedFd, name: &str) -> io::Result<()> {
    let device = clone_tree(&Path::new("/dev").join(name))?;
    set_attributes(device.as_fd(), NO_SUID | NO_EXEC, Reach::AllBelow)?;
    attach_new(&device, directory, name)
}

pub fn make(root: &NewRoot, shares: &Shares) -> Result<(), LaunchFailure> {
    let directory = root
        .directory(Path::new("dev"))
        .step(Part::Mount, "make /dev")?;
    for name in DEVICES {
        show(&directory, name).step(Part::Mount, &format!("show /dev/{name}"))?;
    }
    for (target, place) in LINKS {
        root.link(target, place)
            .step(Part::Mount, "make the links in /dev")?;
    }
    let no_programs = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    // Without `gid=`, because the group `tty` is not mapped.
    let most = shares.terminals.map(|most| most.to_string());
    let mut options = vec![("ptmxmode", "0666"), ("mode", "620")];
    options.extend(most.as_deref().map(|most| ("max", most)));
    filesystem("devpts", &options, no_programs)
        .and_then(|terminals| root.attach(&terminals, Path::new("dev/pts")))
        .step(Part::Mount, "mount /dev/pts")?;
    let no_devices = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    filesystem("tmpfs", &[("mode", "1777")], no_devices)
        .and_then(|memory| root.attach(&memory, Path::new("dev/shm")))
        .step(Part::Mount, "mount /dev/shm")?;
    match filesystem("mqueue", &[], no_programs | no_devices) {
        // A kernel without message queues.
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NODEV) => Ok(()),
        queues => queues
            .and_then(|queues| root.attach(&queues, Path::new(QUEUES)))
            .step(Part::Mount, "mount /dev/mqueue"),
    }
}
