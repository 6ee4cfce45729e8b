//! `GET /projects/{id}/receive-pack`: a push into the daemon's bare repository, for clients that
//! cannot hard-link. git runs sealed; this copies its bytes.

use super::App;
use super::failure::{Failure, ProjectKey, bad_request, error_body};
use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use holm_api::project::PACK_EOF;
use holm_core::{Cause, Code, Fault};
use holm_engine::try_blocking;
use std::process::Stdio;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

const CHUNK: usize = 64 * 1024;

operations! {
    /// A push into the daemon's copy of the repository: a WebSocket whose binary messages are the bytes
    /// of git's receive-pack. The client's text message `eof` ends its side.
    get "/projects/{id}/receive-pack" "project_receive_pack" receive_pack
        of (ProjectKey) opens WebSocket;
}

async fn receive_pack(
    State(app): State<Arc<App>>,
    ProjectKey(id): ProjectKey,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Failure> {
    let upgrade = upgrade.map_err(|error| bad_request(error.body_text()))?;
    let project = app.engine.project(&id).await?;
    let repositories = app.repositories.clone();
    let command = try_blocking(move || Ok(repositories.open(&project)?.receive_pack()?)).await?;
    Ok(upgrade.on_upgrade(move |socket| push(socket, command.into())))
}

async fn push(socket: WebSocket, mut command: Command) {
    let (mut sink, stream) = socket.split();
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let result = match command.spawn() {
        Ok(child) => converse(child, &mut sink, stream).await,
        Err(error) => Err(failed(error)),
    };
    let last = match result {
        Ok(()) => Message::Close(Some(CloseFrame {
            code: close_code::NORMAL,
            reason: Utf8Bytes::default(),
        })),
        Err(fault) => {
            let body = serde_json::to_string(&error_body(&fault));
            Message::text(body.unwrap_or_default())
        }
    };
    // The client may be gone.
    let _ = sink.send(last).await;
    let _ = sink.close().await;
}

async fn converse(
    mut child: Child,
    sink: &mut SplitSink<WebSocket, Message>,
    stream: SplitStream<WebSocket>,
) -> Result<(), Fault> {
    let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(failed("it has no input or output"));
    };
    let feeding = feed(stream, input);
    let hearing = hear(output, sink);
    tokio::pin!(feeding, hearing);
    let received = tokio::select! {
        received = &mut hearing => received,
        fed = &mut feeding => match fed {
            Fed::Eof => hearing.await,
            Fed::Gone => Err(failed("the client went away")),
        },
    };
    received?;
    match child.wait().await {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(failed(format!("it ended with {status}"))),
        Err(error) => Err(failed(error)),
    }
}

enum Fed {
    /// The client sends nothing more.
    Eof,
    Gone,
}

async fn feed(mut stream: SplitStream<WebSocket>, mut input: ChildStdin) -> Fed {
    while let Some(Ok(message)) = stream.next().await {
        match message {
            Message::Binary(bytes) => {
                // When git no longer reads, its answer and exit code say why.
                if input.write_all(&bytes).await.is_err() {
                    return Fed::Eof;
                }
            }
            Message::Text(text) if text.as_str() == PACK_EOF => return Fed::Eof,
            Message::Close(_) => return Fed::Gone,
            Message::Text(_) | Message::Ping(_) | Message::Pong(_) => {}
        }
    }
    Fed::Gone
}

async fn hear(
    mut output: ChildStdout,
    sink: &mut SplitSink<WebSocket, Message>,
) -> Result<(), Fault> {
    let mut chunk = vec![0; CHUNK];
    loop {
        let length = output.read(&mut chunk).await;
        match length.map_err(failed)? {
            0 => return Ok(()),
            length => {
                let bytes = Bytes::copy_from_slice(&chunk[..length]);
                let sent = sink.send(Message::Binary(bytes)).await;
                sent.map_err(|_| failed("the client went away"))?;
            }
        }
    }
}

fn failed(cause: impl Into<Cause>) -> Fault {
    Fault::new(
        Code::GitFailed,
        "`git receive-pack` failed",
        "try again; `git fsck` checks your repository",
    )
    .because(cause)
}
