//! Sockets of another network namespace, made by a process of our own that enters it for that.
//!
//! The keeper calls this while it has several threads, so the child does nothing but system calls
//! on memory of its own: it enters, makes the sockets, passes them and ends. It keeps its own
//! process namespace, so nobody inside can see or touch it, and no process inside ever holds one of
//! these sockets.

use super::check;
use super::clone::{Side, clone_into};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use rustix::process::{WaitId, WaitIdOptions, waitid};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

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
pub fn sockets(of: BorrowedFd<'_>, wanted: Wanted, count: usize) -> io::Result<Vec<OwnedFd>> {
    let count = count.min(MOST);
    let (ours, theirs) = UnixStream::pair()?;
    match clone_into(0)? {
        Side::Child => {
            let told = enter_and_make(of, wanted, count, &theirs);
            let code = match told {
                Ok(()) => 0,
                Err(error) => error.raw_os_error().unwrap_or(libc::EIO),
            };
            // SAFETY: ends this process at once, without running anything of the parent's copy.
            unsafe { libc::_exit(code) }
        }
        Side::Parent { pidfd, .. } => {
            drop(theirs);
            let received = receive(&ours);
            let status = waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED)?;
            match status.and_then(|status| status.exit_status()) {
                Some(0) => received,
                Some(errno) => Err(io::Error::from_raw_os_error(errno)),
                None => Err(io::Error::other(
                    "the process that makes sockets was killed",
                )),
            }
        }
    }
}

/// The child's whole life. Allocates nothing: another thread of the parent may have held the lock.
fn enter_and_make(
    of: BorrowedFd<'_>,
    wanted: Wanted,
    count: usize,
    link: &UnixStream,
) -> io::Result<()> {
    let namespaces = libc::CLONE_NEWUSER | libc::CLONE_NEWNET;
    // SAFETY: no pointers; only this process, which has one thread, changes its namespaces.
    check(unsafe { libc::setns(of.as_raw_fd(), namespaces) }.into())?;
    let (family, kind, protocol) = match wanted {
        Wanted::Tcp4 => (libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_TCP),
        Wanted::Tcp6 => (libc::AF_INET6, libc::SOCK_STREAM, libc::IPPROTO_TCP),
        Wanted::Diagnosis => (libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_SOCK_DIAG),
    };
    let mut made: [Option<OwnedFd>; MOST] = [const { None }; MOST];
    for place in &mut made[..count] {
        let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: numbers only; the kernel's answer is a descriptor that nobody else owns.
        let socket = check(unsafe { libc::socket(family, kind | flags, protocol) }.into())?;
        // SAFETY: as above.
        *place = Some(unsafe { OwnedFd::from_raw_fd(socket as i32) });
    }
    let mut borrowed = [link.as_fd(); MOST];
    for (place, socket) in borrowed.iter_mut().zip(made.iter().flatten()) {
        *place = socket.as_fd();
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&borrowed[..count]));
    rustix::net::sendmsg(
        link,
        &[IoSlice::new(b"s")],
        &mut ancillary,
        SendFlags::NOSIGNAL,
    )?;
    Ok(())
}

fn receive(link: &UnixStream) -> io::Result<Vec<OwnedFd>> {
    let mut byte = [0u8; 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut pieces = [IoSliceMut::new(&mut byte)];
    rustix::io::retry_on_intr(|| {
        rustix::net::recvmsg(link, &mut pieces, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
    })?;
    let mut sockets = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            sockets.extend(rights);
        }
    }
    Ok(sockets)
}
