//! `GET /events`: what happened, line by line, from a cursor on.
//!
//! Events are stored before they are told, and everybody reads them from the store at their own
//! pace: a slow reader costs nothing, and one that is so slow that events are gone is told how many
//! it missed and let go.

use super::failure::{Failure, Parameters};
use super::{App, LinuxEngine, view};
use axum::body::Body as HttpBody;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use holm_api::event::{Event, Missed};
use holm_core::{Fault, WorkspaceId};
use holm_engine::store::EventRecord;
use serde::Deserialize;
use serde_json::Value;
use std::convert::Infallible;
use std::sync::Arc;
use tokio::sync::watch;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Where things that happened are told. A handle; clones share everything.
#[derive(Clone)]
pub struct Events {
    engine: LinuxEngine,
    /// Changes with every event.
    told: Arc<watch::Sender<u64>>,
}

/// The parameters of `GET /events`.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct From {
    /// Without it: from the beginning, or with `follow` from now on.
    after: Option<u64>,
    #[serde(default)]
    follow: bool,
}

/// Read from the store at a time.
const BATCH: usize = 256;

pub fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(events))
}

/// What happened, from a cursor on.
#[utoipa::path(
    get,
    path = "/events",
    operation_id = "events",
    params(From),
    responses((status = 200, description = "JSON Lines of events; the last may be a `Missed`", content_type = "application/jsonl", body = Event))
)]
async fn events(
    State(app): State<Arc<App>>,
    Parameters(from): Parameters<From>,
) -> Result<Response, Failure> {
    let after = match (from.after, from.follow) {
        (Some(after), _) => after,
        (None, true) => app.engine.last_event().await?,
        (None, false) => 0,
    };
    let reading = Reading {
        events: app.events.clone(),
        news: app.events.told.subscribe(),
        after,
        is_from_the_start: from.after.is_none_or(|after| after == 0),
        follow: from.follow,
        stop: app.stop.subscribe(),
        is_over: false,
    };
    let lines = stream::unfold(reading, |mut reading| async move {
        let lines = reading.next().await?;
        Some((Ok::<_, Infallible>(lines), reading))
    });
    let kind = [(header::CONTENT_TYPE, "application/jsonl")];
    Ok((kind, HttpBody::from_stream(lines)).into_response())
}

/// One client's place in the events.
struct Reading {
    events: Events,
    news: watch::Receiver<u64>,
    after: u64,
    /// What is gone before the first event was not missed.
    is_from_the_start: bool,
    follow: bool,
    stop: watch::Receiver<bool>,
    is_over: bool,
}

// === impl Events ===

impl Events {
    pub fn new(engine: LinuxEngine) -> Self {
        Self {
            engine,
            told: Arc::new(watch::channel(0).0),
        }
    }

    /// An event that cannot be stored is in the log only: what happened does not depend on it.
    pub async fn tell(&self, workspace: &WorkspaceId, kind: &str, detail: Value) {
        let text = detail.to_string();
        match self.engine.add_event(workspace, kind, text).await {
            Ok(cursor) => drop(self.told.send_replace(cursor)),
            Err(fault) => tracing::warn!(%workspace, kind, %fault, "an event was not stored"),
        }
    }
}

// === impl Reading ===

impl Reading {
    /// The next lines; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.is_over {
                return None;
            }
            self.news.mark_unchanged();
            let found = self.events.engine.events(self.after, BATCH).await;
            let found = match found {
                Ok(found) => found,
                Err(fault) => {
                    self.is_over = true;
                    return Some(error_line(&fault));
                }
            };
            if let Some(first) = found.first() {
                let missed = first.cursor - self.after - 1;
                if missed > 0 && !self.is_from_the_start {
                    self.is_over = true;
                    return Some(line(&Missed::new(missed, first.cursor - 1)));
                }
                self.is_from_the_start = false;
                self.after = found.last().map_or(self.after, |last| last.cursor);
                let lines = found.into_iter().map(told).map(|event| line(&event));
                return Some(Bytes::from(lines.collect::<Vec<_>>().concat()));
            }
            if !self.follow {
                return None;
            }
            tokio::select! {
                changed = self.news.changed() => changed.ok()?,
                _ = self.stop.wait_for(|is_stopping| *is_stopping) => return None,
            }
        }
    }
}

fn told(record: EventRecord) -> Event {
    Event {
        cursor: record.cursor,
        time: view::time(record.event.at),
        kind: record.event.kind,
        workspace: record.event.workspace.to_string(),
        detail: serde_json::from_str(&record.event.detail).unwrap_or_default(),
    }
}

fn line<T: serde::Serialize>(value: &T) -> Bytes {
    let mut json = serde_json::to_vec(value).unwrap_or_default();
    json.push(b'\n');
    Bytes::from(json)
}

fn error_line(fault: &Fault) -> Bytes {
    line(&super::failure::told(fault))
}
