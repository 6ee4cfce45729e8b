//! What lets a command outlive the daemon between it and its client: output is kept until the client
//! says that it has it, and a client that lost its daemon comes back by the command's key. Used by
//! [`super::relay`]; [`super::connection`] brings those who return.
//!
//! The key gives access to the command, so it is never revealed.

use crate::wire::{channel, frame};
use holm_core::exec::Resume;
use std::collections::{HashMap, VecDeque};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};

/// Output in the order it was read, without what the client has acknowledged.
#[derive(Default)]
pub struct Output {
    pieces: VecDeque<(u8, Vec<u8>)>,
    /// Bytes of stdout and stderr that were removed from `pieces`.
    gone: (u64, u64),
    held: usize,
}

/// A client that reconnects through another daemon.
pub struct Return {
    pub stream: UnixStream,
    pub resume: Resume,
}

/// Commands that clients can reconnect to, by key.
#[derive(Default)]
pub struct Doors(Mutex<HashMap<String, Bell>>);

struct Bell {
    returns: mpsc::Sender<Return>,
    wake: PipeWriter,
}

/// The command's registration, removed when dropped.
pub struct Door<'a> {
    doors: &'a Doors,
    key: String,
    returns: mpsc::Receiver<Return>,
    wake: PipeReader,
}

/// The result of checking for a returning client.
pub enum Knock {
    Back(Return),
    Nobody,
    /// The keeper ends.
    Closed,
}

// === impl Output ===

impl Output {
    pub fn push(&mut self, kind: u8, bytes: Vec<u8>) {
        self.held += bytes.len();
        self.pieces.push_back((kind, bytes));
    }

    /// How many bytes are kept.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Drops output that the client has: totals of stdout and stderr since the beginning.
    pub fn acknowledge(&mut self, stdout: u64, stderr: u64) {
        while let Some((kind, bytes)) = self.pieces.front() {
            let (gone, has) = match *kind {
                channel::STDOUT => (&mut self.gone.0, stdout),
                _ => (&mut self.gone.1, stderr),
            };
            let length = bytes.len();
            if *gone + length as u64 > has {
                return;
            }
            *gone += length as u64;
            self.held -= length;
            self.pieces.pop_front();
        }
    }

    /// All frames that a client with these totals does not have.
    pub fn since(&self, stdout: u64, stderr: u64) -> Vec<u8> {
        let mut frames = Vec::new();
        let mut at = self.gone;
        for (kind, bytes) in &self.pieces {
            let (at, has) = match *kind {
                channel::STDOUT => (&mut at.0, stdout),
                _ => (&mut at.1, stderr),
            };
            let known = has.saturating_sub(*at).min(bytes.len() as u64);
            *at += bytes.len() as u64;
            let rest = &bytes[known as usize..];
            if !rest.is_empty() {
                frames.extend(frame(*kind, rest));
            }
        }
        frames
    }
}

// === impl Doors ===

impl Doors {
    /// Registers a command until the door is dropped.
    pub fn open(&self, key: String) -> io::Result<Door<'_>> {
        let (wake, ring) = io::pipe()?;
        let (sender, returns) = mpsc::channel();
        let bell = Bell {
            returns: sender,
            wake: ring,
        };
        let mut bells = self.bells();
        if bells.contains_key(&key) {
            return Err(io::Error::other("a command has this key already"));
        }
        bells.insert(key.clone(), bell);
        Ok(Door {
            doors: self,
            key,
            returns,
            wake,
        })
    }

    /// Delivers a client to its command; returns the client when no command has the key.
    pub fn bring(&self, back: Return) -> Result<(), Return> {
        let mut bells = self.bells();
        let Some(bell) = bells.get_mut(&back.resume.key) else {
            return Err(back);
        };
        bell.returns.send(back).map_err(|unsent| unsent.0)?;
        // The other end exists as long as the door does.
        let _ = bell.wake.write_all(&[0]);
        Ok(())
    }

    /// Stops waiting for all clients.
    pub fn close(&self) {
        self.bells().clear();
    }

    fn bells(&self) -> MutexGuard<'_, HashMap<String, Bell>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Door ===

impl Door<'_> {
    /// Readable when a client is back or the door is closed.
    pub fn source(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Takes the returning client. Call it only after [`Door::source`] was readable: it blocks
    /// otherwise.
    pub fn answer(&mut self) -> Knock {
        match self.wake.read(&mut [0]) {
            Ok(0) | Err(_) => Knock::Closed,
            Ok(_) => self.returns.try_recv().map_or(Knock::Nobody, Knock::Back),
        }
    }
}

impl Drop for Door<'_> {
    fn drop(&mut self) {
        self.doors.bells().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::take_frame;

    const OUT: u8 = channel::STDOUT;
    const ERR: u8 = channel::STDERR;

    fn frames(output: &Output, stdout: u64, stderr: u64) -> Vec<(u8, Vec<u8>)> {
        let mut bytes = output.since(stdout, stderr);
        std::iter::from_fn(|| take_frame(&mut bytes).unwrap()).collect()
    }

    #[test]
    fn what_the_client_has_is_dropped_and_the_rest_comes_once() {
        let mut output = Output::default();
        for (kind, text) in [(OUT, "one"), (ERR, "two"), (OUT, "three"), (OUT, "four")] {
            output.push(kind, text.into());
        }
        let of = |kind: u8, text: &str| (kind, text.as_bytes().to_vec());
        assert_eq!(frames(&output, 12, 3), []);
        let rest = [of(OUT, "three"), of(OUT, "four")];
        assert_eq!(frames(&output, 3, 3), rest);
        output.acknowledge(3, 3);
        assert_eq!((output.held(), frames(&output, 3, 3)), (9, rest.to_vec()));
        // A partly acknowledged piece is kept, and only its rest is sent.
        output.acknowledge(5, 3);
        assert_eq!(output.held(), 9);
        assert_eq!(frames(&output, 5, 3), [of(OUT, "ree"), of(OUT, "four")]);
        output.acknowledge(12, 3);
        assert_eq!((output.held(), frames(&output, 12, 3)), (0, vec![]));
    }

    #[test]
    fn a_client_finds_its_command_while_it_is_there() {
        let doors = Doors::default();
        let back = |key: &str| Return {
            stream: UnixStream::pair().unwrap().0,
            resume: Resume {
                key: key.to_owned(),
                stdout: 1,
                stderr: 2,
            },
        };
        let mut door = doors.open("a".to_owned()).unwrap();
        assert!(doors.open("a".to_owned()).is_err(), "a key is used once");
        assert!(doors.bring(back("b")).is_err());
        assert!(doors.bring(back("a")).is_ok());
        assert!(matches!(door.answer(), Knock::Back(back) if back.resume.stderr == 2));
        doors.close();
        assert!(matches!(door.answer(), Knock::Closed));
        drop(door);
        assert!(doors.bring(back("a")).is_err());
    }
}
