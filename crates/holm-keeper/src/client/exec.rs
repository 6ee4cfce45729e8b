//! One command inside, as channels: frames of the connection on one side, values on the other.

use super::{
    Frame, KeeperClient, Order, Stream, read_frame, refused, unreachable, write_messages,
    wrong_answer,
};
use crate::wire::{Answer, Op, channel, control_frame, frame};
use holm_core::Fault;
use holm_core::exec::{ExecInput, ExecOutput, ExecRequest, Resume};
use tokio::io::{BufReader, ReadHalf};
use tokio::sync::mpsc;

/// The capacity of each direction, so that a slow side slows the other.
const QUEUE: usize = 16;

/// Of the output that was read and not passed on yet.
const BUFFER: usize = 128 * 1024;

/// A command that runs inside.
#[derive(Debug)]
pub struct ExecStream {
    pub input: mpsc::Sender<ExecInput>,
    pub output: mpsc::Receiver<ExecOutput>,
}

// === impl KeeperClient ===

impl KeeperClient {
    /// Runs a command.
    pub async fn exec(&self, request: ExecRequest) -> Result<ExecStream, Fault> {
        self.converse(Op::Exec(request)).await
    }

    /// As [`exec`](Self::exec), and waits for the keeper's first answer. A command that the keeper
    /// did not start is an error. Dropping the future hangs up.
    pub async fn exec_begun(&self, request: ExecRequest) -> Result<ExecStream, Fault> {
        let stream = self.begin(Op::Exec(request)).await.map_err(unreachable)?;
        let (reader, writer) = tokio::io::split(stream);
        let (input, input_end) = mpsc::channel(QUEUE);
        tokio::spawn(write_messages(writer, input_end, frame_of));
        let mut reader = BufReader::with_capacity(BUFFER, reader);
        let first = match read_frame(&mut reader).await {
            Ok((kind, payload)) => understand(kind, payload),
            // A keeper that ends without an answer may have started the command, so this is no error: the caller
            // must not start it a second time.
            Err(_) => Vec::new(),
        };
        if let [ExecOutput::Failed(fault)] = first.as_slice() {
            return Err(fault.clone());
        }
        let (output_end, output) = mpsc::channel(QUEUE);
        tokio::spawn(async move {
            if pass_on(first, &output_end).await == Order::Middle {
                read_output(reader, output_end).await;
            }
        });
        Ok(ExecStream { input, output })
    }

    /// Goes on with a command whose client lost its daemon.
    pub async fn resume(&self, resume: Resume) -> Result<ExecStream, Fault> {
        self.converse(Op::Resume(resume)).await
    }

    async fn converse(&self, op: Op) -> Result<ExecStream, Fault> {
        let stream = self.begin(op).await.map_err(unreachable)?;
        let (reader, writer) = tokio::io::split(stream);
        let (input, input_end) = mpsc::channel(QUEUE);
        let (output_end, output) = mpsc::channel(QUEUE);
        tokio::spawn(write_messages(writer, input_end, frame_of));
        let reader = BufReader::with_capacity(BUFFER, reader);
        tokio::spawn(read_output(reader, output_end));
        Ok(ExecStream { input, output })
    }
}

/// A client that vanishes without a word hangs up its command.
fn frame_of(input: Option<ExecInput>) -> (Frame, Order) {
    match input {
        Some(ExecInput::Stdin(bytes)) => (Ok(frame(channel::STDIN, &bytes)), Order::Middle),
        Some(ExecInput::Hangup) | None => (control_frame(&ExecInput::Hangup), Order::Last),
        Some(control) => (control_frame(&control), Order::Middle),
    }
}

async fn read_output(mut reader: BufReader<ReadHalf<Stream>>, output: mpsc::Sender<ExecOutput>) {
    loop {
        let messages = match read_frame(&mut reader).await {
            Ok((kind, payload)) => understand(kind, payload),
            Err(error) => vec![ExecOutput::Failed(unreachable(error))],
        };
        if pass_on(messages, &output).await == Order::Last {
            return;
        }
    }
}

/// Passes messages on, and says whether more may follow.
async fn pass_on(messages: Vec<ExecOutput>, output: &mpsc::Sender<ExecOutput>) -> Order {
    for message in messages {
        let last = matches!(message, ExecOutput::Exit(_) | ExecOutput::Failed(_));
        if output.send(message).await.is_err() || last {
            return Order::Last;
        }
    }
    Order::Middle
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
        Ok(Answer::Refused(why)) => ExecOutput::Failed(refused(why)),
        Ok(_) => ExecOutput::Failed(wrong_answer()),
        Err(error) => ExecOutput::Failed(unreachable(error)),
    };
    vec![one]
}
