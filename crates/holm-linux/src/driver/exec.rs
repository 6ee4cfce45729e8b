//! One command inside, as channels: frames of the keeper's control socket on one side, the engine's
//! values on the other.

use super::keeper::{connect, keeper_fault, read_frame, refused};
use crate::layout::WorkspaceDirs;
use crate::wire::{
    self, Answer, Exec, ExecControl, Op, Request, Terminal, channel, control_frame, frame,
    spoken_version,
};
use holm_core::Fault;
use holm_engine::exec::{ExecInput, ExecOutput, ExecRequest, ExecStream, Resume};
use std::io;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;

/// The capacity of each direction, so that a slow side slows the other.
const QUEUE: usize = 16;

pub async fn exec(dirs: &WorkspaceDirs, request: ExecRequest) -> Result<ExecStream, Fault> {
    let op = Op::Exec(Exec {
        argv: request.argv,
        env: request.env,
        cwd: request.cwd,
        terminal: request.terminal.map(|terminal| Terminal {
            term: terminal.term,
            rows: terminal.rows,
            cols: terminal.cols,
        }),
        timeout_ms: request.timeout.map(|limit| limit.as_millis() as u64),
        quiet_ms: request.quiet.map(|limit| limit.as_millis() as u64),
        key: request.key,
        masking: request.masking,
    });
    converse(dirs, op).await
}

/// Reconnects to a command whose client lost its daemon.
pub async fn resume(dirs: &WorkspaceDirs, resume: Resume) -> Result<ExecStream, Fault> {
    let op = Op::Resume(wire::Resume {
        key: resume.key,
        stdout: resume.stdout,
        stderr: resume.stderr,
    });
    converse(dirs, op).await
}

async fn converse(dirs: &WorkspaceDirs, op: Op) -> Result<ExecStream, Fault> {
    let asked = async {
        let stream = connect(dirs).await?;
        let (reader, mut writer) = stream.into_split();
        writer
            .write_all(&control_frame(&Request {
                version: spoken_version(),
                op,
            })?)
            .await?;
        io::Result::Ok((reader, writer))
    };
    let (reader, writer) = asked
        .await
        .map_err(|error| keeper_fault(&error.to_string()))?;
    let (input, input_end) = mpsc::channel(QUEUE);
    let (output_end, output) = mpsc::channel(QUEUE);
    tokio::spawn(write_input(writer, input_end));
    tokio::spawn(read_output(reader, output_end));
    Ok(ExecStream { input, output })
}

/// Ends with the client. A client that vanishes without a word hangs up its command.
async fn write_input(mut writer: OwnedWriteHalf, mut input: mpsc::Receiver<ExecInput>) {
    loop {
        let (message, last) = match input.recv().await {
            Some(ExecInput::Stdin(bytes)) => (Ok(frame(channel::STDIN, &bytes)), false),
            Some(ExecInput::StdinEof) => (control_frame(&ExecControl::StdinEof), false),
            Some(ExecInput::Resize { rows, cols }) => {
                (control_frame(&ExecControl::Resize { rows, cols }), false)
            }
            Some(ExecInput::Signal(signal)) => (control_frame(&ExecControl::Signal(signal)), false),
            Some(ExecInput::Taken { stdout, stderr }) => {
                (control_frame(&ExecControl::Taken { stdout, stderr }), false)
            }
            Some(ExecInput::Hangup) | None => (control_frame(&ExecControl::Hangup), true),
        };
        let written = match message {
            Ok(bytes) => writer.write_all(&bytes).await,
            Err(error) => Err(error),
        };
        // The command may have ended meanwhile; the reading side reports that.
        if written.is_err() || last {
            return;
        }
    }
}

async fn read_output(reader: OwnedReadHalf, output: mpsc::Sender<ExecOutput>) {
    let mut reader = BufReader::with_capacity(128 * 1024, reader);
    loop {
        let messages = match read_frame(&mut reader).await {
            Ok((kind, payload)) => understand(kind, payload),
            Err(error) => vec![ExecOutput::Failed(keeper_fault(&error.to_string()))],
        };
        for message in messages {
            let last = matches!(message, ExecOutput::Exit(_) | ExecOutput::Failed(_));
            if output.send(message).await.is_err() || last {
                return;
            }
        }
    }
}

fn understand(kind: u8, payload: Vec<u8>) -> Vec<ExecOutput> {
    match kind {
        channel::STDOUT => return vec![ExecOutput::Stdout(payload)],
        channel::STDERR => return vec![ExecOutput::Stderr(payload)],
        _ => {}
    }
    let one = match serde_json::from_slice(&payload) {
        Ok(Answer::Started) => ExecOutput::Started,
        Ok(Answer::Kept) => ExecOutput::Kept,
        Ok(Answer::Resumed { received, taken }) => ExecOutput::Resumed { received, taken },
        Ok(Answer::StdinTaken(bytes)) => ExecOutput::StdinTaken(bytes),
        Ok(Answer::Exit(code)) => ExecOutput::Exit(code),
        // Like a shell: a message on stderr, and the code.
        Ok(Answer::NotStarted { code, cause }) => {
            let word = format!("holm: {cause}\n").into_bytes();
            return vec![
                ExecOutput::Started,
                ExecOutput::Stderr(word),
                ExecOutput::Exit(code),
            ];
        }
        Ok(Answer::Refused(why)) => ExecOutput::Failed(refused(&why)),
        Ok(_) => ExecOutput::Failed(keeper_fault("a wrong answer")),
        Err(error) => ExecOutput::Failed(keeper_fault(&error.to_string())),
    };
    vec![one]
}
