//! Forwards raw TCP from a loopback port of the host to a port inside a workspace. Host ports and
//! canonical ports use it. Each direction ends by itself (half-close).
//!
//! The target of a port is looked up for each new connection, so changing it affects new
//! connections at once and leaves open ones alone.

use crate::Inside;
use crate::traffic::Traffic;
use holm_core::WorkspaceId;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::io::copy_bidirectional_with_sizes;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;

/// A port bound on both loopback addresses.
pub struct Bound {
    four: TcpListener,
    /// `None` on a machine without IPv6.
    six: Option<TcpListener>,
}

/// A port inside a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub workspace: WorkspaceId,
    pub port: u16,
}

/// A host port that is forwarded into a workspace. Dropping it closes the port; open connections go
/// on.
pub struct Forward {
    target: Arc<RwLock<Target>>,
    listening: Vec<JoinHandle<()>>,
}

const WAITING: u32 = 1024;
const BUFFER: usize = 64 * 1024;
/// How long to wait before the next `accept` when the daemon has no descriptor left.
const PAUSE: Duration = Duration::from_millis(100);

/// Binds the port on both `127.0.0.1` and `::1`, or fails. Must be called in a runtime.
pub fn bind(port: u16) -> io::Result<Bound> {
    let four = TcpSocket::new_v4()?;
    four.set_reuseaddr(true)?;
    four.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    let six = match bind_six(port) {
        Ok(six) => Some(six),
        Err(error) if is_without_ipv6(&error) => None,
        Err(error) => return Err(error),
    };
    Ok(Bound {
        four: four.listen(WAITING)?,
        six: six.map(|six| six.listen(WAITING)).transpose()?,
    })
}

fn bind_six(port: u16) -> io::Result<TcpSocket> {
    let six = TcpSocket::new_v6()?;
    six.set_reuseaddr(true)?;
    six.bind(SocketAddr::from((Ipv6Addr::LOCALHOST, port)))?;
    Ok(six)
}

fn is_without_ipv6(error: &io::Error) -> bool {
    const EAFNOSUPPORT: i32 = 97;
    error.kind() == io::ErrorKind::AddrNotAvailable || error.raw_os_error() == Some(EAFNOSUPPORT)
}

// === impl Bound ===

impl Bound {
    pub fn into_listeners(self) -> Vec<TcpListener> {
        std::iter::once(self.four).chain(self.six).collect()
    }
}

// === impl Forward ===

impl Forward {
    pub fn begin<I: Inside>(bound: Bound, target: Target, inside: &I, traffic: &Traffic) -> Self {
        let target = Arc::new(RwLock::new(target));
        let listening = bound.into_listeners().into_iter().map(|listener| {
            let (target, inside) = (Arc::clone(&target), inside.clone());
            let serving = accept(listener, target, inside, traffic.clone());
            tokio::spawn(serving)
        });
        Self {
            listening: listening.collect(),
            target,
        }
    }

    /// Sends new connections to `target` from now on.
    pub fn set_target(&self, target: Target) {
        *self.target.write().unwrap_or_else(PoisonError::into_inner) = target;
    }

    /// Closes the port and waits until it is free.
    pub async fn close(mut self) {
        for task in std::mem::take(&mut self.listening) {
            task.abort();
            // The task was aborted above, so its result says nothing new.
            let _ = task.await;
        }
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        for task in &self.listening {
            task.abort();
        }
    }
}

fn current(target: &RwLock<Target>) -> Target {
    target
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .clone()
}

