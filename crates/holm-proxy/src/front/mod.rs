//! The front door: an HTTP server that forwards `http://<port>.<site>.localhost:7070` to a port of
//! a workspace.
//!
//! The daemon binds it and supplies callbacks through [`Hooks`]. [`host`] and [`preview`] find the
//! workspace; `request`, `response` and `origin` decide which headers pass. Bodies are streamed and
//! never stored.

mod forward;
mod generation;
pub mod host;
mod idle;
mod in_flight;
mod link;
mod names;
mod origin;
mod pages;
mod pool;
pub mod preview;
mod relay;
pub(crate) mod request;
mod response;
mod tunnel;
mod wire;

pub use generation::Generation;
pub use relay::{BodyError, DaemonBody};

use crate::sever::{Sever, Severable};
use crate::table::{Inside, Table};
use holm_core::WorkspaceId;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use in_flight::InFlight;
use pool::Pool;
use request::Arrival;
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Called when a workspace is used, and again every few seconds while bytes flow.
pub type Used = Arc<dyn Fn(&WorkspaceId) + Send + Sync>;

/// Returns whether another workspace had the site before this one, and records this one.
pub type Generations = Arc<dyn Fn(&str, &WorkspaceId) -> Generation + Send + Sync>;

/// Called with the status of every response.
pub type Answered = Arc<dyn Fn(u16) + Send + Sync>;

/// Handles requests to the daemon's own names. The [`Sever`] handle cuts the client's connection.
pub type Daemon = Arc<dyn Fn(Request<Incoming>, Sever) -> DaemonAnswer + Send + Sync>;

pub type DaemonAnswer = Pin<Box<dyn Future<Output = Response<DaemonBody>> + Send>>;

#[derive(Clone)]
pub struct Hooks {
    pub used: Used,
    pub generations: Generations,
    pub answered: Answered,
    /// `None`: the front door serves previews only.
    pub daemon: Option<Daemon>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoorLimits {
    /// Client connections; further ones wait in the accept queue.
    pub clients: usize,
    /// Requests and tunnels per workspace.
    pub per_workspace: usize,
    /// Time limit for a client's request head, for an idle client connection, and for the rest of a
    /// response head after its first byte.
    pub head: Duration,
}

/// The front door. Clones share their state.
pub struct Front<I>(Arc<Shared<I>>);

struct Shared<I> {
    table: Table,
    pool: Pool<I>,
    hooks: Hooks,
    /// The port it listens on, which is part of every preview URL.
    door: u16,
    limits: DoorLimits,
}

/// The default of [`DoorLimits::head`].
const HEAD_LIMIT: Duration = Duration::from_secs(30);

/// The first bytes of every HTTP/2 connection.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How long to wait before the next `accept` when no descriptor is left.
const PAUSE: Duration = Duration::from_millis(50);

/// How often to peek for the rest of the preface.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Http1,
    Http2,
}

// === impl DoorLimits ===

impl DoorLimits {
    /// Limits that fit into `files` open files. Most descriptors stay free for other uses, and one
    /// workspace cannot use up the share of the others.
    pub fn for_files(files: u64) -> Self {
        let files = usize::try_from(files).unwrap_or(usize::MAX);
        Self {
            clients: (files / 3).clamp(64, 4096),
            per_workspace: (files / 8).clamp(32, 1024),
            head: HEAD_LIMIT,
        }
    }
}

// === impl Front ===

impl<I> Clone for Front<I> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<I: Inside> Front<I> {
    /// `door` is the port the listeners are bound to.
    pub fn new(inside: I, table: Table, hooks: Hooks, door: u16, limits: DoorLimits) -> Self {
        let pool = Pool::new(inside, Arc::clone(&hooks.used), limits);
        Self(Arc::new(Shared {
            table,
            pool,
            hooks,
            door,
            limits,
        }))
    }

