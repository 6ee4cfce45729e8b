//! Connects this process to a command inside: bytes, signals, terminal size, exit code. Called by
//! `exec` and `enter`.
//!
//! Three parts run concurrently: the daemon's events go to the writing thread, stdin and signals go
//! to the daemon, and neither waits for the other. At most the protocol's window of stdin is
//! unacknowledged. When the daemon dies, this client starts another one and both directions
//! continue: received output is counted, sent input is kept until it was read. A daemon that the
//! user stopped is not started again for a command: the client waits for another process to start
//! one.

use super::lines::Lines;
use super::output::BROKEN_PIPE_EXIT;
use super::signals::{SignalAction, Signals};
use super::stream::{Stream, Writer, read_stdin};
use super::terminal::{self, Attachment, RawMode};
use super::{connect, resolve};
use bytes::Bytes;
use holm_api::client::{Client, ExecEvent, ExecReceiver, ExecSender, ExecSocket};
use holm_api::exec::{OUTPUT_STEP, Received, STDIN_WINDOW, Start};
use holm_core::{Cause, Code, Fault, WorkspaceId};
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc};

/// How long to try to reach another daemon. The command waits a little longer than that.
pub const COMES_BACK: Duration = Duration::from_secs(30);
/// A daemon that is restarted is back by then, without a message.
const SAYS_SO: Duration = Duration::from_secs(2);
pub const LOOK_AGAIN: Duration = Duration::from_millis(50);

const WAITS_FOR_ANOTHER: &str =
    "the daemon was stopped; the command goes on, and this waits for `holm daemon start`";

/// The workspace that a command runs in.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    Known(&'a WorkspaceId),
    /// As a person typed it.
    Typed(&'a str),
    /// A fetch of a commit: the daemon chooses the command.
    Fetch(&'a WorkspaceId, &'a str),
}

/// State that outlives the connection to one daemon.
#[derive(Default)]
struct Shared {
    started: Cell<bool>,
    /// Whether the client can reconnect to the command.
    kept: Cell<bool>,
    received: Cell<Received>,
    /// Sent input that the command has not read yet, and the total sent.
    untaken: RefCell<VecDeque<u8>>,
    sent: Cell<u64>,
    /// Notified when this state changes.
    news: Notify,
}

/// From the daemon to this process.
struct OutputSide {
    attachment: Attachment,
    writer: Writer,
    lines: Lines,
}

/// From this process to the daemon.
struct InputSide {
    signals: Signals,
    input: Option<mpsc::Receiver<Bytes>>,
    waiting: Option<Bytes>,
    is_over: bool,
    /// The last acknowledgement sent.
    confirmed: Received,
}

/// Why the connection to one daemon ended.
enum Ended {
    Code(u8),
    /// The output cannot be written any more.
    Unwritten,
    Lost(Fault),
}

/// How a client that lost its daemon continues.
enum Reconnected {
    /// With another daemon.
    Again(Box<ExecSocket>),
    /// Not at all: a signal arrived that could not be forwarded.
    Signalled(u8),
}

/// Runs the command and returns its exit code.
pub async fn attach(
    client: &Client,
    target: Target<'_>,
    start: Start,
    attachment: Attachment,
) -> Result<u8, Fault> {
    let signals = Signals::listen(attachment)?;
    let raw = match attachment {
        Attachment::Terminal => Some(RawMode::enter()?),
        Attachment::Pipes | Attachment::Lines => None,
    };
    let key = secret()?;
    let (id, mut socket) = begin(client, target, &key, start).await?;
    let shared = Shared::default();
    let mut output = OutputSide {
        attachment,
        writer: Writer::start(),
        lines: Lines::default(),
    };
    let mut input = InputSide {
        signals,
        input: None,
        waiting: None,
        is_over: false,
        confirmed: Received::default(),
    };
    let result = loop {
        let ExecSocket { sender, receiver } = socket;
        let ended = {
            let feed = input.feed(sender, &shared);
            let receive = output.receive(receiver, &shared);
            tokio::pin!(feed, receive);
            tokio::select! {
                ended = &mut receive => ended?,
                signalled = &mut feed => match signalled {
                    Some(number) => break Ok(128 + number),
                    // The daemon went away; the other direction knows how and why.
                    None => receive.await?,
                },
            }
        };
        socket = match ended {
            Ended::Code(code) => break output.finish(Some(code)).await,
            Ended::Unwritten => break output.finish(None).await,
            Ended::Lost(fault) if !shared.kept.get() => break Err(fault),
            Ended::Lost(_) => match come_back(&id, &key, &shared, &mut input).await? {
                Reconnected::Again(socket) => *socket,
                Reconnected::Signalled(number) => break Ok(128 + number),
            },
        };
    };
    drop(raw);
    result
}

