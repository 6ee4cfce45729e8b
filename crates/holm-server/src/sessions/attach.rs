//! `GET /workspaces/{id}/sessions/{session}/attach`: a WebSocket between a client and a session.

use super::super::App;
use super::super::failure::{Failure, Parameters, SessionKey, bad_request, error_body};
use super::super::objects;
use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use bytes::BytesMut;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use holm_api::session::{Attach, AttachToClient, AttachToServer, CONTROL, INPUT, OUTPUT};
use holm_core::session::protocol::{self, AttachInput, AttachMessage, AttachOutput, Writing};
use holm_core::{Code, Fault, SessionId, WorkspaceId};
use holm_keeper::client::{AttachReader, AttachStream, AttachWriter};
use std::sync::Arc;

type Sink = SplitSink<WebSocket, Message>;

/// The longest name of a client.
const LONGEST_NAME: usize = 80;

operations! {
    /// Attaches to a session: a WebSocket of binary messages, each one byte of channel and a payload
    /// (0: JSON of `AttachToServer` and `AttachToClient`, 1: keys, 2: drawing sequences, or text).
    get "/workspaces/{id}/sessions/{session}/attach" "session_attach" attach
        of (SessionKey, Attach) opens WebSocket;
}

async fn attach(
    State(app): State<Arc<App>>,
    SessionKey(id, session): SessionKey,
    Parameters(attach): Parameters<Attach>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Failure> {
    let upgrade = upgrade.map_err(|error| bad_request(error.body_text()))?;
    let is_key = |key: &str| {
        (16..=64).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    if !attach.key.as_deref().is_none_or(is_key) {
        return Err(bad_request("`key` is not 16 to 64 letters and digits"));
    }
    let wanted = wanted(&session, attach);
    Ok(upgrade.on_upgrade(move |socket| converse(app, id, wanted, socket)))
}

fn wanted(session: &SessionId, attach: Attach) -> protocol::Attach {
    let name = attach.name.unwrap_or_default();
    let name = name.chars().filter(|one| !one.is_control());
    let name: String = name.take(LONGEST_NAME).collect();
    protocol::Attach {
        session: session.to_string(),
        size: attach.rows.zip(attach.cols),
        writing: match (attach.read_only, attach.take) {
            (true, _) => Writing::Never,
            (false, true) => Writing::Take,
            (false, false) => Writing::IfFree,
        },
        since: attach.since,
        name: if name.is_empty() {
            "a client of the API".to_owned()
        } else {
            name
        },
        key: attach.key,
    }
}

async fn converse(app: Arc<App>, id: WorkspaceId, wanted: protocol::Attach, socket: WebSocket) {
    let (mut sink, stream) = socket.split();
    let name = wanted.session.clone();
    let result = match app.engine.attach_session(&id, wanted).await {
        Ok(session) => {
            // A client that has seen a message sees in a list what the message says.
            let mark = || app.engine.mark(&id);
            run(session, &name, &mut sink, stream, mark).await
        }
        Err(fault) => Err(fault),
    };
    if let Err(fault) = result {
        let last = match ended(&app, &id, &name, &fault).await {
            Some(ended) => ended,
            None => AttachToClient::Error {
                error: error_body(&fault).error,
            },
        };
        send_control(&mut sink, &last).await;
    }
    // Fails only when the client is gone.
    let _ = sink.close().await;
}

/// How a session ended, if that is why attaching failed.
async fn ended(app: &App, id: &WorkspaceId, name: &str, fault: &Fault) -> Option<AttachToClient> {
    if !matches!(fault.code, Code::SessionEnded | Code::NotRunning) {
        return None;
    }
    let mut sessions = app.engine.sessions(id).await.ok()?.into_iter();
    let session = sessions.find(|session| session.id == name)?;
    Some(AttachToClient::Message(AttachMessage::Ended {
        code: session.exit_code?,
        reason: session.reason,
    }))
}

async fn run(
    session: AttachStream,
    name: &str,
    sink: &mut Sink,
    stream: SplitStream<WebSocket>,
    mark: impl Fn(),
) -> Result<(), Fault> {
    let AttachStream { input, output } = session;
    // Neither is dropped in the middle of a message but at the end.
    tokio::select! {
        biased;
        ended = pass_output(output, name, sink, mark) => ended,
        left = pass_input(stream, input) => left,
    }
}

/// Passes on the client's messages, up to its end, and then detaches it.
async fn pass_input(
    mut stream: SplitStream<WebSocket>,
    mut input: AttachWriter,
) -> Result<(), Fault> {
    let left = pass_messages(&mut stream, &mut input).await;
    input.detach().await;
    left
}

/// Ends when the client disconnects or sends an invalid message.
async fn pass_messages(
    stream: &mut SplitStream<WebSocket>,
    input: &mut AttachWriter,
) -> Result<(), Fault> {
    while let Some(Ok(message)) = stream.next().await {
        let bytes = match message {
            Message::Binary(bytes) => bytes,
            Message::Text(_) => return Err(bad_request("messages are binary").0),
            Message::Close(_) => return Ok(()),
            Message::Ping(_) | Message::Pong(_) => continue,
        };
        let said = match bytes.split_first() {
            Some((&INPUT, keys)) => AttachInput::Keys(keys.to_vec()),
            Some((&CONTROL, json)) => match objects::from_slice::<AttachToServer>(json) {
                Ok(message) => message.into(),
                Err(error) => return Err(bad_request(error).0),
            },
            Some((channel, _)) => {
                return Err(bad_request(format!("there is no channel {channel}")).0);
            }
            None => return Err(bad_request("a message is empty").0),
        };
        // A session that has ended reads nothing; its end is on its way.
        if input.send(&said).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
    Ok(())
}

/// Passes on the session's messages, up to its end.
async fn pass_output(
    mut output: AttachReader,
    name: &str,
    sink: &mut Sink,
    mark: impl Fn(),
) -> Result<(), Fault> {
    loop {
        match output.next().await {
            AttachOutput::Output(bytes) => send(sink, OUTPUT, &bytes).await,
            AttachOutput::Message(mut message) => {
                if let AttachMessage::Attached { session, .. } = &mut message {
                    name.clone_into(session);
                }
                let is_last = matches!(message, AttachMessage::Ended { .. });
                mark();
                send_control(sink, &AttachToClient::Message(message)).await;
                if is_last {
                    return Ok(());
                }
            }
            AttachOutput::Failed(fault) => return Err(fault),
        }
    }
}

async fn send_control(sink: &mut Sink, message: &AttachToClient) {
    let json = serde_json::to_vec(message).unwrap_or_default();
    send(sink, CONTROL, &json).await;
}

async fn send(sink: &mut Sink, channel: u8, payload: &[u8]) {
    let mut message = BytesMut::with_capacity(payload.len() + 1);
    message.extend_from_slice(&[channel]);
    message.extend_from_slice(payload);
    // The reading side notices when the client is gone.
    let _ = sink.send(Message::Binary(message.freeze())).await;
}
