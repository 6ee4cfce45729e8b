//! Responses of JSON Lines, and work that reports its progress in one.

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use holm_engine::progress::ProgressEvent;
use serde::Serialize;
use std::convert::Infallible;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedReceiver;

/// The interval of progress messages.
pub const OFTEN: Duration = Duration::from_millis(100);

pub fn response(body: Body) -> Response {
    ([(header::CONTENT_TYPE, "application/jsonl")], body).into_response()
}

/// API types always serialise.
pub fn line(item: &impl Serialize) -> Bytes {
    let mut json = serde_json::to_vec(item).unwrap_or_default();
    json.push(b'\n');
    Bytes::from(json)
}

/// Does `work`, whose output is the last line, and reports its progress in lines before. The response
/// body owns the work: it is dropped when the client disconnects.
pub fn progress<E: Serialize + Send + 'static>(
    work: impl Future<Output = E> + Send + 'static,
    events: UnboundedReceiver<ProgressEvent>,
    report: fn(ProgressEvent) -> E,
) -> Response {
    let state = (Some(Box::pin(work)), events, None::<Instant>);
    let lines = stream::unfold(state, move |(mut work, mut events, mut last)| async move {
        let running = work.as_mut()?;
        let event = loop {
            tokio::select! {
                biased;
                done = &mut *running => {
                    work = None;
                    break done;
                }
                Some(event) = events.recv() => {
                    if last.is_none_or(|last| last.elapsed() >= OFTEN) {
                        last = Some(Instant::now());
                        break report(event);
                    }
                }
            }
        };
        Some((Ok::<_, Infallible>(line(&event)), (work, events, last)))
    });
    response(Body::from_stream(lines))
}
