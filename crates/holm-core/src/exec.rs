//! Running a command inside: the request, the client's messages to the command, and the command's
//! messages to the client. A keeper's client moves them over channels.

use crate::Fault;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A command to run, also on the wire between daemon and keeper.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ExecRequest {
    pub argv: Vec<Vec<u8>>,
    /// Added to the workspace's own environment.
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    /// Absolute, or relative to `project.root`; `None` is `project.root`.
    pub cwd: Option<Vec<u8>>,
    pub terminal: Option<Terminal>,
    pub timeout_ms: Option<u64>,
    /// The keeper ends the command and everything it started when it prints nothing for this long.
    /// Time in which the client does not read does not count.
    #[serde(default)]
    pub quiet_ms: Option<u64>,
    /// The client's secret for reconnecting. The client acknowledges output ([`ExecInput::Taken`])
    /// after the keeper announced that it supports this ([`ExecOutput::Kept`]).
    #[serde(default)]
    pub key: Option<String>,
    #[serde(default)]
    pub masking: Masking,
    /// Whether the program gets the variables of `[env]`. Programs that holm runs for itself do not.
    #[serde(default)]
    pub with_env: bool,
    /// It is a command of `setup`, which may be a receiver of secrets.
    #[serde(default)]
    pub is_setup: bool,
    /// It prepares the home of people's and agents' programs, so it runs where they run.
    #[serde(default)]
    pub is_at_home: bool,
    /// A person opens a shell: a Dev Container may have commands for that.
    #[serde(default)]
    pub attaches: bool,
}

/// What becomes of the workspace's secrets in the output of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Masking {
    /// They come as they are.
    #[default]
    Never,
    /// Each secret is replaced by a word.
    Words,
    /// Each byte of a secret is replaced by a star, for readers that rely on the length.
    Bytes,
}

/// A client that lost its daemon: its command's key, and how much of the output it has.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Resume {
    pub key: String,
    pub stdout: u64,
    pub stderr: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Terminal {
    pub term: String,
    pub rows: u16,
    pub cols: u16,
}

/// A message of the client to the command. Stdin has its own channel on the wire, the others are
/// JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecInput {
    #[serde(skip)]
    Stdin(Vec<u8>),
    StdinEof,
    Resize {
        rows: u16,
        cols: u16,
    },
    /// A signal number, to the command's process group.
    Signal(i32),
    /// How many bytes of the output the client has; sent only after [`ExecOutput::Kept`].
    Taken {
        stdout: u64,
        stderr: u64,
    },
    /// The client went away on purpose: SIGHUP to the command's process group.
    Hangup,
}

/// A message of the command to the client. `Exit` or `Failed` is the last.
#[derive(Debug)]
pub enum ExecOutput {
    Started,
    /// The client can reconnect to the command with its key.
    Kept,
    /// The first message after a reconnect: how many bytes of stdin have arrived, and how many of
    /// them the command has read.
    Resumed {
        received: u64,
        taken: u64,
    },
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    /// The command has read this many more bytes of stdin; the sender keeps at most
    /// [`STDIN_WINDOW`] in flight.
    StdinTaken(u64),
    /// 0–255 as in a shell: 124 time-out, 126/127, 128+n.
    Exit(u8),
    Failed(Fault),
}

/// How many bytes of stdin may be unacknowledged.
pub const STDIN_WINDOW: u64 = 256 * 1024;
