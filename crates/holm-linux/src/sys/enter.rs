//! Does work in a workspace's namespaces, in a child process that enters them.
//!
//! Keepers and the daemon call this while they have several threads, so the child makes only system
//! calls on its own memory. It keeps its own pid namespace, so programs inside can neither see nor
//! affect it, and no process inside ever holds what it creates.

use super::check;
use super::clone::{Side, clone_into};
use rustix::process::{WaitId, WaitIdOptions, waitid};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The most sockets of one call.
pub const MOST: usize = 32;

/// The kind of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    Tcp4,
    Tcp6,
    /// For queries about sockets in its namespace.
    Diagnosis,
}

/// Creates `count` non-blocking sockets (at most [`MOST`]) in the network namespace of the process
/// `of`.
///
/// The child shares its descriptor table with this process, so the sockets exist here as soon as
/// they are created. Sending them would fail while the user's programs have too many descriptors in
/// flight.
pub fn sockets(of: BorrowedFd<'_>, wanted: Wanted, count: usize) -> io::Result<Vec<OwnedFd>> {
    let (mut numbers, tell) = io::pipe()?;
    let work = || {
        for _ in 0..count.min(MOST) {
            let socket = socket(wanted)?;
            // All of them fit into the pipe. A socket that is not reported is closed with the
            // workspace's keeper.
            (&tell).write_all(&socket.to_ne_bytes())?;
        }
        Ok(0)
    };
    let namespaces = libc::CLONE_NEWUSER | libc::CLONE_NEWNET;
    let child = begin_in(of, namespaces, libc::CLONE_FILES as u64, work);
    let done = child.and_then(|child| code_of(&child));
    drop(tell);
    let mut received = Vec::new();
    numbers.read_to_end(&mut received)?;
    let (received, _) = received.as_chunks();
    // SAFETY: the child made these descriptors in the table that it shares with this process, and wrote
    // each number to the pipe once.
    let made = received
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

/// Starts `work` in a child process that joins these namespaces of `of`. Its exit code is the
/// result of `work`, or the errno. `work` must not allocate: another thread may have held the
/// allocator's lock.
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
pub fn code_of(child: &OwnedFd) -> io::Result<i32> {
    let status = waitid(WaitId::PidFd(child.as_fd()), WaitIdOptions::EXITED)?;
    let ended = status.and_then(|status| status.exit_status());
    ended.ok_or_else(|| io::Error::other("the process that enters the workspace was killed"))
}
