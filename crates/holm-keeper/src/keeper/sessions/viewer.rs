//! An attached client: its connection, what it has on its screen, and pending messages. At most one
//! drawing is pending; a slow client gets the screen as it is when it is ready.

use super::draw::{DrawnScreen, Modes, draw};
use super::history::History;
use super::model::Model;
use crate::wire::{Answer, channel, control_frame, frame, take_frame};
use holm_core::session::Size;
use holm_core::session::protocol::{Attach, AttachInput, AttachMessage, Writing};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::os::unix::net::UnixStream;

/// The limit of pending text for a slow reader.
const MOST_TEXT: usize = 64 * 1024;
const CHUNK: usize = 16 * 1024;

/// A connection that was handed over.
pub struct Arriving {
    pub stream: UnixStream,
    pub attach: Attach,
}

pub struct Viewer {
    pub number: u64,
    pub stream: UnixStream,
    pub name: String,
    pub key: Option<String>,
    pub writing: Writing,
    /// The size of its terminal, if it has one.
    pub size: Option<Size>,
    /// How many bytes of input came.
    pub received: u64,
    /// There is output that it was not shown.
    pub is_stale: bool,
    /// It was sent `attached`, which is the first message.
    pub is_welcome: bool,
    pub is_gone: bool,
    /// It sent a detach.
    pub is_detached: bool,
    incoming: Vec<u8>,
    outgoing: VecDeque<u8>,
    seen: Option<DrawnScreen>,
    /// Text is sent from this cursor on.
    text_from: Option<u64>,
}

// === impl Viewer ===

impl Viewer {
    pub fn new(number: u64, arriving: Arriving, received: u64) -> io::Result<Self> {
        let Arriving { stream, attach } = arriving;
        stream.set_nonblocking(true)?;
        Ok(Self {
            number,
            stream,
            name: attach.name,
            key: attach.key,
            writing: match attach.since {
                Some(_) => Writing::Never,
                None => attach.writing,
            },
            size: attach
                .size
                .map(|(rows, cols)| Size { rows, cols }.bounded()),
            received,
            is_stale: true,
            is_welcome: false,
            is_gone: false,
            is_detached: false,
            incoming: Vec::new(),
            outgoing: VecDeque::new(),
            seen: None,
            text_from: attach.since,
        })
    }

    pub fn has_something_waiting(&self) -> bool {
        !self.outgoing.is_empty()
    }

    pub fn send(&mut self, message: AttachMessage) {
        match control_frame(&Answer::AttachMessage(message)) {
            Ok(bytes) => self.outgoing.extend(bytes),
            Err(_) => self.is_gone = true,
        }
    }

    /// Reads bytes and returns complete messages.
    pub fn receive(&mut self) -> Vec<AttachInput> {
        let mut chunk = vec![0; CHUNK];
        match rustix::io::read(&self.stream, &mut chunk) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            Ok(0) | Err(_) => self.is_gone = true,
            Ok(length) => self.incoming.extend(&chunk[..length]),
        }
        let mut messages = Vec::new();
        loop {
            let (kind, payload) = match take_frame(&mut self.incoming) {
                Ok(Some(frame)) => frame,
                Ok(None) => return messages,
                Err(_) => {
                    self.is_gone = true;
                    return messages;
                }
            };
            if kind == channel::STDIN {
                self.received += payload.len() as u64;
                messages.push(AttachInput::Keys(payload));
                continue;
            }
            match serde_json::from_slice(&payload) {
                Ok(AttachInput::Detach) => self.is_detached = true,
                Ok(control) => messages.push(control),
                Err(_) => self.is_gone = true,
            }
        }
    }

    /// Redraws everything next time.
    pub fn forget(&mut self) {
        self.seen = None;
        self.is_stale = true;
    }

    /// Prepares an update, unless output is pending already.
    pub fn show(&mut self, model: &mut Model, history: &History) {
        if self.text_from.is_some() {
            self.is_stale = false;
            return self.send_text(history);
        }
        if !self.outgoing.is_empty() || !self.is_stale {
            return;
        }
        self.is_stale = false;
        let modes = match self.writing {
            Writing::Never => Modes::Left,
            Writing::IfFree | Writing::Take => Modes::Asked,
        };
        let view = self.size.unwrap_or_else(|| model.size());
        let bells = model.requests().bells;
        let drawn = draw(&mut self.seen, model.screen(), view, modes, bells);
        if !drawn.is_empty() {
            self.outgoing
                .extend(frame(channel::STDOUT, drawn.as_bytes()));
        }
    }

    /// Sends text without a gap, for as long as it is stored.
    fn send_text(&mut self, history: &History) {
        let Some(from) = self.text_from else { return };
        if self.outgoing.len() >= MOST_TEXT || from >= history.cursor() {
            return;
        }
        let found = history.since(from);
        let (missed, mut text) = (found.missed, found.text);
        let mut end = text.len().min(MOST_TEXT);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text = &text[..end];
        if missed > 0 {
            self.send(AttachMessage::Missed(missed));
        }
        self.outgoing
            .extend(frame(channel::STDOUT, text.as_bytes()));
        // A cursor inside a character was moved to its end.
        let skipped = history.cursor() - found.text.len() as u64;
        let cursor = skipped + text.len() as u64;
        self.text_from = Some(cursor);
        self.send(AttachMessage::Cursor(cursor));
    }

    /// Whether there is output that it was not sent.
    pub fn is_behind(&self, history: &History) -> bool {
        self.is_stale || self.text_from.is_some_and(|from| from < history.cursor())
    }

    /// Writes as much as the connection accepts.
    pub fn write(&mut self) {
        while !self.outgoing.is_empty() {
            let (piece, _) = self.outgoing.as_slices();
            match rustix::io::write(&self.stream, piece) {
                Ok(length) => drop(self.outgoing.drain(..length)),
                Err(Errno::AGAIN | Errno::INTR) => return,
                Err(_) => {
                    self.is_gone = true;
                    return self.outgoing.clear();
                }
            }
        }
    }
}
