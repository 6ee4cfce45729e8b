//! The sessions of a workspace.

use super::{
    Frame, KeeperClient, Order, Stream, keeper_fault, read_answer, read_frame, refused,
    unreachable, write_messages, wrong_answer,
};
use crate::wire::{Answer, Op, channel, control_frame, frame};
use holm_core::session::protocol::{
    Ask, Attach, AttachControl, AttachInput, AttachOutput, SessionNotice, Told, Word,
};
use holm_core::{Code, Fault};
use tokio::io::{AsyncWriteExt, BufReader, ReadHalf};
use tokio::sync::mpsc;

/// Messages under way in each direction.
const QUEUE: usize = 16;

/// A client's connection to a session.
#[derive(Debug)]
pub struct AttachStream {
    pub input: mpsc::Sender<AttachInput>,
    pub output: mpsc::Receiver<AttachOutput>,
}

/// Notices as they come, and where it is said that they are written down.
#[derive(Debug)]
pub struct SessionNotices {
    pub notices: mpsc::Receiver<SessionNotice>,
    pub written: mpsc::Sender<u64>,
}

// === impl KeeperClient ===

impl KeeperClient {
    /// Asks something of the sessions.
    pub async fn session(&self, ask: Ask) -> Result<Told, Fault> {
        let limit = ask.patience();
        match self.ask_within(Op::Session(ask), limit).await? {
            Answer::Session(Told::Fault {
                code,
                message,
                hint,
            }) => Err(told_fault(&code, message, hint)),
            Answer::Session(told) => Ok(told),
            _ => Err(wrong_answer()),
        }
    }

    pub async fn attach_session(&self, attach: Attach) -> Result<AttachStream, Fault> {
        let stream = self.begin(Op::AttachSession(attach)).await;
        let stream = stream.map_err(|error| unreachable(&error))?;
        let (reader, writer) = tokio::io::split(stream);
        let (input, input_end) = mpsc::channel(QUEUE);
        let (output_end, output) = mpsc::channel(QUEUE);
        tokio::spawn(write_messages(writer, input_end, frame_of));
        tokio::spawn(read_output(reader, output_end));
        Ok(AttachStream { input, output })
    }

    /// Tells what happens to sessions, what was not written down yet first. The channel closes with the
    /// workspace's processes.
    pub async fn watch_sessions(&self) -> Result<SessionNotices, Fault> {
        let stream = self.begin(Op::WatchSessions).await;
        let (reader, mut writer) = tokio::io::split(stream.map_err(|error| unreachable(&error))?);
        let (sender, notices) = mpsc::channel(QUEUE);
        let (written, mut heard) = mpsc::channel::<u64>(QUEUE);
        tokio::spawn(async move {
            let mut reader = BufReader::new(reader);
            while let Ok(Answer::SessionNotice(notice)) = read_answer(&mut reader).await {
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
            // The keeper ends the watch.
            let _ = writer.shutdown().await;
        });
        Ok(SessionNotices { notices, written })
    }
}

/// A client that vanishes without a word detaches.
fn frame_of(input: Option<AttachInput>) -> (Frame, Order) {
    match input {
        Some(AttachInput::Keys(bytes)) => (Ok(frame(channel::STDIN, &bytes)), Order::Middle),
        Some(AttachInput::Control(control)) => (control_frame(&control), Order::Middle),
        Some(AttachInput::Detach) | None => (control_frame(&AttachControl::Detach), Order::Last),
    }
}

async fn read_output(reader: ReadHalf<Stream>, output: mpsc::Sender<AttachOutput>) {
    let mut reader = BufReader::with_capacity(64 * 1024, reader);
    loop {
        let message = match read_frame(&mut reader).await {
            Ok((channel::STDOUT, payload)) => AttachOutput::Output(payload),
            Ok((_, payload)) => understand(&payload),
            Err(error) => AttachOutput::Failed(unreachable(&error)),
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

fn understand(payload: &[u8]) -> AttachOutput {
    match serde_json::from_slice(payload) {
        Ok(Answer::SessionWord(word)) => AttachOutput::Word(word),
        Ok(Answer::Session(Told::Fault {
            code,
            message,
            hint,
        })) => AttachOutput::Failed(told_fault(&code, message, hint)),
        Ok(Answer::Refused(why)) => AttachOutput::Failed(refused(&why)),
        Ok(_) => AttachOutput::Failed(wrong_answer()),
        Err(error) => AttachOutput::Failed(keeper_fault(&error.to_string())),
    }
}

fn told_fault(code: &str, message: String, hint: String) -> Fault {
    Fault::new(Code::parse(code).unwrap_or(Code::Internal), message, hint)
}
