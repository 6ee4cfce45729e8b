//! Secret files: a file system in memory that only the keeper can write.
//!
//! Inside it is mounted read-only; the keeper gets a second, detached mount of it.

use super::LaunchPlan;
use super::root::{NewRoot, filesystem};
use crate::sys::mount::{NO_DEV, NO_SUID, READ_ONLY, Reach, set_attributes};
use holm_core::config::Inject;
use holm_keeper::guest::SECRET_FILES;
use holm_keeper::plan::Stepped;
use holm_keeper::plan::{LaunchFailure, Part};
use rustix::mount::{MountAttrFlags, OpenTreeFlags, open_tree};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// `None`: no secret is a file.
pub fn mount(root: &NewRoot, plan: &LaunchPlan) -> Result<Option<OwnedFd>, LaunchFailure> {
    if !plan
        .keeper
        .secrets
        .iter()
        .any(|grant| grant.form == Inject::File)
    {
        return Ok(None);
    }
    let step = "make the place of secrets";
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let options = [("mode", "0755"), ("size", "8m")];
    let files = filesystem("tmpfs", &options, attributes).step(Part::Mount, step)?;
    let place = SECRET_FILES.trim_start_matches('/');
    root.attach(&files, Path::new(place))
        .step(Part::Mount, step)?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    let writable = open_tree(&files, "", flags).step(Part::Mount, step)?;
    set_attributes(
        files.as_fd(),
        READ_ONLY | NO_SUID | NO_DEV,
        Reach::ThisMount,
    )
    .step(Part::Mount, step)?;
    Ok(Some(writable))
}
