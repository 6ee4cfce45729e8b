//! Responses of JSON Lines, and work that reports its progress in one.

use super::failure::{Failure, bad_request};
use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code};
use axum::http::header;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::{SinkExt, Stream, StreamExt, stream};
use holm_engine::progress::ProgressEvent;
use serde::Serialize;
use std::convert::Infallible;
use std::pin::pin;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedReceiver;

/// The interval of messages about one step.
const OFTEN: Duration = Duration::from_millis(100);

/// Lets each new step through, and news of the same step now and then.
#[derive(Default)]
pub struct Pace {
    last: Option<(Instant, String)>,
}

/// A client that takes longer for one message is gone.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a client wants lines that go on: as the body of the answer, or as a WebSocket, because a browser has few connections
/// for all its tabs.
pub struct LineTransport(Option<WebSocketUpgrade>);

// === impl LineTransport ===

impl LineTransport {
    pub fn is_websocket(&self) -> bool {
        self.0.is_some()
    }

    /// Each message has one or more whole lines, as the pieces of the body do.
    pub fn response(self, body: Body) -> Response {
        let Some(upgrade) = self.0 else {
            return response(body);
        };
        let pieces = body.into_data_stream().map(|piece| {
            let text = |piece: Bytes| String::from_utf8_lossy(&piece).into_owned();
            piece.map(text)
        });
        upgrade.on_upgrade(move |socket| send(pieces, socket))
    }

    /// Each message has one line. The lines come without their ends.
    pub fn response_by_line(
        self,
        lines: impl Stream<Item = Vec<String>> + Send + 'static,
    ) -> Response {
        let Some(upgrade) = self.0 else {
            let pieces = lines.map(|lines| {
                let text: String = lines.into_iter().map(|line| line + "\n").collect();
                Ok::<_, Infallible>(Bytes::from(text))
            });
            return response(Body::from_stream(pieces));
        };
        let lines = lines.flat_map(stream::iter).map(Ok::<_, Infallible>);
        upgrade.on_upgrade(move |socket| send(lines, socket))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for LineTransport {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        if !parts.headers.contains_key(header::UPGRADE) {
            return Ok(Self(None));
        }
        let upgrade = WebSocketUpgrade::from_request_parts(parts, state).await;
        let upgrade = upgrade.map_err(|error| bad_request(error.body_text()))?;
        Ok(Self(Some(upgrade)))
    }
}

/// Sends messages until there are no more, or the client is gone. After an error the close code says that some are missing.
async fn send<E>(messages: impl Stream<Item = Result<String, E>>, socket: WebSocket) {
    let (mut sink, mut stream) = socket.split();
    let sending = async {
        let mut messages = pin!(messages);
        while let Some(message) = messages.next().await {
            let message = match message {
                Ok(text) => Message::text(text),
                Err(_) => Message::Close(Some(CloseFrame {
                    code: close_code::ERROR,
                    reason: Utf8Bytes::default(),
                })),
            };
            let sent = tokio::time::timeout(PATIENCE, sink.send(message));
            if !matches!(sent.await, Ok(Ok(()))) {
                return;
            }
        }
        // Fails only when the client is gone, or was told why already.
        let _ = sink.close().await;
    };
    // Messages of a client are ignored; only its end matters.
    let leaving = async { while let Some(Ok(_)) = stream.next().await {} };
    tokio::select! {
        () = sending => {}
        () = leaving => {}
    }
}

pub fn response(body: Body) -> Response {
    ([(header::CONTENT_TYPE, "application/jsonl")], body).into_response()
}

/// API types always serialise.
pub fn line(item: &impl Serialize) -> Bytes {
    let mut json = serde_json::to_vec(item).unwrap_or_default();
    json.push(b'\n');
    Bytes::from(json)
}

/// Does `work`, whose output is the last line, and reports its progress in lines before: each new step, and the
/// news of a step now and then. The response body owns the work: it is dropped when the client disconnects.
pub fn progress<E: Serialize + Send + 'static>(
    work: impl Future<Output = E> + Send + 'static,
    events: UnboundedReceiver<ProgressEvent>,
    report: fn(ProgressEvent) -> E,
) -> Response {
    let state = (Some(Box::pin(work)), events, Pace::default());
    let lines = stream::unfold(state, move |(mut work, mut events, mut pace)| async move {
        let running = work.as_mut()?;
        let event = loop {
            tokio::select! {
                biased;
                done = &mut *running => {
                    work = None;
                    break done;
                }
                Some(event) = events.recv() => {
                    if pace.passes(&event.step, Instant::now()) {
                        break report(event);
                    }
                }
            }
        };
        Some((Ok::<_, Infallible>(line(&event)), (work, events, pace)))
    });
    response(Body::from_stream(lines))
}

// === impl Pace ===

impl Pace {
    pub fn passes(&mut self, step: &str, now: Instant) -> bool {
        // A step reads `NAME: COMMAND  LAST LINE`; only another NAME is a new step.
        let name = step.split(": ").next().unwrap_or(step);
        let is_due = self
            .last
            .as_ref()
            .is_none_or(|(at, last)| now.duration_since(*at) >= OFTEN || last != name);
        if is_due {
            self.last = Some((now, name.to_owned()));
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_step_is_never_held_back() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        assert!(pace.passes("checking out", start));
        assert!(!pace.passes("checking out", start));
        assert!(pace.passes("setup 1/2: npm ci", start));
        assert!(!pace.passes("setup 1/2: npm ci  added 3", start));
        assert!(pace.passes("setup 1/2: npm ci  added 9", start + OFTEN));
        assert!(pace.passes("setup 2/2: make", start + OFTEN));
    }
}
