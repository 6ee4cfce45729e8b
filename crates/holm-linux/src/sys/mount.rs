//! `mount_setattr(2)`; the rest of the new mount interface comes from rustix.

use super::check;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

pub const READ_ONLY: u64 = libc::MOUNT_ATTR_RDONLY;
pub const NO_SUID: u64 = libc::MOUNT_ATTR_NOSUID;
pub const NO_DEV: u64 = libc::MOUNT_ATTR_NODEV;
pub const NO_EXEC: u64 = libc::MOUNT_ATTR_NOEXEC;

/// How far down attributes are set.
pub enum Reach {
    ThisMount,
    AllBelow,
}

/// Sets attributes on the mount whose root is `mount`.
pub fn set_attributes(mount: BorrowedFd<'_>, attributes: u64, reach: Reach) -> io::Result<()> {
    // SAFETY: `mount_attr` is plain data for which zero is a valid value of every field.
    let mut change: libc::mount_attr = unsafe { std::mem::zeroed() };
    change.attr_set = attributes;
    let flags = match reach {
        Reach::ThisMount => libc::AT_EMPTY_PATH,
        Reach::AllBelow => libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
    };
    // SAFETY: the path is a valid empty C string and `change` lives until the call returns.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const change,
            size_of::<libc::mount_attr>(),
        )
    })?;
    Ok(())
}
