//! Commands inside a workspace, as values on channels. The driver copies the bytes.

use holm_core::Fault;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tokio::sync::mpsc;

#[derive(Clone, Debug, Default)]
pub struct ExecRequest {
    pub argv: Vec<Vec<u8>>,
    /// Added to the workspace's own environment.
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    /// Absolute, or relative to `project.root`; `None` is `project.root`.
    pub cwd: Option<Vec<u8>>,
    pub terminal: Option<Terminal>,
    pub timeout: Option<Duration>,
    /// For a program that holm itself runs: how long it may be silent before it is ended with
    /// everything it started. The clock stops while the client does not read.
    pub quiet: Option<Duration>,
    /// The client's secret for reconnecting to the command.
    pub key: Option<String>,
    pub masking: Masking,
}

/// How the workspace's secrets appear in a command's output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Masking {
    /// Unmasked.
    #[default]
    Never,
    /// A word in place of each.
    Words,
    /// A star in place of each byte, because the reader counts bytes.
    Bytes,
}

/// A client that reconnects: its command's key, and how much output it has.
#[derive(Clone, Debug)]
pub struct Resume {
    pub key: String,
    pub stdout: u64,
    pub stderr: u64,
}

#[derive(Clone, Debug)]
pub struct Terminal {
    pub term: String,
    pub rows: u16,
    pub cols: u16,
}

/// Messages from the client to the command.
#[derive(Debug)]
pub enum ExecInput {
    Stdin(Vec<u8>),
    StdinEof,
    Resize {
        rows: u16,
        cols: u16,
    },
    /// A signal number, to the command's process group.
    Signal(i32),
    /// How many bytes of output the client has; only after [`ExecOutput::Kept`].
    Taken {
        stdout: u64,
        stderr: u64,
    },
    /// The client disconnected on purpose: SIGHUP to the command's process group.
    Hangup,
}

/// Messages from the command to the client. `Exit` or `Failed` is the last.
#[derive(Debug)]
pub enum ExecOutput {
    Started,
    /// The client can reconnect with its key.
    Kept,
    /// The first message after a reconnect: how many bytes of stdin have arrived, and how many of
    /// them the command has read.
    Resumed {
        received: u64,
        taken: u64,
    },
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    /// The command read this many more bytes of stdin; the sender keeps at most [`STDIN_WINDOW`] in
    /// flight.
    StdinTaken(u64),
    /// 0–255 as in a shell: 124 time-out, 126/127, 128+n.
    Exit(u8),
    Failed(Fault),
}

/// How many bytes of stdin may be unacknowledged.
pub const STDIN_WINDOW: u64 = 256 * 1024;

#[derive(Debug)]
pub struct ExecStream {
    pub input: mpsc::Sender<ExecInput>,
    pub output: mpsc::Receiver<ExecOutput>,
}
