//! What listens inside, asked of the kernel.
//!
//! It queries `sock_diag` on a socket of the workspace's network namespace, for listeners only:
//! `/proc/<pid>/net/tcp` contains every connection and walks the whole machine's table for each
//! workspace.

use crate::netlink;
use crate::sys::enter::{self, Wanted};
use holm_core::container::Published;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::netlink as family;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

/// The kernel answers at once.
const PATIENCE: Timespec = Timespec {
    tv_sec: 2,
    tv_nsec: 0,
};

/// Queries TCP sockets of both families at once; the newer query takes one family.
const TCPDIAG_GETSOCK: u16 = 18;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// NLM_F_REQUEST | NLM_F_DUMP.
const DUMP: u16 = 0x1 | 0x300;
const TCP_LISTEN: u8 = 10;
const HEADER: usize = 16;

/// Where the kernel is asked; opened when it is first needed.
#[derive(Default)]
pub struct Listening(Mutex<Option<OwnedFd>>);

// === impl Listening ===

impl Listening {
    /// The ports that the loopback interface of the workspace of `init` answers on.
    pub fn look(&self, init: BorrowedFd<'_>) -> io::Result<BTreeSet<u16>> {
        self.look_by(|| {
            let mut made = enter::sockets(init, Wanted::Diagnosis, 1)?;
            let none = || io::Error::other("no socket could be made inside");
            made.pop().ok_or_else(none)
        })
    }

    /// The same of the network of this process.
    pub fn look_here(&self) -> io::Result<BTreeSet<u16>> {
        self.look_by(|| netlink::open(Some(family::SOCK_DIAG)))
    }

    fn look_by(&self, make: impl FnOnce() -> io::Result<OwnedFd>) -> io::Result<BTreeSet<u16>> {
        let mut diagnosis = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let socket = diagnosis.take().map_or_else(make, Ok)?;
        let ports = listening(&socket, Ipv4Addr::LOCALHOST)?;
        // After an error another socket is asked: this one may still have half an answer in it.
        *diagnosis = Some(socket);
        Ok(ports)
    }
}

/// A service with a network namespace of its own, whose ports the workspace publishes.
pub struct PublishingService {
    pub diagnosis: Mutex<OwnedFd>,
    pub address: Ipv4Addr,
    pub published: Vec<Published>,
}

// === impl PublishingService ===

impl PublishingService {
    /// The ports of the workspace that lead to a port on which the service answers.
    pub fn look(&self) -> io::Result<Vec<u16>> {
        let diagnosis = self.diagnosis.lock();
        let diagnosis = diagnosis.unwrap_or_else(PoisonError::into_inner);
        let found = listening(&diagnosis, self.address)?;
        let leading = self.published.iter();
        let leading = leading.filter(|published| found.contains(&published.target));
        Ok(leading.map(|published| published.port).collect())
    }
}

