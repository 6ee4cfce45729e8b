//! Sessions: terminals with a program in them that outlive clients and the daemon.
//!
//! - `GET    /sessions` → [`SessionList`] of all workspaces
//! - `GET    /workspaces/{id}/sessions` → [`SessionList`]
//! - `POST   /workspaces/{id}/sessions` ([`NewSession`]) → [`Session`]
//! - `GET    /workspaces/{id}/sessions/{session}` → [`Session`]
//! - `DELETE /workspaces/{id}/sessions/{session}` → [`SessionList`] of what was ended: it, and
//!   sessions whose parent it is, and theirs
//! - `POST   /workspaces/{id}/sessions/{session}/send` ([`SendInput`]) → [`Sent`]
//! - `GET    /workspaces/{id}/sessions/{session}/read?since=CURSOR` → [`ReadText`]; without `since`:
//!   the screen
//! - `POST   /workspaces/{id}/sessions/{session}/wait` ([`Wait`]) → [`Waited`]
//! - `GET    /workspaces/{id}/sessions/{session}/attach?…` ([`Attach`]): a WebSocket
//!
//! `{session}` takes ids only. A cursor is a place in the session's output as text; it grows, and
//! `send`, `read` and `wait` give it. What a program inside writes never reaches a client as it is:
//! text has no control characters but line ends and tabs, and what an attached terminal gets is drawn
//! anew from the session's screen.
//!
//! Messages of the WebSocket are binary: one byte of channel, then the payload. On
//! [`CONTROL`] it is JSON: the client says [`AttachToServer`], the server [`AttachToClient`], first
//! `attached` and last `ended` or `error`. On [`OUTPUT`] the server sends what to draw (or, of a
//! client that asked for it, text), on [`INPUT`] the client sends keys.

