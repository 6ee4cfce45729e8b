//! A pool of connections into workspaces, limited per workspace.
//!
//! Connections are keyed by workspace id and port, so a reused label never gets a connection of an
//! earlier workspace.

use super::link::{Condition, Link, NoAnswer, Upload};
use super::relay::Relay;
use super::wire::Wire;
use super::{DoorLimits, Used};
use crate::table::Inside;
use holm_core::WorkspaceId;
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

pub struct Pool<I> {
    inside: I,
    used: Used,
    idle: Arc<IdleConnections>,
    limits: DoorLimits,
}

/// The idle connections of all workspaces.
#[derive(Default)]
pub struct IdleConnections {
    all: Mutex<HashMap<WorkspaceId, Workspace>>,
    filled: Notify,
}

#[derive(Default)]
struct Workspace {
    active: Arc<AtomicUsize>,
    ports: HashMap<u16, Shelf>,
}

#[derive(Default)]
struct Shelf {
    idle: Vec<Link>,
    /// A single HTTP/2 connection carries all requests.
    http2: Option<http2::SendRequest<Upload>>,
}

/// Permission for one more request to a workspace.
pub struct Permit(Arc<AtomicUsize>);

/// Where a connection is returned when its request is done.
pub struct PoolSlot {
    idle: Arc<IdleConnections>,
    id: WorkspaceId,
    port: u16,
}

