//! Running a command inside, as values: what a client asks for and says, and what it hears. A keeper's
//! client moves them over channels.

use crate::Fault;
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Clone, Debug, Default)]
pub struct ExecRequest {
    pub argv: Vec<Vec<u8>>,
    /// Added to the workspace's own environment.
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    /// Absolute, or relative to `project.root`; `None` is `project.root`.
    pub cwd: Option<Vec<u8>>,
    pub terminal: Option<Terminal>,
    pub timeout: Option<Duration>,
    /// Of a program that holm itself runs: how long it may say nothing before it is ended, with
    /// everything that it started. A client that does not read stops this clock.
    pub quiet: Option<Duration>,
    /// A secret of the client's, by which it finds the command again when it lost its daemon.
    pub key: Option<String>,
    pub masking: Masking,
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

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Terminal {
    pub term: String,
    pub rows: u16,
    pub cols: u16,
}

/// What the client says to the command.
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
    /// How many bytes of the output the client has; said only after [`ExecOutput::Kept`].
    Taken {
        stdout: u64,
        stderr: u64,
    },
    /// The client went away on purpose: SIGHUP to the command's process group.
    Hangup,
}

/// What the command says to the client. `Exit` or `Failed` is the last.
#[derive(Debug)]
pub enum ExecOutput {
    Started,
    /// The command can be come back to by its key.
    Kept,
    /// The first answer to who came back: so many bytes of stdin have arrived, and so many of them
    /// were taken.
    Resumed {
        received: u64,
        taken: u64,
    },
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    /// So many more bytes of stdin were taken; the sender keeps at most [`STDIN_WINDOW`] in flight.
    StdinTaken(u64),
    /// 0–255 as a shell would say it: 124 time-out, 126/127, 128+n.
    Exit(u8),
    Failed(Fault),
}

/// How much of stdin may be under way before it is acknowledged.
pub const STDIN_WINDOW: u64 = 256 * 1024;
