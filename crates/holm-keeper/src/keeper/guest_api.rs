//! `/run/holm/api.sock`: the daemon's API for programs inside, with the rights of this workspace.
//!
//! Each connection is joined to one to the daemon's socket for guests, after a line that identifies
//! the workspace. The bytes are not parsed. Every connection reaches the daemon that is running at
//! that moment.

use super::Registry;
use super::asker;
use super::waiting::Waiting;
use crate::directories;
use crate::guests::{GuestDoor, greeting};
use rustix::event::PollFlags;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Concurrent connections; each has a thread and a buffer of this size per direction.
const MOST: usize = 64;
const ROOM: usize = 32 << 10;

/// The time limit for connecting to the daemon, and for the guest to read an error.
const PATIENCE: Duration = Duration::from_secs(2);

/// The response when there is no daemon, to any request.
const NOBODY: &str = r#"{"error":{"code":"daemon_unreachable","message":"the daemon does not run","hint":"outside of the workspace, `holm daemon start` starts it"}}"#;
const TOO_MANY: &str = r#"{"error":{"code":"busy","message":"too many connections of this workspace to the daemon are open","hint":"close some of them, then try again"}}"#;

/// One keeper is one process, so this counts all of them.
static OPEN: AtomicUsize = AtomicUsize::new(0);

struct Counted;

/// One direction of a connection.
struct Way<'a> {
    from: &'a UnixStream,
    to: &'a UnixStream,
    room: Vec<u8>,
    /// The part of the buffer that was read and not written.
    held: std::ops::Range<usize>,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Open,
    /// Nothing more will be read; the buffer must be flushed.
    Ending,
    Over,
}

#[derive(Default)]
struct Ready {
    inward: bool,
    outward: bool,
}

pub fn serve(stream: UnixStream, registry: &Arc<Registry>) {
    let registry = Arc::clone(registry);
    let thread = std::thread::Builder::new().stack_size(128 * 1024);
    // Without a thread the connection closes, which the guest sees.
    let _ = thread.spawn(move || {
        let (Some(door), Some(_counted)) = (&registry.plan.guests, Counted::new()) else {
            return refuse(&stream, TOO_MANY);
        };
        let asker = asker::of(&stream, &registry);
        match reach(door, &registry.plan.id, asker.as_deref()) {
            // When either side closes, the other is closed too.
            Ok(daemon) => drop(join(&stream, &daemon)),
            Err(_) => refuse(&stream, NOBODY),
        }
    });
}

fn reach(door: &GuestDoor, id: &str, asker: Option<&str>) -> io::Result<UnixStream> {
    reach_with(door, &greeting(id, asker, &door.secret))
}

/// Connects to the daemon; `greeting` says who speaks.
pub fn reach_with(door: &GuestDoor, greeting: &[u8]) -> io::Result<UnixStream> {
    let (Some(parent), Some(name)) = (door.socket.parent(), door.socket.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    // Through the directory's descriptor, because a socket's path is limited to 107 bytes.
    let directory = directories::open_directory(parent)?;
    let mut daemon = UnixStream::connect(directories::descriptor_path(&directory).join(name))?;
    daemon.set_write_timeout(Some(PATIENCE))?;
    daemon.write_all(greeting)?;
    Ok(daemon)
}

/// Sends an error response, and gives the guest time to read it.
fn refuse(mut stream: &UnixStream, body: &str) {
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    // A guest that does not read does not get it.
    let _ = stream.set_write_timeout(Some(PATIENCE));
    let _ = stream.set_read_timeout(Some(PATIENCE));
    let _ = stream.write_all(answer.as_bytes());
    let _ = stream.shutdown(Shutdown::Write);
    let mut rest = [0; 4096];
    let mut left = 256;
    while left > 0 && matches!(stream.read(&mut rest), Ok(1..)) {
        left -= 1;
    }
}

/// Copies bytes both ways until both have ended. An error counts as the end of that direction.
pub fn join(guest: &UnixStream, daemon: &UnixStream) -> io::Result<()> {
    guest.set_nonblocking(true)?;
    daemon.set_nonblocking(true)?;
    let mut outward = Way::new(guest, daemon);
    let mut inward = Way::new(daemon, guest);
    while outward.stage != Stage::Over || inward.stage != Stage::Over {
        let mut waiting = Waiting::<Ready>::new();
        outward.wait(&mut waiting, |ready| ready.outward = true);
        inward.wait(&mut waiting, |ready| ready.inward = true);
        let ready = waiting.wait(None)?;
        if ready.outward {
            outward.carry();
        }
        if ready.inward {
            inward.carry();
        }
    }
    Ok(())
}

// === impl Counted ===

impl Counted {
    /// `None` when there are too many.
    fn new() -> Option<Self> {
        let counted = Self;
        (OPEN.fetch_add(1, Ordering::SeqCst) < MOST).then_some(counted)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::SeqCst);
    }
}

