//! What leads into a workspace and out of it.

use super::{KeeperClient, Stream, read_answer, send};
use crate::descriptors::is_too_many;
use crate::wire::{Answer, Op};
use holm_core::Fault;
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc;

/// Inside a connection is made or refused at once; a keeper that does not answer is broken.
const PATIENCE: Duration = Duration::from_secs(5);

/// Outside it takes as long as the network does.
const PATIENCE_OUTSIDE: Duration = Duration::from_secs(60);

// === impl KeeperClient ===

impl KeeperClient {
    /// Connects to a port of the workspace's own loopback. The keeper passes the socket where the connection
    /// to it can carry descriptors, and carries the bytes itself where not.
    pub async fn dial(&self, port: u16) -> io::Result<Stream> {
        let dial = async {
            let stream = self.reach().await?;
            if let Stream::Unix(_) = stream {
                match receive_socket(send(stream, Op::Dial { port }).await?).await {
                    // The kernel does not let the keeper pass a socket, because programs of the user have
                    // too many descriptors in flight.
                    Err(error) if is_too_many(&error) => {}
                    received => return received,
                }
                return connected(self.reach().await?, Op::Connect { port }).await;
            }
            connected(stream, Op::Connect { port }).await
        };
        within(PATIENCE, dial).await
    }

    /// Connects outward as the workspace may, through its gateway.
    pub async fn dial_out(&self, host: &str, port: u16) -> io::Result<Stream> {
        let host = host.to_owned();
        let dial = async { connected(self.reach().await?, Op::DialOut { host, port }).await };
        within(PATIENCE_OUTSIDE, dial).await
    }

    /// Tells what listens inside: at once, and whenever it changes. The channel closes with the workspace's
    /// processes.
    pub async fn watch_ports(&self) -> Result<mpsc::Receiver<Vec<u16>>, Fault> {
        let understand = |answer| match answer {
            Answer::Listening(ports) => Some(ports),
            _ => None,
        };
        self.watch(Op::WatchPorts, understand).await
    }

    /// A workspace that does not run has no keeper: to whoever dials, nobody listens.
    async fn reach(&self) -> io::Result<Stream> {
        match self.0.connect().await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(io::ErrorKind::ConnectionRefused.into())
            }
            connected => connected,
        }
    }
}

/// Asks for a connection that is carried by the stream itself.
async fn connected(stream: Stream, op: Op) -> io::Result<Stream> {
    let mut stream = send(stream, op).await?;
    dialled(read_answer(&mut stream).await?)?;
    Ok(stream)
}

async fn within<T>(limit: Duration, dial: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    match tokio::time::timeout(limit, dial).await {
        Ok(result) => result,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

fn dialled(answer: Answer) -> io::Result<()> {
    match answer {
        Answer::Dialled => Ok(()),
        Answer::NotDialled { errno } => Err(io::Error::from_raw_os_error(errno)),
        Answer::Refused(why) => Err(io::Error::other(why)),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "not an answer")),
    }
}

/// Takes the socket that comes with the answer to [`Op::Dial`].
async fn receive_socket(mut stream: Stream) -> io::Result<Stream> {
    let descriptor = match &stream {
        Stream::Unix(stream) => receive_descriptor(stream).await?,
        Stream::Tcp(_) | Stream::Other(_) => None,
    };
    dialled(read_answer(&mut stream).await?)?;
    let descriptor = descriptor.ok_or_else(|| io::Error::other("no connection came"))?;
    let connection = std::net::TcpStream::from(descriptor);
    connection.set_nonblocking(true)?;
    TcpStream::from_std(connection).map(Stream::Tcp)
}

/// The descriptor comes alone, with one byte in front of the answer; without one there is only the
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
