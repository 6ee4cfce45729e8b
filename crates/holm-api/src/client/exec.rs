//! The client's end of `GET /workspaces/{id}/exec`.

use super::Client;
use super::query::escaped;
use super::transport::not_json;
use super::websocket::{self, Incoming, Outgoing, Socket};
use crate::exec::{CONTROL, Received, STDERR, STDIN, STDOUT, Start, ToClient, ToServer};
use crate::{ErrorBody, TYPED, WORKSPACE};
use bytes::Bytes;
use futures_util::StreamExt;
use holm_core::{Code, Fault, WorkspaceId};
use hyper::header::HeaderValue;

/// No workspace has a longer name, also with its project.
const LONGEST_NAME: usize = 512;

/// A running command. Split it to send and receive at the same time.
#[derive(Debug)]
pub struct ExecSocket {
    pub sender: ExecSender,
    pub receiver: ExecReceiver,
}

/// Sends to the command. Dropping both halves closes the connection.
#[derive(Debug)]
pub struct ExecSender(Outgoing);

/// Receives from the command.
#[derive(Debug)]
pub struct ExecReceiver(Incoming);

/// An event of a command. `Exit` is the last; a failure is an `Err`.
#[derive(Clone, Debug, PartialEq)]
pub enum ExecEvent {
    Started,
    /// The client can reconnect to the command with its key.
    Kept,
    /// The first event after a reconnect; see [`Client::resume`].
    Resumed {
        received: u64,
        taken: u64,
    },
    Stdout(Bytes),
    Stderr(Bytes),
    /// The command read this many more bytes of stdin; see [`crate::exec::STDIN_WINDOW`].
    StdinTaken(u64),
    Exit(u8),
}

// === impl Client ===

impl Client {
    /// Runs a command inside a workspace.
    pub async fn exec(&self, id: &WorkspaceId, start: Start) -> Result<ExecSocket, Fault> {
        let route = format!("/workspaces/{id}/exec");
        self.converse(&route, &ToServer::Start(start)).await
    }

    /// Like [`Client::exec`], and the client can reconnect to the command if it loses the daemon.
    /// `key` is a secret that it never used before. An older daemon or workspace does not send
    /// [`ExecEvent::Kept`]; then reconnecting is impossible.
    pub async fn exec_kept(
        &self,
        id: &WorkspaceId,
        key: &str,
        start: Start,
    ) -> Result<ExecSocket, Fault> {
        let route = format!("/workspaces/{id}/exec?key={key}");
        self.converse(&route, &ToServer::Start(start)).await
    }

    /// Runs `git upload-pack` inside, to fetch `commit`. Refused if an approval is demanded that its tree does not
    /// have. The client can reconnect as with [`Client::exec_kept`].
    pub async fn upload_pack(
        &self,
        id: &WorkspaceId,
        key: &str,
        commit: &str,
    ) -> Result<ExecSocket, Fault> {
        let commit = escaped(commit);
        let route = format!("/workspaces/{id}/upload-pack?key={key}&commit={commit}");
        self.converse(&route, &ToServer::Start(Start::default()))
            .await
    }

    /// As [`Client::exec_kept`], in a workspace as a person typed it; returns its id too. The daemon
    /// finds only what is unique among all projects: `workspace_not_found` and `ambiguous` may mean
    /// that the caller has to resolve the text itself. An older daemon always answers so.
    pub async fn exec_typed(
        &self,
        typed: &str,
        key: &str,
        start: Start,
    ) -> Result<(WorkspaceId, ExecSocket), Fault> {
        let header = typed_header(typed)?;
        let route = format!("/workspaces/{TYPED}/exec?key={key}");
        let opened = websocket::open_at(&self.transport, &route, Some(&header));
        let (socket, response) = opened.await?;
        let id = response.headers().get(WORKSPACE);
        let id = id.and_then(|id| WorkspaceId::parse(id.to_str().ok()?).ok());
        let id = id.ok_or_else(|| unknown(typed))?;
        Ok((id, begin(socket, &ToServer::Start(start)).await?))
    }

