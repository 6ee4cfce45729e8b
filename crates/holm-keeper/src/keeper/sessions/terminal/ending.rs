//! The end of a session: the last output, the exit, and a final update for attached clients.

use super::super::now;
use super::Terminal;
use holm_core::session::protocol::{AttachMessage, Happened};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// After this time all output from before the exit has arrived.
const LAST_WORDS: Duration = Duration::from_millis(50);
const MOST_LAST_WORDS: usize = 1024 * 1024;
const FAREWELL: Duration = Duration::from_secs(2);
/// How long the final update waits for slow clients.
const LAST_PICTURE: Duration = Duration::from_millis(500);

// === impl Terminal ===

impl Terminal {
    /// The program has ended: reads its last output, then reports the exit to all clients.
    pub(super) fn end(mut self) {
        let code = self.exit_code();
        let shared = Arc::clone(&self.shared);
        self.read_last_words();
        let reason = self.reason();
        let status = {
            let mut inner = shared.inner();
            let rest = self.masking.finish();
            self.write_down(&mut inner, &rest);
            self.announce(&mut inner);
            for arriving in std::mem::take(&mut inner.arriving) {
                self.welcome(&mut inner, arriving);
            }
            self.flush(LAST_PICTURE);
            for viewer in &mut self.viewers {
                viewer.is_stale = true;
            }
            self.show(&mut inner);
            inner.status.exit_code = Some(code);
            inner.status.ended_at = Some(now());
            inner.status.reason.clone_from(&reason);
            inner.status.pid = None;
            inner.status.writer = None;
            inner.status.viewers = 0;
            inner.finish();
            inner.status.clone()
        };
        let what = Happened::Exited {
            code,
            reason: reason.clone(),
        };
        self.sessions.notices.push(&status, what);
        self.sessions.settle(&self.registry);
        shared.tell();
        for viewer in &mut self.viewers {
            let reason = reason.clone();
            viewer.send(AttachMessage::Ended { code, reason });
        }
        self.flush(FAREWELL);
    }

    fn exit_code(&mut self) -> u8 {
        let mut code = [0];
        match self.ends.exit.read(&mut code) {
            Ok(1) => code[0],
            _ => 255,
        }
    }

    /// The last output needs a moment after the exit; background processes may write forever.
    fn read_last_words(&mut self) {
        let shared = Arc::clone(&self.shared);
        let mut total = 0;
        while total < MOST_LAST_WORDS {
            let limit = Timespec {
                tv_sec: 0,
                tv_nsec: LAST_WORDS.subsec_nanos().into(),
            };
            let mut sources = [PollFd::new(&self.ends.master, PollFlags::IN)];
            if !matches!(poll(&mut sources, Some(&limit)), Ok(1)) {
                return;
            }
            match self.read_program(&mut shared.inner()) {
                0 => return,
                length => total += length,
            }
        }
    }

    /// Why it ended, if not by itself.
    fn reason(&self) -> Option<String> {
        if self.kill_at.is_some() {
            return Some("killed".to_owned());
        }
        match self.registry.why_ended() {
            Some(why) => Some(format!("the workspace was stopped: {why}")),
            None if self.registry.was_asked_to_stop() => {
                Some("the workspace was stopped".to_owned())
            }
            None => None,
        }
    }

    /// Writes pending output to clients, at most for this long.
    fn flush(&mut self, limit: Duration) {
        let until = Instant::now() + limit;
        loop {
            for viewer in &mut self.viewers {
                viewer.write();
            }
            let waiting = self
                .viewers
                .iter()
                .filter(|one| one.has_something_waiting());
            let mut sources: Vec<_> = waiting
                .map(|viewer| PollFd::new(&viewer.stream, PollFlags::OUT))
                .collect();
            let left = until.saturating_duration_since(Instant::now());
            if sources.is_empty() || left.is_zero() {
                return;
            }
            let limit = Timespec {
                tv_sec: left.as_secs() as i64,
                tv_nsec: i64::from(left.subsec_nanos()),
            };
            let _ = poll(&mut sources, Some(&limit));
        }
    }
}
