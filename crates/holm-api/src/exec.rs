//! Running a command inside: `GET /workspaces/{id}/exec`, a WebSocket.
//!
//! Every message is binary: one byte of channel, then the payload. On [`CONTROL`] the payload is
//! JSON: the client sends [`ToServer`] (first `start`), the server [`ToClient`] (last `exit` or
//! `error`). At most [`STDIN_WINDOW`] bytes of stdin may be unacknowledged.
//!
//! With `?key=` and a secret of its own, a client can reconnect when it loses the daemon: it opens
//! the same route again, sends `resume` instead of `start`, and receives [`ToClient::Resumed`]
//! first. After [`ToClient::Kept`] it acknowledges output ([`ToServer::Taken`]) at least every
//! [`OUTPUT_STEP`] bytes.

use crate::error::ErrorDetail;
use holm_core::exec::{ExecRequest, Masking, Terminal};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub const CONTROL: u8 = 0;
pub const STDIN: u8 = 1;
pub const STDOUT: u8 = 2;
pub const STDERR: u8 = 3;

pub const STDIN_WINDOW: u64 = 256 * 1024;

/// The client acknowledges output at least this often; the keeper buffers little more.
pub const OUTPUT_STEP: u64 = 64 * 1024;

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToServer {
    Start(Start),
    StdinEof,
    Resize { rows: u16, cols: u16 },
    Signal(i32),
    Resume(Received),
    Taken(Received),
}

/// How many bytes of a command's output a client has received since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Received {
    pub stdout: u64,
    pub stderr: u64,
}

/// Byte strings are sent as text if they are UTF-8 and as arrays of numbers otherwise.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Start {
    pub argv: Vec<Bytes>,
    #[serde(default)]
    pub env: Vec<(Bytes, Bytes)>,
    #[serde(default)]
    pub cwd: Option<Bytes>,
    #[serde(default)]
    pub terminal: Option<Terminal>,
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    /// End the command and everything it started when it prints nothing for this long. Set by programs
    /// of holm itself (`git upload-pack`), which do not get the variables of `[env]`.
    #[serde(default)]
    pub quiet_ms: Option<u64>,
    /// Fail instead of starting a stopped workspace.
    #[serde(default)]
    pub no_start: bool,
    /// Mask the workspace's secrets in the output, for clients that pass it on to others.
    #[serde(default)]
    pub mask: bool,
    /// A person opens a shell: the commands of a Dev Container for that run first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub attaches: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToClient {
    Started,
    /// The client can reconnect to the command.
    Kept,
    /// How many bytes of stdin have arrived, and how many of them the command has read.
    Resumed {
        received: u64,
        taken: u64,
    },
    StdinTaken(u64),
    Exit {
        code: u8,
    },
    Error(ErrorDetail),
}

/// A byte string of the operating system (an argument, a path).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum Bytes {
    Text(String),
    Raw(Vec<u8>),
}

// === impl Start ===

impl From<Start> for ExecRequest {
    fn from(start: Start) -> Self {
        Self {
            argv: raw(start.argv),
            env: raw_pairs(start.env),
            cwd: start.cwd.map(Vec::from),
            terminal: start.terminal,
            timeout_ms: start.timeout_ms,
            // Only holm's own programs are ended when they are silent.
            with_env: start.quiet_ms.is_none(),
            is_setup: false,
            is_at_home: false,
            attaches: start.attaches,
            quiet_ms: start.quiet_ms,
            key: None,
            masking: if start.mask {
                Masking::Words
            } else {
                Masking::Never
            },
        }
    }
}

/// The words of a command as bytes.
pub fn raw(words: Vec<Bytes>) -> Vec<Vec<u8>> {
    words.into_iter().map(Vec::from).collect()
}

/// Variables as bytes.
pub fn raw_pairs(variables: Vec<(Bytes, Bytes)>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let variables = variables.into_iter();
    variables
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

// === impl Bytes ===

impl Bytes {
    pub fn len(&self) -> usize {
        match self {
            Bytes::Text(text) => text.len(),
            Bytes::Raw(raw) => raw.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Bytes::Text(text),
            Err(error) => Bytes::Raw(error.into_bytes()),
        }
    }
}

impl From<Bytes> for Vec<u8> {
    fn from(bytes: Bytes) -> Self {
        match bytes {
            Bytes::Text(text) => text.into_bytes(),
            Bytes::Raw(raw) => raw,
        }
    }
}