/// The ports on which an address answers; `::1` counts as `127.0.0.1`.
fn listening(diagnosis: &OwnedFd, at: Ipv4Addr) -> io::Result<BTreeSet<u16>> {
    let mut ports = BTreeSet::new();
    send(diagnosis, &question(), SendFlags::empty())?;
    let mut buffer = [0u8; 8 * 1024];
    loop {
        let length = match recv(diagnosis, &mut buffer[..], RecvFlags::empty()) {
            Ok((length, _)) => length,
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => {
                let mut sources = [PollFd::new(diagnosis, PollFlags::IN)];
                if rustix::io::retry_on_intr(|| poll(&mut sources, Some(&PATIENCE)))? == 0 {
                    return Err(io::Error::from_raw_os_error(libc::ETIMEDOUT));
                }
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let mut found = Vec::new();
        let answered = read_answer(&buffer[..length], &mut found)?;
        let reached = found.iter().filter(|(address, _)| is_reached(*address, at));
        ports.extend(reached.map(|(_, port)| *port));
        if answered == Answered::Wholly {
            return Ok(ports);
        }
    }
}

#[derive(PartialEq, Eq)]
enum Answered {
    InPart,
    Wholly,
}

/// `nlmsghdr` and `inet_diag_req` for listening TCP sockets.
fn question() -> [u8; HEADER + 60] {
    const STATES: usize = HEADER + 52;
    let mut message = [0u8; HEADER + 60];
    message[0..4].copy_from_slice(&((HEADER + 60) as u32).to_ne_bytes());
    message[4..6].copy_from_slice(&TCPDIAG_GETSOCK.to_ne_bytes());
    message[6..8].copy_from_slice(&DUMP.to_ne_bytes());
    message[HEADER] = libc::AF_INET as u8;
    message[STATES..STATES + 4].copy_from_slice(&(1u32 << TCP_LISTEN).to_ne_bytes());
    message
}

/// Parses the ports in one datagram of `nlmsghdr`s with an `inet_diag_msg` each.
fn read_answer(mut rest: &[u8], found: &mut Vec<(IpAddr, u16)>) -> io::Result<Answered> {
    while let Some(header) = rest.first_chunk::<HEADER>() {
        let length = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let kind = u16::from_ne_bytes([header[4], header[5]]);
        let Some(body) = rest.get(HEADER..length) else {
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        };
        match kind {
            NLMSG_DONE => return Ok(Answered::Wholly),
            NLMSG_ERROR => {
                let number = body
                    .first_chunk()
                    .map_or(0, |code| i32::from_ne_bytes(*code));
                return Err(io::Error::from_raw_os_error(-number));
            }
            _ => found.extend(listener(body)),
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(Answered::InPart)
}

/// Address and port of one `inet_diag_msg`.
fn listener(message: &[u8]) -> Option<(IpAddr, u16)> {
    let (family, id) = (*message.first()?, message.get(4..)?);
    let port = u16::from_be_bytes(*id.first_chunk()?);
    let address = id.get(4..20)?;
    let address = match i32::from(family) {
        libc::AF_INET => IpAddr::from(*address.first_chunk::<4>()?),
        _ => IpAddr::from(*address.first_chunk::<16>()?),
    };
    Some((address.to_canonical(), port))
}

fn is_reached(address: IpAddr, at: Ipv4Addr) -> bool {
    let is_loopback = at == Ipv4Addr::LOCALHOST && address == Ipv6Addr::LOCALHOST;
    is_loopback || address == at || address.is_unspecified()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, netlink, socket_with};
    use std::net::TcpListener;

    #[test]
    fn what_loopback_answers_on_is_told_and_nothing_else() {
        let flags = SocketFlags::CLOEXEC;
        let diagnosis = socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            flags,
            Some(netlink::SOCK_DIAG),
        );
        let diagnosis = diagnosis.unwrap();
        let listen = |address: &str| TcpListener::bind((address, 0)).unwrap();
        let number = |listener: &TcpListener| listener.local_addr().unwrap().port();
        let found = [
            listen("127.0.0.1"),
            listen("0.0.0.0"),
            listen("::1"),
            listen("::"),
            listen("::ffff:127.0.0.1"),
        ];
        let ports = listening(&diagnosis, Ipv4Addr::LOCALHOST).unwrap();
        for listener in &found {
            assert!(ports.contains(&number(listener)), "{listener:?}");
        }
        // Another test may listen on the same port of loopback, so one of several has to be absent.
        let is_absent = |port: u16| {
            let ports = listening(&diagnosis, Ipv4Addr::LOCALHOST).unwrap();
            !ports.contains(&port)
        };
        assert!((0..10).any(|_| {
            let elsewhere = listen("127.0.0.2");
            is_absent(number(&elsewhere))
        }));
        assert!((0..10).any(|_| {
            let gone = number(&listen("127.0.0.1"));
            is_absent(gone)
        }));
    }

    #[test]
    fn nonsense_is_an_error_and_no_panic() {
        let mut ports = Vec::new();
        for length in [0u32, 3, 15, 17, u32::MAX] {
            let mut message = [0u8; 40];
            message[..4].copy_from_slice(&length.to_ne_bytes());
            assert!(read_answer(&message, &mut ports).is_err(), "{length}");
        }
        assert_eq!(listener(&[libc::AF_INET6 as u8, 0, 0, 0, 1]), None);
    }
}
