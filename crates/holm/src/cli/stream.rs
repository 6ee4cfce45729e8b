//! The program's own stdin, stdout and stderr as channels, each direction in its own thread, so
//! that a slow reader or an idle keyboard never delays signals. Used by [`super::attach`].

use super::terminal;
use bytes::Bytes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io::IsTerminal;
use std::os::fd::BorrowedFd;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// The size of one read; less than the window of the exec protocol.
const CHUNK: usize = 64 * 1024;

/// How often a background job checks whether it has the terminal again.
const BACKGROUND_PAUSE: Duration = Duration::from_millis(200);

/// How many pieces of output may wait for a slow reader.
const WAITING_PIECES: usize = 64;

/// The target of a piece of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

/// The writing thread.
pub struct Writer {
    pieces: mpsc::Sender<(Stream, Bytes)>,
    ended: oneshot::Receiver<Result<(), Errno>>,
}

/// Starts reading stdin. The channel closes at the end of the input.
pub fn read_stdin() -> mpsc::Receiver<Bytes> {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        let stdin = rustix::stdio::stdin();
        let is_terminal = std::io::stdin().is_terminal();
        let mut buffer = vec![0; CHUNK];
        loop {
            if is_terminal {
                wait_for_foreground(stdin);
            }
            let length = match rustix::io::read(stdin, &mut buffer) {
                Ok(length) => length,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => {
                    wait_until(stdin, PollFlags::IN);
                    continue;
                }
                // A terminal that hung up or an unreadable descriptor has no more input.
                Err(_) => 0,
            };
            if length == 0 {
                return;
            }
            let piece = Bytes::copy_from_slice(&buffer[..length]);
            if sender.blocking_send(piece).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Waits for input, and until this job may read it: reading the terminal from the background would
/// stop the whole job, although its command may not want any input.
fn wait_for_foreground(stdin: BorrowedFd<'_>) {
    wait_until(stdin, PollFlags::IN);
    while terminal::is_in_background(stdin) {
        std::thread::sleep(BACKGROUND_PAUSE);
    }
}

fn wait_until(descriptor: BorrowedFd<'_>, ready: PollFlags) {
    let forever: Option<&Timespec> = None;
    // An interrupted or failed wait does no harm: the caller tries again.
    let _ = poll(&mut [PollFd::from_borrowed_fd(descriptor, ready)], forever);
}

// === impl Writer ===

impl Writer {
    /// Starts the thread.
    pub fn start() -> Self {
        let (pieces, mut waiting) = mpsc::channel::<(Stream, Bytes)>(WAITING_PIECES);
        let (end, ended) = oneshot::channel();
        std::thread::spawn(move || {
            let mut result = Ok(());
            while let Some((stream, piece)) = waiting.blocking_recv() {
                result = write_all(stream, &piece);
                if result.is_err() {
                    break;
                }
            }
            // The channel is closed first, so that the sender sees the error.
            drop(waiting);
            let _ = end.send(result);
        });
        Self { pieces, ended }
    }

    /// Passes a piece on; false when nothing can be written any more.
    pub async fn write(&self, stream: Stream, piece: Bytes) -> bool {
        self.pieces.send((stream, piece)).await.is_ok()
    }

    /// Waits until everything is written.
    pub async fn finish(self) -> Result<(), Errno> {
        drop(self.pieces);
        self.ended.await.unwrap_or(Ok(()))
    }
}

fn write_all(stream: Stream, mut piece: &[u8]) -> Result<(), Errno> {
    let descriptor = match stream {
        Stream::Stdout => rustix::stdio::stdout(),
        Stream::Stderr => rustix::stdio::stderr(),
    };
    while !piece.is_empty() {
        match rustix::io::write(descriptor, piece) {
            Ok(length) => piece = &piece[length..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => wait_until(descriptor, PollFlags::OUT),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