    /// Reconnects to a command and continues its output after `heard`. The first event is
    /// [`ExecEvent::Resumed`], which says from where to continue stdin.
    pub async fn resume(
        &self,
        id: &WorkspaceId,
        key: &str,
        received: Received,
    ) -> Result<ExecSocket, Fault> {
        let route = format!("/workspaces/{id}/exec?key={key}");
        self.converse(&route, &ToServer::Resume(received)).await
    }

    async fn converse(&self, route: &str, first: &ToServer) -> Result<ExecSocket, Fault> {
        begin(websocket::open(&self.transport, route).await?, first).await
    }
}

/// The value of [`WORKSPACE`].
pub(super) fn typed_header(typed: &str) -> Result<HeaderValue, Fault> {
    if typed.len() > LONGEST_NAME {
        return Err(unknown(typed));
    }
    HeaderValue::from_str(typed).map_err(|_| unknown(typed))
}

fn unknown(typed: &str) -> Fault {
    let message = format!("no workspace `{}`", typed.escape_debug());
    Fault::new(Code::WorkspaceNotFound, message, "`holm ls` lists them")
}

async fn begin(socket: Socket, first: &ToServer) -> Result<ExecSocket, Fault> {
    let (sink, stream) = socket.split();
    let mut sender = ExecSender(sink);
    sender.control(first).await?;
    Ok(ExecSocket {
        sender,
        receiver: ExecReceiver(stream),
    })
}

// === impl ExecSender ===

impl ExecSender {
    /// Sends bytes of stdin. The caller must respect the window.
    pub async fn stdin(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        websocket::say(&mut self.0, STDIN, bytes).await
    }

    pub async fn stdin_eof(&mut self) -> Result<(), Fault> {
        self.control(&ToServer::StdinEof).await
    }

    pub async fn resize(&mut self, rows: u16, cols: u16) -> Result<(), Fault> {
        self.control(&ToServer::Resize { rows, cols }).await
    }

    /// Sends a signal to the command's process group.
    pub async fn signal(&mut self, number: i32) -> Result<(), Fault> {
        self.control(&ToServer::Signal(number)).await
    }

    /// Acknowledges output; only after [`ExecEvent::Kept`].
    pub async fn taken(&mut self, received: Received) -> Result<(), Fault> {
        self.control(&ToServer::Taken(received)).await
    }

    async fn control(&mut self, message: &ToServer) -> Result<(), Fault> {
        let json = serde_json::to_vec(message).map_err(not_json)?;
        websocket::say(&mut self.0, CONTROL, &json).await
    }
}

// === impl ExecReceiver ===

impl ExecReceiver {
    pub async fn next(&mut self) -> Result<ExecEvent, Fault> {
        loop {
            let Some((channel, message)) = websocket::receive(&mut self.0).await? else {
                return Err(cut_off());
            };
            match channel {
                STDOUT => return Ok(ExecEvent::Stdout(message)),
                STDERR => return Ok(ExecEvent::Stderr(message)),
                CONTROL => return controlled(&message),
                // A channel that only a newer daemon knows.
                _ => continue,
            }
        }
    }
}

fn controlled(payload: &[u8]) -> Result<ExecEvent, Fault> {
    match serde_json::from_slice(payload).map_err(not_json)? {
        ToClient::Started => Ok(ExecEvent::Started),
        ToClient::Kept => Ok(ExecEvent::Kept),
        ToClient::Resumed { received, taken } => Ok(ExecEvent::Resumed { received, taken }),
        ToClient::StdinTaken(bytes) => Ok(ExecEvent::StdinTaken(bytes)),
        ToClient::Exit { code } => Ok(ExecEvent::Exit(code)),
        ToClient::Error(error) => Err(ErrorBody { error }.into()),
    }
}

fn cut_off() -> Fault {
    Fault::new(
        Code::DaemonUnreachable,
        "the daemon ended the connection before the command was done",
        "see `holm daemon status`; the command may still run inside",
    )
}
