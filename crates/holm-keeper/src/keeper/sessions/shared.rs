//! State shared by a session's thread and the requests about it.

use super::draw;
use super::history::History;
use super::model::Model;
use super::now;
use super::viewer::Arriving;
use holm_core::session::Size;
use holm_core::session::keys::{self, CursorKeys};
use holm_core::session::protocol::{
    Attention, ReadText, ScreenShape, Session, SessionState, WaitEnd, Waited,
};
use holm_core::{Code, Fault};
use regex::Regex;
use std::collections::VecDeque;
use std::io::{PipeWriter, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a program may draw typed text, how long it is quiet then, and how long one is waited
/// for that draws nothing. Codex takes Enter within 120 ms of a burst for a part of it.
const DRAWING: Duration = Duration::from_secs(1);
const DRAWN: Duration = Duration::from_millis(150);
const UNSEEN: Duration = Duration::from_millis(300);

/// The limit of input for a program that does not read; more is refused.
pub const MOST_INPUT: usize = 1024 * 1024;

/// How often to search for a pattern while output comes.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

pub struct Shared {
    id: String,
    wake: PipeWriter,
    inner: Mutex<Inner>,
    changed: Condvar,
}

pub struct Inner {
    pub status: Session,
    pub screen: Kept,
    pub history: History,
    /// For the program.
    pub input: VecDeque<u8>,
    pub arriving: Vec<Arriving>,
    pub is_to_end: bool,
    /// The session has ended.
    pub is_over: bool,
    pub last_output: Instant,
    /// The end of the output at the last `send`.
    pub last_send: u64,
}

/// The screen of a running program, or its last content.
pub enum Kept {
    Live(Box<Model>),
    Last { text: String, shape: ScreenShape },
}

/// The conditions of a wait.
pub struct Until {
    pub idle: Option<Duration>,
    pub pattern: Option<Regex>,
    pub since: Option<u64>,
    pub limit: Instant,
}

// === impl Shared ===

impl Shared {
    pub fn new(status: Session, size: Size, wake: PipeWriter) -> Self {
        Self {
            id: status.id.clone(),
            wake,
            inner: Mutex::new(Inner {
                status,
                screen: Kept::Live(Box::new(Model::new(size))),
                history: History::default(),
                input: VecDeque::new(),
                arriving: Vec::new(),
                is_to_end: false,
                is_over: false,
                last_output: Instant::now(),
                last_send: 0,
            }),
            changed: Condvar::new(),
        }
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn status(&self) -> Session {
        let inner = self.inner();
        Session {
            cursor: inner.history.cursor(),
            ..inner.status.clone()
        }
    }

    pub fn is_over(&self) -> bool {
        self.inner().is_over
    }

    /// Wakes waiting requests.
    pub fn tell(&self) {
        self.changed.notify_all();
    }

    pub fn ask_to_end(&self) {
        self.inner().is_to_end = true;
        self.wake();
    }

    pub fn wait_for_end(&self, until: Instant) {
        let inner = self.inner();
        let left = until.saturating_duration_since(Instant::now());
        // The caller reads the state afterwards.
        drop(
            self.changed
                .wait_timeout_while(inner, left, |inner| !inner.is_over),
        );
    }

    pub fn arrive(&self, arriving: Arriving) -> Result<(), Arriving> {
        let mut inner = self.inner();
        if inner.is_over {
            return Err(arriving);
        }
        inner.arriving.push(arriving);
        drop(inner);
        self.wake();
        Ok(())
    }

    /// Types text, and presses keys once the program has drawn the text: agents take keys that come
    /// with a burst of text for a part of a paste. Returns the end of the output before it.
    pub fn type_in(&self, text: &[u8], names: &[String]) -> Result<u64, Fault> {
        if text.is_empty() || names.is_empty() {
            return self.send(text, names);
        }
        if let Some(name) = names.iter().find(|name| !is_key(name)) {
            return Err(not_a_key(name));
        }
        let cursor = self.send(text, &[])?;
        self.wait_drawn(cursor);
        self.send(&[], names)?;
        // The answer begins where the text was drawn.
        self.inner().last_send = cursor;
        Ok(cursor)
    }

    /// Waits until the program has written something after `cursor` and is quiet; not long for one
    /// that draws nothing.
    fn wait_drawn(&self, cursor: u64) {
        let until = Instant::now() + DRAWING;
        let mut inner = self.inner();
        loop {
            let seen = inner.history.cursor();
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || inner.is_over {
                return;
            }
            let pause = if seen > cursor { DRAWN } else { UNSEEN };
            let waited = self.changed.wait_timeout(inner, pause.min(left));
            let (next, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            inner = next;
            if timeout.timed_out() && inner.history.cursor() == seen {
                return;
            }
        }
    }

    /// Types input at once. Returns the end of the output before it.
    pub fn send(&self, text: &[u8], names: &[String]) -> Result<u64, Fault> {
        let mut inner = self.inner();
        let Kept::Live(model) = &inner.screen else {
            drop(inner);
            return Err(self.has_ended());
        };
        let mut typed = model.typed(text);
        for name in names {
            let key = keys::bytes(name, model.cursor_keys());
            typed.extend(key.ok_or_else(|| not_a_key(name))?);
        }
        if inner.input.len() + typed.len() > MOST_INPUT {
            return Err(Fault::new(
                Code::Busy,
                format!(
                    "the program of session {} does not read what is typed",
                    self.id
                ),
                format!("`holm session read {}` shows what it does", self.id),
            ));
        }
        let cursor = inner.history.cursor();
        inner.last_send = cursor;
        inner.input.extend(typed);
        inner.status.attention = None;
        inner.status.last_input_at = Some(now());
        drop(inner);
        self.wake();
        Ok(cursor)
    }

    pub fn read(&self, since: Option<u64>, colours: bool) -> ReadText {
        let inner = self.inner();
        let (cursor, exit_code) = (inner.history.cursor(), inner.status.exit_code);
        match since {
            Some(since) => {
                let found = inner.history.since(since);
                ReadText {
                    text: found.text.to_owned(),
                    coloured: None,
                    cursor,
                    missed: found.missed,
                    screen: None,
                    state: SessionState::of(exit_code),
                    exit_code,
                }
            }
            None => {
                let (text, coloured, shape) = match &inner.screen {
                    Kept::Live(model) => {
                        let coloured = colours.then(|| draw::coloured(model.screen()));
                        (model.text(), coloured, model.shape())
                    }
                    Kept::Last { text, shape } => (text.clone(), None, *shape),
                };
                ReadText {
                    text,
                    coloured,
                    cursor,
                    missed: 0,
                    screen: Some(shape),
                    state: SessionState::of(exit_code),
                    exit_code,
                }
            }
        }
    }

    /// Waits until a condition holds; calls `is_wanted` periodically to check that the requester is
    /// still there.
    pub fn wait(&self, until: &Until, is_wanted: impl Fn() -> bool) -> Waited {
        let mut inner = self.inner();
        let since = until.since.unwrap_or(inner.last_send);
        loop {
            let (end, matched, again) = inner.look(until, since);
            if let Some(reason) = end {
                return Waited {
                    reason,
                    matched,
                    since,
                    cursor: inner.history.cursor(),
                    state: SessionState::of(inner.status.exit_code),
                    exit_code: inner.status.exit_code,
                };
            }
            let pause = again.saturating_duration_since(Instant::now());
            let pause = pause.min(Duration::from_secs(1));
            let waited = self.changed.wait_timeout(inner, pause);
            inner = waited.unwrap_or_else(PoisonError::into_inner).0;
            if until.pattern.is_some() && !inner.is_over {
                // Not at every piece of heavy output.
                drop(inner);
                std::thread::sleep(LOOK_AGAIN);
                inner = self.inner();
            }
            if !is_wanted() {
                return Waited {
                    reason: WaitEnd::Timeout,
                    matched: None,
                    since,
                    cursor: inner.history.cursor(),
                    state: SessionState::of(inner.status.exit_code),
                    exit_code: inner.status.exit_code,
                };
            }
        }
    }

    pub fn has_ended(&self) -> Fault {
        let code = self.inner().status.exit_code.unwrap_or_default();
        let id = &self.id;
        Fault::new(
            Code::SessionEnded,
            format!("the program of session {id} has ended with exit code {code}"),
            format!(
                "`holm session read {id}` shows what it said last; `holm session new` begins another one"
            ),
        )
    }

    fn wake(&self) {
        // A thread that is gone needs no wake-up, and a full pipe wakes it anyway.
        let _ = (&self.wake).write(&[0]);
    }
}

// === impl Inner ===

impl Inner {
    pub fn model(&mut self) -> Option<&mut Model> {
        match &mut self.screen {
            Kept::Live(model) => Some(model),
            Kept::Last { .. } => None,
        }
    }

    /// The program is gone: the screen is kept as text.
    pub fn finish(&mut self) {
        if let Kept::Live(model) = &self.screen {
            let (text, shape) = (model.text(), model.shape());
            self.screen = Kept::Last { text, shape };
        }
        self.history.finish();
        self.input = VecDeque::new();
        self.is_over = true;
    }

    pub fn call(&mut self, text: Option<String>) {
        self.status.attention = Some(Attention { time: now(), text });
    }

    /// Whether the wait is over, what matched, and when to check again.
    fn look(&self, until: &Until, since: u64) -> (Option<WaitEnd>, Option<String>, Instant) {
        let now = Instant::now();
        if let Some(found) = until.pattern.as_ref().and_then(|it| self.find(it, since)) {
            return (Some(WaitEnd::Matched), Some(found), now);
        }
        if self.is_over {
            return (Some(WaitEnd::Exited), None, now);
        }
        let mut again = until.limit;
        if let Some(idle) = until.idle {
            let quiet = self.last_output + idle;
            if quiet <= now {
                return (Some(WaitEnd::Idle), None, now);
            }
            again = again.min(quiet);
        }
        if until.limit <= now {
            return (Some(WaitEnd::Timeout), None, now);
        }
        (None, None, again)
    }

    /// Searches the output, and the screen of a full-screen program.
    fn find(&self, pattern: &Regex, since: u64) -> Option<String> {
        let text = self.history.since(since).text;
        if let Some(found) = pattern.find(text) {
            return Some(found.as_str().to_owned());
        }
        match &self.screen {
            Kept::Live(model) if model.screen().alternate_screen() => {
                let text = model.text();
                pattern.find(&text).map(|found| found.as_str().to_owned())
            }
            _ => None,
        }
    }
}

/// Whether a key has this name.
fn is_key(name: &str) -> bool {
    keys::bytes(name, CursorKeys::Normal).is_some()
}

fn not_a_key(name: &str) -> Fault {
    Fault::new(
        Code::BadRequest,
        format!("there is no key `{}`", name.escape_debug()),
        "keys are Enter, Escape, Tab, Up, PageDown, F1, C-c, M-x and the like",
    )
}
