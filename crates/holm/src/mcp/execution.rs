//! Tools that run programs inside: commands, runs of agents, and sessions.

use super::arguments::wrong;
use super::{Call, value_of};
use holm_api::check::RunChecks;
use holm_api::client::{ExecEvent, ExecSocket};
use holm_api::exec::{Bytes, STDIN_WINDOW, Start};
use holm_api::run::{ContextFile, CreateRun, RunEvent, RunQuery};
use holm_api::session::{NewSession, SendInput, Wait};
use holm_core::session::protocol::{Session, SessionState};
use holm_core::{Cause, Code, Fault, RunId, SessionId, WorkspaceId, cut};
use serde_json::{Value, json};
use std::time::Duration;

/// How much of the end of each output is kept.
const MOST_OUTPUT: usize = 128 << 10;
const IDLE: Duration = Duration::from_secs(2);
const WAIT: Duration = Duration::from_secs(60);

/// The end of an output, and how much came before it.
#[derive(Default)]
struct Tail {
    bytes: Vec<u8>,
    dropped: usize,
}

// === impl Tail ===

impl Tail {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() > 2 * MOST_OUTPUT {
            self.cut();
        }
    }

    fn cut(&mut self) {
        let before = self.bytes.len();
        cut::keep_end(&mut self.bytes, MOST_OUTPUT);
        self.dropped += before - self.bytes.len();
    }

    /// Adds the text to a result, and the number of missing bytes before it if there are any.
    fn write(mut self, result: &mut Value, name: &str) {
        self.cut();
        result[name] = json!(String::from_utf8_lossy(&self.bytes));
        if self.dropped > 0 {
            result[format!("{name}_dropped")] = json!(self.dropped);
        }
    }
}

// === impl Call ===

