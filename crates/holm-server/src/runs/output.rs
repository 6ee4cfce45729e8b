//! `GET /workspaces/{id}/runs/{run}/output`: a WebSocket with a run's output, from a cursor on.
//!
//! It is read from the keeper's record at the client's own pace: a slow client delays nothing, and
//! is told how much it missed. A client that reconnects continues from its cursor.
//!
//! `GET /workspaces/{id}/runs/output` is the same for a run that is being created: the client opens it beside its request, and
//! has the first output while the disk still writes the row of the run.

use super::to_api;
use crate::App;
use crate::caller::Caller;
use crate::failure::{Failure, Parameters, RunKey, WorkspaceKey, bad_request};
use crate::keyed::IdempotencyKey;
use crate::view::time;
use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use futures_util::{Sink, SinkExt, Stream as Messages, StreamExt};
use holm_api::run::{RunEvent, RunPiece};
use holm_core::{Fault, RunId, WorkspaceId};
use holm_engine::RunProgress;
use holm_keeper::client::OutputReader;
use holm_keeper::runs::Stream;
use holm_keeper::runs::read::Piece;
use jiff::Timestamp;
use serde::Deserialize;
use std::sync::Arc;
use tokio::sync::watch;
use utoipa::IntoParams;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct From {
    /// The cursor to continue after; default: the beginning.
    after: Option<u64>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Keyed {
    /// The `Idempotency-Key` of the request that creates the run.
    key: String,
}

operations! {
    /// A run's output: a WebSocket of text messages, each a `RunEvent`; the last is `ended` or `error`.
    get "/workspaces/{id}/runs/{run}/output" "run_output" output
        of (RunKey, From) opens WebSocket;
    /// The output of the run that a request with this key creates. Waits for that request. The first message is `begun`,
    /// when the run's program has started, which is before the run is acknowledged.
    get "/workspaces/{id}/runs/output" "run_output_by_key" output_by_key
        of (WorkspaceKey, Keyed) opens WebSocket;
}

async fn output(
    State(app): State<Arc<App>>,
    caller: Caller,
    key: RunKey,
    Parameters(from): Parameters<From>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Failure> {
    let upgrade = upgrade.map_err(|error| bad_request(error.body_text()))?;
    app.engine.run(&key.0, &key.1).await?;
    Ok(upgrade.on_upgrade(move |socket| serve(app, caller, key, from.after.unwrap_or(0), socket)))
}

async fn output_by_key(
    State(app): State<Arc<App>>,
    caller: Caller,
    WorkspaceKey(id): WorkspaceKey,
    Parameters(Keyed { key }): Parameters<Keyed>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Failure> {
    let upgrade = upgrade.map_err(|error| bad_request(error.body_text()))?;
    let key = IdempotencyKey::parse("key", &key)?.of(&caller);
    let key = key.unwrap_or_default();
    Ok(upgrade.on_upgrade(move |mut socket| async move {
        let started = tokio::select! {
            started = app.engine.started_run(&id, &key) => started,
            () = gone(&mut socket) => return,
        };
        let (event, run) = match started {
            Ok(run) => (
                RunEvent::Begun(Box::new(to_api(run.as_ref().clone()))),
                Some(run),
            ),
            Err(fault) => (error(&app, &caller, &fault), None),
        };
        if let (Ok(()), Some(run)) = (send(&mut socket, &event).await, run) {
            serve(app, caller, RunKey(id, run.id.clone()), 0, socket).await;
        }
    }))
}

fn error(app: &App, caller: &Caller, fault: &Fault) -> RunEvent {
    RunEvent::Error(caller.error_body(&app.paths, fault).error)
}

/// A slow client waits here and delays nothing else. Fails when the client is gone.
async fn send(
    sink: &mut (impl Sink<Message, Error = axum::Error> + Unpin),
    event: &RunEvent,
) -> Result<(), axum::Error> {
    let json = serde_json::to_string(event).unwrap_or_default();
    sink.send(Message::Text(json.into())).await
}

async fn serve(
    app: Arc<App>,
    caller: Caller,
    RunKey(id, run): RunKey,
    after: u64,
    socket: WebSocket,
) {
    let (mut sink, mut stream) = socket.split();
    let progress = app.engine.run_progress(&run);
    let reader = async { app.engine.reader(&id).await?.run_output(&run, after).await };
    let reader = match reader.await {
        Ok(reader) => reader,
        Err(fault) => {
            // A client that went away does not need to hear it.
            let _ = send(&mut sink, &error(&app, &caller, &fault)).await;
            return;
        }
    };
    let mut output = OutputStream {
        progress,
        reader,
        app,
        id,
        run,
        is_over: false,
    };
    loop {
        let events = tokio::select! {
            events = output.next() => events,
            () = gone(&mut stream) => return,
        };
        let events = events.unwrap_or_else(|fault| {
            output.is_over = true;
            vec![error(&output.app, &caller, &fault)]
        });
        for event in events {
            if send(&mut sink, &event).await.is_err() {
                return;
            }
        }
        if output.is_over {
            // Fails only when the client is gone.
            let _ = sink.close().await;
            return;
        }
    }
}

/// Messages of a client are ignored; only its end matters.
async fn gone(stream: &mut (impl Messages<Item = Result<Message, axum::Error>> + Unpin)) {
    while let Some(Ok(message)) = stream.next().await {
        if matches!(message, Message::Close(_)) {
            return;
        }
    }
}

/// One client's position in a run's output.
struct OutputStream {
    app: Arc<App>,
    id: WorkspaceId,
    run: RunId,
    /// `None`: it has ended.
    progress: Option<watch::Receiver<RunProgress>>,
    reader: OutputReader,
    is_over: bool,
}

// === impl OutputStream ===

impl OutputStream {
    /// The next events, at least one.
    async fn next(&mut self) -> Result<Vec<RunEvent>, Fault> {
        loop {
            // Checked before the record is read, so that the record then has all output.
            let progress = self.progress.as_mut();
            let progress = progress.map(|progress| progress.borrow_and_update().clone());
            let has_ended = progress.as_ref().is_none_or(|progress| progress.is_over);
            if let Some(RunProgress {
                begun: Some(Err(fault)),
                ..
            }) = progress
            {
                return Err(fault);
            }
            let read = self.reader.read().await?;
            if !read.items.is_empty() {
                return Ok(read.items.into_iter().map(event).collect());
            }
            if has_ended {
                self.is_over = true;
                let record = self.app.engine.run(&self.id, &self.run).await?;
                return Ok(vec![RunEvent::Ended(Box::new(to_api(record)))]);
            }
            if let Some(progress) = &mut self.progress
                && progress.changed().await.is_err()
            {
                self.progress = None;
            }
        }
    }
}

fn event(piece: Piece) -> RunEvent {
    match piece {
        Piece::Missed { bytes, cursor } => RunEvent::Truncated { bytes, cursor },
        Piece::Output {
            cursor,
            time_ms,
            stream,
            bytes,
        } => RunEvent::Output(RunPiece {
            cursor,
            time: time(Timestamp::from_millisecond(time_ms).unwrap_or_default()),
            stream: match stream {
                Stream::Stdout => "stdout".to_owned(),
                Stream::Stderr => "stderr".to_owned(),
            },
            data: bytes.into(),
        }),
    }
}
