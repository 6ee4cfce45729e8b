//! Connections from outside to programs that listen inside.
//!
//! The sockets are made by a process of ours that enters the workspace's network for it
//! ([`enter`]); the keeper connects them and passes them to the daemon. Nothing inside takes
//! part but the listener itself, so nothing inside can pass off another socket, keep a copy of one,
//! or be asked in vain.

use crate::sys::enter::{self, Wanted};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_error;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

/// How long a listener with a full queue may take.
const PATIENCE: Timespec = Timespec {
    tv_sec: 3,
    tv_nsec: 0,
};

/// Sockets created at a time, because entering costs more than creating one.
const BATCH: usize = 16;

/// Unused sockets of the workspace's network.
#[derive(Default)]
pub struct Stock {
    four: Mutex<Vec<OwnedFd>>,
    six: Mutex<Vec<OwnedFd>>,
}

/// Connects to a port of the loopback of this process's own network.
pub fn dial_here(port: u16) -> io::Result<OwnedFd> {
    reach(port, |wanted| {
        let family = match wanted {
            Wanted::Tcp6 => AddressFamily::INET6,
            Wanted::Tcp4 | Wanted::Diagnosis => AddressFamily::INET,
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        Ok(socket_with(family, SocketType::STREAM, flags, None)?)
    })
}

/// A program that listens only on `::1` is found there.
fn reach(port: u16, take: impl Fn(Wanted) -> io::Result<OwnedFd>) -> io::Result<OwnedFd> {
    let four = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let refused = match connected(take(Wanted::Tcp4)?, four) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => error,
        other => return other,
    };
    let Ok(socket) = take(Wanted::Tcp6) else {
        // A machine without IPv6.
        return Err(refused);
    };
    connected(socket, SocketAddr::from((Ipv6Addr::LOCALHOST, port)))
}

fn connected(socket: OwnedFd, address: SocketAddr) -> io::Result<OwnedFd> {
    match connect(&socket, &address) {
        Ok(()) => return Ok(socket),
        Err(Errno::INPROGRESS) => {}
        Err(error) => return Err(error.into()),
    }
    let mut sources = [PollFd::new(&socket, PollFlags::OUT)];
    if rustix::io::retry_on_intr(|| poll(&mut sources, Some(&PATIENCE)))? == 0 {
        return Err(io::Error::from_raw_os_error(libc::ETIMEDOUT));
    }
    socket_error(&socket)??;
    Ok(socket)
}

// === impl Stock ===

impl Stock {
    /// Connects to a port of the workspace's loopback.
    pub fn dial(&self, init: BorrowedFd<'_>, port: u16) -> io::Result<OwnedFd> {
        reach(port, |wanted| self.take(init, wanted))
    }

    fn take(&self, of: BorrowedFd<'_>, wanted: Wanted) -> io::Result<OwnedFd> {
        let sockets = match wanted {
            Wanted::Tcp6 => &self.six,
            Wanted::Tcp4 | Wanted::Diagnosis => &self.four,
        };
        let mut sockets = sockets.lock().unwrap_or_else(PoisonError::into_inner);
        if sockets.is_empty() {
            *sockets = enter::sockets(of, wanted, BATCH)?;
        }
        sockets.pop().ok_or_else(no_socket)
    }
}

fn no_socket() -> io::Error {
    io::Error::other("no socket could be made inside")
}
