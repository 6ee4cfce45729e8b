//! `/workspaces/{id}/services` and `/workspaces/{id}/logs`: states, requests and logs of services.
//!
//! Logs are read from the files that the keeper writes, so they are available when nothing runs,
//! and a slow client delays nothing.

use super::checks::log::PREFIX;
use super::failure::{Answer, Body, Failure, Parameters, WorkspaceKey, bad_request};
use super::jsonl::{self, LineTransport};
use super::{App, view};
use axum::Json;
use axum::body::Body as HttpBody;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use holm_api::service::{Action, LogLine, LogQuery, ServiceAct, ServiceList};
use holm_core::plan::Desired;
use holm_core::service::Wish;
use holm_core::service::status::Services;
use holm_core::{Fault, WorkspaceId};
use holm_keeper::client::LogReader;
use holm_keeper::logs::Record;
use holm_keeper::wire;
use jiff::Timestamp;
use serde::Deserialize;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use utoipa::IntoParams;

/// The size of a piece for a client, and how many may be in flight.
const PIECE: usize = 64 << 10;
const QUEUE: usize = 4;
/// How often a followed log is polled, and how often to check whether it may still grow.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
const ASK_AGAIN: Duration = Duration::from_secs(1);

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Watch {
    #[serde(default)]
    watch: bool,
}

/// What a client reads of logs.
struct Reading {
    logs: LogReader,
    /// Whether it may still grow; `None`: do not follow.
    growth: Option<watch::Receiver<Growth>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Growth {
    Possible,
    Over,
    /// The daemon ends, not the log: the response is cut off.
    CutOff,
}

/// Lines on their way to a client, batched, because single messages would be slow.
struct Outgoing {
    piece: Vec<u8>,
    client: mpsc::Sender<io::Result<Bytes>>,
}

operations! {
    [list, logs]
    /// Starts, stops or restarts a service; answers when that has begun.
    post "/workspaces/{id}/services" "service_act" act
        of (WorkspaceKey) sends ServiceAct -> ServiceList;
}

/// The states of the services.
#[utoipa::path(
    get,
    path = "/workspaces/{id}/services",
    operation_id = "service_list",
    params(WorkspaceKey, Watch),
    responses(
        (status = 200, content(
            (ServiceList = "application/json"),
            (ServiceList = "application/jsonl")
        )),
        (status = 101, description = "a WebSocket with the lines of `watch`")
    )
)]
async fn list(
    State(app): State<Arc<App>>,
    WorkspaceKey(id): WorkspaceKey,
    Parameters(parameters): Parameters<Watch>,
    transport: LineTransport,
) -> Result<Response, Failure> {
    if parameters.watch {
        let changes = app.engine.watch_services(&id).await?;
        let state = (changes, app.stop.subscribe());
        let lines = stream::unfold(state, |(mut changes, mut stop)| async move {
            let line = tokio::select! {
                services = changes.recv() => Ok(jsonl::line(&listed(services?))),
                _ = stop.wait_for(|is_stopping| *is_stopping) => Err(cut_off()),
            };
            Some((line, (changes, stop)))
        });
        return Ok(transport.response(HttpBody::from_stream(lines)));
    }
    Ok(Json(now(&app, &id).await?).into_response())
}

async fn act(
    State(app): State<Arc<App>>,
    WorkspaceKey(id): WorkspaceKey,
    Body(act): Body<ServiceAct>,
) -> Answer<ServiceList> {
    let wish = match act.action {
        Action::Start => Wish::Start,
        Action::Stop => Wish::Stop,
        Action::Restart => Wish::Restart,
    };
    app.engine.service(&id, &act.service, wish).await?;
    Ok(Json(now(&app, &id).await?))
}

/// The services' output, or that of the last run of a check (`check/NAME`).
#[utoipa::path(
    get,
    path = "/workspaces/{id}/logs",
    operation_id = "workspace_logs",
    params(WorkspaceKey, LogQuery),
    responses(
        (status = 200, description = "JSON Lines", content_type = "application/jsonl", body = LogLine),
        (status = 101, description = "a WebSocket with one or more of these lines in a message")
    )
)]
async fn logs(
    State(app): State<Arc<App>>,
    WorkspaceKey(id): WorkspaceKey,
    Parameters(parameters): Parameters<LogQuery>,
    transport: LineTransport,
) -> Result<Response, Failure> {
    let named = parameters
        .services
        .split(',')
        .filter(|name| !name.is_empty());
    let named: Vec<String> = named.map(str::to_owned).collect();
    if let Some(check) = named.iter().find_map(|name| name.strip_prefix(PREFIX)) {
        if named.len() > 1 {
            return Err(bad_request("the log of a check is read alone"));
        }
        let pieces = app.check_log(&id, check, &parameters).await?;
        return Ok(transport.response(pieces));
    }
    let services = app.engine.services_named(&id, &named).await?;
    let since = parameters.since.as_deref().map(since).transpose()?;
    let query = wire::LogQuery {
        services,
        // Records have whole microseconds.
        since_us: since.map(|since| since.as_nanos().div_ceil(1000) as u64),
        last: parameters.last,
    };
    let keeper = app.engine.reader(&id).await?;
    let reading = Reading {
        logs: keeper.logs(query).await?,
        growth: match parameters.follow {
            true => Some(watch_growth(Arc::clone(&app), id)),
            false => None,
        },
    };
    let (sender, receiver) = mpsc::channel(QUEUE);
    tokio::spawn(async move {
        let mut outgoing = Outgoing {
            piece: Vec::new(),
            client: sender,
        };
        match reading.run(&mut outgoing).await {
            Ok(()) => {}
            Err(_) if outgoing.client.is_closed() => {}
            Err(error) => {
                tracing::warn!(%error, "a log was not read to its end");
                // The client may be gone.
                let _ = outgoing.client.send(Err(error)).await;
            }
        }
    });
    let pieces = stream::unfold(receiver, |mut receiver: mpsc::Receiver<_>| async move {
        let piece: io::Result<Bytes> = receiver.recv().await?;
        Some((piece, receiver))
    });
    Ok(transport.response(HttpBody::from_stream(pieces)))
}

