//! Joins this process to a command inside: bytes, signals, the size of the terminal, the exit code.
//! Called by `exec` and `enter`.
//!
//! Three parts run side by side: the daemon's events go to the writing thread, stdin and signals go
//! to the daemon, and neither waits for the other. Of stdin never more than the protocol's window
//! is under way.

use super::output::BROKEN_PIPE_EXIT;
use super::stream::{Stream, Writer, read_stdin};
use super::terminal::{self, RawMode};
use bytes::Bytes;
use holm_api::client::{Client, ExecEvent, ExecReceiver, ExecSender, ExecSocket};
use holm_api::exec::{STDIN_WINDOW, Start};
use holm_core::{Code, Fault, WorkspaceId};
use rustix::io::Errno;
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Semaphore, mpsc, oneshot};

/// How the command's input and output reach the person or program outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// A terminal on both ends.
    Terminal,
    /// Exact bytes on stdin, stdout and stderr.
    Pipes,
    /// JSON Lines on stdout.
    Lines,
}

/// Runs the command and returns its exit code.
pub async fn attach(
    client: &Client,
    id: &WorkspaceId,
    start: Start,
    attachment: Attachment,
) -> Result<u8, Fault> {
    let signals = Signals::listen(attachment)?;
    let raw = match attachment {
        Attachment::Terminal => Some(RawMode::enter()?),
        Attachment::Pipes | Attachment::Lines => None,
    };
    let ExecSocket { sender, receiver } = client.exec(id, start).await?;
    let credit = Semaphore::new(STDIN_WINDOW as usize);
    let (started, has_started) = oneshot::channel();
    let feed = feed(sender, signals, &credit, has_started);
    let hear = hear(receiver, &credit, started, attachment);
    tokio::pin!(feed, hear);
    let result = tokio::select! {
        code = &mut hear => code,
        ended = &mut feed => match ended {
            Some(number) => Ok(128 + number),
            // The daemon went away, and the other direction knows how and why.
            None => hear.await,
        },
    };
    drop(raw);
    result
}

/// Moves events of the daemon to the writing thread until the command has ended.
async fn hear(
    mut receiver: ExecReceiver,
    credit: &Semaphore,
    started: oneshot::Sender<()>,
    attachment: Attachment,
) -> Result<u8, Fault> {
    let writer = Writer::start();
    let mut lines = Lines::default();
    let mut started = Some(started);
    let code = loop {
        let (stream, piece) = match receiver.next().await? {
            ExecEvent::Started => {
                if let Some(started) = started.take() {
                    // Nobody waits for it when the feeding side has ended.
                    let _ = started.send(());
                }
                continue;
            }
            ExecEvent::StdinTaken(bytes) => {
                let room = (STDIN_WINDOW as usize).saturating_sub(credit.available_permits());
                credit.add_permits(room.min(bytes as usize));
                continue;
            }
            ExecEvent::Stdout(piece) => (Stream::Stdout, piece),
            ExecEvent::Stderr(piece) => (Stream::Stderr, piece),
            ExecEvent::Exit(code) => break code,
        };
        let is_written = match attachment {
            Attachment::Lines => {
                let line = lines.piece(stream, &piece);
                writer.write(Stream::Stdout, line).await
            }
            Attachment::Terminal | Attachment::Pipes => writer.write(stream, piece).await,
        };
        if !is_written {
            return written(writer.finish().await).map(|()| BROKEN_PIPE_EXIT);
        }
    };
    if attachment == Attachment::Lines {
        let last = lines.end(code);
        writer.write(Stream::Stdout, last).await;
    }
    match writer.finish().await {
        Err(Errno::PIPE) => Ok(BROKEN_PIPE_EXIT),
        result => written(result).map(|()| code),
    }
}

fn written(result: Result<(), Errno>) -> Result<(), Fault> {
    match result {
        Ok(()) | Err(Errno::PIPE) => Ok(()),
        Err(error) => Err(Fault::new(
            Code::Internal,
            format!("cannot write the command's output: {error}"),
            "is the disk full that stdout leads to?",
        )),
    }
}

