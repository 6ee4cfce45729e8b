//! The thread of one session, between the program's terminal and the attached clients.
//!
//! Clients never slow the program: its output is read as it comes, and slow clients see fewer
//! updates. One client at a time may write, and the terminal has the size of its terminal.

mod ending;
mod masking;

use super::super::Registry;
use super::super::place::Place;
use super::notices::Pace;
use super::shared::{Inner, Kept, MOST_INPUT, Shared};
use super::viewer::{Arriving, Viewer};
use super::{Master, Sessions, now};
use holm_core::session::Size;
use holm_core::session::protocol::{AttachInput, AttachMessage, Happened, Writing};
use masking::Masking;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{Winsize, tcsetwinsize};
use std::collections::VecDeque;
use std::io::{PipeReader, Read};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Between SIGHUP and SIGKILL.
pub const GRACE: Duration = Duration::from_secs(2);
/// How much output is read before others get their turn.
const TURN: usize = 64 * 1024;
/// The interval of updates during heavy output.
const FRAME: Duration = Duration::from_millis(8);
/// Less output than this is shown at once: the user is typing.
const LITTLE: usize = 512;
/// How long to wait for a writer that lost its daemon before another client may write.
const COMES_BACK: Duration = Duration::from_secs(10);
/// How often to check a terminal that no process inside has open.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// Clients whose keys are remembered.
const MOST_KEYS: usize = 64;
/// The most attached clients.
const MOST_VIEWERS: usize = 64;

/// The keeper's ends of the session.
pub struct Ends {
    /// Where its program runs.
    pub place: Place,
    pub master: Master,
    /// Gets one byte, the exit code.
    pub exit: PipeReader,
    pub woken: PipeReader,
}

pub struct Terminal {
    registry: Arc<Registry>,
    sessions: Arc<Sessions>,
    shared: Arc<Shared>,
    ends: Ends,
    pid: i32,
    viewers: Vec<Viewer>,
    next: u64,
    /// The number of the writing client.
    writer: Option<u64>,
    /// The key of a writer that lost its daemon, and how long to wait for it.
    lost: Option<(String, Instant)>,
    /// How much input clients that are gone had sent, by key.
    received: VecDeque<(String, u64)>,
    drawn_at: Instant,
    undrawn: usize,
    /// No process inside has the terminal open.
    is_hung: bool,
    /// When to kill a program that was asked to end.
    kill_at: Option<Instant>,
    bells: Pace,
    calls: Pace,
    buffer: Vec<u8>,
    /// For output that is shown and stored.
    masking: Masking,
}

#[derive(Default)]
struct Ready {
    has_exited: bool,
    is_woken: bool,
    has_output: bool,
    /// Indexes of ready clients.
    viewers: Vec<usize>,
}

// === impl Terminal ===

impl Terminal {
    pub fn new(
        registry: Arc<Registry>,
        sessions: Arc<Sessions>,
        shared: Arc<Shared>,
        ends: Ends,
    ) -> Self {
        let pid = shared.status().pid.unwrap_or_default();
        let masking = Masking::new(registry.secrets.known());
        Self {
            registry,
            sessions,
            shared,
            ends,
            pid,
            viewers: Vec::new(),
            next: 0,
            writer: None,
            lost: None,
            received: VecDeque::new(),
            drawn_at: Instant::now(),
            undrawn: 0,
            is_hung: false,
            kill_at: None,
            bells: Pace::new(1),
            calls: Pace::new(3),
            buffer: vec![0; TURN],
            masking,
        }
    }

    /// Runs until the program has ended and every client was told.
    pub fn run(mut self) {
        loop {
            let ready = match self.wait() {
                Ok(ready) => ready,
                Err(error) => {
                    complain!("a session cannot wait: {error}");
                    self.registry
                        .signal_at(&self.ends.place, self.pid, libc::SIGKILL);
                    break;
                }
            };
            let shared = Arc::clone(&self.shared);
            let mut inner = shared.inner();
            if ready.is_woken {
                self.wake(&mut inner);
            }
            for place in ready.viewers {
                self.receive(&mut inner, place);
            }
            if ready.has_output || self.is_hung {
                self.read_program(&mut inner);
            }
            let waited = self.masking.waited();
            if !waited.is_empty() {
                self.write_down(&mut inner, &waited);
                self.announce(&mut inner);
            }
            self.feed_program(&mut inner);
            if ready.has_exited {
                break;
            }
            self.let_go(&mut inner);
            self.show(&mut inner);
            self.check_end();
            drop(inner);
            for viewer in &mut self.viewers {
                viewer.write();
            }
        }
        self.end();
    }