async fn accept<I: Inside>(
    listener: TcpListener,
    target: Arc<RwLock<Target>>,
    inside: I,
    traffic: Traffic,
) {
    loop {
        match listener.accept().await {
            Ok((client, _)) => {
                let (target, inside) = (current(&target), inside.clone());
                tokio::spawn(relay(client, target, inside, traffic.clone()));
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

async fn relay<I: Inside>(client: TcpStream, target: Target, inside: I, traffic: Traffic) {
    let Some(connection) = traffic.connect(&target.workspace) else {
        return reset(&client);
    };
    let Ok(mut server) = inside.dial(&target.workspace, target.port).await else {
        return reset(&client);
    };
    // Latency only: without it the forwarding still works.
    let _ = client.set_nodelay(true);
    if let Some(server) = server.tcp() {
        let _ = server.set_nodelay(true);
    }
    let mut client = connection.counting(client);
    let copied = copy_bidirectional_with_sizes(&mut client, &mut server, BUFFER, BUFFER).await;
    if copied.is_err() {
        // One side was reset, so reset the other one too: an orderly end would claim that all data
        // arrived.
        reset(&client.stream);
        if let Some(server) = server.tcp() {
            reset(server);
        }
    }
}

/// Makes the kernel send a reset when the stream is dropped.
fn reset(stream: &TcpStream) {
    // Fails only when the connection is gone already.
    let _ = stream.set_zero_linger();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::visit::{Tallies, Visit};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// Stands in for workspaces: their ports are this process's own ports.
    #[derive(Clone)]
    struct Here;

    impl Inside for Here {
        async fn dial(&self, id: &WorkspaceId, port: u16) -> io::Result<Visit> {
            let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
            Ok(Tallies::default().count(stream, id, port))
        }
    }

    /// Sends its name to each client, then echoes.
    async fn server(name: &'static str) -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    stream.write_all(name.as_bytes()).await.unwrap();
                    let (mut reader, mut writer) = stream.split();
                    let _ = tokio::io::copy(&mut reader, &mut writer).await;
                });
            }
        });
        port
    }

    async fn free_port() -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        listener.local_addr().unwrap().port()
    }

    fn to(port: u16) -> Target {
        Target {
            workspace: WorkspaceId::random(),
            port,
        }
    }

    async fn receive(stream: &mut TcpStream, length: usize) -> String {
        let mut received = vec![0; length];
        stream.read_exact(&mut received).await.unwrap();
        String::from_utf8(received).unwrap()
    }

    #[tokio::test]
    async fn both_loopback_addresses_lead_inside_and_each_direction_ends_by_itself() {
        let (inside, outside) = (server("one").await, free_port().await);
        let bound = bind(outside).unwrap();
        let _forward = Forward::begin(bound, to(inside), &Here, &Traffic::for_files(4096));
        for address in ["127.0.0.1", "::1"] {
            let mut client = TcpStream::connect((address, outside)).await.unwrap();
            client.write_all(b" and more").await.unwrap();
            client.shutdown().await.unwrap();
            let mut received = String::new();
            client.read_to_string(&mut received).await.unwrap();
            assert_eq!(received, "one and more");
        }
    }

    #[tokio::test]
    async fn leading_elsewhere_moves_new_connections_and_no_others() {
        let (one, two, outside) = (server("one").await, server("two").await, free_port().await);
        let bound = bind(outside).unwrap();
        let forward = Forward::begin(bound, to(one), &Here, &Traffic::for_files(4096));
        let mut early = TcpStream::connect(("127.0.0.1", outside)).await.unwrap();
        assert_eq!(receive(&mut early, 3).await, "one");
        forward.set_target(to(two));
        let mut late = TcpStream::connect(("127.0.0.1", outside)).await.unwrap();
        assert_eq!(receive(&mut late, 3).await, "two");
        forward.close().await;
        let refused = TcpStream::connect(("127.0.0.1", outside))
            .await
            .unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        early.write_all(b"still").await.unwrap();
        assert_eq!(receive(&mut early, 5).await, "still");
    }

    #[tokio::test]
    async fn where_nobody_listens_the_connection_is_reset() {
        let (inside, outside) = (free_port().await, free_port().await);
        let bound = bind(outside).unwrap();
        let _forward = Forward::begin(bound, to(inside), &Here, &Traffic::for_files(4096));
        let mut client = TcpStream::connect(("127.0.0.1", outside)).await.unwrap();
        let error = client.read(&mut [0]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }

    #[tokio::test]
    async fn a_port_that_is_taken_on_one_address_is_taken() {
        for address in ["127.0.0.1", "::1"] {
            let taken = TcpListener::bind((address, 0)).await.unwrap();
            let port = taken.local_addr().unwrap().port();
            let Err(error) = bind(port) else {
                panic!("{address} is held twice");
            };
            assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
            drop(taken);
            assert!(bind(port).is_ok(), "nothing is half held");
        }
    }
}
