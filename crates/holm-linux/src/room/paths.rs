//! Paths of the workspace that a room shows. Programs inside may have replaced them, so no link is followed.

use crate::launch::copy_mount;
use crate::sys::mount::Reach;
use holm_keeper::directories::open_directory;
use rustix::fs::{
    AtFlags, Mode, OFlags, ResolveFlags, StatxAttributes, StatxFlags, openat2, statx,
};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

pub fn is_missing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

const PATH: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A copy of a file or directory of the workspace, with everything that is mounted below it.
pub fn show(path: &Path) -> io::Result<OwnedFd> {
    copy_mount(&find(path)?, Reach::AllBelow)
}

/// The same of a mount. Programs inside may have put another directory into its place.
pub fn show_mount(path: &Path) -> io::Result<OwnedFd> {
    let place = find(path)?;
    let status = statx(&place, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)?;
    if status.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
        copy_mount(&place, Reach::AllBelow)
    } else {
        Err(io::Error::other("it is no longer mounted there"))
    }
}

pub fn find(path: &Path) -> io::Result<OwnedFd> {
    let root = open_directory(Path::new("/"))?;
    let relative = path.strip_prefix("/").unwrap_or(path);
    let plain = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    Ok(openat2(&root, relative, PATH, Mode::empty(), plain)?)
}
