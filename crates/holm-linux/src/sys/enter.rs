//! Work in namespaces of a workspace, done by a process of our own that enters them for that.
//!
//! Keepers and the daemon call this while they have several threads, so the child does nothing but
//! system calls on memory of its own. It keeps its own process namespace, so nobody inside can see or
//! touch it, and no process inside ever holds what it makes.

use super::check;
use super::clone::{Side, clone_into};
use rustix::process::{WaitId, WaitIdOptions, waitid};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The most sockets of one call.
pub const MOST: usize = 32;

/// The kind of a socket to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    Tcp4,
    Tcp6,
    /// Tells which sockets there are in its namespace.
    Diagnosis,
}

/// `count` sockets (at most [`MOST`]) of the network namespace of the process `of`, not blocking.
///
/// The child shares its table of descriptors with this process, so the sockets are here as soon as they
/// are made. Sending them would fail while programs of the user have too many descriptors in flight.
pub fn sockets(of: BorrowedFd<'_>, wanted: Wanted, count: usize) -> io::Result<Vec<OwnedFd>> {
    let (mut numbers, tell) = io::pipe()?;
    let work = || {
        for _ in 0..count.min(MOST) {
            let socket = socket(wanted)?;
            // All of them fit into the pipe. One that is not told is closed with the workspace's keeper.
            (&tell).write_all(&socket.to_ne_bytes())?;
        }
        Ok(0)
    };
    let namespaces = libc::CLONE_NEWUSER | libc::CLONE_NEWNET;
    let child = begin_in(of, namespaces, libc::CLONE_FILES as u64, work);
    let done = child.and_then(|child| code_of(&child));
    drop(tell);
    let mut told = Vec::new();
    numbers.read_to_end(&mut told)?;
    let (told, _) = told.as_chunks();
    // SAFETY: the child made these descriptors in the table that it shares with this process, and told
    // each of them once.
    let made = told
        .iter()
        .map(|number| unsafe { OwnedFd::from_raw_fd(i32::from_ne_bytes(*number)) });
    let made: Vec<_> = made.collect();
    match done? {
        0 => Ok(made),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

fn socket(wanted: Wanted) -> io::Result<i32> {
    let (family, kind, protocol) = match wanted {
        Wanted::Tcp4 => (libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_TCP),
        Wanted::Tcp6 => (libc::AF_INET6, libc::SOCK_STREAM, libc::IPPROTO_TCP),
        Wanted::Diagnosis => (libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_SOCK_DIAG),
    };
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: numbers only.
    let socket = check(unsafe { libc::socket(family, kind | flags, protocol) }.into())?;
    Ok(socket as i32)
}

/// Begins `work` in a process of our own that joins these namespaces of `of`. Its exit code is what `work`
/// says, or the number of the error. `work` must not allocate: another thread may have held the lock.
pub(super) fn begin_in(
    of: BorrowedFd<'_>,
    namespaces: libc::c_int,
    flags: u64,
    work: impl FnOnce() -> io::Result<i32>,
) -> io::Result<OwnedFd> {
    match clone_into(flags)? {
        Side::Child => {
            // SAFETY: no pointers; only this process, which has one thread, changes its namespaces.
            let joined = check(unsafe { libc::setns(of.as_raw_fd(), namespaces) }.into());
            let said = joined.and_then(|_| work());
            let code = said.unwrap_or_else(|error| error.raw_os_error().unwrap_or(libc::EIO));
            // SAFETY: ends this process at once, without running anything of the parent's copy.
            unsafe { libc::_exit(code) }
        }
        Side::Parent { pidfd, .. } => Ok(pidfd),
    }
}

/// Waits for the end of such a process.
pub(super) fn code_of(child: &OwnedFd) -> io::Result<i32> {
    let status = waitid(WaitId::PidFd(child.as_fd()), WaitIdOptions::EXITED)?;
    let ended = status.and_then(|status| status.exit_status());
    ended.ok_or_else(|| io::Error::other("the process that enters the workspace was killed"))
}
