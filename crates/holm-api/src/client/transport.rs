//! HTTP/1.1 over the daemon's socket: requests out, JSON or a [`Fault`] back.
//!
//! Connections whose response was read to the end are reused. A request is repeated on a new
//! connection only when the reused one was closed before anything was sent, or when the daemon has
//! never answered and the request changes nothing: then the daemon is replaced first.

use super::socket;
use crate::{ErrorBody, ON_BEHALF_OF, PREFIX};
use bytes::Bytes;
use holm_core::{Cause, Code, Fault};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, header};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::task::AbortHandle;

pub(super) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// The number of idle connections to keep.
const MOST_IDLE: usize = 8;

/// The header that makes a repeated POST idempotent.
pub(super) const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Makes sure that a daemon answers on the socket.
pub struct Revive(Box<dyn Fn() -> Reviving + Send + Sync>);

pub type Reviving = Pin<Box<dyn Future<Output = Result<(), Fault>> + Send>>;

#[derive(Debug)]
pub(super) struct Transport {
    socket: PathBuf,
    /// Sent first on every connection.
    greeting: Vec<u8>,
    /// The actor for [`ON_BEHALF_OF`](crate::ON_BEHALF_OF), if it differs from the process that
    /// connects.
    on_behalf_of: Option<HeaderValue>,
    idle: Mutex<Vec<Connection>>,
    /// The stream that [`Transport::begin`] connected, until the first request takes it.
    first: Mutex<Option<UnixStream>>,
    /// Whether the daemon has answered. The kernel accepts connections for a killed daemon until
    /// its last thread is gone; only a response, of whatever kind, proves that the daemon is alive.
    is_alive: AtomicBool,
    /// Replaces a daemon that does not answer the first request.
    revive: Option<Revive>,
}

/// One open connection. Dropping it closes it.
#[derive(Debug)]
pub(super) struct Connection {
    sender: SendRequest<Body>,
    driver: AbortHandle,
}

// === impl Transport ===

impl Transport {
    /// Connects, and waits for an answer of the daemon.
    pub(super) async fn connect(
        socket: PathBuf,
        greeting: Vec<u8>,
        on_behalf_of: Option<HeaderValue>,
    ) -> Result<Self, Fault> {
        let transport = Self::new(socket, greeting, on_behalf_of);
        transport.ping().await?;
        Ok(transport)
    }

    /// Connects without waiting for an answer: the first request finds out whether the daemon is
    /// alive, and otherwise `revive` is called once.
    pub(super) async fn begin(socket: PathBuf, revive: Revive) -> Result<Self, Fault> {
        let transport = Self::new(socket, Vec::new(), None);
        let stream = transport.connected().await?;
        Ok(Self {
            first: Mutex::new(Some(stream)),
            revive: Some(revive),
            ..transport
        })
    }

    fn new(socket: PathBuf, greeting: Vec<u8>, on_behalf_of: Option<HeaderValue>) -> Self {
        Self {
            socket,
            greeting,
            on_behalf_of,
            idle: Mutex::new(Vec::new()),
            first: Mutex::new(None),
            is_alive: AtomicBool::new(false),
            revive: None,
        }
    }

    async fn ping(&self) -> Result<(), Fault> {
        let connection = self.open().await?;
        let ping = self.request(Method::GET, "/ping", full(Bytes::new()))?;
        let (response, connection) = self.send_on(connection, ping).await?;
        let answer = response.into_body().collect().await;
        answer.map_err(went_away)?;
        self.keep(connection);
        Ok(())
    }

    /// Waits for an answer of the daemon before a request that may change something, because such a
    /// request cannot be repeated.
    async fn ensure_alive(&self) -> Result<(), Fault> {
        if self.is_alive() {
            return Ok(());
        }
        match self.ping().await {
            Err(fault) => self.replace_daemon(fault).await,
            Ok(()) => Ok(()),
        }
    }

    /// Replaces a daemon that has never answered; otherwise returns `fault`. The caller repeats its
    /// request, which changes nothing.
    pub(super) async fn replace_daemon(&self, fault: Fault) -> Result<(), Fault> {
        match &self.revive {
            Some(Revive(revive)) if !self.is_alive() && is_gone(&fault) => {
                revive().await?;
                self.note_alive();
                Ok(())
            }
            _ => Err(fault),
        }
    }

    fn is_alive(&self) -> bool {
        self.is_alive.load(Ordering::Relaxed)
    }

