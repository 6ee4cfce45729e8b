//! The body of a response on its way into the workspace: secret values in it are replaced by their
//! tokens.

use bytes::Bytes;
use holm_secrets::exchange::{Exchange, Exchanger};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Sleep, sleep};

/// How long a possible prefix of a value is held back when no more bytes follow. Without this limit
/// a server that waits for a reply to half a line would wait forever.
pub const PATIENCE: Duration = Duration::from_secs(1);

pub enum AnswerBody {
    /// A response of the gateway itself.
    Text(Option<Bytes>),
    Passed(Box<Passed>),
}

pub struct Passed {
    inner: Incoming,
    exchanger: Option<Exchanger>,
    /// Set while a prefix is held back.
    silence: Option<Pin<Box<Sleep>>>,
}

// === impl AnswerBody ===

impl AnswerBody {
    pub fn text(text: String) -> Self {
        Self::Text(Some(text.into()))
    }

    pub fn passed(inner: Incoming, answers: Option<Exchange>) -> Self {
        Self::Passed(Box::new(Passed {
            inner,
            exchanger: answers.map(Exchanger::new),
            silence: None,
        }))
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut *self {
            AnswerBody::Text(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            AnswerBody::Passed(passed) => passed.poll_data(context).map_ok(Frame::data),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            AnswerBody::Text(text) => text.is_none(),
            AnswerBody::Passed(passed) => !passed.holds_something() && passed.inner.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            AnswerBody::Text(text) => {
                SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64))
            }
            // A token has the length of its value, so the length does not change.
            AnswerBody::Passed(passed) => passed.inner.size_hint(),
        }
    }
}

// === impl Passed ===

impl Passed {
    fn holds_something(&self) -> bool {
        self.exchanger
            .as_ref()
            .is_some_and(Exchanger::holds_something)
    }

    fn poll_data(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, hyper::Error>>> {
        loop {
            let frame = match Pin::new(&mut self.inner).poll_frame(context) {
                Poll::Ready(Some(frame)) => frame?,
                Poll::Ready(None) => return Poll::Ready(self.rest().map(Ok)),
                Poll::Pending if self.holds_something() => {
                    let silence = self
                        .silence
                        .get_or_insert_with(|| Box::pin(sleep(PATIENCE)));
                    ready!(silence.as_mut().poll(context));
                    return Poll::Ready(self.rest().map(Ok));
                }
                Poll::Pending => return Poll::Pending,
            };
            self.silence = None;
            // Trailers are hop-by-hop and are dropped.
            let Ok(data) = frame.into_data() else {
                continue;
            };
            let exchanged = match &mut self.exchanger {
                Some(exchanger) => Bytes::from(exchanger.take(&data)),
                None => data,
            };
            if !exchanged.is_empty() {
                return Poll::Ready(Some(Ok(exchanged)));
            }
        }
    }

    fn rest(&mut self) -> Option<Bytes> {
        self.silence = None;
        let rest = self.exchanger.as_mut()?.rest();
        (!rest.is_empty()).then(|| rest.into())
    }
}