/// The current states.
async fn now(app: &App, id: &WorkspaceId) -> Result<ServiceList, Fault> {
    let found = app.engine.show(id).await?;
    let verdict = match app.engine.watch_services(id).await {
        Ok(mut changes) => changes.recv().await.map(|services| services.verdict),
        Err(_) => None,
    };
    Ok(ServiceList {
        services: view::workspace(found).services,
        verdict,
    })
}

fn listed(services: Services) -> ServiceList {
    ServiceList {
        services: services.services.into_iter().map(view::service).collect(),
        verdict: Some(services.verdict),
    }
}

/// Reports when the workspace has stopped, or the daemon stops.
fn watch_growth(app: Arc<App>, id: WorkspaceId) -> watch::Receiver<Growth> {
    let (tell, growth) = watch::channel(Growth::Possible);
    tokio::spawn(async move {
        let mut stop = app.stop.subscribe();
        let last = loop {
            tokio::select! {
                () = tokio::time::sleep(ASK_AGAIN) => {}
                _ = stop.wait_for(|is_stopping| *is_stopping) => break Growth::CutOff,
                () = tell.closed() => return,
            }
            let found = app.engine.show(&id).await;
            let is_wanted = |found: &holm_engine::View| {
                found.record.desired == Desired::Running && found.record.removed_at.is_none()
            };
            if !found.as_ref().is_ok_and(is_wanted) {
                break Growth::Over;
            }
        };
        tell.send_replace(last);
    });
    growth
}

fn cut_off() -> io::Error {
    io::Error::other("the daemon ends")
}

// === impl Reading ===

impl Reading {
    /// Until everything is told; an error when nobody listens any more.
    async fn run(mut self, outgoing: &mut Outgoing) -> io::Result<()> {
        loop {
            // Checked before reading, so that the last lines are sent.
            let growth = self.growth.as_ref().map(|growth| *growth.borrow());
            let read = self.logs.read().await;
            let read = read.map_err(|fault| io::Error::other(fault.message()))?;
            for (service, record) in read.items {
                outgoing.add(&service, record).await?;
            }
            outgoing.send().await?;
            match growth {
                Some(Growth::CutOff) => return Err(cut_off()),
                _ if read.has_more => {}
                None | Some(Growth::Over) => return Ok(()),
                Some(Growth::Possible) => tokio::time::sleep(LOOK_AGAIN).await,
            }
        }
    }
}

// === impl Outgoing ===

impl Outgoing {
    /// Blocks when too much is in flight.
    async fn add(&mut self, service: &str, record: Record) -> io::Result<()> {
        self.piece.extend(jsonl::line(&to_api(service, record)));
        if self.piece.len() < PIECE {
            Ok(())
        } else {
            self.send().await
        }
    }

    /// Sends what was added.
    async fn send(&mut self) -> io::Result<()> {
        let is_heard = match std::mem::take(&mut self.piece) {
            piece if piece.is_empty() => !self.client.is_closed(),
            piece => self.client.send(Ok(piece.into())).await.is_ok(),
        };
        if is_heard {
            Ok(())
        } else {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }
}

fn to_api(service: &str, record: Record) -> LogLine {
    let micros = i64::try_from(record.time.as_micros()).unwrap_or_default();
    let time = Timestamp::from_microsecond(micros);
    LogLine {
        time: format!("{:.6}", time.unwrap_or_default()),
        service: service.to_owned(),
        stream: record.stream.as_str().to_owned(),
        text: String::from_utf8_lossy(&record.text).into_owned(),
    }
}

/// A time of the API as time since the epoch.
fn since(text: &str) -> Result<Duration, Failure> {
    let time: Timestamp = text
        .parse()
        .map_err(|_| bad_request("`since` is not a time such as 2026-11-15T20:00:00Z"))?;
    Ok(Duration::try_from(time.as_duration()).unwrap_or_default())
}
