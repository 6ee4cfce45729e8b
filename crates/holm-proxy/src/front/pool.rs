//! A pool of connections into workspaces, limited per workspace.

use super::idle::{IdleConnections, Permit, PoolSlot};
use super::link::{Link, NoAnswer, Upload};
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
use std::io;
use std::sync::Arc;
use std::time::Duration;

pub struct Pool<I> {
    inside: I,
    used: Used,
    idle: Arc<IdleConnections>,
    limits: DoorLimits,
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
        Arc::clone(&self.idle).sweeping()
    }

    pub fn permit(&self, id: &WorkspaceId) -> Result<Permit, Failed> {
        let most = self.limits.per_workspace;
        let permit = self.idle.permit(id, most);
        permit.ok_or(Failed::TooMany(most))
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
        PoolSlot::new(&self.idle, id, port)
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