/// Starts the command. The daemon resolves what was typed, to save a request. When the daemon does
/// not find it, this client looks for it in the current project and in the trash, and explains.
async fn begin(
    client: &Client,
    target: Target<'_>,
    key: &str,
    start: Start,
) -> Result<(WorkspaceId, ExecSocket), Fault> {
    let id = match target {
        Target::Known(id) => id.clone(),
        Target::Fetch(id, commit) => {
            let socket = client.upload_pack(id, key, commit).await?;
            return Ok((id.clone(), socket));
        }
        Target::Typed(typed) => match client.exec_typed(typed, key, start.clone()).await {
            Err(fault) if is_unresolved(&fault) => resolve::one(client, typed).await?,
            begun => return begun,
        },
    };
    let socket = client.exec_kept(&id, key, start).await?;
    Ok((id, socket))
}

/// Whether the daemon did not find what was typed.
pub fn is_unresolved(fault: &Fault) -> bool {
    matches!(fault.code, Code::WorkspaceNotFound | Code::Ambiguous)
}

/// Unguessable, so that no other client can name the command.
pub fn secret() -> Result<String, Fault> {
    let mut bytes = [0_u8; 16];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    filled.map_err(|error| {
        let message = "the kernel gives no random numbers";
        Fault::new(Code::Internal, message, "try again").because(error)
    })?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Reconnects to the same command through another daemon.
async fn come_back(
    id: &WorkspaceId,
    key: &str,
    shared: &Shared,
    input: &mut InputSide,
) -> Result<Reconnected, Fault> {
    let begun = Instant::now();
    let mut is_said = false;
    loop {
        let tried = async {
            let client = connect::started_unless_stopped().await?;
            let mut socket = client.resume(id, key, shared.received.get()).await?;
            let first = socket.receiver.next().await?;
            Ok((socket, first))
        };
        let fault = match tried.await {
            Ok((mut socket, ExecEvent::Resumed { received, taken })) => {
                shared.started.set(true);
                input.confirmed = shared.received.get();
                let missed = shared.resumed(received, taken);
                match input.catch_up(&mut socket.sender, &missed).await {
                    Ok(()) => return Ok(Reconnected::Again(Box::new(socket))),
                    Err(fault) => fault,
                }
            }
            Ok(_) => not_found_again("the daemon does not know how"),
            Err(fault) => fault,
        };
        if fault.code != Code::DaemonUnreachable {
            return Err(not_found_again(fault));
        }
        let is_stopped = connect::is_stopped()?;
        if begun.elapsed() > COMES_BACK {
            return Err(if is_stopped { stays_stopped() } else { fault });
        }
        if is_stopped && !is_said && begun.elapsed() > SAYS_SO {
            is_said = true;
            // In raw mode the cursor may not be at the beginning of a line.
            let end = match input.signals.attachment() {
                Attachment::Terminal => "\r\n",
                Attachment::Pipes | Attachment::Lines => "\n",
            };
            eprint!("holm: {WAITS_FOR_ANOTHER}{end}");
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_AGAIN) => {}
            number = input.signals.ending(), if is_stopped => return Ok(Reconnected::Signalled(number)),
        }
    }
}

fn stays_stopped() -> Fault {
    Fault::new(
        Code::DaemonUnreachable,
        "the daemon was stopped while the command ran, and no other was started",
        "the command still runs inside, for a while without its output being read; \
         `holm daemon start` starts a daemon, `holm stop` ends the workspace",
    )
}

fn not_found_again(cause: impl Into<Cause>) -> Fault {
    Fault::new(
        Code::DaemonUnreachable,
        "the daemon died while the command ran, and the command was not found again",
        "`holm show` says whether the workspace still runs; the command may, too",
    )
    .because(cause)
}

// === impl Shared ===

impl Shared {
    fn taken(&self, bytes: u64) {
        let mut untaken = self.untaken.borrow_mut();
        let bytes = untaken.len().min(bytes as usize);
        untaken.drain(..bytes);
        self.news.notify_one();
    }

    fn has_room(&self, length: usize) -> bool {
        self.untaken.borrow().len() + length <= STDIN_WINDOW as usize
    }

    fn sending(&self, piece: &[u8]) {
        self.untaken.borrow_mut().extend(piece);
        self.sent.set(self.sent.get() + piece.len() as u64);
    }

    fn hears(&self, stream: Stream, length: usize) {
        let mut received = self.received.get();
        match stream {
            Stream::Stdout => received.stdout += length as u64,
            Stream::Stderr => received.stderr += length as u64,
        }
        self.received.set(received);
        self.news.notify_one();
    }

    /// Updates how much stdin was read; returns what was sent and did not arrive.
    fn resumed(&self, received: u64, taken: u64) -> Vec<u8> {
        let mut untaken = self.untaken.borrow_mut();
        let before = self.sent.get() - untaken.len() as u64;
        let newly = (taken.saturating_sub(before) as usize).min(untaken.len());
        untaken.drain(..newly);
        let missing = self.sent.get().saturating_sub(received) as usize;
        let arrived = untaken.len().saturating_sub(missing);
        untaken.iter().skip(arrived).copied().collect()
    }
}

// === impl OutputSide ===

