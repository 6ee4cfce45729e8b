//! A fresh `/proc` of the workspace's own processes, with information about the host masked.

use super::LaunchPlan;
use super::root::{NewRoot, filesystem};
use crate::sys::mount::{NO_DEV, NO_EXEC, NO_SUID, READ_ONLY};
use holm_keeper::plan::Stepped;
use holm_keeper::plan::{LaunchFailure, Part};
use holm_keeper::wire::Defence;
use rustix::mount::MountAttrFlags;
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

pub fn mount(root: &NewRoot, plan: &LaunchPlan) -> Result<(), LaunchFailure> {
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let processes = filesystem("proc", &[], attributes).step(Part::Proc, "make /proc")?;
    root.attach(&processes, Path::new("proc"))
        .step(Part::Proc, "mount /proc")?;
    if plan.keeper.has(Defence::ProcMasks) {
        mask(root, attributes)
    } else {
        Ok(())
    }
}

fn mask(root: &NewRoot, attributes: MountAttrFlags) -> Result<(), LaunchFailure> {
    let host = Path::new("/proc");
    let sealed = READ_ONLY | NO_SUID | NO_EXEC;
    for name in MASKED_FILES.iter().filter(|name| host.join(name).exists()) {
        root.show(
            Path::new("/dev/null"),
            &Path::new("proc").join(name),
            sealed,
        )
        .step(Part::Proc, &format!("mask /proc/{name}"))?;
    }
    for name in MASKED_DIRECTORIES
        .iter()
        .filter(|name| host.join(name).is_dir())
    {
        let empty = MountAttrFlags::MOUNT_ATTR_RDONLY | attributes;
        filesystem("tmpfs", &[("size", "4k"), ("mode", "0555")], empty)
            .and_then(|nothing| root.attach(&nothing, &Path::new("proc").join(name)))
            .step(Part::Proc, &format!("mask /proc/{name}"))?;
    }
    for name in READ_ONLY_DIRECTORIES
        .iter()
        .filter(|name| host.join(name).is_dir())
    {
        let place = Path::new("proc").join(name);
        root.pin(&place, sealed | NO_DEV)
            .step(Part::Proc, &format!("make /proc/{name} read-only"))?;
    }
    Ok(())
}