impl Call<'_> {
    /// Runs the checks and waits for their end. If the client goes away, they go on.
    pub async fn check(&self) -> Result<Value, Fault> {
        let id = self.workspace().await?;
        let asked = RunChecks {
            names: self.arguments.owned("name").into_iter().collect(),
            again: false,
        };
        let begun = self.client.run_checks(&id, &asked).await?;
        let (mut list, tree) = (begun.clone(), begun.tree.clone().unwrap_or_default());
        while !list.has_ended() {
            self.progress.report("checks", 0, 0);
            list = self
                .client
                .checks_after(&id, &tree, list.revision)
                .await?
                .asked_by(&begun);
        }
        value_of(&list)
    }

    pub async fn session_read(&self) -> Result<Value, Fault> {
        let (workspace, session) = self.session().await?;
        let client = &self.client;
        let read = match self.arguments.number("since") {
            Some(since) => client.session_output(&workspace, &session, since).await?,
            None => client.session_screen(&workspace, &session).await?,
        };
        value_of(&read)
    }

    pub async fn exec(&self) -> Result<Value, Fault> {
        let id = self.workspace().await?;
        let timeout = self.arguments.time("timeout")?;
        let start = Start {
            argv: self.command()?,
            env: pairs(self.arguments.map("env")),
            cwd: self.arguments.owned("cwd").map(Bytes::Text),
            timeout_ms: timeout.map(|time| time.as_millis() as u64),
            // A model's provider sees what a model is shown, so secrets are masked.
            mask: true,
            ..Start::default()
        };
        let socket = self.client.exec(&id, start).await?;
        let message = self.arguments.text("message").unwrap_or("");
        let (stdout, stderr, code) = self.follow(socket, message.as_bytes()).await?;
        let mut result = json!({ "exit_code": code });
        stdout.write(&mut result, "stdout");
        stderr.write(&mut result, "stderr");
        Ok(result)
    }

    /// Sends input to a command and reads its output to the end.
    async fn follow(&self, socket: ExecSocket, message: &[u8]) -> Result<(Tail, Tail, u8), Fault> {
        let ExecSocket {
            mut sender,
            mut receiver,
        } = socket;
        let (mut stdout, mut stderr) = (Tail::default(), Tail::default());
        let (mut rest, mut under_way, mut is_open) = (message, 0_u64, true);
        loop {
            let room = STDIN_WINDOW.saturating_sub(under_way) as usize;
            if is_open && !rest.is_empty() && room > 0 {
                let (piece, behind) = rest.split_at(rest.len().min(room));
                // A command that has ended takes no input; the receiver says how it ended, or that the daemon is gone.
                is_open = sender.stdin(piece).await.is_ok();
                under_way += piece.len() as u64;
                rest = behind;
            }
            if is_open && rest.is_empty() {
                let _ = sender.stdin_eof().await;
                is_open = false;
            }
            match receiver.next().await? {
                ExecEvent::Stdout(bytes) => {
                    stdout.push(&bytes);
                    self.progress.say(last_line(&bytes));
                }
                ExecEvent::Stderr(bytes) => {
                    stderr.push(&bytes);
                    self.progress.say(last_line(&bytes));
                }
                ExecEvent::StdinTaken(taken) => under_way = under_way.saturating_sub(taken),
                ExecEvent::Exit(code) => return Ok((stdout, stderr, code)),
                ExecEvent::Started | ExecEvent::Kept | ExecEvent::Resumed { .. } => {}
            }
        }
    }

    pub async fn run(&self) -> Result<Value, Fault> {
        let id = self.workspace().await?;
        let command = self.arguments.words("command");
        let files = self.arguments.map("files").into_iter();
        let files = files.map(|(path, text)| ContextFile {
            path,
            content: Bytes::Text(text),
            executable: false,
        });
        let timeout = self.arguments.time("timeout")?;
        let create = CreateRun {
            agent: self.arguments.owned("agent"),
            command: (!command.is_empty()).then(|| bytes(command)),
            message: self.arguments.owned("message"),
            env: self.arguments.map("env").into_iter().collect(),
            files: files.collect(),
            timeout_ms: timeout.map(|time| time.as_millis() as u64),
            ..CreateRun::default()
        };
        let key = self.arguments.text("key");
        let run = self.client.create_run(&id, &create, key).await?;
        if self.arguments.is_unset("wait") {
            return value_of(&run);
        }
        let number = run_id(&run.id)?;
        let mut guard = Cancelling {
            call: Some((self.client.clone(), id.clone(), number.clone())),
        };
        let followed = self.hear_run(&id, &number).await;
        guard.call = None;
        followed
    }

    /// Follows a run to its end: its record, with its output.
    async fn hear_run(&self, id: &WorkspaceId, run: &RunId) -> Result<Value, Fault> {
        let mut output = self.client.run_output(id, run, 0).await?;
        let (mut stdout, mut stderr) = (Tail::default(), Tail::default());
        let ended = loop {
            match output.next().await? {
                RunEvent::Output(piece) => {
                    let data: Vec<u8> = piece.data.into();
                    self.progress.say(last_line(&data));
                    match piece.stream.as_str() {
                        "stderr" => stderr.push(&data),
                        _ => stdout.push(&data),
                    }
                }
                RunEvent::Truncated { bytes, .. } => stdout.dropped += bytes as usize,
                RunEvent::Begun(_) => {}
                RunEvent::Ended(run) => break run,
                RunEvent::Error(error) => return Err(holm_api::ErrorBody { error }.into()),
            }
        };
        // With its changes.
        let whole = self.client.run(id, run).await.unwrap_or(*ended);
        let mut result = value_of(&whole)?;
        stdout.write(&mut result, "stdout");
        stderr.write(&mut result, "stderr");
        Ok(result)
    }

    pub async fn runs_list(&self) -> Result<Value, Fault> {
        let workspace = self.workspace_if_any().await?;
        if let (Some(run), Some(id)) = (self.arguments.text("run"), &workspace) {
            return value_of(&self.client.run(id, &run_id(run)?).await?);
        }
        let query = RunQuery {
            state: self.arguments.owned("state"),
            prefix: self.arguments.owned("run"),
            limit: self.arguments.number("limit").map(|limit| limit as usize),
            after: None,
        };
        if let Some(id) = &workspace {
            return value_of(&self.client.runs(id, &query).await?);
        }
        let list = self.client.all_runs(&query).await?;
        match (self.arguments.text("run"), list.runs.as_slice()) {
            (Some(_), [one]) => {
                let workspace = workspace_id(&one.workspace)?;
                value_of(&self.client.run(&workspace, &run_id(&one.id)?).await?)
            }
            _ => value_of(&list),
        }
    }

    pub async fn session_spawn(&self) -> Result<Value, Fault> {
        let id = self.workspace().await?;
        let parent = match self.arguments.text("parent") {
            Some(parent) => Some(self.session_of(Some(&id), parent).await?.1.to_string()),
            None => None,
        };
        let size = |name: &str| {
            let size = self.arguments.number(name);
            size.map(|size| u16::try_from(size).unwrap_or(u16::MAX))
        };
        let new = NewSession {
            command: bytes(self.arguments.words("command")),
            agent: self.arguments.owned("agent"),
            name: self.arguments.owned("name"),
            parent,
            env: pairs(self.arguments.map("env")),
            rows: size("rows"),
            cols: size("cols"),
            ..NewSession::default()
        };
        let session = self.client.new_session(&id, &new).await?;
        if let Some(message) = self.arguments.owned("message") {
            let input = SendInput {
                text: Some(Bytes::Text(message)),
                enter: true,
                ..SendInput::default()
            };
            let number = session_id(&session)?;
            self.client.send_to_session(&id, &number, &input).await?;
        }
        value_of(&session)
    }

    pub async fn session_message(&self) -> Result<Value, Fault> {
        let (workspace, session) = self.session().await?;
        let message = self.arguments.owned("message");
        let keys = self.arguments.words("keys");
        if message.is_none() && keys.is_empty() {
            return Err(wrong("neither `message` nor `keys` is given".to_owned()));
        }
        let input = SendInput {
            enter: message.is_some() && !self.arguments.is_unset("enter"),
            text: message.map(Bytes::Text),
            keys,
        };
        let sent = self.client.send_to_session(&workspace, &session, &input);
        value_of(&sent.await?)
    }

    pub async fn session_wait(&self) -> Result<Value, Fault> {
        let (workspace, session) = self.session().await?;
        let pattern = self.arguments.owned("pattern");
        let idle = self.arguments.time("idle")?;
        let idle = idle.or(pattern.is_none().then_some(IDLE));
        let timeout = self.arguments.time("timeout")?.unwrap_or(WAIT);
        let wait = Wait {
            idle_ms: idle.map(|idle| idle.as_millis() as u64),
            pattern,
            since: self.arguments.number("since"),
            timeout_ms: Some(timeout.as_millis() as u64),
        };
        let waited = self.client.wait_for_session(&workspace, &session, wait);
        value_of(&waited.await?)
    }

    /// The named session, and its workspace.
    async fn session(&self) -> Result<(WorkspaceId, SessionId), Fault> {
        let typed = self.arguments.needed("session")?;
        let workspace = self.workspace_if_any().await?;
        self.session_of(workspace.as_ref(), typed).await
    }

    async fn session_of(
        &self,
        workspace: Option<&WorkspaceId>,
        typed: &str,
    ) -> Result<(WorkspaceId, SessionId), Fault> {
        let sessions = match workspace {
            Some(workspace) => self.client.sessions(workspace).await?.sessions,
            None => self.client.all_sessions().await?.sessions,
        };
        let by_id = sessions.iter().find(|session| session.id == typed);
        let named = sessions
            .iter()
            .filter(|session| session.name.as_deref() == Some(typed));
        let running = named
            .clone()
            .filter(|session| session.state == SessionState::Running);
        let mut found: Vec<&Session> = by_id.into_iter().collect();
        for more in [running.collect::<Vec<_>>(), named.collect()] {
            if found.is_empty() {
                found = more;
            }
        }
        match found.as_slice() {
            [one] => Ok((workspace_id(&one.workspace)?, session_id(one)?)),
            [] => Err(Fault::new(
                Code::SessionNotFound,
                format!("no session `{}`", typed.escape_debug()),
                "session_spawn starts one; `holm session ls` lists them",
            )),
            _ => Err(Fault::new(
                Code::Ambiguous,
                format!("several sessions are called `{}`", typed.escape_debug()),
                "say the id of the session",
            )),
        }
    }

    fn command(&self) -> Result<Vec<Bytes>, Fault> {
        let command = self.arguments.words("command");
        if command.is_empty() {
            Err(wrong("`command` is empty".to_owned()))
        } else {
            Ok(bytes(command))
        }
    }
}

