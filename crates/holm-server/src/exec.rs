//! `GET /workspaces/{id}/exec`: a WebSocket between a client and a command inside. `/upload-pack` is the same for the one
//! command through which commits leave, which the daemon chooses.

use super::App;
use super::caller::Caller;
use super::failure::{Failure, Parameters, WorkspaceKey, bad_request};
use super::objects;
use axum::Extension;
use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use holm_api::exec::{CONTROL, Received, STDERR, STDIN, STDOUT, Start, ToClient, ToServer};
use holm_core::exec::{ExecInput, ExecOutput, ExecRequest, Resume};
use holm_core::head::object_id;
use holm_core::{Fault, RequestId, WorkspaceId};
use holm_engine::{Stopped, inside};
use holm_keeper::client::ExecStream;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use utoipa::IntoParams;

type Sink = SplitSink<WebSocket, Message>;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Named {
    /// The client's secret for reconnecting to the command.
    #[param(pattern = "^[0-9A-Za-z]{16,64}$")]
    key: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Fetched {
    /// The client's secret for reconnecting to the command.
    #[param(pattern = "^[0-9A-Za-z]{16,64}$")]
    key: Option<String>,
    /// The commit that is fetched.
    #[param(pattern = "^[0-9a-f]{40}([0-9a-f]{24})?$")]
    commit: String,
}

/// The time limit of a transfer.
const LONGEST_TRANSFER: Duration = Duration::from_secs(2 * 60 * 60);

/// Any object may be requested: the state of the working tree is on no ref. Progress messages of
/// upload-pack distinguish a blocked pack from one that takes long.
const UPLOAD_PACK: [&str; 10] = [
    "git",
    "-c",
    "uploadpack.allowAnySHA1InWant=true",
    "-c",
    "uploadpack.hideRefs=refs/",
    "-c",
    "uploadpack.keepAlive=0",
    "upload-pack",
    "--timeout=600",
    ".",
];

/// The first message: a new command, or a reconnect.
enum First {
    Start(Start),
    Resume(Received),
}

operations! {
    /// Runs a command inside: a WebSocket of binary messages, each one byte of channel and a payload
    /// (0: JSON of `ToServer` and `ToClient`, 1: stdin, 2: stdout, 3: stderr).
    get "/workspaces/{id}/exec" "workspace_exec" exec
        of (WorkspaceKey, Named) opens WebSocket;
    /// `git upload-pack` inside, for a fetch of one commit: a WebSocket as that of `exec`. Refused if an approval is
    /// demanded and the commit has another tree. The command of `start` is ignored.
    get "/workspaces/{id}/upload-pack" "workspace_upload_pack" upload_pack
        of (WorkspaceKey, Fetched) opens WebSocket;
}

async fn upload_pack(
    State(app): State<Arc<App>>,
    caller: Caller,
    request: Extension<RequestId>,
    key: WorkspaceKey,
    Parameters(fetched): Parameters<Fetched>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Failure> {
    let Fetched { key: name, commit } = fetched;
    let commit =
        object_id(commit.as_bytes()).ok_or_else(|| bad_request("`commit` is not an object id"))?;
    app.require_approved(&key.0, &commit).await?;
    let bytes = |word: &str| word.as_bytes().to_vec().into();
    let start = Start {
        argv: UPLOAD_PACK.iter().map(|word| bytes(word)).collect(),
        env: vec![(bytes("GIT_PROTOCOL"), bytes("version=2"))],
        timeout_ms: u64::try_from(LONGEST_TRANSFER.as_millis()).ok(),
        quiet_ms: u64::try_from(inside::quiet_transfer().as_millis()).ok(),
        ..Start::default()
    };
    open(app, caller, request.0, key.0, name, Some(start), upgrade)
}

async fn exec(
    State(app): State<Arc<App>>,
    caller: Caller,
    Extension(request): Extension<RequestId>,
    WorkspaceKey(id): WorkspaceKey,
    Parameters(Named { key }): Parameters<Named>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Failure> {
    open(app, caller, request, id, key, None, upgrade)
}

/// Opens the WebSocket for a command of the client, or for `chosen`.
fn open(
    app: Arc<App>,
    caller: Caller,
    request: RequestId,
    id: WorkspaceId,
    key: Option<String>,
    chosen: Option<Start>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Failure> {
    let upgrade = upgrade.map_err(|error| bad_request(error.body_text()))?;
    let is_key = |key: &str| {
        (16..=64).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    if !key.as_deref().is_none_or(is_key) {
        return Err(bad_request("`key` is not 16 to 64 letters and digits"));
    }
    let upgrade = upgrade.max_message_size(caller.largest_message());
    Ok(upgrade.on_upgrade(move |socket| async move {
        let (mut sink, stream) = socket.split();
        match converse(&app, &id, key, chosen, &mut sink, stream).await {
            Ok(Some(code)) => app.audit.ended(&request, None, Ok(format!("exit {code}"))),
            Ok(None) => app.audit.ended(&request, None, Ok("left".to_owned())),
            Err(fault) => {
                let body = caller.error_body(&app.paths, &fault);
                send_control(&mut sink, &ToClient::Error(body.error)).await;
                app.audit.ended(&request, None, Err(fault.code));
            }
        }
        // Fails only when the client is gone.
        let _ = sink.close().await;
    }))
}

async fn converse(
    app: &App,
    id: &WorkspaceId,
    key: Option<String>,
    chosen: Option<Start>,
    sink: &mut Sink,
    mut stream: SplitStream<WebSocket>,
) -> Result<Option<u8>, Fault> {
    // A client may disconnect before its first message.
    let Some(first) = first(&mut stream).await else {
        return Ok(None);
    };
    let first = match (first?, chosen) {
        (First::Start(_), Some(chosen)) => First::Start(chosen),
        (first, _) => first,
    };
    let command = begin(app, id, key, first).await?;
    // A client that has seen output sees in a list what the command did.
    run(command, sink, stream, || app.engine.mark(id)).await
}

/// The first message must start a command or reconnect.
async fn first(stream: &mut SplitStream<WebSocket>) -> Option<Result<First, Fault>> {
    loop {
        match stream.next().await?.ok()? {
            Message::Binary(bytes) => {
                return Some(match parse(&bytes) {
                    Ok(ClientMessage::Control(ToServer::Start(start))) => Ok(First::Start(start)),
                    Ok(ClientMessage::Control(ToServer::Resume(received))) => {
                        Ok(First::Resume(received))
                    }
                    Ok(_) => Err(bad_request("the first message is not `start`").0),
                    Err(failure) => Err(failure.0),
                });
            }
            Message::Text(_) => return Some(Err(bad_request("messages are binary").0)),
            Message::Close(_) => return None,
            Message::Ping(_) | Message::Pong(_) => {}
        }
    }
}

async fn begin(
    app: &App,
    id: &WorkspaceId,
    key: Option<String>,
    first: First,
) -> Result<ExecStream, Fault> {
    let (start, key) = match (first, key) {
        (First::Start(start), key) => {
            app.require_within_policy(id).await?;
            (start, key)
        }
        (First::Resume(Received { stdout, stderr }), Some(key)) => {
            let resume = Resume {
                key,
                stdout,
                stderr,
            };
            return app.engine.resume(id, resume).await;
        }
        (First::Resume(_), None) => return Err(bad_request("`resume` without a key").0),
    };
    let stopped = if start.no_start {
        Stopped::Refuse
    } else {
        Stopped::Start
    };
    let request = ExecRequest {
        key,
        ..start.into()
    };
    app.engine.exec(id, checked(request)?, stopped).await
}

async fn run(
    command: ExecStream,
    sink: &mut Sink,
    stream: SplitStream<WebSocket>,
    mark: impl Fn(),
) -> Result<Option<u8>, Fault> {
    let input_passed = pass_input(stream, command.input.clone());
    let output_passed = pass_output(command.output, sink, mark);
    tokio::pin!(input_passed, output_passed);
    tokio::select! {
        biased;
        ended = &mut output_passed => ended,
        left = &mut input_passed => {
            // The command gets a hangup; no client is left to receive its end.
            let _ = command.input.send(ExecInput::Hangup).await;
            left.map(|()| None)
        }
    }
}

fn checked(request: ExecRequest) -> Result<ExecRequest, Fault> {
    if request.argv.is_empty() {
        return Err(bad_request("`argv` is empty").0);
    }
    let variables = request.env.iter().flat_map(|(name, value)| [name, value]);
    let has_zero = {
        let mut words = request.argv.iter().chain(variables).chain(&request.cwd);
        words.any(|word| word.contains(&0))
    };
    if has_zero {
        return Err(bad_request("a word has a zero byte").0);
    }
    let is_name = |name: &[u8]| !name.is_empty() && !name.contains(&b'=');
    if !request.env.iter().all(|(name, _)| is_name(name)) {
        return Err(bad_request("a variable has no name, or one with `=`").0);
    }
    Ok(request)
}

enum ClientMessage {
    Stdin(Vec<u8>),
    Control(ToServer),
}

fn parse(message: &[u8]) -> Result<ClientMessage, Failure> {
    match message.split_first() {
        Some((&STDIN, bytes)) => Ok(ClientMessage::Stdin(bytes.to_vec())),
        Some((&CONTROL, json)) => match objects::from_slice(json) {
            Ok(control) => Ok(ClientMessage::Control(control)),
            Err(error) => Err(bad_request(error)),
        },
        Some((channel, _)) => Err(bad_request(format!("there is no channel {channel}"))),
        None => Err(bad_request("a message is empty")),
    }
}

/// Passes on the client's messages. Ends when the client disconnects or sends an invalid one.
async fn pass_input(
    mut stream: SplitStream<WebSocket>,
    input: mpsc::Sender<ExecInput>,
) -> Result<(), Fault> {
    while let Some(Ok(message)) = stream.next().await {
        let said = match message {
            Message::Binary(bytes) => parse(&bytes).map_err(|failure| failure.0)?,
            Message::Text(_) => return Err(bad_request("messages are binary").0),
            Message::Close(_) => return Ok(()),
            Message::Ping(_) | Message::Pong(_) => continue,
        };
        let input_message = match said {
            ClientMessage::Stdin(bytes) => ExecInput::Stdin(bytes),
            ClientMessage::Control(ToServer::StdinEof) => ExecInput::StdinEof,
            ClientMessage::Control(ToServer::Resize { rows, cols }) => {
                ExecInput::Resize { rows, cols }
            }
            ClientMessage::Control(ToServer::Signal(number)) => ExecInput::Signal(number),
            ClientMessage::Control(ToServer::Taken(Received { stdout, stderr })) => {
                ExecInput::Taken { stdout, stderr }
            }
            ClientMessage::Control(ToServer::Start(_) | ToServer::Resume(_)) => {
                return Err(bad_request("a command was asked for twice").0);
            }
        };
        // A command that has ended reads nothing; its exit is on its way.
        if input.send(input_message).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
    Ok(())
}

/// Passes on the command's output up to its end, and returns how it ended.
async fn pass_output(
    mut output: mpsc::Receiver<ExecOutput>,
    sink: &mut Sink,
    mark: impl Fn(),
) -> Result<Option<u8>, Fault> {
    while let Some(message) = output.recv().await {
        mark();
        match message {
            ExecOutput::Started => send_control(sink, &ToClient::Started).await,
            ExecOutput::Kept => send_control(sink, &ToClient::Kept).await,
            ExecOutput::Resumed { received, taken } => {
                send_control(sink, &ToClient::Resumed { received, taken }).await;
            }
            ExecOutput::Stdout(bytes) => send(sink, STDOUT, &bytes).await,
            ExecOutput::Stderr(bytes) => send(sink, STDERR, &bytes).await,
            ExecOutput::StdinTaken(bytes) => send_control(sink, &ToClient::StdinTaken(bytes)).await,
            ExecOutput::Exit(code) => {
                send_control(sink, &ToClient::Exit { code }).await;
                return Ok(Some(code));
            }
            ExecOutput::Failed(fault) => return Err(fault),
        }
    }
    let hint = "`holm show` says whether the workspace still runs";
    let message = "the workspace ended before the command did";
    Err(Fault::new(holm_core::Code::ExecFailed, message, hint))
}

async fn send_control(sink: &mut Sink, message: &ToClient) {
    let json = serde_json::to_vec(message).unwrap_or_default();
    send(sink, CONTROL, &json).await;
}

async fn send(sink: &mut Sink, channel: u8, payload: &[u8]) {
    let mut message = BytesMut::with_capacity(payload.len() + 1);
    message.extend_from_slice(&[channel]);
    message.extend_from_slice(payload);
    let bytes: Bytes = message.freeze();
    // The reading side notices when the client is gone.
    let _ = sink.send(Message::Binary(bytes)).await;
}
