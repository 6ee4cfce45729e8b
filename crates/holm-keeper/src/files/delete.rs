//! Deletes a file, a symlink or a directory by its name in an open directory, never a symlink's
//! target, at any depth. Everything that the agent could delete can be deleted.

use super::remove::remove_at;
use super::root::{Root, failure};
use holm_core::TreePath;
use holm_core::files::{Depth, Failure};
use rustix::fs::{AtFlags, FileType, statat, unlinkat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

// === impl Root ===

impl Root {
    pub fn delete(&self, path: &TreePath, depth: Depth) -> Result<(), Failure> {
        let (parent, name) = self.parent(path)?;
        let stat = statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failure)?;
        let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        match (is_directory, depth) {
            (true, Depth::Whole) => {
                let name = Path::new(OsStr::from_bytes(name));
                remove_at(parent.as_fd(), name).map_err(|error| not_removed(&error))
            }
            (true, Depth::One) => unlinkat(&parent, name, AtFlags::REMOVEDIR).map_err(failure),
            (false, _) => unlinkat(&parent, name, AtFlags::empty()).map_err(failure),
        }
    }
}

fn not_removed(error: &io::Error) -> Failure {
    match error.raw_os_error() {
        Some(number) => failure(Errno::from_raw_os_error(number)),
        // Something is mounted in it, as for protected paths.
        None => Failure::ReadOnly,
    }
}
