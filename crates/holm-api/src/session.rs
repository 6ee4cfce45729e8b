//! Sessions: terminals with a program in them that outlive clients and the daemon.
//!
//! - `GET    /sessions` → [`SessionList`] of all workspaces
//! - `GET    /workspaces/{id}/sessions` → [`SessionList`]
//! - `POST   /workspaces/{id}/sessions` ([`NewSession`]) → [`Session`]
//! - `GET    /workspaces/{id}/sessions/{session}` → [`Session`]
//! - `DELETE /workspaces/{id}/sessions/{session}` → [`SessionList`] of the sessions that ended:
//!   this one and its descendants
//! - `POST   /workspaces/{id}/sessions/{session}/send` ([`SendInput`]) → [`Sent`]
//! - `GET    /workspaces/{id}/sessions/{session}/read?since=CURSOR` →
//!   [`ReadText`](holm_core::session::protocol::ReadText); without
//!   `since`:
//!   the screen
//! - `POST   /workspaces/{id}/sessions/{session}/wait` ([`Wait`]) →
//!   [`Waited`](holm_core::session::protocol::Waited)
//! - `GET    /workspaces/{id}/sessions/{session}/attach?…` ([`Attach`]): a WebSocket
//!
//! `{session}` takes ids only. A cursor is a position in the session's output as text; it
//! increases, and `send`, `read` and `wait` return it. Output of a program never reaches a client
//! unfiltered: text has no control characters except line ends and tabs, and an attached terminal
//! gets a new drawing of the session's screen.
//!
//! Messages of the WebSocket are binary: one byte of channel, then the payload. On [`CONTROL`] it
//! is JSON: the client sends [`AttachToServer`], the server [`AttachToClient`], first `attached`
//! and last `ended` or `error`. On [`OUTPUT`] the server sends drawing sequences (or text, if the
//! client asked for text), on [`INPUT`] the client sends keys.

use crate::error::ErrorDetail;
use crate::exec::Bytes;
use holm_core::session::protocol::{AttachInput, AttachMessage, Session};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::{IntoParams, ToSchema};

pub const CONTROL: u8 = 0;
pub const INPUT: u8 = 1;
pub const OUTPUT: u8 = 2;

/// The longest time for one request; the client's method repeats it.
pub const LONGEST_WAIT_MS: u64 = 50_000;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SessionList {
    pub sessions: Vec<Session>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSession {
    /// Empty: the agent's command, or a shell.
    #[serde(default)]
    pub command: Vec<Bytes>,
    #[serde(default)]
    pub agent: Option<String>,
    /// 1–40 of a-z, 0-9 and -; unique among the live sessions of the workspace.
    #[serde(default)]
    pub name: Option<String>,
    /// The id of a session of the same workspace.
    #[serde(default)]
    pub parent: Option<String>,
    #[serde(default)]
    pub env: Vec<(Bytes, Bytes)>,
    /// Values of the caller's variables. The agent gets those that `[agents.X] env` in the user's
    /// settings names; for a missing one, the daemon's own value.
    #[serde(default)]
    pub agent_env: BTreeMap<String, String>,
    #[serde(default)]
    pub cwd: Option<Bytes>,
    /// Default: 24.
    #[serde(default)]
    pub rows: Option<u16>,
    /// Default: 80.
    #[serde(default)]
    pub cols: Option<u16>,
    /// Fail instead of starting a stopped workspace.
    #[serde(default)]
    pub no_start: bool,
}

/// Typed at once, in this order: the text, the keys, Enter.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SendInput {
    #[serde(default)]
    pub text: Option<Bytes>,
    /// Enter, Escape, Tab, Backspace, Up, Down, Left, Right, Home, End, PageUp, PageDown, Insert,
    /// Delete, Space, F1 to F12, C-a to C-z (ctrl), M-x (alt).
    #[serde(default)]
    pub keys: Vec<String>,
    /// Whether to type Enter afterwards.
    #[serde(default)]
    pub enter: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Sent {
    /// The end of the output before this was typed.
    pub cursor: u64,
}

/// Conditions to wait for: the first one that holds, or the program's end.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Wait {
    /// The program printed nothing for this long.
    #[serde(default)]
    pub idle_ms: Option<u64>,
    /// A regular expression that the output contains; `^` and `$` match at line ends.
    #[serde(default, rename = "for")]
    pub pattern: Option<String>,
    /// The cursor to search from; default: the last `send`, or the beginning.
    #[serde(default)]
    pub since: Option<u64>,
    /// At most [`LONGEST_WAIT_MS`], which is the default.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
}

/// The parameters of `attach`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Attach {
    /// The size of the client's terminal; default: the session's size.
    #[serde(default)]
    pub rows: Option<u16>,
    #[serde(default)]
    pub cols: Option<u16>,
    /// The client never writes.
    #[serde(default)]
    pub read_only: bool,
    /// Take over writing from the client that has it.
    #[serde(default)]
    pub take: bool,
    /// Send text from this cursor on instead of drawing sequences. Such a client cannot write.
    #[serde(default)]
    pub since: Option<u64>,
    /// The name that other clients see.
    #[serde(default)]
    pub name: Option<String>,
    /// The client's secret for reconnecting after it loses the daemon: 16 to 64 letters and digits.
    #[serde(default)]
    pub key: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttachToServer {
    Resize { rows: u16, cols: u16 },
    Take,
    Redraw,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum AttachToClient {
    Message(AttachMessage),
    Error { error: ErrorDetail },
}

// === impl AttachToServer ===

impl From<AttachToServer> for AttachInput {
    fn from(message: AttachToServer) -> Self {
        match message {
            AttachToServer::Resize { rows, cols } => AttachInput::Resize { rows, cols },
            AttachToServer::Take => AttachInput::Take,
            AttachToServer::Redraw => AttachInput::Redraw,
        }
    }
}
