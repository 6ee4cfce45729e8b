//! Starts a mover when the first rename is reported. If no mover can be started, the kernel handles
//! renames alone.

use super::Workspace;
use crate::mover::{self, TakenUp};
use crate::sys::notify::{self, Verdict};
use holm_keeper::complain;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, ChildStdout};

/// After this many failures no mover is started any more.
const MOST_FAILURES: u32 = 3;

pub struct Moving {
    /// `None`: the kernel cannot report renames.
    listener: Option<OwnedFd>,
    mover: Option<Mover>,
    failures: u32,
    /// The mover's calls in progress, which survive the mover.
    taken_up: TakenUp,
}

struct Mover {
    child: Child,
    pidfd: OwnedFd,
}

// === impl Moving ===

impl Moving {
    /// Finishes moves that the end of an earlier run interrupted.
    pub fn new(listener: Option<OwnedFd>, workspace: &Workspace) -> io::Result<Self> {
        let mut moving = Self {
            listener,
            mover: None,
            failures: 0,
            taken_up: TakenUp::new()?,
        };
        let interrupted = workspace
            .directories
            .moves()
            .metadata()
            .is_ok_and(|metadata| metadata.len() > 0);
        if interrupted && let Some(mut word) = moving.start(workspace)? {
            let mut said = Vec::new();
            word.read_to_end(&mut said)?;
            if said != mover::READY {
                return Err(io::Error::other("the mover could not"));
            }
        }
        Ok(moving)
    }

    /// Readable when [`Self::attend`] has work.
    pub fn source(&self) -> Option<BorrowedFd<'_>> {
        match (&self.mover, &self.listener) {
            (Some(mover), _) => Some(mover.pidfd.as_fd()),
            (None, listener) => listener.as_ref().map(AsFd::as_fd),
        }
    }

    /// A rename came without a mover, or the mover ended.
    pub fn attend(&mut self, workspace: &Workspace) {
        if let Some(mut mover) = self.mover.take() {
            // Its own messages are in the log already.
            let _ = mover.child.wait();
            self.failures += 1;
            // Nothing new has come, but a caller may still wait for the mover that is gone.
            if !self.is_waited_for() {
                return;
            }
            if self.failures >= MOST_FAILURES {
                return self.fail_all();
            }
        }
        if self.failures >= MOST_FAILURES {
            self.let_through();
        } else if let Err(error) = self.start(workspace) {
            complain!("cannot start the mover: {error}");
            self.failures += 1;
            self.fail_all();
        }
    }

    /// Returns the pipe on which the mover reports that it is ready.
    fn start(&mut self, workspace: &Workspace) -> io::Result<Option<ChildStdout>> {
        let Some(listener) = &self.listener else {
            return Ok(None);
        };
        let Workspace { program, init, .. } = workspace;
        let command = mover::command(program, listener, init.as_fd(), &self.taken_up);
        let mut child = command?.spawn()?;
        // It waits for the place of its journal, so it does nothing before it counts as the workspace's.
        if let Some(group) = &workspace.group {
            group.take_in(child.id())?;
        }
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(workspace.directories.moves().as_os_str().as_bytes())?;
        }
        let pid = Pid::from_child(&child);
        let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
        let word = child.stdout.take();
        self.mover = Some(Mover { child, pidfd });
        Ok(word)
    }

    fn is_waited_for(&self) -> bool {
        let (Some(listener), Ok(all)) = (&self.listener, self.taken_up.all()) else {
            return false;
        };
        all.iter()
            .any(|id| notify::is_waiting(listener.as_fd(), *id))
    }

    /// Fails all waiting renames, because no mover is left.
    fn fail_all(&self) {
        if let Some(listener) = &self.listener
            && let Err(error) = mover::fail_all(listener.as_fd(), &self.taken_up)
        {
            complain!("cannot answer for the mover: {error}");
        }
    }

    /// Lets the kernel handle one rename.
    fn let_through(&self) {
        let Some(listener) = &self.listener else {
            return;
        };
        if let Ok(Some(notification)) = notify::receive(listener.as_fd()) {
            let _ = notify::answer(listener.as_fd(), notification.id, Verdict::Continue);
        }
    }
}
