//! Connections from outside to programs that listen inside.
//!
//! A short-lived process of ours enters the workspace's network and creates the sockets
//! ([`sys::enter`]); the keeper connects them and passes them to the daemon. Inside, only the
//! listener takes part, so no program there can substitute a socket, keep a copy of one, or block
//! the request.

use super::connection::say;
use super::registry::Registry;
use crate::launch::descriptors::is_too_many;
use crate::sys::enter::{self, Wanted};
use crate::wire::Answer;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_error;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, connect};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
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

/// Connects to a port of the workspace's loopback and passes the connection: first one byte with or
/// without the descriptor, then the answer.
pub fn dial(stream: &UnixStream, registry: &Registry, port: u16) -> io::Result<()> {
    let connected = reach(port, |wanted| {
        registry.stock().take(registry.init(), wanted)
    });
    let passed = match &connected {
        Ok(socket) => pass(stream, Some(socket.as_fd())),
        Err(_) => pass(stream, None),
    };
    let connected = match passed {
        // The daemon then enters the workspace's network itself ([`dial_directly`]).
        Err(error) if is_too_many(&error) => {
            pass(stream, None)?;
            Err(error)
        }
        passed => passed.and(connected.map(drop)),
    };
    match connected {
        Ok(()) => say(stream, &Answer::Dialled),
        Err(error) => {
            let errno = error.raw_os_error().unwrap_or(libc::ECONNREFUSED);
            say(stream, &Answer::NotDialled { errno })
        }
    }
}

/// The same without the keeper, for the daemon: the kernel does not let the keeper pass a socket
/// while the user's programs have too many descriptors in flight.
pub fn dial_directly(init: BorrowedFd<'_>, port: u16) -> io::Result<OwnedFd> {
    reach(port, |wanted| {
        let made = enter::sockets(init, wanted, 1)?;
        made.into_iter().next().ok_or_else(no_socket)
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

fn pass(stream: &UnixStream, socket: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let passed = [socket.unwrap_or(stream.as_fd())];
    if socket.is_some() {
        ancillary.push(SendAncillaryMessage::ScmRights(&passed));
    }
    rustix::net::sendmsg(
        stream,
        &[IoSlice::new(b"d")],
        &mut ancillary,
        SendFlags::NOSIGNAL,
    )?;
    Ok(())
}

// === impl Stock ===

impl Stock {
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
