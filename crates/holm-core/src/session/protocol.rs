//! Sessions, as the keeper tells of them: what can be asked, what is answered, and what a client that is
//! attached says and hears.

use crate::Fault;
use crate::run::Asker;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A session that is to be.
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
    pub asker: Asker,
}

/// A session, as it is or as it was last. Times are RFC 3339.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionStatus {
    pub id: String,
    pub name: Option<String>,
    pub parent: Option<String>,
    pub agent: Option<String>,
    pub command: Vec<String>,
    /// `None` while it runs.
    pub exit_code: Option<u8>,
    pub reason: Option<String>,
    pub pid: Option<i32>,
    pub created_at: String,
    pub ended_at: Option<String>,
    pub last_output_at: Option<String>,
    pub rows: u16,
    pub cols: u16,
    pub title: Option<String>,
    pub cursor: u64,
    pub attention: Option<Attention>,
    pub writer: Option<String>,
    pub viewers: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attention {
    pub time: String,
    pub text: Option<String>,
}

/// What is asked once.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    Start(Box<NewSession>),
    List,
    Send {
        session: String,
        text: Vec<u8>,
        /// Names of keys, typed behind the text.
        keys: Vec<String>,
    },
    Read {
        session: String,
        /// `None`: the screen.
        since: Option<u64>,
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

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    Started(Box<SessionStatus>),
    /// The oldest first.
    Sessions(Vec<SessionStatus>),
    Sent {
        cursor: u64,
    },
    Text(Box<Text>),
    Waited(Box<Waited>),
    Fault {
        code: String,
        message: String,
        hint: String,
    },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Text {
    pub text: String,
    pub cursor: u64,
    pub missed: u64,
    pub screen: Option<Shape>,
    pub exit_code: Option<u8>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Shape {
    pub rows: u16,
    pub cols: u16,
    pub cursor_row: u16,
    pub cursor_col: u16,
    pub is_alternate: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Waited {
    pub reason: WaitEnd,
    pub matched: Option<String>,
    pub since: u64,
    pub cursor: u64,
    pub exit_code: Option<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitEnd {
    Idle,
    Matched,
    Exited,
    Timeout,
}

/// Who attaches, and how.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Attach {
    pub session: String,
    /// Of the client's terminal: rows and columns.
    pub size: Option<(u16, u16)>,
    pub writing: Writing,
    /// Text from this cursor on, instead of what to draw.
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

/// What who is attached says.
#[derive(Debug)]
pub enum AttachInput {
    Keys(Vec<u8>),
    Control(AttachControl),
    /// Goes away on purpose.
    Detach,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttachControl {
    Resize { rows: u16, cols: u16 },
    Take,
    Redraw,
    Detach,
}

/// What who is attached hears. `Ended` or `Failed` is the last.
#[derive(Debug)]
pub enum AttachOutput {
    Output(Vec<u8>),
    Word(Word),
    Failed(Fault),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    Attached {
        rows: u16,
        cols: u16,
        cursor: u64,
        writes: bool,
        writer: Option<String>,
        received: u64,
    },
    Writer {
        writes: bool,
        writer: Option<String>,
    },
    NotTaken {
        writer: Option<String>,
    },
    Size {
        rows: u16,
        cols: u16,
    },
    Cursor(u64),
    Missed(u64),
    Ended {
        code: u8,
        reason: Option<String>,
    },
}

/// Something that happened to a session. Kept by the keeper until it is said to be written down.
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
    /// It rang, or said something; so many more were left out since.
    Attention {
        text: Option<String>,
        left_out: u64,
    },
}

// === impl Ask ===

impl Ask {
    /// How long the keeper may take for an answer.
    pub fn patience(&self) -> Duration {
        match self {
            Ask::Wait { timeout_ms, .. } => {
                Duration::from_millis(*timeout_ms) + Duration::from_secs(5)
            }
            // Programs get time to end.
            Ask::Kill { .. } => Duration::from_secs(15),
            Ask::Start(_) => Duration::from_secs(40),
            Ask::List | Ask::Send { .. } | Ask::Read { .. } => Duration::from_secs(5),
        }
    }
}
