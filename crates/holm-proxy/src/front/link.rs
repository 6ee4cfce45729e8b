//! One HTTP/1.1 client connection into a workspace.
//!
//! The task that waits for the answer polls the connection itself, which saves a task switch per
//! request. Between requests the connection is not polled, so whether it is still open is checked
//! when it is used again.

use super::wire::{Received, Wire};
use bytes::Bytes;
use http_body_util::{Either, Empty};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// The body of a request. A request with an empty body can be sent again.
pub type Upload = Either<Incoming, Empty<Bytes>>;

type Driven = Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>;

pub struct Link {
    sender: SendRequest<Upload>,
    /// `None` after the connection has ended.
    connection: Option<Driven>,
    received: Received,
    /// How long the server may take to complete the response head after its first byte. The time
    /// before the first byte is unlimited (long polling, a debugger).
    head_limit: Duration,
    /// When it went back into the pool.
    pub idle_since: Instant,
}

/// Whether a connection can take the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    Usable,
    /// A request body is still being sent.
    Busy,
    /// Closed, or the server sent unsolicited bytes.
    Over,
}

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum NoAnswer {
    /// Nothing was sent yet, so another connection can take the request.
    #[error("the connection was closed before the request was sent")]
    Unsent(Box<Request<Upload>>),
    #[error("the answer is not HTTP")]
    Broken(#[source] hyper::Error),
    #[error("the head of the answer did not end within {} seconds", .0.as_secs())]
    SlowHead(Duration),
}

/// How long the rest of an upload may take after its response is complete.
const REST_LIMIT: Duration = Duration::from_secs(60);

/// The largest response head, and the read buffer of a body.
pub const LARGEST_READ: usize = 256 << 10;

// === impl Link ===

impl Link {
    pub async fn open(wire: Wire, received: Received, head_limit: Duration) -> hyper::Result<Self> {
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(LARGEST_READ)
            .handshake(TokioIo::new(wire))
            .await?;
        let mut link = Self {
            sender,
            connection: Some(Box::pin(connection.with_upgrades())),
            received,
            head_limit,
            idle_since: Instant::now(),
        };
        // hyper accepts the first request only after the connection was polled once.
        poll_fn(|context| Poll::Ready(link.look(context))).await;
        Ok(link)
    }

    /// Polls once and reports the connection's condition.
    pub fn condition(&mut self) -> Condition {
        self.look(&mut Context::from_waker(Waker::noop()))
    }

    fn look(&mut self, context: &mut Context<'_>) -> Condition {
        drive(&mut self.connection, context);
        match self.connection {
            None => Condition::Over,
            Some(_) if self.sender.is_ready() => Condition::Usable,
            Some(_) => Condition::Busy,
        }
    }

    /// Sends a request and waits for the response head.
    pub async fn send(&mut self, request: Request<Upload>) -> Result<Response<Incoming>, NoAnswer> {
        self.received.reset();
        let (connection, received) = (&mut self.connection, &self.received);
        let head_limit = self.head_limit;
        let mut answer = pin!(self.sender.try_send_request(request));
        let mut limit: Option<Pin<Box<tokio::time::Sleep>>> = None;
        poll_fn(|context| {
            if let Poll::Ready(answer) = answer.as_mut().poll(context) {
                return Poll::Ready(answer.map_err(NoAnswer::from));
            }
            drive(connection, context);
            if let Poll::Ready(answer) = answer.as_mut().poll(context) {
                return Poll::Ready(answer.map_err(NoAnswer::from));
            }
            if received.any() {
                let begun = || Box::pin(tokio::time::sleep(head_limit));
                if limit
                    .get_or_insert_with(begun)
                    .as_mut()
                    .poll(context)
                    .is_ready()
                {
                    return Poll::Ready(Err(NoAnswer::SlowHead(head_limit)));
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Moves the connection into a task of its own, for a protocol upgrade.
    pub fn release(self) {
        if let Some(connection) = self.connection {
            tokio::spawn(connection);
        }
    }

    /// Finishes sending an upload whose response is complete.
    pub fn finish_upload(self) {
        if let Some(connection) = self.connection {
            tokio::spawn(tokio::time::timeout(REST_LIMIT, connection));
        }
    }

    /// Polls the connection while a body is read.
    pub fn drive(&mut self, context: &mut Context<'_>) {
        drive(&mut self.connection, context);
    }
}

/// Errors are dropped because hyper reports them to the pending request or body as well.
fn drive(connection: &mut Option<Driven>, context: &mut Context<'_>) {
    if let Some(driven) = connection
        && driven.as_mut().poll(context).is_ready()
    {
        *connection = None;
    }
}

// === impl NoAnswer ===

impl From<TrySendError<Request<Upload>>> for NoAnswer {
    fn from(mut error: TrySendError<Request<Upload>>) -> Self {
        match error.take_message() {
            Some(request) => NoAnswer::Unsent(Box::new(request)),
            None => NoAnswer::Broken(error.into_error()),
        }
    }
}
