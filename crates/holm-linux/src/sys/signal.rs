//! Signals: notifications about children, and signalling processes and their groups.

use super::check;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// Readable whenever one of these signals came. They are blocked from here on; programs that are started
/// get an empty mask again.
pub fn descriptor(signals: &[i32]) -> io::Result<OwnedFd> {
    // SAFETY: sigemptyset initialises the set before anything reads it.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: all calls touch only `set`, which lives on this stack.
    let descriptor = unsafe {
        libc::sigemptyset(&raw mut set);
        for signal in signals {
            libc::sigaddset(&raw mut set, *signal);
        }
        check(libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()).into())?;
        check(libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK).into())?
    };
    // SAFETY: a new descriptor that has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as i32) })
}

/// Signals every process of this namespace except the caller.
pub fn everyone(signal: i32) -> io::Result<()> {
    // SAFETY: no pointers. Called by PID 1 of a workspace only, whose namespace ends the reach.
    check(unsafe { libc::kill(-1, signal) }.into())?;
    Ok(())
}

/// Signals a process group of this namespace.
pub fn group(leader: i32, signal: i32) -> io::Result<()> {
    if leader <= 1 {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    // SAFETY: no pointers; `leader` is above 1, so neither "everyone" nor "my own group" is meant.
    check(unsafe { libc::kill(-leader, signal) }.into())?;
    Ok(())
}

/// Signals one process of this namespace. Any signal number of the kernel may be meant.
pub fn one(pid: i32, signal: i32) -> io::Result<()> {
    if pid <= 1 {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    // SAFETY: no pointers; `pid` is above 1, so neither "everyone" nor "my own group" is meant.
    check(unsafe { libc::kill(pid, signal) }.into())?;
    Ok(())
}
