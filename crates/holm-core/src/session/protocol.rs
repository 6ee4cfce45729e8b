//! Sessions on the wire between daemon and keeper: requests, responses, and the messages of an
//! attached client. The API shows [`Session`], [`ReadText`] and [`Waited`] as they are.

use crate::run::Requester;
use crate::{Fault, SessionId, WorkspaceId};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use utoipa::ToSchema;

/// A session to start.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct NewSession {
    pub id: String,
    pub argv: Vec<Vec<u8>>,
    /// Added to the workspace's own environment.
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    pub cwd: Option<Vec<u8>>,
    pub rows: u16,
    pub cols: u16,
    pub name: Option<String>,
    pub parent: Option<String>,
    pub agent: Option<String>,
    #[serde(default)]
    pub asker: Requester,
}

/// A session now, or its last state. Times are RFC 3339.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Session {
    #[schema(value_type = SessionId)]
    pub id: String,
    /// The id of its workspace. The daemon sets it.
    #[serde(default)]
    #[schema(value_type = WorkspaceId, required)]
    pub workspace: String,
    #[schema(required)]
    pub name: Option<String>,
    /// The id of another session of the workspace.
    #[schema(required)]
    pub parent: Option<String>,
    #[schema(required)]
    pub agent: Option<String>,
    /// Bytes that are not UTF-8 are replaced.
    pub command: Vec<String>,
    #[serde(default)]
    #[schema(required)]
    pub state: SessionState,
    /// As in a shell: 128+n for a death by signal n.
    #[schema(required)]
    pub exit_code: Option<u8>,
    /// Why it ended, when it did not end by itself.
    #[schema(required)]
    pub reason: Option<String>,
    /// Its pid inside, while it runs.
    #[schema(required)]
    pub pid: Option<i32>,
    pub created_at: String,
    #[schema(required)]
    pub ended_at: Option<String>,
    /// When it last printed something.
    #[schema(required)]
    pub last_output_at: Option<String>,
    /// When a client last wrote to it; a keeper of an earlier release does not say.
    #[serde(default)]
    #[schema(required)]
    pub last_input_at: Option<String>,
    pub rows: u16,
    pub cols: u16,
    /// The window title that the program set.
    #[schema(required)]
    pub title: Option<String>,
    /// The end of its output.
    pub cursor: u64,
    /// The program's last request for attention, until a client writes to the session.
    #[schema(required)]
    pub attention: Option<Attention>,
    /// The client that may write.
    #[schema(required)]
    pub writer: Option<String>,
    /// How many clients are attached.
    pub viewers: usize,
    /// Remarks of the daemon for the client that started it.
    #[serde(default)]
    #[schema(required)]
    pub notes: Vec<String>,
}

impl Session {
    /// The name, or the id of a session without a name. Sessions of other workspaces may have the same name.
    pub fn shown_name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.id)
    }
}

// The daemon sets it, because keepers of earlier releases do not.
/// Follows from the exit code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    #[default]
    Running,
    Exited,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Attention {
    pub time: String,
    /// `None`: only the bell.
    #[schema(required)]
    pub text: Option<String>,
}

/// A request about the sessions of a workspace.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionRequest {
    Start(Box<NewSession>),
    List,
    Send {
        session: String,
        text: Vec<u8>,
        /// Names of keys, typed after the text.
        keys: Vec<String>,
    },
    Read {
        session: String,
        /// `None`: the screen.
        since: Option<u64>,
        /// The screen is drawn with its colours, too.
        #[serde(default)]
        colours: bool,
    },
    Wait {
        session: String,
        idle_ms: Option<u64>,
        pattern: Option<String>,
        since: Option<u64>,
        timeout_ms: u64,
    },
    Kill {
        session: String,
    },
}