    fn wait(&self) -> Result<Ready, Errno> {
        let inner = self.shared.inner();
        let (is_fed, has_room) = (!inner.input.is_empty(), inner.input.len() < MOST_INPUT);
        let is_behind = |viewer: &&Viewer| viewer.is_behind(&inner.history);
        let behind: Vec<u64> = self
            .viewers
            .iter()
            .filter(is_behind)
            .map(|viewer| viewer.number)
            .collect();
        drop(inner);
        let mut sources = vec![
            PollFd::new(&self.ends.exit, PollFlags::IN),
            PollFd::new(&self.ends.woken, PollFlags::IN),
        ];
        if !self.is_hung {
            let mut flags = PollFlags::IN;
            flags.set(PollFlags::OUT, is_fed);
            sources.push(PollFd::new(&self.ends.master, flags));
        }
        let before = sources.len();
        for viewer in &self.viewers {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, has_room);
            let waits = viewer.has_something_waiting() || behind.contains(&viewer.number);
            flags.set(PollFlags::OUT, waits);
            sources.push(PollFd::new(&viewer.stream, flags));
        }
        let timeout = self.until().map(|until| {
            let left = until.saturating_duration_since(Instant::now());
            Timespec {
                tv_sec: left.as_secs() as i64,
                tv_nsec: i64::from(left.subsec_nanos()),
            }
        });
        match poll(&mut sources, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Ready::default()),
            Err(error) => return Err(error),
        }
        let is_ready = |source: &PollFd<'_>| !source.revents().is_empty();
        let is_readable = |source: &PollFd<'_>| {
            let flags = PollFlags::IN | PollFlags::HUP | PollFlags::ERR;
            source.revents().intersects(flags)
        };
        let viewers = sources[before..].iter().enumerate();
        Ok(Ready {
            has_exited: is_ready(&sources[0]),
            is_woken: is_ready(&sources[1]),
            has_output: before > 2 && is_readable(&sources[2]),
            viewers: viewers
                .filter(|(_, source)| is_readable(source))
                .map(|(place, _)| place)
                .collect(),
        })
    }

    fn until(&self) -> Option<Instant> {
        let draws = (self.undrawn > 0).then(|| self.drawn_at + FRAME);
        let looks = self.is_hung.then(|| Instant::now() + LOOK_AGAIN);
        let lost = self.lost.as_ref().map(|(_, until)| *until);
        let all = [draws, looks, lost, self.kill_at, self.masking.until()];
        all.into_iter().flatten().min()
    }

    fn wake(&mut self, inner: &mut Inner) {
        let mut bytes = [0; 64];
        // Called only when it is readable.
        let _ = self.ends.woken.read(&mut bytes);
        for arriving in std::mem::take(&mut inner.arriving) {
            self.welcome(inner, arriving);
        }
        if inner.is_to_end && self.kill_at.is_none() {
            self.kill_at = Some(Instant::now() + GRACE);
            for signal in [libc::SIGTERM, libc::SIGHUP, libc::SIGCONT] {
                self.registry.signal_at(&self.ends.place, self.pid, signal);
            }
        }
    }

    fn welcome(&mut self, inner: &mut Inner, arriving: Arriving) {
        if self.viewers.len() >= MOST_VIEWERS {
            // The connection closes, which the client sees.
            return;
        }
        let key = arriving.attach.key.clone();
        let known = |(one, _): &&(String, u64)| Some(one) == key.as_ref();
        let received = self
            .received
            .iter()
            .find(known)
            .map_or(0, |(_, bytes)| *bytes);
        self.next += 1;
        let Ok(viewer) = Viewer::new(self.next, arriving, received) else {
            return;
        };
        let (number, writing) = (viewer.number, viewer.writing);
        // A client that lost its daemon reconnects through another one, even if the first
        // connection still looks open.
        let is_back = match (&self.lost, &key) {
            (Some((lost, _)), Some(key)) => lost == key,
            _ => false,
        };
        self.viewers.push(viewer);
        let writes = match writing {
            Writing::Never => false,
            Writing::Take => true,
            Writing::IfFree => is_back || (self.writer.is_none() && self.lost.is_none()),
        };
        if writes {
            self.lost = None;
            self.set_writer(inner, Some(number));
        }
        inner.status.viewers = self.viewers.len();
        let Size { rows, cols } = inner.model().map_or(Size::DEFAULT, |model| model.size());
        let attached = AttachMessage::Attached {
            session: inner.status.id.clone(),
            rows,
            cols,
            cursor: inner.history.cursor(),
            writes,
            writer: inner.status.writer.clone(),
            received,
        };
        if let Some(viewer) = self.viewers.last_mut() {
            viewer.send(attached);
            viewer.is_welcome = true;
        }
    }

    /// Tells all clients which one may write; the terminal gets the size of its terminal.
    fn set_writer(&mut self, inner: &mut Inner, writer: Option<u64>) {
        self.writer = writer;
        let found = self.viewers.iter().find(|one| Some(one.number) == writer);
        let (name, size) = match found {
            Some(viewer) => (Some(viewer.name.clone()), viewer.size),
            None => (None, None),
        };
        inner.status.writer.clone_from(&name);
        for viewer in self.viewers.iter_mut().filter(|one| one.is_welcome) {
            let writes = Some(viewer.number) == writer;
            let writer = name.clone();
            viewer.send(AttachMessage::Writer { writes, writer });
        }
        if let Some(size) = size {
            self.resize(inner, size);
        }
    }

    fn resize(&mut self, inner: &mut Inner, size: Size) {
        let Some(model) = inner.model().filter(|model| model.size() != size) else {
            return;
        };
        model.resize(size);
        let Size { rows, cols } = size;
        let window = Winsize {
            ws_row: rows,
            ws_col: cols,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        // A terminal whose last user is gone has no size.
        let _ = tcsetwinsize(&self.ends.master, window);
        (inner.status.rows, inner.status.cols) = (rows, cols);
        for viewer in self.viewers.iter_mut().filter(|one| one.is_welcome) {
            viewer.send(AttachMessage::Size { rows, cols });
        }
        self.undrawn = self.undrawn.max(1);
    }

    fn receive(&mut self, inner: &mut Inner, place: usize) {
        let Some(viewer) = self.viewers.get_mut(place) else {
            return;
        };
        let number = viewer.number;
        for message in viewer.receive() {
            match message {
                AttachInput::Keys(keys) => self.type_in(inner, number, &keys),
                AttachInput::Resize { rows, cols } => {
                    let size = Size { rows, cols }.bounded();
                    if let Some(viewer) = self.viewer(number) {
                        viewer.size = Some(size);
                        viewer.forget();
                    }
                    if self.writer == Some(number) {
                        self.resize(inner, size);
                    }
                }
                AttachInput::Take => {
                    let may = self.viewer(number).map(|viewer| viewer.writing);
                    if may.is_some_and(|writing| writing != Writing::Never) {
                        self.lost = None;
                        self.set_writer(inner, Some(number));
                    }
                }
                AttachInput::Redraw => {
                    if let Some(viewer) = self.viewer(number) {
                        viewer.forget();
                    }
                }
                AttachInput::Detach => {}
            }
        }
    }

    fn type_in(&mut self, inner: &mut Inner, number: u64, keys: &[u8]) {
        if self.writer == Some(number) {
            inner.input.extend(keys);
            inner.status.last_input_at = Some(now());
            if inner.status.attention.take().is_some() {
                self.registry.watchers.wake();
            }
            return;
        }
        let writer = inner.status.writer.clone();
        if let Some(viewer) = self.viewer(number) {
            viewer.send(AttachMessage::NotTaken { writer });
        }
    }

    fn viewer(&mut self, number: u64) -> Option<&mut Viewer> {
        self.viewers.iter_mut().find(|one| one.number == number)
    }

    /// Reads what is available, up to one turn.
    fn read_program(&mut self, inner: &mut Inner) -> usize {
        let mut total = 0;
        let known = self.registry.secrets.known();
        while total < TURN {
            let length = match rustix::io::read(&self.ends.master, &mut self.buffer[..]) {
                Ok(0) | Err(Errno::IO) => {
                    self.is_hung = true;
                    break;
                }
                Ok(length) => length,
                Err(Errno::AGAIN | Errno::INTR) => {
                    self.is_hung = false;
                    break;
                }
                Err(_) => {
                    self.is_hung = true;
                    break;
                }
            };
            self.is_hung = false;
            total += length;
            let masked = self.masking.take(&self.buffer[..length], &known);
            self.write_down(inner, &masked);
        }
        if total > 0 {
            inner.last_output = Instant::now();
            inner.status.last_output_at = Some(now());
            self.announce(inner);
        }
        total
    }

    /// Adds output to the screen and the history.
    fn write_down(&mut self, inner: &mut Inner, masked: &[u8]) {
        let Inner {
            screen, history, ..
        } = inner;
        if let Kept::Live(model) = screen {
            model.take(masked, history);
        }
        self.undrawn += masked.len();
    }

    /// Wakes everything that waits for output.
    fn announce(&mut self, inner: &mut Inner) {
        self.take_requests(inner);
        self.shared.tell();
    }

    /// Handles what the program sent besides drawing.
    fn take_requests(&mut self, inner: &mut Inner) {
        let Some(model) = inner.model() else { return };
        let requests = model.requests();
        let replies = std::mem::take(&mut requests.replies);
        let calls = std::mem::take(&mut requests.calls);
        let title = requests.title.clone();
        inner.status.title = title;
        if inner.input.len() + replies.len() <= MOST_INPUT {
            inner.input.extend(replies);
        }
        for text in calls {
            inner.call(text.clone());
            let pace = match text {
                Some(_) => &mut self.calls,
                None => &mut self.bells,
            };
            if let Some(left_out) = pace.passes() {
                let what = Happened::Attention { text, left_out };
                self.sessions.notices.push(&inner.status, what);
                self.registry.watchers.wake();
            }
        }
    }

    fn feed_program(&mut self, inner: &mut Inner) {
        while !inner.input.is_empty() {
            let (piece, _) = inner.input.as_slices();
            match rustix::io::write(&self.ends.master, piece) {
                Ok(length) => drop(inner.input.drain(..length)),
                Err(Errno::AGAIN | Errno::INTR) => return,
                // No process inside reads it any more.
                Err(_) => inner.input.clear(),
            }
        }
    }

    /// Removes clients that are gone; the one that has waited longest may write then.
    fn let_go(&mut self, inner: &mut Inner) {
        let now = Instant::now();
        if self.lost.as_ref().is_some_and(|(_, until)| *until <= now) {
            self.lost = None;
        }
        let is_gone = |viewer: &&Viewer| viewer.is_gone || viewer.is_detached;
        let gone: Vec<u64> = self
            .viewers
            .iter()
            .filter(is_gone)
            .map(|viewer| viewer.number)
            .collect();
        for viewer in self
            .viewers
            .extract_if(.., |one| gone.contains(&one.number))
        {
            let Some(key) = viewer.key else { continue };
            self.received.retain(|(one, _)| *one != key);
            if viewer.is_detached {
                continue;
            }
            if self.writer == Some(viewer.number) {
                self.lost = Some((key.clone(), now + COMES_BACK));
            }
            self.received.push_back((key, viewer.received));
            if self.received.len() > MOST_KEYS {
                self.received.pop_front();
            }
        }
        inner.status.viewers = self.viewers.len();
        let has_left = self.writer.is_some_and(|writer| gone.contains(&writer));
        if has_left || (self.writer.is_none() && self.lost.is_none()) {
            let next = self.viewers.iter().filter(|_| self.lost.is_none());
            let mut next = next.filter(|one| one.writing != Writing::Never);
            let next = next.next().map(|one| one.number);
            if has_left || next.is_some() {
                self.set_writer(inner, next);
            }
        }
    }

    /// Shows little output at once, and heavy output at the update rate. A client with pending
    /// output gets the newest state when it is ready.
    fn show(&mut self, inner: &mut Inner) {
        let is_due = self.undrawn <= LITTLE || self.drawn_at.elapsed() >= FRAME;
        if self.undrawn > 0 && is_due {
            self.undrawn = 0;
            self.drawn_at = Instant::now();
            for viewer in &mut self.viewers {
                viewer.is_stale = true;
            }
        }
        let Inner {
            screen, history, ..
        } = inner;
        let Kept::Live(model) = screen else {
            return;
        };
        for viewer in &mut self.viewers {
            viewer.write();
            viewer.show(model, history);
        }
    }

    fn check_end(&mut self) {
        if self.kill_at.is_some_and(|at| at <= Instant::now()) {
            self.registry
                .signal_at(&self.ends.place, self.pid, libc::SIGKILL);
            self.kill_at = Some(Instant::now() + GRACE);
        }
    }
}
