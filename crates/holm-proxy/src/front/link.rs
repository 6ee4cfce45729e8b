//! One HTTP/1.1 connection into a workspace.
//!
//! It is driven by the task that waits for the answer, not by one of its own: a request costs no
//! switch of tasks. While nobody drives it nothing happens on it; whether it is still good is seen
//! when it is used again.

use super::wire::{Heard, Wire};
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

/// The body of a request. One that has none can be made again.
pub type Upload = Either<Incoming, Empty<Bytes>>;

type Driven = Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>;

pub struct Link {
    sender: SendRequest<Upload>,
    /// Gone when it is over.
    connection: Option<Driven>,
    heard: Heard,
    /// How long the head of an answer may take once it has begun. Before that, a server may think
    /// for as long as it likes (long polling, a debugger).
    head_limit: Duration,
    /// When it was last put aside.
    pub idle_since: Instant,
}

/// What can be done with a connection now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    Usable,
    /// A request is still being sent.
    Busy,
    /// Closed, or something came that was not asked for.
    Over,
}

/// Why no answer came.
#[derive(Debug, thiserror::Error)]
pub enum NoAnswer {
    /// Nothing was sent yet, so it can be sent on another connection.
    #[error("the connection was closed before the request was sent")]
    Unsent(Box<Request<Upload>>),
    #[error("the answer is not HTTP")]
    Broken(#[source] hyper::Error),
    #[error("the head of the answer did not end within {} seconds", .0.as_secs())]
    SlowHead(Duration),
}

/// How long the rest of an upload may take whose answer is complete.
const REST_LIMIT: Duration = Duration::from_secs(60);

/// The most that is read of a head, and at once of a body.
pub const LARGEST_READ: usize = 256 << 10;

// === impl Link ===

impl Link {
    pub async fn open(wire: Wire, heard: Heard, head_limit: Duration) -> hyper::Result<Self> {
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(LARGEST_READ)
            .handshake(TokioIo::new(wire))
            .await?;
        let mut link = Self {
            sender,
            connection: Some(Box::pin(connection.with_upgrades())),
            heard,
            head_limit,
            idle_since: Instant::now(),
        };
        // It takes the first request only after it was driven once.
        poll_fn(|context| Poll::Ready(link.look(context))).await;
        Ok(link)
    }

    /// Drives it once, to see what became of it.
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

    /// Sends a request and waits for the head of the answer.
    pub async fn send(&mut self, request: Request<Upload>) -> Result<Response<Incoming>, NoAnswer> {
        self.heard.forget();
        let (connection, heard) = (&mut self.connection, &self.heard);
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
            if heard.anything() {
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

    /// Lets the connection go on by itself, for an answer that changes the protocol.
    pub fn release(self) {
        if let Some(connection) = self.connection {
            tokio::spawn(connection);
        }
    }

    /// Lets an upload go on whose answer is complete.
    pub fn finish_upload(self) {
        if let Some(connection) = self.connection {
            tokio::spawn(tokio::time::timeout(REST_LIMIT, connection));
        }
    }

    /// Drives the connection while a body is read.
    pub fn drive(&mut self, context: &mut Context<'_>) {
        drive(&mut self.connection, context);
    }
}

/// What goes wrong is told to whoever waits for an answer or a body.
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
