//! What the thread of a session and those who ask about it share.

use super::history::History;
use super::model::Model;
use super::now;
use super::viewer::Arriving;
use holm_core::session::Size;
use holm_core::session::keys;
use holm_core::{Code, Fault};
use holm_engine::session::{Attention, SessionStatus, Shape, Text, WaitEnd, Waited};
use regex::Regex;
use std::collections::VecDeque;
use std::io::{PipeWriter, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Input that waits for a program that does not read; more is refused.
pub const MOST_INPUT: usize = 1024 * 1024;

/// How often a pattern is looked for while output comes.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

pub struct Shared {
    id: String,
    wake: PipeWriter,
    inner: Mutex<Inner>,
    changed: Condvar,
}

pub struct Inner {
    pub status: SessionStatus,
    pub screen: Kept,
    pub history: History,
    /// For the program.
    pub input: VecDeque<u8>,
    pub arriving: Vec<Arriving>,
    pub is_to_end: bool,
    /// Nothing changes any more.
    pub is_over: bool,
    pub last_output: Instant,
    /// The end of the output when somebody last sent something.
    pub last_send: u64,
}

/// The screen of a program that runs, or what was on it last.
pub enum Kept {
    Live(Box<Model>),
    Last { text: String, shape: Shape },
}

/// Until when is waited.
pub struct Until {
    pub idle: Option<Duration>,
    pub pattern: Option<Regex>,
    pub since: Option<u64>,
    pub limit: Instant,
}

// === impl Shared ===

impl Shared {
    pub fn new(status: SessionStatus, size: Size, wake: PipeWriter) -> Self {
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

    pub fn status(&self) -> SessionStatus {
        let inner = self.inner();
        SessionStatus {
            cursor: inner.history.cursor(),
            ..inner.status.clone()
        }
    }

    pub fn is_over(&self) -> bool {
        self.inner().is_over
    }

    /// Tells those who wait that something is new.
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
        // Whoever waits says what there is then.
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

    /// Types something, in one piece. Returns the end of the output before that.
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
        drop(inner);
        self.wake();
        Ok(cursor)
    }

    pub fn read(&self, since: Option<u64>) -> Text {
        let inner = self.inner();
        let (cursor, exit_code) = (inner.history.cursor(), inner.status.exit_code);
        match since {
            Some(since) => {
                let found = inner.history.since(since);
                Text {
                    text: found.text.to_owned(),
                    cursor,
                    missed: found.missed,
                    screen: None,
                    exit_code,
                }
            }
            None => {
                let (text, shape) = match &inner.screen {
                    Kept::Live(model) => (model.text(), model.shape()),
                    Kept::Last { text, shape } => (text.clone(), *shape),
                };
                Text {
                    text,
                    cursor,
                    missed: 0,
                    screen: Some(shape),
                    exit_code,
                }
            }
        }
    }

    /// Waits until something of it is so; `is_wanted` is asked now and then whether somebody still
    /// wants to know.
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
                    exit_code: inner.status.exit_code,
                };
            }
            let pause = again.saturating_duration_since(Instant::now());
            let pause = pause.min(Duration::from_secs(1));
            let waited = self.changed.wait_timeout(inner, pause);
            inner = waited.unwrap_or_else(PoisonError::into_inner).0;
            if until.pattern.is_some() && !inner.is_over {
                // Not at every piece of much output.
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
        // A thread that is gone hears nothing, and a full pipe wakes it anyway.
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

    /// The program is gone: what is on the screen stays as text.
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

    /// Whether the wait is over, what was found, and when to look again.
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

    /// In what was written, and on the screen of a program that draws on the whole of it.
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

fn not_a_key(name: &str) -> Fault {
    Fault::new(
        Code::BadRequest,
        format!("there is no key `{}`", name.escape_debug()),
        "keys are Enter, Escape, Tab, Up, PageDown, F1, C-c, M-x and the like",
    )
}
