//! `/etc`: the host's, read-only, with our own files over it.

use super::Stepped;
use super::root::{NewRoot, filesystem, open_directory, overlay};
use crate::sys::mount::{NO_DEV, NO_SUID, READ_ONLY, Reach, set_attributes};
use crate::wire::{LaunchFailure, Part};
use rustix::mount::MountAttrFlags;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

const SEALED: u64 = READ_ONLY | NO_SUID | NO_DEV;
const HOST: &str = "/etc";

/// One overlay where the kernel lets it, entry by entry where something is mounted below `/etc`,
/// as in every container: such a directory cannot be a layer in a user namespace.
pub fn mount(root: &NewRoot, own: &Path) -> Result<(), LaunchFailure> {
    match lay_over(root, own) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            compose(root, own).step(Part::Mount, "put /etc together")
        }
        other => other.step(Part::Overlay, "lay our files over /etc"),
    }
}

fn lay_over(root: &NewRoot, own: &Path) -> io::Result<()> {
    let layers = [open_directory(own)?, open_directory(Path::new(HOST))?];
    let etc = overlay(&layers, None)?;
    set_attributes(etc.as_fd(), SEALED, Reach::ThisMount)?;
    root.attach(&etc, Path::new("etc"))
}

fn compose(root: &NewRoot, own: &Path) -> io::Result<()> {
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    let etc = filesystem("tmpfs", &[("mode", "0755"), ("size", "4m")], attributes)?;
    root.attach(&etc, Path::new("etc"))?;
    for entry in fs::read_dir(own)? {
        let entry = entry?;
        root.show(
            &entry.path(),
            &Path::new("etc").join(entry.file_name()),
            SEALED,
        )?;
    }
    for entry in fs::read_dir(HOST)? {
        let entry = entry?;
        if own.join(entry.file_name()).exists() {
            continue;
        }
        let inside = Path::new("etc").join(entry.file_name());
        if entry.file_type()?.is_symlink() {
            root.link(fs::read_link(entry.path())?, &inside)?;
        } else {
            root.show(&entry.path(), &inside, SEALED)?;
        }
    }
    set_attributes(
        root.directory(Path::new("etc"))?.as_fd(),
        SEALED,
        Reach::ThisMount,
    )
}