    /// Serves until it is dropped, which also ends all open connections.
    pub async fn serve(self, listeners: Vec<TcpListener>) {
        let clients = Arc::new(Semaphore::new(self.0.limits.clients));
        let mut tasks = JoinSet::new();
        tasks.spawn(self.0.pool.sweeping());
        for listener in listeners {
            tasks.spawn(self.clone().accept(listener, Arc::clone(&clients)));
        }
        while tasks.join_next().await.is_some() {}
    }

    async fn accept(self, listener: TcpListener, clients: Arc<Semaphore>) {
        let mut connections = JoinSet::new();
        loop {
            let Ok(client) = Arc::clone(&clients).acquire_owned().await else {
                return;
            };
            match listener.accept().await {
                Ok((stream, peer)) => {
                    let front = self.clone();
                    connections.spawn(async move {
                        front.connection(stream, peer.ip()).await;
                        drop(client);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "the front door cannot take a connection");
                    tokio::time::sleep(PAUSE).await;
                }
            }
            while connections.try_join_next().is_some() {}
        }
    }

    async fn connection(&self, stream: TcpStream, peer: IpAddr) {
        // Latency only: without it the server still works.
        let _ = stream.set_nodelay(true);
        let version = tokio::time::timeout(self.0.limits.head, version(&stream)).await;
        let Ok(Ok(version)) = version else {
            return;
        };
        let (stream, sever) = Severable::new(stream);
        let arrival = Arc::new(Arrival::new(peer, self.0.door, sever));
        let in_flight = InFlight::default();
        let counted = in_flight.clone();
        let service = service_fn(move |request| {
            let (shared, arrival) = (Arc::clone(&self.0), Arc::clone(&arrival));
            let request_in_flight = counted.begin();
            async move {
                let answer = shared.handle(request, &arrival).await;
                if let Ok(answer) = &answer {
                    (shared.hooks.answered)(answer.status().as_u16());
                }
                answer.map(|answer| answer.map(|body| body.of(request_in_flight)))
            }
        });
        let io = TokioIo::new(stream);
        match version {
            Version::Http1 => {
                // A connection ends early only because of the client, so the error is dropped.
                let _ = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(self.0.limits.head)
                    .max_buf_size(link::LARGEST_READ)
                    .serve_connection(io, service)
                    .with_upgrades()
                    .await;
            }
            Version::Http2 => {
                let connection = http2::Builder::new(TokioExecutor::new())
                    .timer(TokioTimer::new())
                    .adaptive_window(true)
                    .serve_connection(io, service);
                let mut connection = pin!(connection);
                let limit = self.0.limits.head;
                loop {
                    match drive_for(limit, connection.as_mut(), &in_flight).await {
                        Driven::Used => {}
                        Driven::Ended => break,
                        Driven::Idle => {
                            // Announce the shutdown, and close even if the client ignores it.
                            connection.as_mut().graceful_shutdown();
                            let _ = tokio::time::timeout(limit, connection).await;
                            break;
                        }
                    }
                }
            }
        };
    }
}

/// How [`drive_for`] ended.
enum Driven {
    Ended,
    /// No request was under way.
    Idle,
    Used,
}

/// Polls a connection for at most `limit`.
async fn drive_for(limit: Duration, connection: impl Future, in_flight: &InFlight) -> Driven {
    let before = in_flight.idle_after();
    match tokio::time::timeout(limit, connection).await {
        Ok(_) => Driven::Ended,
        Err(_) if before.is_some() && in_flight.idle_after() == before => Driven::Idle,
        Err(_) => Driven::Used,
    }
}

/// Peeks at the first bytes to find the HTTP version.
async fn version(stream: &TcpStream) -> io::Result<Version> {
    let mut first = [0; PREFACE.len()];
    loop {
        let seen = stream.peek(&mut first).await?;
        if seen == 0 || !PREFACE.starts_with(&first[..seen]) {
            return Ok(Version::Http1);
        }
        if seen == PREFACE.len() {
            return Ok(Version::Http2);
        }
        // Only a part of the preface arrived. The rest follows, or the time limit ends this.
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}