/// Moves stdin and signals to the daemon. Ends only when the daemon no longer listens, or with the
/// number of a signal that ends this process although a terminal is attached.
async fn feed(
    mut sender: ExecSender,
    mut signals: Signals,
    credit: &Semaphore,
    has_started: oneshot::Receiver<()>,
) -> Option<u8> {
    let mut input: Option<mpsc::Receiver<Bytes>> = None;
    let mut waiting: Option<Bytes> = None;
    let mut is_over = false;
    tokio::pin!(has_started);
    loop {
        let length = waiting.as_ref().map_or(0, Bytes::len) as u32;
        let sent = tokio::select! {
            // What the command does not get is not read: input stays with us until it runs.
            begun = &mut has_started, if input.is_none() && !is_over => {
                match begun {
                    Ok(()) => input = Some(read_stdin()),
                    Err(_) => is_over = true,
                }
                Ok(())
            }
            piece = next(&mut input), if waiting.is_none() && !is_over && input.is_some() => {
                match piece {
                    Some(piece) => { waiting = Some(piece); Ok(()) }
                    None => { is_over = true; sender.stdin_eof().await }
                }
            }
            permit = credit.acquire_many(length), if waiting.is_some() => {
                if let Ok(permit) = permit {
                    permit.forget();
                }
                let piece = waiting.take().unwrap_or_default();
                sender.stdin(&piece).await
            }
            signal = signals.next() => match signal {
                Heard::Forward(number) => sender.signal(number).await,
                Heard::Resized => {
                    let size = terminal::size();
                    sender.resize(size.rows, size.cols).await
                }
                Heard::End(number) => return Some(number),
            },
        };
        if sent.is_err() {
            return None;
        }
    }
}

async fn next(input: &mut Option<mpsc::Receiver<Bytes>>) -> Option<Bytes> {
    input.as_mut()?.recv().await
}

/// The signals that mean something while a command runs inside.
struct Signals {
    attachment: Attachment,
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    quit: Signal,
    resized: Signal,
}

enum Heard {
    /// The command inside gets it.
    Forward(i32),
    Resized,
    /// This process was told to end.
    End(u8),
}

// === impl Signals ===

impl Signals {
    fn listen(attachment: Attachment) -> Result<Self, Fault> {
        let listen = |kind: SignalKind| {
            signal(kind).map_err(|error| {
                let message = format!("cannot listen for signals: {error}");
                Fault::new(Code::Internal, message, "try again")
            })
        };
        Ok(Self {
            attachment,
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
            quit: listen(SignalKind::quit())?,
            resized: listen(SignalKind::window_change())?,
        })
    }

    async fn next(&mut self) -> Heard {
        loop {
            let kind = tokio::select! {
                _ = self.interrupt.recv() => SignalKind::interrupt(),
                _ = self.terminate.recv() => SignalKind::terminate(),
                _ = self.hangup.recv() => SignalKind::hangup(),
                _ = self.quit.recv() => SignalKind::quit(),
                _ = self.resized.recv() => SignalKind::window_change(),
            };
            let number = kind.as_raw_value();
            let is_resize = kind == SignalKind::window_change();
            match self.attachment {
                Attachment::Terminal if is_resize => return Heard::Resized,
                _ if is_resize => {}
                // Keys reach the command through its terminal; a signal is meant for this process.
                Attachment::Terminal => return Heard::End(number as u8),
                Attachment::Pipes | Attachment::Lines => return Heard::Forward(number),
            }
        }
    }
}

/// Output as JSON Lines. A character that was cut between two pieces waits for its other half;
/// what is not UTF-8 is sent as an array of bytes.
#[derive(Default)]
struct Lines {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

// === impl Lines ===

impl Lines {
    fn piece(&mut self, stream: Stream, piece: &[u8]) -> Bytes {
        let (name, kept) = match stream {
            Stream::Stdout => ("stdout", &mut self.stdout),
            Stream::Stderr => ("stderr", &mut self.stderr),
        };
        kept.extend_from_slice(piece);
        let whole = match std::str::from_utf8(kept) {
            Ok(_) => kept.len(),
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => kept.len(),
        };
        let rest = kept.split_off(whole);
        let ready = std::mem::replace(kept, rest);
        line(name, ready)
    }

    fn end(self, code: u8) -> Bytes {
        let mut text = Vec::new();
        text.extend_from_slice(&line("stdout", self.stdout));
        text.extend_from_slice(&line("stderr", self.stderr));
        text.extend_from_slice(format!("{}\n", json!({ "exit_code": code })).as_bytes());
        Bytes::from(text)
    }
}

fn line(name: &str, bytes: Vec<u8>) -> Bytes {
    if bytes.is_empty() {
        return Bytes::new();
    }
    let content = holm_api::exec::Bytes::from(bytes);
    Bytes::from(format!("{}\n", json!({ name: content })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_were_cut_are_joined_and_other_bytes_kept() {
        let mut lines = Lines::default();
        let mut text = Vec::new();
        text.extend(lines.piece(Stream::Stdout, b"gr\xc3"));
        text.extend(lines.piece(Stream::Stderr, b"x"));
        text.extend(lines.piece(Stream::Stdout, b"\xbc\xffn"));
        text.extend(lines.piece(Stream::Stdout, b"\xe6\x97"));
        text.extend(lines.end(3));
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "{\"stdout\":\"gr\"}\n{\"stderr\":\"x\"}\n{\"stdout\":[195,188,255,110]}\n\
             {\"stdout\":[230,151]}\n{\"exit_code\":3}\n"
        );
    }
}
