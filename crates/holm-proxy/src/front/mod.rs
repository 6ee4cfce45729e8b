//! The front door: `http://<port>.<site>.localhost:7070` leads to a port of one workspace.
//!
//! The daemon binds it and tells it what it needs through [`Hooks`]. What a `Host` names is decided
//! in [`host`] and [`route`], what passes in `request`, `response` and `origin`; everything is
//! streamed, nothing is stored.

mod forward;
mod generation;
pub mod host;
mod link;
mod names;
mod origin;
mod pages;
mod pool;
mod relay;
pub(crate) mod request;
mod response;
pub mod route;
mod tunnel;
mod turns;
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
use turns::Turns;

/// Told whenever a workspace is used, and again every few seconds while bytes flow.
pub type Used = Arc<dyn Fn(&WorkspaceId) + Send + Sync>;

/// Says whether another workspace had the site before this one, and remembers this one.
pub type Generations = Arc<dyn Fn(&str, &WorkspaceId) -> Generation + Send + Sync>;

/// Told the status of every answer.
pub type Answered = Arc<dyn Fn(u16) + Send + Sync>;

/// Answers what is asked of the daemon itself. The handle cuts the connection.
pub type Daemon = Arc<dyn Fn(Request<Incoming>, Sever) -> DaemonAnswer + Send + Sync>;

pub type DaemonAnswer = Pin<Box<dyn Future<Output = Response<DaemonBody>> + Send>>;

#[derive(Clone)]
pub struct Hooks {
    pub used: Used,
    pub generations: Generations,
    pub answered: Answered,
    /// Without it there are previews only.
    pub daemon: Option<Daemon>,
}

/// How much at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Clients; more wait until one has gone.
    pub clients: usize,
    /// Requests and tunnels of one workspace.
    pub per_workspace: usize,
    /// How long a client may take to say what it wants and a connection may be idle; and how long
    /// the head of a server's answer may take once it has begun.
    pub head: Duration,
}

/// One front door; clones share everything.
pub struct Front<I>(Arc<Shared<I>>);

struct Shared<I> {
    table: Table,
    pool: Pool<I>,
    hooks: Hooks,
    /// The port on which it listens, and which its addresses have.
    door: u16,
    limits: Limits,
}

/// What [`Limits::head`] is.
const HEAD_LIMIT: Duration = Duration::from_secs(30);

/// What every HTTP/2 connection begins with.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// After a connection could not be taken (no descriptor is left), before the next is tried.
const PAUSE: Duration = Duration::from_millis(50);

/// Until the rest of the first bytes is looked for.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Http1,
    Http2,
}

// === impl Limits ===

impl Limits {
    /// What fits into a number of open files: most of them stay free for everything else, and one
    /// workspace never takes what others need.
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
    /// For a door that listens on the port `door`.
    pub fn new(inside: I, table: Table, hooks: Hooks, door: u16, limits: Limits) -> Self {
        let pool = Pool::new(inside, Arc::clone(&hooks.used), limits);
        Self(Arc::new(Shared {
            table,
            pool,
            hooks,
            door,
            limits,
        }))
    }

    /// Serves for as long as it is polled; everything under way ends with it.
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
        // Slow without it, not wrong.
        let _ = stream.set_nodelay(true);
        let version = tokio::time::timeout(self.0.limits.head, version(&stream)).await;
        let Ok(Ok(version)) = version else {
            return;
        };
        let (stream, sever) = Severable::new(stream);
        let arrival = Arc::new(Arrival::new(peer, self.0.door, sever));
        let turns = Turns::default();
        let counted = turns.clone();
        let service = service_fn(move |request| {
            let (shared, arrival) = (Arc::clone(&self.0), Arc::clone(&arrival));
            let turn = counted.begin();
            async move {
                let answer = shared.handle(request, &arrival).await;
                if let Ok(answer) = &answer {
                    (shared.hooks.answered)(answer.status().as_u16());
                }
                answer.map(|answer| answer.map(|body| body.of(turn)))
            }
        });
        let io = TokioIo::new(stream);
        match version {
            Version::Http1 => {
                // Whatever ends a connection early was the client's wish or the client's fault.
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
                    match drive_for(limit, connection.as_mut(), &turns).await {
                        Driven::Used => {}
                        Driven::Ended => break,
                        Driven::Idle => {
                            // First a word to the client, then, whether it listens or not, the end.
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

/// What became of a connection for a while.
enum Driven {
    Ended,
    /// Nothing was asked on it.
    Idle,
    Used,
}

/// Drives a connection for so long.
async fn drive_for(limit: Duration, connection: impl Future, turns: &Turns) -> Driven {
    let before = turns.idle_after();
    match tokio::time::timeout(limit, connection).await {
        Ok(_) => Driven::Ended,
        Err(_) if before.is_some() && turns.idle_after() == before => Driven::Idle,
        Err(_) => Driven::Used,
    }
}

/// Looks at the first bytes without taking them.
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
        // A part of the preface: the rest is on its way, or the time limit ends this.
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}
