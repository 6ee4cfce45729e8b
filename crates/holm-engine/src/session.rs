//! Sessions, as the keeper tells of them: what can be asked, what is answered, and the stream of who
//! is attached. Called by the server; the driver's side talks to the keeper.

use crate::command::Stopped;
use crate::engine::{Engine, now};
use crate::run::Asker;
use crate::runs::Credential;
use holm_core::plan::{Keeper, State};
use holm_core::state::Birth;
use holm_core::{Code, Fault, WorkspaceId};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tokio::sync::mpsc;

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
    /// If nobody else does.
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

#[derive(Debug)]
pub struct AttachStream {
    pub input: mpsc::Sender<AttachInput>,
    pub output: mpsc::Receiver<AttachOutput>,
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

/// Notices as they come, and where it is said that they are written down.
#[derive(Debug)]
pub struct SessionNotices {
    pub notices: mpsc::Receiver<SessionNotice>,
    pub written: mpsc::Sender<u64>,
}

// === impl Engine ===

impl Engine {
    /// Starts a session in a workspace, started first where that is allowed. Counts as use. What it is
    /// given of the user's has to be taken away when it ends.
    pub async fn start_session(
        &self,
        id: &WorkspaceId,
        new: NewSession,
        (credentials, stopped): (Vec<Credential>, Stopped),
    ) -> Result<(SessionStatus, Vec<String>), Fault> {
        self.inner.note_use(id, now());
        self.inner.awaken(id, stopped).await?;
        let holder = new.id.clone();
        let (places, notes) = self.bring_credentials(id, &holder, credentials).await?;
        let driver = self.inner.driver_of(id).await?;
        let asked = driver.session(id, Ask::Start(Box::new(new)));
        let fault = match asked.await {
            Ok(Told::Started(status)) => return Ok((*status, notes)),
            Ok(_) => nonsense(),
            Err(fault) => fault,
        };
        self.take_credentials_away(id, &holder, &places).await;
        Err(fault)
    }

    /// The sessions of a workspace, the oldest first; of one that does not run, those that were.
    pub async fn sessions(&self, id: &WorkspaceId) -> Result<Vec<SessionStatus>, Fault> {
        let record = self.inner.live(id).await?;
        let driver = self.inner.driver(&record.spec)?;
        let observation = driver.observe(&record.spec).await?;
        if observation.observed.keeper != Keeper::Running {
            return driver.ended_sessions(id).await;
        }
        match driver.session(id, Ask::List).await? {
            Told::Sessions(sessions) => Ok(sessions),
            _ => Err(nonsense()),
        }
    }

    /// The sessions of all workspaces that have any, with the workspaces' ids and labels.
    pub async fn all_sessions(
        &self,
    ) -> Result<Vec<(WorkspaceId, String, Vec<SessionStatus>)>, Fault> {
        let mut all = Vec::new();
        for view in self.list().await? {
            if view.record.birth != Birth::Acknowledged {
                continue;
            }
            let id = view.record.id.clone();
            // What was written down tells whether there is anything to ask for.
            let driver = self.inner.driver(&view.record.spec)?;
            let mut sessions = driver.ended_sessions(&id).await?;
            if sessions.is_empty() {
                continue;
            }
            if view.state == State::Running
                && let Ok(Told::Sessions(live)) = driver.session(&id, Ask::List).await
            {
                sessions = live;
            }
            all.push((id, view.record.label.to_string(), sessions));
        }
        Ok(all)
    }

    /// Asks something of a session that there is. Whoever sends something uses the workspace.
    pub async fn ask_session(&self, id: &WorkspaceId, ask: Ask) -> Result<Told, Fault> {
        if matches!(ask, Ask::Send { .. }) {
            self.inner.note_use(id, now());
        }
        self.require_keeper(id).await?;
        self.inner.driver_of(id).await?.session(id, ask).await
    }

    pub async fn attach_session(
        &self,
        id: &WorkspaceId,
        attach: Attach,
    ) -> Result<AttachStream, Fault> {
        self.inner.note_use(id, now());
        self.require_keeper(id).await?;
        self.inner
            .driver_of(id)
            .await?
            .attach_session(id, attach)
            .await
    }

    /// What happens to the sessions of a running workspace, until it stops.
    pub async fn watch_sessions(&self, id: &WorkspaceId) -> Result<SessionNotices, Fault> {
        self.inner.driver_of(id).await?.watch_sessions(id).await
    }

    async fn require_keeper(&self, id: &WorkspaceId) -> Result<(), Fault> {
        let record = self.inner.live(id).await?;
        let observation = self.inner.observe(&record.spec).await?;
        if observation.observed.keeper == Keeper::Running {
            return Ok(());
        }
        let label = &record.label;
        Err(Fault::new(
            Code::NotRunning,
            format!("workspace `{label}` is not running, so none of its sessions is either"),
            format!("`holm session new {label}` starts it with a new session"),
        ))
    }
}

/// How long the keeper may take for an answer.
pub fn patience(ask: &Ask) -> Duration {
    match ask {
        Ask::Wait { timeout_ms, .. } => Duration::from_millis(*timeout_ms) + Duration::from_secs(5),
        // Programs get time to end.
        Ask::Kill { .. } => Duration::from_secs(15),
        Ask::Start(_) => Duration::from_secs(40),
        Ask::List | Ask::Send { .. } | Ask::Read { .. } => Duration::from_secs(5),
    }
}

fn nonsense() -> Fault {
    Fault::new(
        Code::Internal,
        "the workspace's keeper gave a wrong answer",
        "`holm restart` starts it anew",
    )
}
