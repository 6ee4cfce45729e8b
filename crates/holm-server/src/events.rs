//! `GET /events`: events from a cursor on, line by line or as a WebSocket.
//!
//! Events are stored before they are sent, and every client reads them from the store at its own
//! pace: a slow reader costs nothing, and one that is so slow that events were deleted is told how
//! many it missed, and ends.

use super::caller::Caller;
use super::failure::{Failure, Parameters, workspace_id};
use super::jsonl::LineTransport;
use super::{App, view};
use axum::extract::State;
use axum::http::HeaderValue;
use axum::response::Response;
use futures_util::stream;
use holm_api::event::{CURSOR, Event, Missed};
use holm_core::WorkspaceId;
use holm_engine::Engine;
use holm_engine::store::{Event as StoredEvent, EventRecord};
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::watch;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Stores and announces events. A handle; clones share everything.
#[derive(Clone)]
pub struct Events {
    engine: Engine,
    /// Changes with every event.
    newest: Arc<watch::Sender<u64>>,
}

/// The parameters of `GET /events`.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct From {
    /// The cursor to continue after. Without it: from the beginning, or with `follow` from now on.
    after: Option<u64>,
    /// Continue with new events; a WebSocket does unless it is false.
    follow: Option<bool>,
    /// Only of this workspace.
    #[param(value_type = Option<holm_core::WorkspaceId>)]
    workspace: Option<String>,
    /// Only of this type (`workspace.created`), or of those that begin with it (`workspace`).
    #[serde(rename = "type")]
    kind: Option<String>,
    /// The maximum number.
    #[param(minimum = 1)]
    limit: Option<u64>,
}

/// Read from the store at a time.
const BATCH: usize = 256;

pub fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(events))
}

/// Events from a cursor on: JSON Lines, or a WebSocket with a text message for each. The last may
/// be a `Missed`, when requested events were deleted.
#[utoipa::path(
    get,
    path = "/events",
    operation_id = "events",
    params(From),
    responses(
        (
            status = 200,
            description = "JSON Lines",
            content_type = "application/jsonl",
            body = Event,
            headers(("holm-cursor" = u64, description = "where it begins"))
        ),
        (status = 101, description = "a WebSocket")
    )
)]
async fn events(
    State(app): State<Arc<App>>,
    caller: Caller,
    Parameters(from): Parameters<From>,
    transport: LineTransport,
) -> Result<Response, Failure> {
    let follow = from.follow.unwrap_or(transport.is_websocket());
    let reading = app.reading(caller, from, follow).await?;
    let cursor = HeaderValue::from(reading.after);
    let lines = stream::unfold(reading, |mut reading| async move {
        let lines: Vec<String> = reading.next().await?;
        Some((lines, reading))
    });
    let mut response = transport.response_by_line(lines);
    response.headers_mut().insert(CURSOR, cursor);
    Ok(response)
}

// === impl App ===

impl App {
    async fn reading(&self, caller: Caller, from: From, follow: bool) -> Result<Reading, Failure> {
        let workspace = from.workspace.as_deref().map(workspace_id).transpose()?;
        let after = match (from.after, follow) {
            (Some(after), _) => after,
            (None, true) => self.engine.last_event().await?,
            (None, false) => 0,
        };
        Ok(Reading {
            events: self.events.clone(),
            news: self.events.newest.subscribe(),
            after,
            is_from_the_start: from.after.is_none_or(|after| after == 0),
            follow,
            workspace,
            kind: from.kind,
            caller,
            left: from.limit,
            stop: self.stop.subscribe(),
            is_over: false,
        })
    }
}

/// One client's position in the events.
struct Reading {
    events: Events,
    news: watch::Receiver<u64>,
    after: u64,
    /// Events that were deleted before the first one were not missed.
    is_from_the_start: bool,
    follow: bool,
    /// Sees only events about what it may see.
    caller: Caller,
    workspace: Option<WorkspaceId>,
    kind: Option<String>,
    /// How many may still be sent; `None`: all.
    left: Option<u64>,
    stop: watch::Receiver<bool>,
    is_over: bool,
}

// === impl Events ===

impl Events {
    pub fn new(engine: Engine) -> Self {
        Self {
            engine,
            newest: Arc::new(watch::channel(0).0),
        }
    }

    /// Changes with every event.
    pub fn news(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// An event that cannot be stored is only logged: the operation does not depend on it.
    pub async fn emit(&self, workspace: &WorkspaceId, kind: &str, detail: Value) {
        let text = detail.to_string();
        match self.engine.add_event(workspace, kind, text).await {
            Ok(cursor) => drop(self.newest.send_replace(cursor)),
            Err(fault) => tracing::warn!(%workspace, kind, %fault, "an event was not stored"),
        }
    }
}

// === impl Reading ===

impl Reading {
    /// The next events, each as JSON; `None` at the end.
    async fn next(&mut self) -> Option<Vec<String>> {
        loop {
            if self.is_over || self.left == Some(0) {
                return None;
            }
            self.news.mark_unchanged();
            let found = self.events.engine.events(self.after, BATCH).await;
            let found = match found {
                Ok(found) => found,
                Err(fault) => {
                    self.is_over = true;
                    return Some(vec![json(&super::failure::error_body(&fault))]);
                }
            };
            if let Some(first) = found.first() {
                let missed = first.cursor - self.after - 1;
                if missed > 0 && !self.is_from_the_start {
                    self.is_over = true;
                    return Some(vec![json(&Missed::new(missed, first.cursor - 1))]);
                }
                self.is_from_the_start = false;
                self.after = found.last().map_or(self.after, |last| last.cursor);
                let lines = self.wanted(found);
                if !lines.is_empty() {
                    return Some(lines);
                }
                continue;
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

    fn wanted(&mut self, found: Vec<EventRecord>) -> Vec<String> {
        let most = self
            .left
            .map(|left| usize::try_from(left).unwrap_or(usize::MAX));
        let wanted = found.into_iter().filter(|record| self.wants(&record.event));
        let lines: Vec<_> = wanted
            .take(most.unwrap_or(usize::MAX))
            .map(|record| json(&to_api(record)))
            .collect();
        self.left = self.left.map(|left| left - lines.len() as u64);
        lines
    }

    fn wants(&self, event: &StoredEvent) -> bool {
        let workspace = self.workspace.as_ref();
        let is_of_workspace = workspace.is_none_or(|workspace| event.workspace == *workspace);
        let is_of_kind = self.kind.as_deref().is_none_or(|kind| {
            let rest = event.kind.strip_prefix(kind);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        });
        is_of_workspace && is_of_kind && self.caller.sees(&event.workspace)
    }
}

fn to_api(record: EventRecord) -> Event {
    Event {
        cursor: record.cursor,
        time: view::time(record.event.at),
        kind: record.event.kind,
        workspace: record.event.workspace.to_string(),
        detail: serde_json::from_str(&record.event.detail).unwrap_or_default(),
    }
}

fn json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
