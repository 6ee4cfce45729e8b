//! The connections into workspaces: kept for the next request, counted per workspace.
//!
//! They belong to a workspace id and a port, so a label that is used again never finds the
//! connections of the one who had it before.

use super::link::{Condition, Link, NoAnswer, Upload};
use super::relay::Relay;
use super::wire::Wire;
use super::{Limits, Used};
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
    shelves: Arc<Shelves>,
    limits: Limits,
}

/// What is open and not in use, of all workspaces.
#[derive(Default)]
pub struct Shelves {
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
    /// One connection carries all requests.
    http2: Option<http2::SendRequest<Upload>>,
}

/// The right to one more request to a workspace.
pub struct Permit(Arc<AtomicUsize>);

/// Where a connection belongs when nobody uses it.
pub struct Place {
    shelves: Arc<Shelves>,
    id: WorkspaceId,
    port: u16,
}

/// Why a workspace did not answer.
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

/// Kept per port.
const MOST_IDLE: usize = 32;

/// Servers close connections that were idle for five seconds (Node) or more; holm is first.
const LONGEST_IDLE: Duration = Duration::from_secs(4);

/// After this, a connection is likely to be closed by the other side just when it is used.
const FRESH: Duration = Duration::from_millis(500);

// === impl Pool ===

impl<I: Inside> Pool<I> {
    pub fn new(inside: I, used: Used, limits: Limits) -> Self {
        let shelves = Arc::new(Shelves::default());
        Self {
            inside,
            used,
            shelves,
            limits,
        }
    }

    /// Closes what nobody used for long; to be run for as long as the pool is used.
    pub fn sweeping(&self) -> impl Future<Output = ()> + Send + use<I> {
        let shelves = Arc::clone(&self.shelves);
        async move {
            loop {
                shelves.filled.notified().await;
                while shelves.sweep() {
                    tokio::time::sleep(LONGEST_IDLE / 2).await;
                }
            }
        }
    }

    pub fn permit(&self, id: &WorkspaceId) -> Result<Permit, Failed> {
        let active = {
            let mut all = self.shelves.locked();
            match all.get(id) {
                Some(workspace) => Arc::clone(&workspace.active),
                None => Arc::clone(&all.entry(id.clone()).or_default().active),
            }
        };
        let permit = Permit(active);
        let most = self.limits.per_workspace;
        match permit.0.fetch_add(1, Ordering::Relaxed) < most {
            true => Ok(permit),
            false => Err(Failed::TooMany(most)),
        }
    }

    /// A connection on which nothing was sent yet.
    pub async fn fresh(&self, id: &WorkspaceId, port: u16) -> Result<Link, Failed> {
        let (wire, heard) = self.wire(id, port).await?;
        let opened = Link::open(wire, heard, self.limits.head).await;
        opened.map_err(|error| Failed::NoAnswer(NoAnswer::Broken(error)))
    }

    /// Sends a request and gives the answer as it comes.
    pub async fn send(
        &self,
        id: &WorkspaceId,
        port: u16,
        mut request: Request<Upload>,
        permit: Permit,
    ) -> Result<Response<Relay>, Failed> {
        let place = self.place(id, port);
        while let Some(mut link) = self.shelves.take(id, port) {
            let is_stale = link.idle_since.elapsed() > FRESH;
            let spare = is_stale.then(|| repeated(&request)).flatten();
            if is_stale && spare.is_none() {
                continue;
            }
            match (link.send(request).await, spare) {
                (Ok(answer), _) => return Ok(Relay::wrap(answer, link, place, permit)),
                // Closed by the other side while it was idle.
                (Err(NoAnswer::Unsent(back)), _) => request = *back,
                (Err(NoAnswer::Broken(_)), Some(spare)) => request = spare,
                (Err(error), _) => return Err(error.into()),
            }
        }
        let mut link = self.fresh(id, port).await?;
        let answer = link.send(request).await?;
        Ok(Relay::wrap(answer, link, place, permit))
    }

    /// An answer that came on a connection of [`Pool::fresh`].
    pub fn relayed(
        &self,
        id: &WorkspaceId,
        port: u16,
        answer: Response<Incoming>,
        link: Link,
        permit: Permit,
    ) -> Response<Relay> {
        Relay::wrap(answer, link, self.place(id, port), permit)
    }

    fn place(&self, id: &WorkspaceId, port: u16) -> Place {
        Place {
            shelves: Arc::clone(&self.shelves),
            id: id.clone(),
            port,
        }
    }

    /// The same over HTTP/2, with many requests on one connection.
    pub async fn send_http2(
        &self,
        id: &WorkspaceId,
        port: u16,
        request: Request<Upload>,
        permit: Permit,
    ) -> Result<Response<Relay>, Failed> {
        let kept = self.shelves.http2(id, port);
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
            // Whoever has a request on it is told.
            let _ = connection.await;
        });
        self.shelves.set_http2(id, port, &sender);
        Ok(sender)
    }

    async fn wire(
        &self,
        id: &WorkspaceId,
        port: u16,
    ) -> Result<(Wire, super::wire::Heard), Failed> {
        let stream = self.inside.dial(id, port).await;
        let stream = stream.map_err(|source| match source.kind() {
            io::ErrorKind::ConnectionRefused => Failed::Refused,
            _ => Failed::Dial(source),
        })?;
        Ok(Wire::new(stream, id, &self.used))
    }

    /// Whether somebody listens there now.
    pub async fn is_listening(&self, id: &WorkspaceId, port: u16) -> bool {
        self.inside.dial(id, port).await.is_ok()
    }
}

/// The request once more, if it does no harm to send it twice.
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

// === impl Shelves ===

impl Shelves {
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

    /// Whether something is left that will have to go later.
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

// === impl Place ===

impl Place {
    pub fn put(&self, link: Link) {
        self.shelves.put(&self.id, self.port, link);
    }
}

// === impl Permit ===

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