    pub(super) fn note_alive(&self) {
        self.is_alive.store(true, Ordering::Relaxed);
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// A connection without a request.
    pub(super) async fn stream(&self) -> Result<UnixStream, Fault> {
        let first = self.first.lock();
        let first = first.unwrap_or_else(PoisonError::into_inner).take();
        match first {
            Some(stream) => Ok(stream),
            None => self.connected().await,
        }
    }

    async fn connected(&self) -> Result<UnixStream, Fault> {
        let greeted = async {
            let mut stream = socket::connect(&self.socket).await?;
            stream.write_all(&self.greeting).await?;
            Ok(stream)
        };
        let greeted = greeted.await;
        greeted.map_err(|error| unreachable(&self.socket, error))
    }

    /// Sends `body` as JSON and parses the response.
    pub(super) async fn json<Q: Serialize, A: DeserializeOwned>(
        &self,
        method: Method,
        route: &str,
        body: &Q,
    ) -> Result<A, Fault> {
        let body = Bytes::from(serde_json::to_vec(body).map_err(not_json)?);
        self.call(method, route, body).await
    }

    /// Sends no body and parses the response.
    pub(super) async fn plain<A: DeserializeOwned>(
        &self,
        method: Method,
        route: &str,
    ) -> Result<A, Fault> {
        self.call(method, route, Bytes::new()).await
    }

    async fn call<A: DeserializeOwned>(
        &self,
        method: Method,
        route: &str,
        body: Bytes,
    ) -> Result<A, Fault> {
        let (response, connection) = self.send_bytes(method, route, body).await?;
        self.parsed(response, connection).await
    }

    /// Sends a body that cannot be sent twice, and parses the response.
    pub(super) async fn streamed<A: DeserializeOwned>(
        &self,
        method: Method,
        route: &str,
        body: Body,
    ) -> Result<A, Fault> {
        let (response, connection) = self.send(method, route, body).await?;
        self.parsed(response, connection).await
    }

    /// Reads a response to its end, so that its connection can be used again.
    pub(super) async fn parsed<A: DeserializeOwned>(
        &self,
        response: Response<Incoming>,
        connection: Connection,
    ) -> Result<A, Fault> {
        let answer = whole(response).await?;
        self.keep(connection);
        serde_json::from_slice(&answer).map_err(not_json)
    }

    /// Streams a response to `take`, until it returns `false`.
    pub(super) async fn pieces(
        &self,
        route: &str,
        mut take: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), Fault> {
        let sent = self.send(Method::GET, route, full(Bytes::new()));
        let (response, _connection) = sent.await?;
        let mut body = good(response).await?.into_body();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(went_away)?;
            if let Ok(data) = frame.into_data()
                && !take(&data)
            {
                break;
            }
        }
        Ok(())
    }

    /// Sends a body that is in memory, if possible on an idle connection.
    pub(super) async fn send_bytes(
        &self,
        method: Method,
        route: &str,
        body: Bytes,
    ) -> Result<(Response<Incoming>, Connection), Fault> {
        if method != Method::GET {
            self.ensure_alive().await?;
        }
        while let Some(mut connection) = self.take() {
            let request = self.request(method.clone(), route, full(body.clone()))?;
            match connection.sender.try_send_request(request).await {
                Ok(response) => return Ok((response, connection)),
                Err(mut error) => {
                    // hyper returns the message if it was not sent: the daemon had closed the idle
                    // connection.
                    if error.take_message().is_none() {
                        return Err(went_away(error.into_error()));
                    }
                }
            }
        }
        let attempt = async || {
            let connection = self.open().await?;
            let request = self.request(method.clone(), route, full(body.clone()))?;
            self.send_on(connection, request).await
        };
        match attempt().await {
            Err(fault) if method == Method::GET => {
                self.replace_daemon(fault).await?;
                attempt().await
            }
            answered => answered,
        }
    }

    /// Sends a request whose body cannot be sent twice, on a new connection.
    pub(super) async fn send(
        &self,
        method: Method,
        route: &str,
        body: Body,
    ) -> Result<(Response<Incoming>, Connection), Fault> {
        self.ensure_alive().await?;
        let connection = self.open().await?;
        self.send_on(connection, self.request(method, route, body)?)
            .await
    }

    /// Sends a POST with further headers on a new connection. With an idempotency key it needs no proof that the daemon
    /// is alive, because it may be repeated.
    pub(super) async fn post_with(
        &self,
        route: &str,
        body: Bytes,
        headers: &HeaderMap,
    ) -> Result<(Response<Incoming>, Connection), Fault> {
        let is_repeatable = headers.contains_key(IDEMPOTENCY_KEY);
        if !is_repeatable {
            self.ensure_alive().await?;
        }
        let attempt = async || {
            let connection = self.open().await?;
            let mut request = self.request(Method::POST, route, full(body.clone()))?;
            request.headers_mut().extend(headers.clone());
            self.send_on(connection, request).await
        };
        match attempt().await {
            Err(fault) if is_repeatable => {
                self.replace_daemon(fault).await?;
                attempt().await
            }
            answered => answered,
        }
    }

