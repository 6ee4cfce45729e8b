//! The lock that identifies the keeper of a workspace. A POSIX record lock: the kernel releases it
//! when the holder dies and names the holder, so no pid is ever stored.

use super::check;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Takes the lock for as long as this process lives and `file` stays open. `false`: taken.
///
/// Closing any other descriptor of the same file in this process would release it, so the file is
/// opened once.
pub fn try_lock(file: &File) -> io::Result<bool> {
    let lock = whole_file();
    // SAFETY: F_SETLK reads one `flock`, which lives until the call returns.
    match check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const lock) }.into()) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EACCES | libc::EAGAIN)) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// The process that holds the lock, if any (0: a process that is not visible from here).
pub fn holder(file: &File) -> io::Result<Option<i32>> {
    let mut lock = whole_file();
    // SAFETY: F_GETLK reads and writes one `flock`, which lives until the call returns.
    check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &raw mut lock) }.into())?;
    Ok((i32::from(lock.l_type) != libc::F_UNLCK).then_some(lock.l_pid))
}

fn whole_file() -> libc::flock {
    // SAFETY: `flock` is plain data for which zero is a valid value of every field.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock
}