/// Cancels a run when its call is dropped.
struct Cancelling {
    call: Option<(holm_api::client::Client, WorkspaceId, RunId)>,
}

impl Drop for Cancelling {
    fn drop(&mut self) {
        if let Some((client, workspace, run)) = self.call.take() {
            tokio::spawn(async move {
                // A run that has ended stays as it is.
                let _ = client.cancel_run(&workspace, &run).await;
            });
        }
    }
}

fn bytes(words: Vec<String>) -> Vec<Bytes> {
    words.into_iter().map(Bytes::Text).collect()
}

fn pairs(map: Vec<(String, String)>) -> Vec<(Bytes, Bytes)> {
    let pairs = map.into_iter();
    pairs
        .map(|(name, value)| (Bytes::Text(name), Bytes::Text(value)))
        .collect()
}

/// The last line of output, shortened for a progress message.
fn last_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let line = text.lines().rev().find(|line| !line.trim().is_empty());
    let line = line
        .unwrap_or_default()
        .chars()
        .filter(|letter| !letter.is_control());
    line.take(200).collect()
}

fn run_id(text: &str) -> Result<RunId, Fault> {
    RunId::parse(text)
        .map_err(|error| Fault::of(Code::RunNotFound, error, "runs_list lists the runs"))
}

fn session_id(session: &Session) -> Result<SessionId, Fault> {
    SessionId::parse(&session.id).map_err(not_understood)
}

fn workspace_id(text: &str) -> Result<WorkspaceId, Fault> {
    WorkspaceId::parse(text).map_err(not_understood)
}

fn not_understood(cause: impl Into<Cause>) -> Fault {
    Fault::new(
        Code::Internal,
        "the daemon sent something that is not understood",
        "is the daemon of another version? `holm daemon stop`, then try again",
    )
    .because(cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_long_output_the_end_is_kept() {
        let mut tail = Tail::default();
        for number in 0..100_000 {
            tail.push(format!("{number}\n").as_bytes());
        }
        let mut result = json!({});
        tail.write(&mut result, "stdout");
        let text = result["stdout"].as_str().unwrap();
        assert_eq!(text.len(), MOST_OUTPUT);
        assert!(text.ends_with("99999\n"));
        assert_eq!(result["stdout_dropped"], 588_890 - text.len());
        assert_eq!(last_line(b"a\nlast \x1b[1mword\n\n"), "last [1mword");
    }
}