    async fn send_on(
        &self,
        mut connection: Connection,
        request: Request<Body>,
    ) -> Result<(Response<Incoming>, Connection), Fault> {
        let sent = connection.sender.send_request(request).await;
        let response = sent.map_err(went_away)?;
        self.note_alive();
        Ok((response, connection))
    }

    pub(super) fn on_behalf_of(&self) -> Option<&HeaderValue> {
        self.on_behalf_of.as_ref()
    }

    fn request(&self, method: Method, route: &str, body: Body) -> Result<Request<Body>, Fault> {
        let request = Request::builder()
            .method(method)
            .uri(format!("{PREFIX}{route}"))
            .header(header::HOST, "holm.localhost")
            .header(header::CONTENT_TYPE, "application/json")
            .body(body);
        let mut request = request.map_err(|error| {
            let message = format!("cannot ask the daemon for {route}");
            Fault::new(Code::BadRequest, message, "`holm ls` lists what there is").because(error)
        })?;
        if let Some(actor) = &self.on_behalf_of {
            request.headers_mut().insert(ON_BEHALF_OF, actor.clone());
        }
        Ok(request)
    }

    pub(super) fn keep(&self, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MOST_IDLE && !connection.sender.is_closed() {
            idle.push(connection);
        }
    }

    fn take(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(connection) = idle.pop() {
            if connection.sender.is_ready() {
                return Some(connection);
            }
        }
        None
    }

    async fn open(&self) -> Result<Connection, Fault> {
        let stream = self.stream().await?;
        let (mut sender, connection) = handshake(TokioIo::new(stream)).await.map_err(went_away)?;
        let task = tokio::spawn(async move {
            // hyper also reports the error to the pending request.
            let _ = connection.await;
        });
        let driver = task.abort_handle();
        sender.ready().await.map_err(went_away)?;
        Ok(Connection { sender, driver })
    }
}

// === impl Revive ===

impl Revive {
    pub fn new(revive: impl Fn() -> Reviving + Send + Sync + 'static) -> Self {
        Self(Box::new(revive))
    }
}

impl fmt::Debug for Revive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Revive")
    }
}

// === impl Connection ===

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// The body of a successful response, or the daemon's fault.
async fn whole(response: Response<Incoming>) -> Result<Bytes, Fault> {
    let response = good(response).await?;
    let body = response.into_body().collect().await;
    Ok(body.map_err(went_away)?.to_bytes())
}

/// A successful response, or the daemon's fault.
pub(super) async fn good(response: Response<Incoming>) -> Result<Response<Incoming>, Fault> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let body = response.into_body().collect().await;
    let body = body.map_err(went_away)?.to_bytes();
    Err(fault_of(status.as_u16(), &body))
}

/// Parses the fault in an error response.
pub(super) fn fault_of(status: u16, body: &[u8]) -> Fault {
    match serde_json::from_slice::<ErrorBody>(body) {
        Ok(body) => body.into(),
        Err(_) => Fault::new(
            Code::Internal,
            format!("the daemon answered with status {status} and no explanation"),
            "see the daemon's log; `holm daemon status` says where its data is",
        ),
    }
}

/// Whether the daemon ended the connection without an answer.
fn is_gone(fault: &Fault) -> bool {
    fault.code == Code::DaemonUnreachable
}

pub(super) fn went_away(error: impl Into<Cause>) -> Fault {
    Fault::new(
        Code::DaemonUnreachable,
        "the daemon went away in the middle of a request",
        "see `holm daemon status`, then try again",
    )
    .because(error)
}

pub(super) fn not_json(error: serde_json::Error) -> Fault {
    Fault::new(
        Code::Internal,
        "the daemon and this program do not understand each other",
        "is the daemon of another version? `holm daemon stop`, then try again",
    )
    .because(error)
}

fn unreachable(socket: &Path, error: io::Error) -> Fault {
    Fault::new(
        Code::DaemonUnreachable,
        format!("cannot reach the daemon at {}", socket.display()),
        "`holm daemon start` starts it",
    )
    .because(error)
}

pub(super) fn full(bytes: Bytes) -> Body {
    Full::new(bytes)
        .map_err(|never| match never {})
        .boxed_unsync()
}
