//! Sessions: asked of the keeper, or read from its last record.

use super::keeper::{self, keeper_fault, read_frame, refused};
use crate::keeper::ended_sessions;
use crate::layout::WorkspaceDirs;
use crate::wire::{Answer, Op, Request, channel, control_frame, frame, spoken_version};
use holm_core::{Code, Fault};
use holm_engine::session::{
    Ask, Attach, AttachControl, AttachInput, AttachOutput, AttachStream, SessionNotice,
    SessionNotices, SessionStatus, Told, Word, patience,
};
use std::io;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;

/// The capacity of each direction.
const QUEUE: usize = 16;

pub async fn ask(dirs: &WorkspaceDirs, ask: Ask) -> Result<Told, Fault> {
    let limit = patience(&ask);
    match keeper::ask_within(dirs, Op::Session(ask), limit).await? {
        Answer::Session(Told::Fault {
            code,
            message,
            hint,
        }) => Err(told_fault(&code, message, hint)),
        Answer::Session(told) => Ok(told),
        _ => Err(keeper_fault("a wrong answer")),
    }
}

/// All of them have ended, because there is no keeper.
pub fn ended(dirs: &WorkspaceDirs) -> Vec<SessionStatus> {
    ended_sessions(&std::fs::read(dirs.sessions()).unwrap_or_default())
}

pub async fn attach(dirs: &WorkspaceDirs, attach: Attach) -> Result<AttachStream, Fault> {
    let stream = begin(dirs, Op::AttachSession(attach)).await?;
    let (reader, writer) = stream.into_split();
    let (input, input_end) = mpsc::channel(QUEUE);
    let (output_end, output) = mpsc::channel(QUEUE);
    tokio::spawn(write_input(writer, input_end));
    tokio::spawn(read_output(reader, output_end));
    Ok(AttachStream { input, output })
}

pub async fn watch(dirs: &WorkspaceDirs) -> Result<SessionNotices, Fault> {
    let stream = begin(dirs, Op::WatchSessions).await?;
    let (reader, mut writer) = stream.into_split();
    let (sender, notices) = mpsc::channel(QUEUE);
    let (written, mut heard) = mpsc::channel::<u64>(QUEUE);
    tokio::spawn(async move {
        let mut reader = BufReader::new(reader);
        while let Some(notice) = next_notice(&mut reader).await {
            if sender.send(notice).await.is_err() {
                return;
            }
        }
    });
    tokio::spawn(async move {
        while let Some(number) = heard.recv().await {
            let Ok(message) = control_frame(&number) else {
                return;
            };
            if writer.write_all(&message).await.is_err() {
                return;
            }
        }
    });
    Ok(SessionNotices { notices, written })
}

async fn begin(dirs: &WorkspaceDirs, op: Op) -> Result<UnixStream, Fault> {
    let asked = async {
        let mut stream = keeper::connect(dirs).await?;
        let request = Request {
            version: spoken_version(),
            op,
        };
        stream.write_all(&control_frame(&request)?).await?;
        io::Result::Ok(stream)
    };
    asked
        .await
        .map_err(|error| keeper_fault(&error.to_string()))
}

async fn next_notice(reader: &mut BufReader<OwnedReadHalf>) -> Option<SessionNotice> {
    let (kind, payload) = read_frame(reader).await.ok()?;
    match serde_json::from_slice(&payload).ok()? {
        Answer::SessionNotice(notice) if kind == channel::CONTROL => Some(notice),
        _ => None,
    }
}

/// Ends with the client. If the daemon dies, nothing is sent, so that the client can reconnect.
async fn write_input(mut writer: OwnedWriteHalf, mut input: mpsc::Receiver<AttachInput>) {
    loop {
        let (message, last) = match input.recv().await {
            Some(AttachInput::Keys(bytes)) => (Ok(frame(channel::STDIN, &bytes)), false),
            Some(AttachInput::Control(control)) => (control_frame(&control), false),
            Some(AttachInput::Detach) | None => (control_frame(&AttachControl::Detach), true),
        };
        let written = match message {
            Ok(bytes) => writer.write_all(&bytes).await,
            Err(error) => Err(error),
        };
        if written.is_err() || last {
            return;
        }
    }
}

async fn read_output(reader: OwnedReadHalf, output: mpsc::Sender<AttachOutput>) {
    let mut reader = BufReader::with_capacity(64 * 1024, reader);
    loop {
        let message = match read_frame(&mut reader).await {
            Ok((channel::STDOUT, payload)) => AttachOutput::Output(payload),
            Ok((_, payload)) => understood(&payload),
            Err(error) => AttachOutput::Failed(keeper_fault(&error.to_string())),
        };
        let is_last = matches!(
            message,
            AttachOutput::Failed(_) | AttachOutput::Word(Word::Ended { .. })
        );
        if output.send(message).await.is_err() || is_last {
            return;
        }
    }
}

fn understood(payload: &[u8]) -> AttachOutput {
    match serde_json::from_slice(payload) {
        Ok(Answer::SessionWord(word)) => AttachOutput::Word(word),
        Ok(Answer::Session(Told::Fault {
            code,
            message,
            hint,
        })) => AttachOutput::Failed(told_fault(&code, message, hint)),
        Ok(Answer::Refused(why)) => AttachOutput::Failed(refused(&why)),
        Ok(_) => AttachOutput::Failed(keeper_fault("a wrong answer")),
        Err(error) => AttachOutput::Failed(keeper_fault(&error.to_string())),
    }
}

fn told_fault(code: &str, message: String, hint: String) -> Fault {
    Fault::new(Code::parse(code).unwrap_or(Code::Internal), message, hint)
}
