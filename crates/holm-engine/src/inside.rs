//! Runs a program inside and returns its answer. The output comes from a hostile program: its time
//! and size are limited here, and callers parse it strictly. Called wherever git runs inside.

use holm_core::exec::{ExecInput, ExecOutput, ExecRequest, Masking, STDIN_WINDOW};
use holm_core::{Code, Fault, cut};
use holm_keeper::client::KeeperClient;
use std::time::Duration;

/// The time limit of one program.
pub(crate) const LIMIT: Duration = Duration::from_secs(600);

/// How long a program may be silent. A filter, a hook or a file in `.git` can block git forever.
const QUIET: Duration = Duration::from_secs(60);

/// The same where git works silently for long: packs and checkouts.
const QUIET_TRANSFER: Duration = Duration::from_secs(300);

/// The keeper needs a moment to end a silent program.
const GRACE: Duration = Duration::from_secs(30);

/// The exit code of a program that the keeper ended because of its time limit.
pub const TIMED_OUT: u8 = 124;

/// The size limit of an answer.
const MOST_OUTPUT: usize = 128 << 20;

/// How much of the end of stderr is kept.
const MOST_COMPLAINTS: usize = 16 << 10;

#[derive(Debug)]
pub(crate) struct Answer {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub code: u8,
}

/// A program to run and its name for errors.
pub(crate) struct Question {
    pub what: &'static str,
    pub argv: Vec<Vec<u8>>,
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    pub input: Vec<u8>,
    pub masking: Masking,
}

/// The largest piece of input that is sent at once.
const PIECE: usize = 64 << 10;

/// Runs the program to its end. `on_stdout` is called with each piece of stdout and keeps what it
/// wants of it.
pub(crate) async fn ask(
    keeper: &KeeperClient,
    mut question: Question,
    on_stdout: impl FnMut(&[u8], &mut Vec<u8>),
) -> Result<Answer, Fault> {
    let conversation = Conversation {
        what: question.what,
        input: std::mem::take(&mut question.input),
        request: question.request(),
    };
    converse(keeper, conversation, on_stdout).await
}

/// The same where people's and agents' programs run, which may be a Dev Container. Its output is dropped.
pub(crate) async fn ask_at_home(
    keeper: &KeeperClient,
    mut question: Question,
) -> Result<Answer, Fault> {
    let conversation = Conversation {
        what: question.what,
        input: std::mem::take(&mut question.input),
        request: ExecRequest {
            is_at_home: true,
            ..question.request()
        },
    };
    converse(keeper, conversation, |_, _| {}).await
}

/// A program with its input.
struct Conversation {
    what: &'static str,
    request: ExecRequest,
    input: Vec<u8>,
}

async fn converse(
    keeper: &KeeperClient,
    conversation: Conversation,
    mut on_stdout: impl FnMut(&[u8], &mut Vec<u8>),
) -> Result<Answer, Fault> {
    let Conversation {
        what,
        request,
        input,
    } = conversation;
    let patience = quiet() + GRACE;
    let mut stream = keeper.exec(request).await?;
    let mut feed = Feed::of(input);
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    loop {
        while let Some(piece) = feed.next() {
            // A program that has ended already does not read its input.
            let _ = stream.input.send(piece).await;
        }
        let Ok(output) = tokio::time::timeout(patience, stream.output.recv()).await else {
            // Nothing can end it; for example, the kernel blocks the process.
            let _ = stream.input.try_send(ExecInput::Hangup);
            return Err(timed_out(what));
        };
        let Some(output) = output else {
            return Err(failed(what, "it ended without saying how"));
        };
        match output {
            ExecOutput::Stdout(bytes) => {
                on_stdout(&bytes, &mut stdout);
                if stdout.len() > MOST_OUTPUT {
                    // The program may have ended just now.
                    let _ = stream.input.try_send(ExecInput::Hangup);
                    let limit = MOST_OUTPUT >> 20;
                    return Err(failed(what, &format!("it said more than {limit} MiB")));
                }
            }
            ExecOutput::Stderr(bytes) => {
                stderr.extend_from_slice(&bytes);
                cut::keep_end(&mut stderr, MOST_COMPLAINTS);
            }
            ExecOutput::Exit(code) => {
                return Ok(Answer {
                    stdout,
                    stderr,
                    code,
                });
            }
            ExecOutput::Failed(fault) => return Err(fault),
            ExecOutput::StdinTaken(bytes) => feed.taken(bytes),
            ExecOutput::Started | ExecOutput::Kept | ExecOutput::Resumed { .. } => {}
        }
    }
}