impl OutputSide {
    /// Passes the daemon's events to the writing thread until the command or the daemon has ended.
    async fn receive(
        &mut self,
        mut receiver: ExecReceiver,
        shared: &Shared,
    ) -> Result<Ended, Fault> {
        loop {
            let event = match receiver.next().await {
                Ok(event) => event,
                Err(fault) if fault.code == Code::DaemonUnreachable => {
                    return Ok(Ended::Lost(fault));
                }
                Err(fault) => return Err(fault),
            };
            let (stream, piece) = match event {
                ExecEvent::Started => {
                    shared.started.set(true);
                    shared.news.notify_one();
                    continue;
                }
                ExecEvent::Kept => {
                    shared.kept.set(true);
                    continue;
                }
                // Handled when the client reconnected.
                ExecEvent::Resumed { .. } => continue,
                ExecEvent::StdinTaken(bytes) => {
                    shared.taken(bytes);
                    continue;
                }
                ExecEvent::Stdout(piece) => (Stream::Stdout, piece),
                ExecEvent::Stderr(piece) => (Stream::Stderr, piece),
                ExecEvent::Exit(code) => return Ok(Ended::Code(code)),
            };
            let length = piece.len();
            let is_written = match self.attachment {
                Attachment::Lines => {
                    let line = self.lines.piece(stream, &piece);
                    self.writer.write(Stream::Stdout, line).await
                }
                Attachment::Terminal | Attachment::Pipes => self.writer.write(stream, piece).await,
            };
            if !is_written {
                return Ok(Ended::Unwritten);
            }
            shared.hears(stream, length);
        }
    }

    /// Waits until everything is written. `None`: writing failed.
    async fn finish(self, code: Option<u8>) -> Result<u8, Fault> {
        if let (Attachment::Lines, Some(code)) = (self.attachment, code) {
            let last = self.lines.end(code);
            self.writer.write(Stream::Stdout, last).await;
        }
        match self.writer.finish().await {
            Ok(()) => Ok(code.unwrap_or(BROKEN_PIPE_EXIT)),
            Err(Errno::PIPE) => Ok(BROKEN_PIPE_EXIT),
            Err(error) => Err(Fault::new(
                Code::Internal,
                "cannot write the command's output",
                "is the disk full that stdout leads to?",
            )
            .because(error)),
        }
    }
}

// === impl InputSide ===

impl InputSide {
    /// Passes stdin and signals to the daemon. Ends only when the daemon no longer reads, or with
    /// the number of a signal that ends this process although a terminal is attached.
    async fn feed(&mut self, mut sender: ExecSender, shared: &Shared) -> Option<u8> {
        loop {
            if let Some(piece) = self.waiting.take_if(|piece| shared.has_room(piece.len())) {
                shared.sending(&piece);
                sender.stdin(&piece).await.ok()?;
            }
            let received = shared.received.get();
            let more =
                received.stdout - self.confirmed.stdout + received.stderr - self.confirmed.stderr;
            if shared.kept.get() && more >= OUTPUT_STEP {
                self.confirmed = received;
                sender.taken(received).await.ok()?;
            }
            // Input that the command cannot get yet is not read.
            if shared.started.get() && self.input.is_none() && !self.is_over {
                self.input = Some(read_stdin());
            }
            let wants_input = self.waiting.is_none() && !self.is_over && self.input.is_some();
            let sent = tokio::select! {
                () = shared.news.notified() => Ok(()),
                piece = next(&mut self.input), if wants_input => match piece {
                    Some(piece) => { self.waiting = Some(piece); Ok(()) }
                    None => { self.is_over = true; sender.stdin_eof().await }
                },
                signal = self.signals.next() => match signal {
                    SignalAction::Forward(number) => sender.signal(number).await,
                    SignalAction::Resized => resize(&mut sender).await,
                    SignalAction::End(number) => return Some(number),
                },
            };
            sent.ok()?;
        }
    }

    /// Repeats what the lost daemon may not have passed on.
    async fn catch_up(&self, sender: &mut ExecSender, missed: &[u8]) -> Result<(), Fault> {
        for piece in missed.chunks(STDIN_WINDOW as usize / 4) {
            sender.stdin(piece).await?;
        }
        if self.is_over && self.waiting.is_none() {
            sender.stdin_eof().await?;
        }
        match self.signals.attachment() {
            Attachment::Terminal => resize(sender).await,
            Attachment::Pipes | Attachment::Lines => Ok(()),
        }
    }
}

async fn resize(sender: &mut ExecSender) -> Result<(), Fault> {
    let size = terminal::size();
    sender.resize(size.rows, size.cols).await
}

async fn next(input: &mut Option<mpsc::Receiver<Bytes>>) -> Option<Bytes> {
    input.as_mut()?.recv().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_of_stdin_did_not_arrive_is_sent_again_and_nothing_else() {
        let shared = Shared::default();
        shared.sending(b"abc");
        shared.sending(b"defgh");
        shared.taken(2);
        // The command read two more bytes than were acknowledged, and two did not arrive.
        assert_eq!(shared.resumed(6, 4), b"gh");
        assert_eq!(shared.untaken.borrow().len(), 4);
        shared.taken(4);
        assert_eq!(shared.resumed(8, 8), b"");
        assert!(shared.has_room(STDIN_WINDOW as usize));
    }
}