use crate::error::ErrorDetail;
use crate::exec::Bytes;
use crate::id::{SessionId, WorkspaceId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::{IntoParams, ToSchema};

pub const CONTROL: u8 = 0;
pub const INPUT: u8 = 1;
pub const OUTPUT: u8 = 2;

/// So long may one request wait at most; the client's method asks again.
pub const LONGEST_WAIT_MS: u64 = 50_000;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Session {
    #[schema(value_type = SessionId)]
    pub id: String,
    /// The id of its workspace.
    #[schema(value_type = WorkspaceId)]
    pub workspace: String,
    #[schema(required)]
    pub name: Option<String>,
    /// The id of another session of the workspace.
    #[schema(required)]
    pub parent: Option<String>,
    #[schema(required)]
    pub agent: Option<String>,
    /// What is not UTF-8 in it is replaced.
    pub command: Vec<String>,
    /// running exited
    pub state: String,
    /// As a shell says it: 128+n ended by signal n.
    #[schema(required)]
    pub exit_code: Option<u8>,
    /// Why it ended, when it did not end by itself.
    #[schema(required)]
    pub reason: Option<String>,
    /// Its number inside, while it runs.
    #[schema(required)]
    pub pid: Option<i32>,
    pub created_at: String,
    #[schema(required)]
    pub ended_at: Option<String>,
    /// When it last wrote something.
    #[schema(required)]
    pub last_output_at: Option<String>,
    pub rows: u16,
    pub cols: u16,
    /// What the program calls its window.
    #[schema(required)]
    pub title: Option<String>,
    /// The end of its output.
    pub cursor: u64,
    /// What it last rang for, until somebody writes to it.
    #[schema(required)]
    pub attention: Option<Attention>,
    /// Who writes.
    #[schema(required)]
    pub writer: Option<String>,
    /// How many clients are attached.
    pub viewers: usize,
    /// What whoever started it should know.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Attention {
    pub time: String,
    /// None: it only rang the bell.
    #[schema(required)]
    pub text: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SessionList {
    pub sessions: Vec<Session>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSession {
    /// None: the agent's, or a shell.
    #[serde(default)]
    pub command: Vec<Bytes>,
    #[serde(default)]
    pub agent: Option<String>,
    /// 1–40 of a-z, 0-9 and -; of one live session of the workspace at a time.
    #[serde(default)]
    pub name: Option<String>,
    /// The id of a session of the same workspace.
    #[serde(default)]
    pub parent: Option<String>,
    #[serde(default)]
    pub env: Vec<(Bytes, Bytes)>,
    /// Values of the caller's variables. The agent gets those that `[agents.X] env` of the user's
    /// settings names; of one that is not here the daemon's own value.
    #[serde(default)]
    pub agent_env: BTreeMap<String, String>,
    #[serde(default)]
    pub cwd: Option<Bytes>,
    /// 24 when left out.
    #[serde(default)]
    pub rows: Option<u16>,
    /// 80 when left out.
    #[serde(default)]
    pub cols: Option<u16>,
    /// Refuse instead of starting a stopped workspace.
    #[serde(default)]
    pub no_start: bool,
}

/// Typed in one piece, in this order: the text, the keys, Enter.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SendInput {
    #[serde(default)]
    pub text: Option<Bytes>,
    /// Enter, Escape, Tab, Backspace, Up, Down, Left, Right, Home, End, PageUp, PageDown, Insert,
    /// Delete, Space, F1 to F12, C-a to C-z (ctrl), M-x (alt).
    #[serde(default)]
    pub keys: Vec<String>,
    /// Whether Enter is typed behind it.
    #[serde(default)]
    pub enter: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Sent {
    /// The end of the output before anything of this was typed.
    pub cursor: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReadText {
    pub text: String,
    /// The end of the output; `since=` it goes on.
    pub cursor: u64,
    /// Bytes between `since` and the text that are not kept any more.
    pub missed: u64,
    /// Of a screen.
    #[schema(required)]
    pub screen: Option<ScreenShape>,
    pub state: String,
    #[schema(required)]
    pub exit_code: Option<u8>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ScreenShape {
    pub rows: u16,
    pub cols: u16,
    /// Where the cursor is, from 0.
    pub cursor_row: u16,
    pub cursor_col: u16,
    /// Whether the program has taken the whole screen.
    pub is_alternate: bool,
}

/// Until one of them is so, or the program has ended.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Wait {
    /// Nothing was written for so long.
    #[serde(default)]
    pub idle_ms: Option<u64>,
    /// A regular expression that the output contains; `^` and `$` are ends of lines.
    #[serde(default, rename = "for")]
    pub pattern: Option<String>,
    /// Where the output is looked at from; left out: the last `send`, or the beginning.
    #[serde(default)]
    pub since: Option<u64>,
    /// [`LONGEST_WAIT_MS`] at most, and when left out.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Waited {
    /// idle matched exited timeout
    pub reason: String,
    /// What the pattern found.
    #[schema(required)]
    pub matched: Option<String>,
    /// Where the output was looked at from.
    pub since: u64,
    pub cursor: u64,
    pub state: String,
    #[schema(required)]
    pub exit_code: Option<u8>,
}

/// The parameters of `attach`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Attach {
    /// Of the client's terminal; left out: as the session is.
    #[serde(default)]
    pub rows: Option<u16>,
    #[serde(default)]
    pub cols: Option<u16>,
    /// Never writes.
    #[serde(default)]
    pub read_only: bool,
    /// Writes, whoever did so before.
    #[serde(default)]
    pub take: bool,
    /// Text from this cursor on, instead of what to draw. Such a client does not write.
    #[serde(default)]
    pub since: Option<u64>,
    /// What others are told of who writes.
    #[serde(default)]
    pub name: Option<String>,
    /// A secret of the client's, by which it goes on when it lost the daemon: 16 to 64 letters and
    /// digits.
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
#[serde(rename_all = "snake_case")]
pub enum AttachToClient {
    Attached {
        session: String,
        rows: u16,
        cols: u16,
        cursor: u64,
        /// Whether this client writes.
        writes: bool,
        /// Who writes otherwise.
        writer: Option<String>,
        /// How much was received of what the client with this key typed.
        received: u64,
    },
    /// Somebody else writes from now on, or nobody.
    Writer {
        writes: bool,
        writer: Option<String>,
    },
    /// What was typed went nowhere: this client does not write.
    NotTaken {
        writer: Option<String>,
    },
    Size {
        rows: u16,
        cols: u16,
    },
    /// Of text: everything up to here was sent.
    Cursor(u64),
    /// Of text: so many bytes are not kept any more.
    Missed(u64),
    Ended {
        code: u8,
        reason: Option<String>,
    },
    Error(ErrorDetail),
}
