//! Signals: notifications about children, and signalling process groups.

use super::check;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};

/// Readable when a child ended. SIGCHLD is blocked from here on; started programs get an empty mask
/// again.
pub fn children() -> io::Result<OwnedFd> {
    heard(&[libc::SIGCHLD])
}

/// The same, and when this process is asked to end.
pub fn children_and_end() -> io::Result<OwnedFd> {
    heard(&[libc::SIGCHLD, libc::SIGTERM])
}

/// Waits for signals of such a descriptor and returns them.
pub fn wait_for(signals: BorrowedFd<'_>) -> io::Result<Vec<i32>> {
    const RECORD: usize = size_of::<libc::signalfd_siginfo>();
    match poll(&mut [PollFd::new(&signals, PollFlags::IN)], None) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let mut records = [0_u8; RECORD * 16];
    let length = match rustix::io::read(signals, &mut records) {
        Ok(length) => length,
        Err(Errno::AGAIN | Errno::INTR) => 0,
        Err(error) => return Err(error.into()),
    };
    // Each record begins with the number.
    let records = records[..length].chunks_exact(RECORD);
    Ok(records
        .map(|record| i32::from_ne_bytes([record[0], record[1], record[2], record[3]]))
        .collect())
}

fn heard(signals: &[i32]) -> io::Result<OwnedFd> {
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
