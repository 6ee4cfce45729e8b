//! The sessions of a workspace.

use super::{KeeperClient, Stream, read_answer, read_frame, refused, unreachable, wrong_answer};
use crate::wire::{Answer, Op, channel, control_frame, frame};
use holm_core::session::protocol::{
    Attach, AttachInput, AttachOutput, SessionNotice, SessionRequest, SessionResponse,
};
use holm_core::{Code, Fault};
use std::io;
use tokio::io::{AsyncWriteExt, BufReader, ReadHalf, WriteHalf};
use tokio::sync::mpsc;

/// Notices and acknowledgements under way.
const QUEUE: usize = 16;

/// A client's connection to a session. Every key passes here, so no other task is involved: the
/// caller's own task reads and writes.
pub struct AttachStream {
    pub input: AttachWriter,
    pub output: AttachReader,
}

pub struct AttachWriter(WriteHalf<Stream>);

pub struct AttachReader(BufReader<ReadHalf<Stream>>);

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
        Ok(AttachStream {
            input: AttachWriter(writer),
            output: AttachReader(BufReader::with_capacity(64 * 1024, reader)),
        })
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

// === impl AttachWriter ===

impl AttachWriter {
    /// An error means that the session reads no more; the reader says why.
    pub async fn send(&mut self, input: &AttachInput) -> io::Result<()> {
        let message = match input {
            AttachInput::Keys(keys) => frame(channel::STDIN, keys),
            control => control_frame(control)?,
        };
        self.0.write_all(&message).await
    }

    /// Tells the session that the client left on purpose.
    pub async fn detach(mut self) {
        // A session that has ended does not need to know.
        let _ = self.send(&AttachInput::Detach).await;
        let _ = self.0.shutdown().await;
    }
}

// === impl AttachReader ===

impl AttachReader {
    /// The next message. Nothing follows a failure or the end of the session.
    pub async fn next(&mut self) -> AttachOutput {
        match read_frame(&mut self.0).await {
            Ok((channel::STDOUT, payload)) => AttachOutput::Output(payload),
            Ok((_, payload)) => understand(&payload),
            Err(error) => AttachOutput::Failed(unreachable(error)),
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
