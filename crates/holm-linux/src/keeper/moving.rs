//! Starts a mover when the first rename is reported. If no mover can be started, the kernel handles
//! renames alone.

use super::registry::Registry;
use crate::layout::WorkspaceDirs;
use crate::mover::{self, TakenUp};
use crate::sys::notify::{self, Verdict};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
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
    /// Polled when there is nothing to wait for.
    never: OwnedFd,
}

struct Mover {
    child: Child,
    pidfd: OwnedFd,
}

// === impl Moving ===

impl Moving {
    /// Finishes moves that the end of an earlier run interrupted.
    pub fn new(
        listener: Option<OwnedFd>,
        directories: &WorkspaceDirs,
        registry: &Registry,
    ) -> io::Result<Self> {
        let (never, _) = rustix::net::socketpair(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::DGRAM,
            rustix::net::SocketFlags::CLOEXEC,
            None,
        )?;
        let mut moving = Self {
            listener,
            mover: None,
            failures: 0,
            taken_up: TakenUp::new()?,
            never,
        };
        let interrupted = directories
            .moves()
            .metadata()
            .is_ok_and(|metadata| metadata.len() > 0);
        if interrupted && let Some(mut word) = moving.start(registry)? {
            let mut said = Vec::new();
            word.read_to_end(&mut said)?;
            if said != mover::READY {
                return Err(io::Error::other("the mover could not"));
            }
        }
        Ok(moving)
    }

    /// Readable when [`Self::attend`] has work.
    pub fn source(&self) -> BorrowedFd<'_> {
        match (&self.mover, &self.listener) {
            (Some(mover), _) => mover.pidfd.as_fd(),
            (None, Some(listener)) => listener.as_fd(),
            (None, None) => self.never.as_fd(),
        }
    }

    /// A rename came without a mover, or the mover ended.
    pub fn attend(&mut self, registry: &Registry) {
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
        } else if let Err(error) = self.start(registry) {
            complain!("cannot start the mover: {error}");
            self.failures += 1;
            self.fail_all();
        }
    }

    /// Returns the pipe on which the mover reports that it is ready.
    fn start(&mut self, registry: &Registry) -> io::Result<Option<ChildStdout>> {
        let Some(listener) = &self.listener else {
            return Ok(None);
        };
        let plan = &registry.plan;
        let init = registry.init();
        let mut child = mover::command(&plan.program, listener, init, &self.taken_up)?.spawn()?;
        // The mover waits for the plan, so it does nothing before it is in the workspace's group.
        if let Some(group) = registry.limits().group() {
            group.take_in(child.id())?;
        }
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(&serde_json::to_vec(plan)?)?;
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
