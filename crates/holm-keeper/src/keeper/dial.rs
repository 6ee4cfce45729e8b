//! Connections from outside to what listens inside. The platform makes them; the keeper passes each to the
//! daemon as a descriptor, or carries its bytes.

use super::Registry;
use super::guest_api::join;
use crate::descriptors::is_too_many;
use crate::wire::{Answer, send_answer};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// Connects to a port of the workspace's loopback and passes the connection: first one byte that
/// carries it, or none, then the answer.
pub fn dial(stream: &UnixStream, registry: &Registry, port: u16) -> io::Result<()> {
    let connected = registry.platform().dial(port);
    let passed = match &connected {
        Ok(socket) => pass(stream, Some(socket.as_fd())),
        Err(_) => pass(stream, None),
    };
    let connected = match passed {
        // The daemon asks to have the bytes carried then.
        Err(error) if is_too_many(&error) => {
            pass(stream, None)?;
            Err(error)
        }
        passed => passed.and(connected.map(drop)),
    };
    match connected {
        Ok(()) => send_answer(stream, &Answer::Dialled),
        Err(error) => send_answer(stream, &not_dialled(&error)),
    }
}

/// Connects to a port of the workspace's loopback and carries the bytes.
pub fn connect(stream: &UnixStream, registry: &Registry, port: u16) -> io::Result<()> {
    match registry.platform().dial(port) {
        Ok(socket) => {
            send_answer(stream, &Answer::Dialled)?;
            // Bytes and ends are the same calls for stream sockets of every family.
            join(stream, &UnixStream::from(socket))
        }
        Err(error) => send_answer(stream, &not_dialled(&error)),
    }
}

fn not_dialled(error: &io::Error) -> Answer {
    let errno = error.raw_os_error().unwrap_or(libc::ECONNREFUSED);
    Answer::NotDialled { errno }
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