/// Input of a program, in pieces that fit the window of `exec`.
struct Feed {
    input: Vec<u8>,
    sent: usize,
    under_way: u64,
    is_ended: bool,
}

// === impl Feed ===

impl Feed {
    fn of(input: Vec<u8>) -> Self {
        Self {
            input,
            sent: 0,
            under_way: 0,
            is_ended: false,
        }
    }

    /// The next message; `None`: the program has to read first, or has everything.
    fn next(&mut self) -> Option<ExecInput> {
        let rest = &self.input[self.sent..];
        if rest.is_empty() {
            let is_first = !std::mem::replace(&mut self.is_ended, true);
            return is_first.then_some(ExecInput::StdinEof);
        }
        let piece = &rest[..rest.len().min(PIECE)];
        let length = piece.len() as u64;
        if self.under_way + length > STDIN_WINDOW {
            return None;
        }
        self.sent += piece.len();
        self.under_way += length;
        Some(ExecInput::Stdin(piece.to_vec()))
    }

    fn taken(&mut self, bytes: u64) {
        self.under_way = self.under_way.saturating_sub(bytes);
    }
}

/// How long a program that holm runs inside may be silent.
pub fn quiet() -> Duration {
    shortened(QUIET)
}

/// The same for a program that transfers much data.
pub fn quiet_transfer() -> Duration {
    shortened(QUIET_TRANSFER)
}

/// Tests use a shorter limit (`HOLM_TEST_QUIET_MS=2000`).
fn shortened(limit: Duration) -> Duration {
    if !cfg!(debug_assertions) {
        return limit;
    }
    let asked = std::env::var("HOLM_TEST_QUIET_MS").ok();
    let asked = asked.and_then(|milliseconds| milliseconds.parse().ok());
    asked.map_or(limit, Duration::from_millis)
}

// === impl Question ===

impl Question {
    pub(crate) fn request(self) -> ExecRequest {
        let mut env = vec![
            (b"LC_ALL".to_vec(), b"C".to_vec()),
            (b"GIT_TERMINAL_PROMPT".to_vec(), b"0".to_vec()),
            (b"GIT_EDITOR".to_vec(), b"true".to_vec()),
        ];
        env.extend(self.env);
        ExecRequest {
            argv: self.argv,
            env,
            timeout_ms: Some(LIMIT.as_millis() as u64),
            quiet_ms: Some(quiet().as_millis() as u64),
            masking: self.masking,
            ..ExecRequest::default()
        }
    }
}

// === impl Answer ===

impl Answer {
    /// Its stdout, if it succeeded.
    pub(crate) fn good(self, what: &'static str) -> Result<Vec<u8>, Fault> {
        match self.code {
            0 => Ok(self.stdout),
            TIMED_OUT => Err(timed_out(what)),
            code => {
                let complaint = complaints(&self.stderr).join("; ");
                Err(failed(what, &format!("exit code {code}: {complaint}")))
            }
        }
    }
}

/// The last few lines of stderr, without control characters.
pub(crate) fn complaints(stderr: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(stderr);
    // git's progress lines end with a carriage return.
    let lines = text.split(['\n', '\r']);
    let lines: Vec<&str> = lines.filter(|line| !line.trim().is_empty()).collect();
    let first = lines.len().saturating_sub(5);
    lines[first..]
        .iter()
        .map(|line| line.chars().take(300).collect::<String>())
        .map(|line| line.escape_debug().to_string())
        .collect()
}

/// The fault for a git that was ended because it was silent or took too long.
pub fn timed_out(what: &str) -> Fault {
    let (seconds, most) = (quiet().as_secs(), LIMIT.as_secs());
    Fault::new(
        Code::GitTimedOut,
        format!(
            "`git {what}` inside the workspace was ended: it said nothing for {seconds} seconds, \
             or took longer than {most}"
        ),
        "a filter, a hook or a file in .git may hold it; look inside: `holm exec WS -- git status`",
    )
}

pub(crate) fn failed(what: &str, why: &str) -> Fault {
    Fault::new(
        Code::GitFailed,
        format!("`git {what}` failed inside the workspace: {why}"),
        "look inside: `holm exec WS -- git status`",
    )
}
