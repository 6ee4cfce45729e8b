//! Running a program inside for an answer. What it says is a hostile program's output: its time and
//! its size are limited here, and callers parse it strictly. Called by [`crate::work`].

use crate::driver::Driver;
use crate::exec::{ExecInput, ExecOutput, ExecRequest, Masking};
use holm_core::{Code, Fault, WorkspaceId};
use std::time::Duration;

/// How long one program may take.
pub(crate) const LIMIT: Duration = Duration::from_secs(600);

/// How much of an answer is taken.
const MOST_OUTPUT: usize = 128 << 20;

/// How much of complaints is kept: their end.
const MOST_COMPLAINTS: usize = 16 << 10;

/// A program that ended.
#[derive(Debug)]
pub(crate) struct Answer {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub code: u8,
}

/// A program to run and what to call it in errors.
pub(crate) struct Question {
    pub what: &'static str,
    pub argv: Vec<Vec<u8>>,
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    pub masking: Masking,
}

/// As [`ask_fed`], without input.
pub(crate) async fn ask<D: Driver>(
    driver: &D,
    id: &WorkspaceId,
    question: Question,
    heard: impl FnMut(&[u8], &mut Vec<u8>),
) -> Result<Answer, Fault> {
    ask_fed(driver, id, question, Vec::new(), heard).await
}

/// Runs it to its end, with input that fits the window of `exec`. `heard` sees stdout as it comes and keeps what it wants of it.
pub(crate) async fn ask_fed<D: Driver>(
    driver: &D,
    id: &WorkspaceId,
    question: Question,
    input: Vec<u8>,
    mut heard: impl FnMut(&[u8], &mut Vec<u8>),
) -> Result<Answer, Fault> {
    let what = question.what;
    let mut stream = driver.exec(id, question.request()).await?;
    // A program that has ended already does not need its input, nor the end of it.
    if !input.is_empty() {
        let _ = stream.input.send(ExecInput::Stdin(input)).await;
    }
    let _ = stream.input.send(ExecInput::StdinEof).await;
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    while let Some(output) = stream.output.recv().await {
        match output {
            ExecOutput::Stdout(bytes) => {
                heard(&bytes, &mut stdout);
                if stdout.len() > MOST_OUTPUT {
                    // It may have ended just now; then there is nobody to hang up on.
                    let _ = stream.input.try_send(ExecInput::Hangup);
                    let limit = MOST_OUTPUT >> 20;
                    return Err(failed(what, &format!("it said more than {limit} MiB")));
                }
            }
            ExecOutput::Stderr(bytes) => {
                stderr.extend_from_slice(&bytes);
                let surplus = stderr.len().saturating_sub(MOST_COMPLAINTS);
                stderr.drain(..surplus);
            }
            ExecOutput::Exit(code) => {
                return Ok(Answer {
                    stdout,
                    stderr,
                    code,
                });
            }
            ExecOutput::Failed(fault) => return Err(fault),
            ExecOutput::Started
            | ExecOutput::Kept
            | ExecOutput::Resumed { .. }
            | ExecOutput::StdinTaken(_) => {}
        }
    }
    Err(failed(what, "it ended without saying how"))
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
            timeout: Some(LIMIT),
            masking: self.masking,
            ..ExecRequest::default()
        }
    }
}

// === impl Answer ===

impl Answer {
    /// What it said, if it went well.
    pub(crate) fn good(self, what: &'static str) -> Result<Vec<u8>, Fault> {
        match self.code {
            0 => Ok(self.stdout),
            124 => Err(failed(
                what,
                &format!("it took longer than {} seconds", LIMIT.as_secs()),
            )),
            code => {
                let complaint = complaints(&self.stderr).join("; ");
                Err(failed(what, &format!("exit code {code}: {complaint}")))
            }
        }
    }
}

/// The last few lines of what a program complained about, harmless for terminals.
pub(crate) fn complaints(stderr: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(stderr);
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let first = lines.len().saturating_sub(5);
    lines[first..]
        .iter()
        .map(|line| line.chars().take(300).collect::<String>())
        .map(|line| line.escape_debug().to_string())
        .collect()
}

pub(crate) fn failed(what: &str, why: &str) -> Fault {
    Fault::new(
        Code::GitFailed,
        format!("`git {what}` failed inside the workspace: {why}"),
        "look inside: `holm exec WS -- git status`",
    )
}
