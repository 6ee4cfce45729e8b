//! The program's own stdin, stdout and stderr as channels, each direction in its own thread, so
//! that a slow reader or an idle keyboard never delays signals. Used by [`super::attach`].
//!
//! A terminal can be opened again without blocking others ([`Keys`], [`Writer::draw`]): then a key
//! and its echo change no thread.

use super::terminal;
use bytes::{Buf, Bytes};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::io::{self, IsTerminal};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::net::unix::pipe::Receiver;
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

/// Writes in a thread of its own, which starts with the first piece.
pub struct Writer {
    thread: OnceLock<WritingThread>,
    /// Pieces that the thread has not written yet.
    waiting: Arc<AtomicUsize>,
    /// The terminal on stdout, for the calling thread.
    terminal: Option<OwnedFd>,
}

struct WritingThread {
    pieces: mpsc::Sender<(Stream, Bytes)>,
    ended: oneshot::Receiver<Result<(), Errno>>,
}

/// What is typed on the terminal.
pub enum Keys {
    Here(Receiver),
    /// The terminal cannot be opened again, for example after `su`.
    Thread(mpsc::Receiver<Bytes>),
}

/// The terminal of a standard stream, opened again: whether reading and writing blocks is a property
/// of what was opened, and other programs use the same terminal.
fn open_again(stream: BorrowedFd<'_>, access: OFlags) -> Option<OwnedFd> {
    if !stream.is_terminal() {
        return None;
    }
    let path = rustix::termios::ttyname(stream, Vec::new()).ok()?;
    let flags = access | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).ok()
}

// === impl Keys ===

impl Keys {
    pub fn listen() -> Self {
        let terminal = open_again(rustix::stdio::stdin(), OFlags::RDONLY);
        let here = terminal.and_then(|terminal| Receiver::from_owned_fd_unchecked(terminal).ok());
        here.map_or_else(|| Self::Thread(read_stdin()), Self::Here)
    }

    /// The next keys; `None` at the end of the input. May be dropped at any time.
    pub async fn next(&mut self) -> Option<Bytes> {
        let terminal = match self {
            Self::Here(terminal) => terminal,
            Self::Thread(pieces) => return pieces.recv().await,
        };
        let mut buffer = [0; 4096];
        loop {
            terminal.readable().await.ok()?;
            while terminal::is_in_background(rustix::stdio::stdin()) {
                tokio::time::sleep(BACKGROUND_PAUSE).await;
            }
            match terminal.try_read(&mut buffer) {
                Ok(0) => return None,
                Ok(length) => return Some(Bytes::copy_from_slice(&buffer[..length])),
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                    ) => {}
                // The terminal hung up.
                Err(_) => return None,
            }
        }
    }
}

/// Starts reading stdin. The channel closes at the end of the input.
pub fn read_stdin() -> mpsc::Receiver<Bytes> {
    let (sender, receiver) = mpsc::channel(1);
    if is_null(rustix::stdio::stdin()) {
        return receiver;
    }
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

/// Whether it is `/dev/null`, which needs no thread to wait for its end.
fn is_null(descriptor: BorrowedFd<'_>) -> bool {
    const NULL: (u32, u32) = (1, 3);
    rustix::fs::fstat(descriptor).is_ok_and(|found| {
        let device = (
            rustix::fs::major(found.st_rdev),
            rustix::fs::minor(found.st_rdev),
        );
        let kind = rustix::fs::FileType::from_raw_mode(found.st_mode);
        kind == rustix::fs::FileType::CharacterDevice && device == NULL
    })
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
    pub fn start() -> Self {
        Self {
            thread: OnceLock::new(),
            waiting: Arc::new(AtomicUsize::new(0)),
            terminal: open_again(rustix::stdio::stdout(), OFlags::WRONLY),
        }
    }

    /// Writes to the terminal on stdout, in this thread as far as the terminal takes it at once;
    /// false when nothing can be written any more.
    pub async fn draw(&self, mut piece: Bytes) -> bool {
        if let Some(terminal) = &self.terminal
            && self.waiting.load(Ordering::SeqCst) == 0
        {
            // The thread handles a terminal that is full or gone.
            if let Ok(length) = rustix::io::write(terminal, &piece) {
                piece.advance(length);
            }
        }
        piece.is_empty() || self.write(Stream::Stdout, piece).await
    }

    /// Passes a piece on; false when nothing can be written any more.
    pub async fn write(&self, stream: Stream, piece: Bytes) -> bool {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let start = || WritingThread::start(Arc::clone(&self.waiting));
        let thread = self.thread.get_or_init(start);
        thread.pieces.send((stream, piece)).await.is_ok()
    }

    /// Waits until everything is written.
    pub async fn finish(self) -> Result<(), Errno> {
        let Some(WritingThread { pieces, ended }) = self.thread.into_inner() else {
            return Ok(());
        };
        drop(pieces);
        ended.await.unwrap_or(Ok(()))
    }
}

// === impl WritingThread ===

impl WritingThread {
    fn start(left: Arc<AtomicUsize>) -> Self {
        let (pieces, mut waiting) = mpsc::channel::<(Stream, Bytes)>(WAITING_PIECES);
        let (end, ended) = oneshot::channel();
        std::thread::spawn(move || {
            let mut result = Ok(());
            while let Some((stream, piece)) = waiting.blocking_recv() {
                result = write_all(stream, &piece);
                left.fetch_sub(1, Ordering::SeqCst);
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
