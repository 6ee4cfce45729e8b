//! Events of sessions for the daemon to store. Kept until the daemon acknowledges them, so that
//! nothing is lost without a daemon; bounded, because a guest may request attention as often as it
//! likes.

use crate::wire::{Answer, channel, control_frame, take_frame};
use holm_core::session::protocol::{Happened, Session, SessionNotice};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The oldest are dropped first.
const MOST: usize = 512;
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// The period for the limit of requests per session.
const PAUSE: Duration = Duration::from_secs(5);

#[derive(Default)]
pub struct Notices {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    next: u64,
    waiting: VecDeque<SessionNotice>,
    /// No further events will come.
    is_over: bool,
}

/// The rate limit of one session.
#[derive(Debug)]
pub struct Pace {
    most: usize,
    last: VecDeque<Instant>,
    left_out: u64,
}

// === impl Notices ===

impl Notices {
    pub fn started(&self, status: &Session) {
        self.push(status, Happened::Started);
    }

    pub fn push(&self, status: &Session, what: Happened) {
        let mut state = self.state();
        state.next += 1;
        let notice = SessionNotice {
            number: state.next,
            session: status.id.clone(),
            name: status.name.clone(),
            agent: status.agent.clone(),
            what,
        };
        state.waiting.push_back(notice);
        if state.waiting.len() > MOST {
            state.waiting.pop_front();
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Releases watchers that have received everything.
    pub fn close(&self) {
        self.state().is_over = true;
        self.changed.notify_all();
    }

    /// Sends everything that was not acknowledged, until the peer is gone, or until everything is
    /// acknowledged and no more can come.
    pub fn watch(&self, mut stream: &UnixStream, has_live: impl Fn() -> bool) -> io::Result<()> {
        let mut incoming = Vec::new();
        let mut reported = 0;
        loop {
            let may_go_on = has_live();
            let (news, is_over): (Vec<SessionNotice>, bool) = {
                let state = self.state();
                let is_old = |state: &mut State| !state.has_news(reported) && !state.is_over;
                let waited = self.changed.wait_timeout_while(state, LOOK_AGAIN, is_old);
                let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
                let is_over = state.is_over || (!may_go_on && state.waiting.is_empty());
                let news = state.waiting.iter().filter(|one| one.number > reported);
                (news.cloned().collect(), is_over)
            };
            for notice in news {
                reported = notice.number;
                stream.write_all(&control_frame(&Answer::SessionNotice(notice))?)?;
            }
            if !self.receive(stream, &mut incoming)? || is_over {
                return Ok(());
            }
        }
    }

    /// Reads acknowledgements; false when the peer is gone.
    fn receive(&self, stream: &UnixStream, incoming: &mut Vec<u8>) -> io::Result<bool> {
        loop {
            let mut source = [PollFd::new(stream, PollFlags::IN)];
            let now = Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            match poll(&mut source, Some(&now)) {
                Ok(0) | Err(Errno::INTR) => break,
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
            let mut chunk = [0; 1024];
            match rustix::io::read(stream, &mut chunk)? {
                0 => return Ok(false),
                length => incoming.extend(&chunk[..length]),
            }
        }
        while let Some((kind, payload)) = take_frame(incoming)? {
            if kind == channel::CONTROL {
                let written: u64 = serde_json::from_slice(&payload)?;
                self.state().waiting.retain(|one| one.number > written);
            }
        }
        Ok(true)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Pace ===

impl Pace {
    /// `most` requests within a few seconds.
    pub fn new(most: usize) -> Self {
        Self {
            most,
            last: VecDeque::new(),
            left_out: 0,
        }
    }

    /// Whether a request passes, and how many were dropped since the last.
    pub fn passes(&mut self) -> Option<u64> {
        let now = Instant::now();
        self.last.retain(|last| now.duration_since(*last) < PAUSE);
        if self.last.len() >= self.most {
            self.left_out += 1;
            return None;
        }
        self.last.push_back(now);
        Some(std::mem::take(&mut self.left_out))
    }
}

// === impl State ===

impl State {
    /// Whether a notice is waiting that is newer than `reported`, the last one that this watcher was sent.
    fn has_news(&self, reported: u64) -> bool {
        self.waiting.iter().any(|one| one.number > reported)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_acknowledged_wakes_no_watcher() {
        let notice = |number| SessionNotice {
            number,
            session: String::new(),
            name: None,
            agent: None,
            what: Happened::Started,
        };
        let mut state = State {
            next: 3,
            waiting: VecDeque::from([notice(3)]),
            is_over: false,
        };
        assert!(state.has_news(0) && state.has_news(2));
        assert!(!state.has_news(3));
        state.waiting.clear();
        assert!(!state.has_news(0), "the next daemon waits");
    }
}
