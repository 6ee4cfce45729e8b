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

/// The interval of messages about one step.
const OFTEN: Duration = Duration::from_millis(100);

/// Lets each new step through, and news of the same step now and then.
#[derive(Default)]
pub struct Pace {
    last: Option<(Instant, String)>,
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
        // Without what the step does, and its last output.
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
