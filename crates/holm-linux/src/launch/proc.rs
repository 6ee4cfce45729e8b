//! A fresh `/proc` of the workspace's own processes, with information about the host masked.

use super::LaunchPlan;
use super::root::{NewRoot, attach, clone_tree, copy_mount, filesystem, pin};
use super::shares::Shares;
use crate::sys::mount::{NO_DEV, NO_EXEC, NO_SUID, READ_ONLY, Reach, set_attributes};
use holm_keeper::plan::Stepped;
use holm_keeper::plan::{LaunchFailure, Part};
use holm_keeper::wire::Defence;
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mount::MountAttrFlags;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// Covered by `/dev/null`.
const MASKED_FILES: [&str; 11] = [
    "kallsyms",
    "keys",
    "key-users",
    "kcore",
    "kmsg",
    "sysrq-trigger",
    "timer_list",
    "sched_debug",
    "latency_stats",
    "modules",
    "vmallocinfo",
];

/// Covered by an empty directory.
const MASKED_DIRECTORIES: [&str; 3] = ["acpi", "scsi", "driver"];

/// Readable, never writable, even for a process with capabilities.
const READ_ONLY_DIRECTORIES: [&str; 4] = ["sys", "irq", "bus", "fs"];

const FILE: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const DIRECTORY: OFlags = FILE.union(OFlags::DIRECTORY);

pub fn mount(root: &NewRoot, plan: &LaunchPlan, shares: &Shares) -> Result<(), LaunchFailure> {
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let processes = filesystem("proc", &[], attributes).step(Part::Proc, "make /proc")?;
    limit_namespaces(&processes, plan, shares)
        .step(Part::User, "limit what the namespace may make")?;
    root.attach(&processes, Path::new("proc"))
        .step(Part::Proc, "mount /proc")?;
    if plan.keeper.has(Defence::ProcMasks) {
        mask(&processes, attributes)
    } else {
        Ok(())
    }
}

/// Limits what the user namespace counts. As a second line of defence behind the filter, no user namespace can be
/// created inside. Goes through the workspace's own `/proc`: the host's would keep a name for each user namespace in
/// one chain of its cache, and every look there would compare with all of them.
fn limit_namespaces(processes: &OwnedFd, plan: &LaunchPlan, shares: &Shares) -> io::Result<()> {
    let limit = |name: &str, most: u64| {
        let path = format!("sys/user/{name}");
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let file = File::from(openat(processes, path, flags, Mode::empty())?);
        (&file).write_all(most.to_string().as_bytes())
    };
    for (name, most) in &shares.counted {
        limit(name, *most)?;
    }
    if !plan.nested && plan.keeper.has(Defence::NamespaceLimit) {
        limit("max_user_namespaces", user_namespaces(plan))?;
    }
    Ok(())
}

/// The user namespaces that holm itself makes below the workspace's: that of the tree, and one for each room. A room may
/// start before the last one of its service is gone.
fn user_namespaces(plan: &LaunchPlan) -> u64 {
    const EACH: usize = 4;
    match plan.sub_ids {
        None => 0,
        Some(_) => u64::try_from(1 + EACH * plan.keeper.rooms.len()).unwrap_or(u64::MAX),
    }
}

fn mask(processes: &OwnedFd, attributes: MountAttrFlags) -> Result<(), LaunchFailure> {
    let sealed = READ_ONLY | NO_SUID | NO_EXEC;
    cover(processes, &MASKED_FILES, FILE, || {
        let null = clone_tree(Path::new("/dev/null"))?;
        set_attributes(null.as_fd(), sealed, Reach::AllBelow)?;
        Ok(null)
    })?;
    cover(processes, &MASKED_DIRECTORIES, DIRECTORY, || {
        let empty = MountAttrFlags::MOUNT_ATTR_RDONLY | attributes;
        filesystem("tmpfs", &[("size", "4k"), ("mode", "0555")], empty)
    })?;
    for name in READ_ONLY_DIRECTORIES {
        let step = format!("make /proc/{name} read-only");
        if let Some(place) = find(processes, name, DIRECTORY).step(Part::Proc, &step)? {
            pin(&place, sealed | NO_DEV).step(Part::Proc, &step)?;
        }
    }
    Ok(())
}

/// Mounts what `first` makes on the first of these entries, and copies of that on the others.
fn cover(
    processes: &OwnedFd,
    names: &[&str],
    kind: OFlags,
    first: impl Fn() -> io::Result<OwnedFd>,
) -> Result<(), LaunchFailure> {
    let mut covers: Option<OwnedFd> = None;
    for name in names {
        let covered = find(processes, name, kind).and_then(|place| {
            let Some(place) = place else {
                return Ok(covers.take());
            };
            let cover = match &covers {
                Some(earlier) => copy_mount(earlier, Reach::ThisMount)?,
                None => first()?,
            };
            attach(cover.as_fd(), place.as_fd())?;
            Ok(Some(cover))
        });
        covers = covered.step(Part::Proc, &format!("mask /proc/{name}"))?;
    }
    Ok(())
}

/// An entry of this kind; `None`: this kernel has none.
fn find(processes: &OwnedFd, name: &str, kind: OFlags) -> io::Result<Option<OwnedFd>> {
    match openat(processes, name, kind, Mode::empty()) {
        Ok(place) => Ok(Some(place)),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