// === impl Way ===

impl<'a> Way<'a> {
    fn new(from: &'a UnixStream, to: &'a UnixStream) -> Self {
        Self {
            from,
            to,
            room: vec![0; ROOM],
            held: 0..0,
            stage: Stage::Open,
        }
    }

    /// Waits for bytes to read, or for room to write.
    fn wait(&self, waiting: &mut Waiting<'a, Ready>, role: fn(&mut Ready)) {
        match self.stage {
            Stage::Over => {}
            _ if !self.held.is_empty() => waiting.add(self.to, PollFlags::OUT, role),
            _ => waiting.add(self.from, PollFlags::IN, role),
        }
    }

    fn carry(&mut self) {
        if self.held.is_empty() && self.stage == Stage::Open {
            match self.from.read(&mut self.room) {
                Ok(0) => self.stage = Stage::Ending,
                Ok(length) => self.held = 0..length,
                Err(error) if is_passing(&error) => return,
                Err(_) => self.stage = Stage::Ending,
            }
        }
        if !self.held.is_empty() {
            match self.to.write(&self.room[self.held.clone()]) {
                Ok(length) => self.held.start += length,
                Err(error) if is_passing(&error) => return,
                // A reader that closed may have sent its reason, which still has to arrive.
                Err(_) => (self.held, self.stage) = (0..0, Stage::Ending),
            }
        }
        if self.held.is_empty() && self.stage == Stage::Ending {
            self.stage = Stage::Over;
            // If the peer is gone completely, the other direction notices.
            let _ = self.to.shutdown(Shutdown::Write);
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_pass_both_ways_and_an_end_is_an_end() {
        let (mut guest, near) = UnixStream::pair().unwrap();
        let (far, mut daemon) = UnixStream::pair().unwrap();
        let joined = std::thread::spawn(move || join(&near, &far));
        let much: Vec<u8> = (0..3 * ROOM + 7).map(|number| number as u8).collect();
        let sent = much.clone();
        let asking = std::thread::spawn(move || {
            guest.write_all(&sent).unwrap();
            guest.shutdown(Shutdown::Write).unwrap();
            let mut received = Vec::new();
            guest.read_to_end(&mut received).unwrap();
            received
        });
        let mut received = Vec::new();
        daemon.read_to_end(&mut received).unwrap();
        assert!(received == much);
        daemon.write_all(b"an answer after the end").unwrap();
        drop(daemon);
        assert_eq!(asking.join().unwrap(), b"an answer after the end");
        joined.join().unwrap().unwrap();
    }

    #[test]
    fn an_answer_to_what_was_not_read_to_its_end_arrives() {
        let (mut guest, near) = UnixStream::pair().unwrap();
        let (far, mut daemon) = UnixStream::pair().unwrap();
        guest.write_all(b"a request with a body").unwrap();
        daemon.write_all(b"refused").unwrap();
        drop(daemon);
        join(&near, &far).unwrap();
        drop((near, far));
        let mut received = Vec::new();
        guest.read_to_end(&mut received).unwrap();
        assert_eq!(received, b"refused");
    }

    #[test]
    fn who_is_too_many_hears_it() {
        let held: Vec<_> = (0..MOST).map(|_| Counted::new().unwrap()).collect();
        assert!(Counted::new().is_none());
        drop(held);
        assert!(Counted::new().is_some());
        let (mut guest, near) = UnixStream::pair().unwrap();
        guest.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let refusing = std::thread::spawn(move || refuse(&near, TOO_MANY));
        let mut received = vec![0; 40];
        guest.read_exact(&mut received).unwrap();
        assert!(received.starts_with(b"HTTP/1.1 503 "));
        drop(guest);
        refusing.join().unwrap();
    }
}
