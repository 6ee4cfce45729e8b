//! Opens and makes paths beneath a directory, without following symlinks.

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, mkdirat, openat2};
use rustix::io::Errno;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

pub const OPEN: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
pub const PLAIN: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);

pub fn make_directories(top: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let mut here = rustix::io::dup(top)?;
    for name in path.iter() {
        match mkdirat(&here, name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        here = openat2(&here, name, OPEN | OFlags::DIRECTORY, Mode::empty(), PLAIN)?;
    }
    Ok(())
}

/// Opens a path without following symlinks, also not at its end: a mount on a symlink would leave
/// its target unprotected.
pub fn open_plain(top: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd, Errno> {
    let place = openat2(top, path, OPEN, Mode::empty(), PLAIN)?;
    match FileType::from_raw_mode(fstat(&place)?.st_mode) {
        FileType::Symlink => Err(Errno::LOOP),
        _ => Ok(place),
    }
}
