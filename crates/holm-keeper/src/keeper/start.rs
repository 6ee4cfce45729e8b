//! Starts programs: the request to init, the streams, and init's answer.

use super::{InitNumber, InitOf, KILLED, Purpose, Registry, Starting};
use crate::descriptors::{self, is_too_many};
use crate::keeper::rooms::Room;
use crate::stdio;
use crate::wire::{Defence, FromInit, Spawn, ToInit};
use std::io::{self, PipeWriter, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{PoisonError, RwLockWriteGuard, mpsc};
use std::time::Duration;
use zeroize::Zeroize;

/// Init's answer to a start request.
pub enum Started {
    /// With the terminal's master, or the keeper's ends of piped streams, in order.
    Running { pid: i32, ends: Vec<OwnedFd> },
    Not {
        code: u8,
        cause: String,
        /// The errno, when the program cannot enter its working directory.
        directory: Option<i32>,
    },
}

/// Which init starts a program, and for whom.
#[derive(Clone, Copy)]
struct How<'a> {
    purpose: Purpose,
    init: InitOf<'a>,
}

/// Which side created the streams of a program.
enum Made {
    Here,
    /// Init, because descriptors could not be sent to it.
    Inside,
}

// === impl Registry ===

impl Registry {
    /// Starts a program without a client in a room.
    pub fn start_in_room(
        &self,
        room: &Room,
        spawn: Spawn,
        exit: PipeWriter,
    ) -> io::Result<Started> {
        self.start_for(Purpose::Background, InitOf::Room(room), spawn, exit)
    }

    /// Waits for the end of a program in a room, at most for `limit`.
    pub fn wait_for_end(&self, room: &Room, pid: i32, limit: Duration) {
        let program = (room.number(), pid);
        self.wait_while(limit, |state| state.running.contains_key(&program));
    }

    /// An init is gone, and with it everything that it started.
    pub fn end_init(&self, init: InitNumber) {
        let mut state = self.state();
        state.starting.retain(|_, starting| starting.by != init);
        let programs = state.running.extract_if(|(by, _), _| *by == init);
        for (_, mut running) in programs {
            let _ = running.exit.write_all(&[KILLED]);
        }
        self.changed.notify_all();
        drop(state);
        self.homes.close(init);
    }

    /// Blocks starts while the guard exists, except for [`Self::start_while_held`].
    pub fn hold_starts(&self) -> RwLockWriteGuard<'_, ()> {
        self.starts.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// For the holder of that guard.
    pub fn start_while_held(&self, spawn: Spawn, exit: PipeWriter) -> io::Result<Started> {
        let how = How {
            purpose: Purpose::Background,
            init: InitOf::Workspace,
        };
        self.start_now(how, spawn, exit)
    }

    /// Asks an init to start a program and waits for the answer. `exit` gets the exit code later.
    pub(super) fn start_for(
        &self,
        purpose: Purpose,
        init: InitOf<'_>,
        spawn: Spawn,
        exit: PipeWriter,
    ) -> io::Result<Started> {
        let _may = self.starts.read().unwrap_or_else(PoisonError::into_inner);
        self.start_now(How { purpose, init }, spawn, exit)
    }

    fn start_now(&self, how: How<'_>, mut spawn: Spawn, exit: PipeWriter) -> io::Result<Started> {
        let How { purpose, init } = how;
        spawn.sequence = self.sequence.fetch_add(1, Ordering::Relaxed);
        let sequence = spawn.sequence;
        let streams = spawn.streams.take();
        let made = streams.map(stdio::make).transpose()?;
        let (theirs, ours) = made
            .map(|made| (made.theirs, made.ours))
            .unwrap_or_default();
        let (reply, answer) = mpsc::channel();
        let starting = Starting {
            by: init.number(),
            reply,
            exit,
            purpose,
            has_terminal: spawn.terminal.is_some(),
        };
        {
            let mut state = self.state();
            state.starting.insert(sequence, starting);
            self.activity.begin();
        }
        let borrowed: Vec<_> = theirs.iter().map(AsFd::as_fd).collect();
        let mut message = ToInit::Spawn(spawn);
        let mut sent = self.send_to(init, &message, &borrowed).map(|()| Made::Here);
        let may_take = self.plan.has(Defence::TakenDescriptors);
        if may_take && sent.as_ref().is_err_and(is_too_many) {
            if let ToInit::Spawn(spawn) = &mut message {
                spawn.streams = streams;
            }
            sent = self.send_to(init, &message, &[]).map(|()| Made::Inside);
        }
        if let ToInit::Spawn(spawn) = &mut message {
            // They may contain secrets.
            spawn.env.iter_mut().for_each(|(_, value)| value.zeroize());
        }
        let started = sent.and_then(|made| {
            let limit = Duration::from_secs(30);
            let answer = answer.recv_timeout(limit);
            Ok((
                made,
                answer.map_err(|_| io::Error::other("init does not answer"))?,
            ))
        });
        self.state().starting.remove(&sequence);
        match (started?, streams) {
            ((Made::Here, Started::Running { pid, .. }), Some(_)) => {
                Ok(Started::Running { pid, ends: ours })
            }
            ((Made::Inside, Started::Running { pid, ends }), Some(streams))
                if !stdio::are_pipes(&ends, streams) =>
            {
                self.kill_by(init, pid);
                Err(io::Error::from_raw_os_error(libc::ETOOMANYREFS))
            }
            ((_, started), _) => Ok(started),
        }
    }

    /// Has an init kill the group of a program that it started.
    fn kill_by(&self, init: InitOf<'_>, pid: i32) {
        let signal = libc::SIGKILL;
        // A broken link ends everything of that init anyway.
        let _ = self.send_to(init, &ToInit::Signal { pid, signal }, &[]);
    }

    /// The message with descriptors that init could not send. A program whose streams or terminal
    /// the keeper cannot take is ended.
    pub(super) fn take_left(
        &self,
        from: InitOf<'_>,
        numbers: Vec<i32>,
        message: FromInit,
    ) -> (FromInit, Vec<OwnedFd>) {
        let taken = if self.plan.has(Defence::TakenDescriptors) {
            let init = match from {
                InitOf::Workspace => self.init(),
                InitOf::Room(room) => room.pidfd(),
            };
            self.platform.take_descriptors(init, &numbers)
        } else {
            Err(io::Error::from_raw_os_error(libc::ETOOMANYREFS))
        };
        // A broken link ends the workspace anyway.
        let _ = self.send_to(from, &ToInit::Close { numbers }, &[]);
        match (taken, message) {
            (Ok(taken), message) => (message, taken),
            (Err(error), FromInit::Spawned { sequence, pid }) => {
                complain!("descriptors cannot be taken from init: {error}");
                self.kill_by(from, pid);
                let (code, cause) =
                    Started::cannot(&io::Error::from_raw_os_error(libc::ETOOMANYREFS));
                let not = FromInit::NotSpawned {
                    sequence,
                    code,
                    cause,
                    directory: None,
                };
                (not, Vec::new())
            }
            (Err(_), message) => (message, Vec::new()),
        }
    }
}

// === impl Started ===

impl Started {
    /// A failure of the keeper itself, in the form of init's answers.
    pub fn not(error: &io::Error) -> Self {
        let (code, cause) = Self::cannot(error);
        Self::Not {
            code,
            cause,
            directory: None,
        }
    }

    fn cannot(error: &io::Error) -> (u8, String) {
        const CANNOT_EXECUTE: u8 = 126;
        (CANNOT_EXECUTE, descriptors::explain(error))
    }
}
