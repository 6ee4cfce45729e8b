//! Absent protected paths of the tree, in a room. The launcher keeps the workspace's programs from making them by mounts on
//! their whiteouts ([`crate::launch`]), and the kernel looks at mounts of the caller's own namespace only.

use super::Order;
use crate::launch::{NewRoot, clone_tree, pin};
use crate::sys::mount::{NO_DEV, NO_SUID, READ_ONLY};
use holm_core::container::Source;
use holm_keeper::plan::{LaunchFailure, Part, Stepped};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Where the writable layer of the tree is mounted: it is hidden there by the next mount.
const HIDDEN_BY: &str = "/proc";

/// A copy of the writable layer of the tree, if the room shows the tree. This process still sees the host's mounts.
pub fn upper(order: &Order) -> Result<Option<OwnedFd>, LaunchFailure> {
    let mut mounts = order.room.mounts.iter();
    let shows_tree =
        order.room.tree.is_some() || mounts.any(|it| matches!(it.source, Source::Tree { .. }));
    if !shows_tree || order.protected.is_empty() {
        return Ok(None);
    }
    let upper = clone_tree(&order.upper);
    upper.map(Some).step(
        Part::ProtectedPath,
        "hold the protected paths that are absent",
    )
}

/// Keeps the whiteouts from being replaced by programs of the room. Called before anything is mounted on `/proc`.
pub fn hold(root: &NewRoot, order: &Order, upper: &OwnedFd) -> Result<(), LaunchFailure> {
    let held = || -> io::Result<()> {
        root.attach(upper, Path::new(HIDDEN_BY))?;
        for path in &order.protected {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let plain = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
            let place = match openat2(upper, path, flags, Mode::empty(), plain) {
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
                opened => opened?,
            };
            let kind = FileType::from_raw_mode(fstat(&place)?.st_mode);
            if kind == FileType::CharacterDevice {
                pin(&place, READ_ONLY | NO_SUID | NO_DEV)?;
            }
        }
        Ok(())
    };
    held().step(
        Part::ProtectedPath,
        "hold the protected paths that are absent",
    )
}
