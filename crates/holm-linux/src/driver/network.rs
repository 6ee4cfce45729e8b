//! Ports and connections of a running workspace, through its keeper.

use super::keeper::{self, read_frame};
use super::observe::left_init;
use crate::launch::descriptors::is_too_many;
use crate::layout::WorkspaceDirs;
use crate::wire::{Answer, Op, Request, VERSION, channel, control_frame};
use holm_core::Fault;
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use rustix::process::PidfdFlags;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc;

/// Inside, a connection is made or refused at once; a keeper that does not answer is broken.
const PATIENCE: Duration = Duration::from_secs(5);

/// Outside it takes as long as the network does.
const PATIENCE_OUTSIDE: Duration = Duration::from_secs(60);

/// The capacity for changes; the keeper waits when it is full.
const UNHEARD: usize = 8;

pub async fn dial(dirs: &WorkspaceDirs, port: u16) -> io::Result<TcpStream> {
    let dial = async {
        let mut stream = ask(dirs, Op::Dial { port }).await?;
        let descriptor = receive_descriptor(&stream).await?;
        let descriptor = match dialled(answer(&mut stream).await?) {
            Err(error) if is_too_many(&error) => Some(dial_directly(dirs, port).await?),
            dialled => dialled.map(|()| descriptor)?,
        };
        let descriptor = descriptor.ok_or_else(|| io::Error::other("no connection came"))?;
        let connection = std::net::TcpStream::from(descriptor);
        connection.set_nonblocking(true)?;
        TcpStream::from_std(connection)
    };
    within(PATIENCE, dial).await
}

/// Used when the keeper cannot pass a socket.
async fn dial_directly(dirs: &WorkspaceDirs, port: u16) -> io::Result<OwnedFd> {
    let dirs = dirs.clone();
    let dialled = tokio::task::spawn_blocking(move || {
        let gone = || io::Error::from(io::ErrorKind::ConnectionRefused);
        let init = left_init(&dirs).ok_or_else(gone)?;
        let pid = rustix::process::Pid::from_raw(init.pid).ok_or_else(gone)?;
        let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
        // The pid could have been reused when the pidfd was opened.
        if !init.is_alive() {
            return Err(gone());
        }
        crate::keeper::dial_directly(pidfd.as_fd(), port)
    });
    dialled.await.map_err(io::Error::other)?
}

pub async fn watch_ports(dirs: &WorkspaceDirs) -> Result<mpsc::Receiver<Vec<u16>>, Fault> {
    let mut stream = ask(dirs, Op::WatchPorts)
        .await
        .map_err(|error| keeper::keeper_fault(&error.to_string()))?;
    let (sender, receiver) = mpsc::channel(UNHEARD);
    tokio::spawn(async move {
        // Ends with the keeper, with an invalid message, or when the receiver is dropped.
        while let Ok(Answer::Listening(ports)) = answer(&mut stream).await {
            if sender.send(ports).await.is_err() {
                break;
            }
        }
    });
    Ok(receiver)
}

pub async fn dial_out(dirs: &WorkspaceDirs, host: &str, port: u16) -> io::Result<UnixStream> {
    let host = host.to_owned();
    let dial = async {
        let mut stream = ask(dirs, Op::DialOut { host, port }).await?;
        dialled(answer(&mut stream).await?)?;
        Ok(stream)
    };
    within(PATIENCE_OUTSIDE, dial).await
}

async fn within<T>(limit: Duration, dial: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    match tokio::time::timeout(limit, dial).await {
        Ok(result) => result,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// A stopped workspace has no keeper, which counts as connection refused.
async fn ask(dirs: &WorkspaceDirs, op: Op) -> io::Result<UnixStream> {
    let mut stream = match keeper::connect(dirs).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        connected => connected?,
    };
    let version = VERSION;
    stream
        .write_all(&control_frame(&Request { version, op })?)
        .await?;
    Ok(stream)
}

async fn answer(stream: &mut UnixStream) -> io::Result<Answer> {
    let (kind, payload) = read_frame(stream).await?;
    if kind != channel::CONTROL {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not an answer"));
    }
    Ok(serde_json::from_slice(&payload)?)
}

fn dialled(answer: Answer) -> io::Result<()> {
    match answer {
        Answer::Dialled => Ok(()),
        Answer::NotDialled { errno } => Err(io::Error::from_raw_os_error(errno)),
        Answer::Refused(why) => Err(io::Error::other(why)),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "not an answer")),
    }
}

/// The descriptor comes with one byte before the answer; without a descriptor there is only the
/// byte.
async fn receive_descriptor(stream: &UnixStream) -> io::Result<Option<OwnedFd>> {
    stream
        .async_io(Interest::READABLE, || {
            let mut byte = [0u8; 1];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let mut pieces = [IoSliceMut::new(&mut byte)];
            let flags = RecvFlags::CMSG_CLOEXEC;
            let received = match rustix::net::recvmsg(stream, &mut pieces, &mut ancillary, flags) {
                Err(Errno::AGAIN) => return Err(io::ErrorKind::WouldBlock.into()),
                received => received?,
            };
            if received.bytes == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let rights = ancillary.drain().find_map(|message| match message {
                RecvAncillaryMessage::ScmRights(mut rights) => rights.next(),
                _ => None,
            });
            Ok(rights)
        })
        .await
}
