//! Length-prefixed JSON with attached descriptors, between keeper and init. It may contain secrets,
//! so sent buffers are wiped.

use crate::wire::FromInit;
use rustix::io::{Errno, FdFlags};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use serde::{Deserialize, Serialize};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use zeroize::Zeroizing;

/// The most descriptors of one message.
pub const MAX_DESCRIPTORS: usize = 4;
pub const MAX_MESSAGE: usize = 8 * 1024 * 1024;

/// Sends one message. The descriptors travel with its length.
pub fn send<T: Serialize>(
    mut stream: &UnixStream,
    message: &T,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let payload = Zeroizing::new(serde_json::to_vec(message)?);
    let length = (payload.len() as u32).to_le_bytes();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let sent = loop {
        let pieces = [IoSlice::new(&length), IoSlice::new(&payload)];
        match rustix::net::sendmsg(stream, &pieces, &mut ancillary, SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            other => break other?,
        }
    };
    stream.write_all(&length[sent.min(length.len())..])?;
    stream.write_all(&payload[sent.saturating_sub(length.len())..])
}

/// Whether a descriptor that was left open for the keeper survives the next `exec`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// The launcher left it; the keeper takes it from init.
    AcrossExec,
    /// Init left it; programs that init starts do not inherit it.
    InInit,
}

/// Sends one message from inside to the keeper. The kernel refuses to send descriptors while programs
/// of the user have too many in flight, and any workspace can bring that about. Then they stay open
/// here, and the keeper takes them itself ([`Platform::take_descriptors`](crate::platform::Platform::take_descriptors)).
pub fn send_or_leave(
    stream: &UnixStream,
    message: FromInit,
    descriptors: Vec<OwnedFd>,
    left: Left,
) -> io::Result<()> {
    let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    match send(stream, &message, &borrowed) {
        Err(error) if is_too_many(&error) => {}
        sent => return sent,
    }
    if left == Left::AcrossExec {
        for descriptor in &descriptors {
            rustix::io::fcntl_setfd(descriptor, FdFlags::empty())?;
        }
    }
    let numbers = descriptors.into_iter().map(IntoRawFd::into_raw_fd);
    let left = FromInit::Left {
        numbers: numbers.collect(),
        message: Box::new(message),
    };
    send(stream, &left, &[])
}

/// Whether the kernel refused to send descriptors because the user has too many in flight.
pub fn is_too_many(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ETOOMANYREFS)
}

/// The cause of a failed start in words. The kernel's text for too many descriptors in flight
/// ("cannot splice") misleads.
pub fn explain(error: &io::Error) -> String {
    if is_too_many(error) {
        "your programs have too many descriptors in flight (sent over Unix sockets and not received), and the \
         kernel does not let holm do without: see \"What your programs share\" in docs/limits.md"
            .to_owned()
    } else {
        error.to_string()
    }
}

/// Receives one message; `None` when the other side closed.
pub fn receive<T: for<'a> Deserialize<'a>>(
    stream: &UnixStream,
) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    receive_within(stream, MAX_MESSAGE)
}

/// The same, with a length limit.
pub fn receive_within<T: for<'a> Deserialize<'a>>(
    mut stream: &UnixStream,
    longest: usize,
) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut length = [0u8; 4];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let mut pieces = [IoSliceMut::new(&mut length)];
        match rustix::net::recvmsg(stream, &mut pieces, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            other => break other?.bytes,
        }
    };
    if received == 0 {
        return Ok(None);
    }
    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    stream.read_exact(&mut length[received..])?;
    let length = u32::from_le_bytes(length) as usize;
    if length > longest {
        let message = format!("a message of {length} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    let mut payload = Zeroizing::new(vec![0; length]);
    stream.read_exact(&mut payload)?;
    Ok(Some((serde_json::from_slice(&payload)?, descriptors)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::FromInit;
    use std::os::fd::AsFd;

    /// What the keeper makes of these bytes from a hostile init.
    fn received(bytes: &[u8]) -> io::Result<Option<(FromInit, Vec<OwnedFd>)>> {
        let (keeper, mut init) = UnixStream::pair().unwrap();
        init.write_all(bytes).unwrap();
        drop(init);
        receive(&keeper)
    }

    fn framed(text: &str) -> Vec<u8> {
        [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat()
    }

    #[test]
    fn attack_182_what_init_says_is_read_or_refused_and_never_believed() {
        // Impossible lengths, truncated messages, and unknown words.
        for bad in [
            u32::MAX.to_le_bytes().to_vec(),
            (MAX_MESSAGE as u32 + 1).to_le_bytes().to_vec(),
            vec![1, 0],
            [&[200, 0, 0, 0][..], b"\"empty\""].concat(),
            framed(""),
            framed("{}"),
            framed("\"unknown\""),
            framed("{\"spawned\":{\"sequence\":-1,\"pid\":1}}"),
            framed("{\"exited\":{\"pid\":1,\"code\":999}}"),
            framed(&"[".repeat(100_000)),
            vec![0xff; 64],
        ] {
            assert!(received(&bad).is_err(), "{:?}", &bad[..bad.len().min(40)]);
        }
        assert!(received(b"").unwrap().is_none());
        assert!(matches!(
            received(&framed("\"empty\"")).unwrap(),
            Some((FromInit::Empty, _))
        ));
    }

    #[test]
    fn attack_182_no_more_descriptors_are_taken_than_a_message_has() {
        let (keeper, init) = UnixStream::pair().unwrap();
        let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let before = open();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(64))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let many = [init.as_fd(); 64];
        ancillary.push(SendAncillaryMessage::ScmRights(&many));
        let message = framed("\"empty\"");
        let pieces = [IoSlice::new(&message)];
        rustix::net::sendmsg(&init, &pieces, &mut ancillary, SendFlags::empty()).unwrap();
        let (_, taken) = receive::<FromInit>(&keeper).unwrap().unwrap();
        // Alignment leaves room for a few more; the rest never arrives.
        assert!(taken.len() <= 2 * MAX_DESCRIPTORS, "{}", taken.len());
        drop(taken);
        // Other tests open and close descriptors too.
        assert!(open() < before + 32);
    }
}
