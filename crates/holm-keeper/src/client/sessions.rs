//! The sessions of a workspace.

use super::{
    Frame, KeeperClient, Order, Stream, read_answer, read_frame, refused, unreachable,
    write_messages, wrong_answer,
};
use crate::wire::{Answer, Op, channel, control_frame, frame};
use holm_core::session::protocol::{
    Attach, AttachInput, AttachMessage, AttachOutput, SessionNotice, SessionRequest,
    SessionResponse,
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

/// Notices, and the channel on which the daemon acknowledges those that it has stored.
#[derive(Debug)]
pub struct SessionNotices {
    pub notices: mpsc::Receiver<SessionNotice>,
    pub written: mpsc::Sender<u64>,
}

// === impl KeeperClient ===

impl KeeperClient {
    pub async fn session(&self, request: SessionRequest) -> Result<SessionResponse, Fault> {
        let limit = request.patience();
        match self.ask_within(Op::Session(request), limit).await? {
            Answer::Session(SessionResponse::Fault {
                code,
                message,
                hint,
            }) => Err(named_fault(&code, message, hint)),
            Answer::Session(response) => Ok(response),
            _ => Err(wrong_answer()),
        }
    }

    pub async fn attach_session(&self, attach: Attach) -> Result<AttachStream, Fault> {
        let stream = self.begin(Op::AttachSession(attach)).await;
        let stream = stream.map_err(unreachable)?;
        let (reader, writer) = tokio::io::split(stream);
        let (input, input_end) = mpsc::channel(QUEUE);
        let (output_end, output) = mpsc::channel(QUEUE);
        tokio::spawn(write_messages(writer, input_end, frame_of));
        tokio::spawn(read_output(reader, output_end));
        Ok(AttachStream { input, output })
    }

    /// Notices about sessions, unacknowledged ones first. The channel closes with the workspace's
    /// processes.
    pub async fn watch_sessions(&self) -> Result<SessionNotices, Fault> {
        let stream = self.begin(Op::WatchSessions).await;
        let (reader, mut writer) = tokio::io::split(stream.map_err(unreachable)?);
        let (sender, notices) = mpsc::channel(QUEUE);
        let (written, mut acknowledged) = mpsc::channel::<u64>(QUEUE);
        tokio::spawn(async move {
            let mut reader = BufReader::new(reader);
            while let Ok(Answer::SessionNotice(notice)) = read_answer(&mut reader).await {
                if sender.send(notice).await.is_err() {
                    return;
                }
            }
        });
        tokio::spawn(async move {
            while let Some(number) = acknowledged.recv().await {
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
        Some(AttachInput::Detach) | None => (control_frame(&AttachInput::Detach), Order::Last),
        Some(control) => (control_frame(&control), Order::Middle),
    }
}

async fn read_output(reader: ReadHalf<Stream>, output: mpsc::Sender<AttachOutput>) {
    let mut reader = BufReader::with_capacity(64 * 1024, reader);
    loop {
        let message = match read_frame(&mut reader).await {
            Ok((channel::STDOUT, payload)) => AttachOutput::Output(payload),
            Ok((_, payload)) => understand(&payload),
            Err(error) => AttachOutput::Failed(unreachable(error)),
        };
        let is_last = matches!(
            message,
            AttachOutput::Failed(_) | AttachOutput::Message(AttachMessage::Ended { .. })
        );
        if output.send(message).await.is_err() || is_last {
            return;
        }
    }
}

fn understand(payload: &[u8]) -> AttachOutput {
    match serde_json::from_slice(payload) {
        Ok(Answer::AttachMessage(message)) => AttachOutput::Message(message),
        Ok(Answer::Session(SessionResponse::Fault {
            code,
            message,
            hint,
        })) => AttachOutput::Failed(named_fault(&code, message, hint)),
        Ok(Answer::Refused(why)) => AttachOutput::Failed(refused(why)),
        Ok(_) => AttachOutput::Failed(wrong_answer()),
        Err(error) => AttachOutput::Failed(unreachable(error)),
    }
}

fn named_fault(code: &str, message: String, hint: String) -> Fault {
    Fault::new(Code::parse(code).unwrap_or(Code::Internal), message, hint)
}