/// The answer to a [`SessionRequest`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionResponse {
    Started(Box<Session>),
    /// The oldest first.
    Sessions(Vec<Session>),
    Sent {
        cursor: u64,
    },
    Text(Box<ReadText>),
    Waited(Box<Waited>),
    Fault {
        code: String,
        message: String,
        hint: String,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReadText {
    pub text: String,
    /// The same lines with colours (SGR) and no other sequences, if `colours` asks for them and the session runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coloured: Option<String>,
    /// The end of the output; use it as `since=` to continue.
    pub cursor: u64,
    /// Bytes after `since` that are no longer stored.
    pub missed: u64,
    /// Only for a screen.
    #[schema(required)]
    pub screen: Option<ScreenShape>,
    #[serde(default)]
    #[schema(required)]
    pub state: SessionState,
    #[schema(required)]
    pub exit_code: Option<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ScreenShape {
    pub rows: u16,
    pub cols: u16,
    /// The cursor's position, from 0.
    pub cursor_row: u16,
    pub cursor_col: u16,
    /// Whether the program uses the alternate (full) screen.
    pub is_alternate: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Waited {
    pub reason: WaitEnd,
    /// The text that matched.
    #[schema(required)]
    pub matched: Option<String>,
    /// The cursor that was searched from.
    pub since: u64,
    pub cursor: u64,
    #[serde(default)]
    #[schema(required)]
    pub state: SessionState,
    #[schema(required)]
    pub exit_code: Option<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WaitEnd {
    Idle,
    Matched,
    Exited,
    Timeout,
}

/// A client that attaches to a session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Attach {
    pub session: String,
    /// Rows and columns of the client's terminal.
    pub size: Option<(u16, u16)>,
    pub writing: Writing,
    /// Send text from this cursor on instead of drawing sequences.
    pub since: Option<u64>,
    pub name: String,
    pub key: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Writing {
    /// Only if no other client writes.
    IfFree,
    Take,
    Never,
}

/// A message of an attached client. Keys have their own channel on the wire, the others are JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttachInput {
    #[serde(skip)]
    Keys(Vec<u8>),
    Resize {
        rows: u16,
        cols: u16,
    },
    Take,
    Redraw,
    /// The client goes away on purpose.
    Detach,
}

/// A message to an attached client. `Ended` or `Failed` is the last.
#[derive(Debug)]
pub enum AttachOutput {
    Output(Vec<u8>),
    Message(AttachMessage),
    Failed(Fault),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttachMessage {
    Attached {
        /// The id of the session. The daemon sets it, because keepers of earlier releases do not.
        #[serde(default)]
        session: String,
        rows: u16,
        cols: u16,
        cursor: u64,
        /// Whether this client may write.
        writes: bool,
        /// The client that may write, if it is another.
        writer: Option<String>,
        /// How many bytes of input from the client with this key have arrived.
        received: u64,
    },
    /// Another client may write from now on, or none.
    Writer {
        writes: bool,
        writer: Option<String>,
    },
    /// The input was dropped, because this client may not write.
    NotTaken {
        writer: Option<String>,
    },
    Size {
        rows: u16,
        cols: u16,
    },
    /// For text: everything up to this cursor was sent.
    Cursor(u64),
    /// For text: this many bytes are no longer stored.
    Missed(u64),
    Ended {
        code: u8,
        reason: Option<String>,
    },
}

/// Something that happened to a session. The keeper repeats it until the daemon acknowledges it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionNotice {
    pub number: u64,
    pub session: String,
    pub name: Option<String>,
    pub agent: Option<String>,
    pub what: Happened,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Happened {
    Started,
    Exited {
        code: u8,
        reason: Option<String>,
    },
    /// The bell or a message of the program; this many more were left out since.
    Attention {
        text: Option<String>,
        left_out: u64,
    },
}

// === impl SessionState ===

impl SessionState {
    pub fn of(exit_code: Option<u8>) -> Self {
        match exit_code {
            Some(_) => SessionState::Exited,
            None => SessionState::Running,
        }
    }
}

// === impl SessionRequest ===

impl SessionRequest {
    /// How long the keeper may take for an answer.
    pub fn patience(&self) -> Duration {
        match self {
            SessionRequest::Wait { timeout_ms, .. } => {
                Duration::from_millis(*timeout_ms) + Duration::from_secs(5)
            }
            // Programs get time to end.
            SessionRequest::Kill { .. } => Duration::from_secs(15),
            SessionRequest::Start(_) => Duration::from_secs(40),
            SessionRequest::List | SessionRequest::Send { .. } | SessionRequest::Read { .. } => {
                Duration::from_secs(5)
            }
        }
    }
}