/// Why a request to a workspace failed.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    #[error("nothing listens on the port")]
    Refused,
    #[error("cannot connect to the port")]
    Dial(#[source] io::Error),
    #[error("the port does not speak HTTP/2")]
    NotHttp2(#[source] hyper::Error),
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
    #[error("the server changed to a protocol that nobody asked for")]
    WrongProtocol,
    #[error("the workspace has {0} requests under way, which is as many as it may")]
    TooMany(usize),
}

/// Idle connections kept per port.
const MOST_IDLE: usize = 32;

/// Node closes connections after five idle seconds, others later. The pool closes earlier, so it
/// rarely sends on a connection that the server is closing.
const LONGEST_IDLE: Duration = Duration::from_secs(4);

/// A connection idle for longer than this is checked before use, because the server may be closing
/// it.
const FRESH: Duration = Duration::from_millis(500);

// === impl Pool ===

impl<I: Inside> Pool<I> {
    pub fn new(inside: I, used: Used, limits: DoorLimits) -> Self {
        let idle = Arc::new(IdleConnections::default());
        Self {
            inside,
            used,
            idle,
            limits,
        }
    }

    /// Closes connections that were idle too long. Poll it for as long as the pool is used.
    pub fn sweeping(&self) -> impl Future<Output = ()> + Send + use<I> {
        let idle = Arc::clone(&self.idle);
        async move {
            loop {
                idle.filled.notified().await;
                while idle.sweep() {
                    tokio::time::sleep(LONGEST_IDLE / 2).await;
                }
            }
        }
    }

    pub fn permit(&self, id: &WorkspaceId) -> Result<Permit, Failed> {
        let active = {
            let mut all = self.idle.locked();
            match all.get(id) {
                Some(workspace) => Arc::clone(&workspace.active),
                None => Arc::clone(&all.entry(id.clone()).or_default().active),
            }
        };
        let permit = Permit(active);
        let most = self.limits.per_workspace;
        if permit.0.fetch_add(1, Ordering::Relaxed) < most {
            Ok(permit)
        } else {
            Err(Failed::TooMany(most))
        }
    }

    /// Opens a new connection.
    pub async fn fresh(&self, id: &WorkspaceId, port: u16) -> Result<Link, Failed> {
        let (wire, received) = self.wire(id, port).await?;
        let opened = Link::open(wire, received, self.limits.head).await;
        opened.map_err(|error| Failed::NoAnswer(NoAnswer::Broken(error)))
    }

    /// Sends a request and returns the response as a stream.
    pub async fn send(
        &self,
        id: &WorkspaceId,
        port: u16,
        mut request: Request<Upload>,
        permit: Permit,
    ) -> Result<Response<Relay>, Failed> {
        let slot = self.slot(id, port);
        while let Some(mut link) = self.idle.take(id, port) {
            let is_stale = link.idle_since.elapsed() > FRESH;
            let spare = is_stale.then(|| repeated(&request)).flatten();
            if is_stale && spare.is_none() {
                continue;
            }
            match (link.send(request).await, spare) {
                (Ok(answer), _) => return Ok(Relay::wrap(answer, link, slot, permit)),
                // The server had closed the idle connection.
                (Err(NoAnswer::Unsent(back)), _) => request = *back,
                (Err(NoAnswer::Broken(_)), Some(spare)) => request = spare,
                (Err(error), _) => return Err(error.into()),
            }
        }
        let mut link = self.fresh(id, port).await?;
        let answer = link.send(request).await?;
        Ok(Relay::wrap(answer, link, slot, permit))
    }

    /// Wraps a response that came on a connection of [`Pool::fresh`].
    pub fn relayed(
        &self,
        id: &WorkspaceId,
        port: u16,
        answer: Response<Incoming>,
        link: Link,
        permit: Permit,
    ) -> Response<Relay> {
        Relay::wrap(answer, link, self.slot(id, port), permit)
    }

    fn slot(&self, id: &WorkspaceId, port: u16) -> PoolSlot {
        PoolSlot {
            idle: Arc::clone(&self.idle),
            id: id.clone(),
            port,
        }
    }

    /// Sends a request over a shared HTTP/2 connection.
    pub async fn send_http2(
        &self,
        id: &WorkspaceId,
        port: u16,
        request: Request<Upload>,
        permit: Permit,
    ) -> Result<Response<Relay>, Failed> {
        let kept = self.idle.http2(id, port);
        let mut sender = match kept.filter(|sender| !sender.is_closed()) {
            Some(sender) => sender,
            None => self.connect_http2(id, port).await?,
        };
        sender.ready().await.map_err(Failed::NotHttp2)?;
        let answer = sender.send_request(request).await;
        let answer = answer.map_err(Failed::NotHttp2)?;
        Ok(answer.map(|body| Relay::multiplexed(body, permit)))
    }

    async fn connect_http2(
        &self,
        id: &WorkspaceId,
        port: u16,
    ) -> Result<http2::SendRequest<Upload>, Failed> {
        let (wire, _) = self.wire(id, port).await?;
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .handshake(TokioIo::new(wire))
            .await
            .map_err(Failed::NotHttp2)?;
        tokio::spawn(async move {
            // hyper also reports the error to each pending request.
            let _ = connection.await;
        });
        self.idle.set_http2(id, port, &sender);
        Ok(sender)
    }

    async fn wire(
        &self,
        id: &WorkspaceId,
        port: u16,
    ) -> Result<(Wire, super::wire::Received), Failed> {
        let stream = self.inside.dial(id, port).await;
        let stream = stream.map_err(|source| match source.kind() {
            io::ErrorKind::ConnectionRefused => Failed::Refused,
            _ => Failed::Dial(source),
        })?;
        Ok(Wire::new(stream, id, &self.used))
    }

    /// Whether a program listens on the port now.
    pub async fn is_listening(&self, id: &WorkspaceId, port: u16) -> bool {
        self.inside.dial(id, port).await.is_ok()
    }
}

/// A copy of the request, if it is safe to send twice.
fn repeated(request: &Request<Upload>) -> Option<Request<Upload>> {
    if !request.method().is_safe() || matches!(request.body(), Upload::Left(_)) {
        return None;
    }
    let mut again = Request::new(Upload::Right(Empty::new()));
    *again.method_mut() = request.method().clone();
    *again.uri_mut() = request.uri().clone();
    *again.headers_mut() = request.headers().clone();
    Some(again)
}

// === impl IdleConnections ===

impl IdleConnections {
    fn locked(&self) -> MutexGuard<'_, HashMap<WorkspaceId, Workspace>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, id: &WorkspaceId, port: u16) -> Option<Link> {
        loop {
            let mut link = self
                .locked()
                .get_mut(id)?
                .ports
                .get_mut(&port)?
                .idle
                .pop()?;
            let is_young = link.idle_since.elapsed() < LONGEST_IDLE;
            if is_young && link.condition() == Condition::Usable {
                return Some(link);
            }
        }
    }

    fn put(&self, id: &WorkspaceId, port: u16, mut link: Link) {
        link.idle_since = Instant::now();
        let mut all = self.locked();
        let Some(workspace) = all.get_mut(id) else {
            return;
        };
        let shelf = workspace.ports.entry(port).or_default();
        if shelf.idle.len() < MOST_IDLE {
            shelf.idle.push(link);
        }
        drop(all);
        self.filled.notify_one();
    }

    fn http2(&self, id: &WorkspaceId, port: u16) -> Option<http2::SendRequest<Upload>> {
        self.locked().get(id)?.ports.get(&port)?.http2.clone()
    }

    fn set_http2(&self, id: &WorkspaceId, port: u16, sender: &http2::SendRequest<Upload>) {
        if let Some(workspace) = self.locked().get_mut(id) {
            workspace.ports.entry(port).or_default().http2 = Some(sender.clone());
        }
        self.filled.notify_one();
    }

    /// Returns whether connections are left that a later sweep must close.
    fn sweep(&self) -> bool {
        let mut all = self.locked();
        all.retain(|_, workspace| {
            workspace.ports.retain(|_, shelf| {
                shelf
                    .idle
                    .retain(|link| link.idle_since.elapsed() < LONGEST_IDLE);
                let is_open = |sender: &http2::SendRequest<_>| !sender.is_closed();
                shelf.http2 = shelf.http2.take().filter(is_open);
                !shelf.idle.is_empty() || shelf.http2.is_some()
            });
            !workspace.ports.is_empty() || Arc::strong_count(&workspace.active) > 1
        });
        !all.is_empty()
    }
}

// === impl PoolSlot ===

impl PoolSlot {
    pub fn put(&self, link: Link) {
        self.idle.put(&self.id, self.port, link);
    }
}

// === impl Permit ===

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
