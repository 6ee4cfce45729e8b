//! The body of a response: a page of holm's own, or a stream from a workspace.

use super::idle::{Permit, PoolSlot};
use super::in_flight::InFlightRequest;
use super::link::{Condition, Link};
use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::Response;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A failure while a body is streamed.
pub type BodyError = Box<dyn Error + Send + Sync>;

/// The body of a response from the daemon's API.
pub type DaemonBody = UnsyncBoxBody<Bytes, BodyError>;

pub struct Relay {
    kind: Kind,
    /// Held until the response has ended.
    _permit: Option<Permit>,
    _request: Option<InFlightRequest>,
}

enum Kind {
    Own(Option<Bytes>),
    Single(Single),
    /// From a connection with a task of its own.
    Multiplexed(Incoming),
    Daemon(DaemonBody),
}

/// A response body together with its connection, which polling the body drives.
struct Single {
    body: Incoming,
    link: Option<Link>,
    slot: PoolSlot,
    has_ended: bool,
}

// === impl Relay ===

impl Relay {
    pub fn own(text: impl Into<Bytes>) -> Self {
        let text = text.into();
        let text = (!text.is_empty()).then_some(text);
        Self {
            kind: Kind::Own(text),
            _permit: None,
            _request: None,
        }
    }

    pub fn wrap(
        answer: Response<Incoming>,
        link: Link,
        slot: PoolSlot,
        permit: Permit,
    ) -> Response<Self> {
        answer.map(|body| Self {
            kind: Kind::Single(Single {
                body,
                link: Some(link),
                slot,
                has_ended: false,
            }),
            _permit: Some(permit),
            _request: None,
        })
    }

    pub fn multiplexed(body: Incoming, permit: Permit) -> Self {
        Self {
            kind: Kind::Multiplexed(body),
            _permit: Some(permit),
            _request: None,
        }
    }

    pub fn daemon(body: DaemonBody) -> Self {
        Self {
            kind: Kind::Daemon(body),
            _permit: None,
            _request: None,
        }
    }

    /// Ties the body to the client request that it answers, so that the request counts as under way
    /// until the body ends.
    pub fn of(self, request: InFlightRequest) -> Self {
        Self {
            _request: Some(request),
            ..self
        }
    }
}

impl Body for Relay {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let polled = match &mut self.kind {
            Kind::Own(text) => return Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            Kind::Daemon(body) => return Pin::new(body).poll_frame(context),
            Kind::Single(single) => single.poll_frame(context),
            Kind::Multiplexed(body) => Pin::new(body).poll_frame(context),
        };
        polled.map_err(BodyError::from)
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Own(text) => text.is_none(),
            Kind::Single(single) => single.body.is_end_stream(),
            Kind::Multiplexed(body) => body.is_end_stream(),
            Kind::Daemon(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Own(text) => SizeHint::with_exact(text.as_ref().map_or(0, Bytes::len) as u64),
            Kind::Single(single) => single.body.size_hint(),
            Kind::Multiplexed(body) => body.size_hint(),
            Kind::Daemon(body) => body.size_hint(),
        }
    }
}

// === impl Single ===

impl Single {
    fn poll_frame(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        // The body is polled first, so that hyper knows that a reader wants more.
        let mut polled = Pin::new(&mut self.body).poll_frame(context);
        if polled.is_pending()
            && let Some(link) = &mut self.link
        {
            link.drive(context);
            polled = Pin::new(&mut self.body).poll_frame(context);
        }
        if matches!(polled, Poll::Ready(None)) {
            self.has_ended = true;
        }
        polled
    }
}

impl Drop for Single {
    fn drop(&mut self) {
        let Some(mut link) = self.link.take() else {
            return;
        };
        // The client went away before the end: cut the connection so that the server inside
        // notices.
        if !self.has_ended && !self.body.is_end_stream() {
            return;
        }
        match link.condition() {
            Condition::Usable => self.slot.put(link),
            Condition::Busy => link.finish_upload(),
            Condition::Over => {}
        }
    }
}
