//! Limits the size and duration of request bodies from the front door and from guests.

use axum::BoxError;
use axum::body::{Body, HttpBody};
use bytes::Bytes;
use holm_api::route::Content;
use holm_core::{Code, Fault};
use http_body_util::Limited;
use hyper::body::{Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// The limits of one body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    most: Option<usize>,
    pace: Option<Pace>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// All of it must come within [`PATIENCE`].
    Whole,
    /// Every piece of it must.
    Pieces,
}

const PATIENCE: Duration = Duration::from_secs(30);

/// The limits of JSON from a program with a token, and from one inside a workspace.
const TOKEN_JSON: usize = 16 << 20;
const GUEST_JSON: usize = 4 << 20;

/// A body with a deadline.
struct Timed {
    body: Body,
    pace: Pace,
    limit: Pin<Box<Sleep>>,
}

#[derive(Debug, thiserror::Error)]
#[error("the body did not come in time")]
struct TooSlow;

// === impl Bounds ===

impl Bounds {
    /// For the user at the Unix socket.
    pub const NONE: Self = Self {
        most: None,
        pace: None,
    };

    pub fn token(content: Content) -> Self {
        Self::with(content, TOKEN_JSON)
    }

    pub fn guest(content: Content) -> Self {
        Self::with(content, GUEST_JSON)
    }

    fn with(content: Content, json: usize) -> Self {
        match content {
            // Each of these routes has its own limit.
            Content::Bytes => Self {
                most: None,
                pace: Some(Pace::Pieces),
            },
            Content::Json | Content::WebSocket => Self {
                most: Some(json),
                pace: Some(Pace::Whole),
            },
        }
    }

    /// Refuses a body whose announced length is too large, before reading it.
    pub fn check_length(self, length: u64) -> Result<(), Fault> {
        match self.most {
            Some(most) if length > most as u64 => Err(Fault::new(
                Code::TooLarge,
                format!("the body has {length} bytes, and at most {most} are read"),
                "send less at a time; files go to /workspaces/{id}/files",
            )),
            _ => Ok(()),
        }
    }
}

/// The body, which fails when it exceeds its limits.
pub fn within(bounds: Bounds, body: Body) -> Body {
    let body = match bounds.pace {
        Some(pace) if !body.is_end_stream() => Body::new(Timed {
            body,
            pace,
            limit: Box::pin(tokio::time::sleep(PATIENCE)),
        }),
        _ => body,
    };
    match bounds.most {
        Some(most) => Body::new(Limited::new(body, most)),
        None => body,
    }
}

// === impl Timed ===

impl HttpBody for Timed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(frame) => {
                if self.pace == Pace::Pieces {
                    self.limit.as_mut().reset(Instant::now() + PATIENCE);
                }
                Poll::Ready(frame.map(|frame| frame.map_err(BoxError::from)))
            }
            Poll::Pending => {
                let elapsed = self.limit.as_mut().poll(context);
                elapsed.map(|()| Some(Err(TooSlow.into())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;
    use http_body_util::BodyExt;
    use std::convert::Infallible;

    #[tokio::test(start_paused = true)]
    async fn slow_bodies_end() {
        // A byte every 20 seconds, forever.
        let drops = || {
            Body::from_stream(stream::unfold((), |()| async {
                tokio::time::sleep(Duration::from_secs(20)).await;
                Some((Ok::<_, Infallible>(Bytes::from_static(b"x")), ()))
            }))
        };
        let mut json = within(Bounds::token(Content::Json), drops());
        assert!(json.frame().await.unwrap().is_ok());
        let error = json.frame().await.unwrap().unwrap_err();
        assert!(error.to_string().contains("in time"), "{error}");
        let mut bytes = within(Bounds::token(Content::Bytes), drops());
        for _ in 0..10 {
            assert!(bytes.frame().await.unwrap().is_ok());
        }
        let silent = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
        let mut silent = within(Bounds::guest(Content::Bytes), silent);
        assert!(silent.frame().await.unwrap().is_err());
    }

    #[tokio::test]
    async fn large_bodies_end() {
        let body = Body::from(vec![b' '; GUEST_JSON + 1]);
        assert!(
            within(Bounds::guest(Content::Json), body)
                .collect()
                .await
                .is_err()
        );
        let body = Body::from(vec![b' '; GUEST_JSON]);
        assert!(
            within(Bounds::guest(Content::Json), body)
                .collect()
                .await
                .is_ok()
        );
        assert!(Bounds::guest(Content::Json).check_length(1 << 30).is_err());
        assert!(Bounds::NONE.check_length(1 << 30).is_ok());
    }
}
