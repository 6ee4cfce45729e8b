//! The user's terminal while a session is attached: raw, on its alternate screen, and always reset.
//! Everything drawn passes an allow-list.

use super::super::stream::Writer;
use super::super::terminal::{self, RawMode};
use bytes::Bytes;
use holm_core::Fault;
use holm_core::session::drawing::{Drawing, RESET};
use rustix::termios::QueueSelector;
use std::io::Write;
use std::time::Duration;

/// Dropping it resets the terminal, also when the program panics.
pub struct Screen {
    writer: Option<Writer>,
    drawing: Drawing,
    before: Before,
}

/// Must be dropped last.
struct Before {
    raw: Option<RawMode>,
}

const OTHER_SCREEN: &str = "\u{1b}[?1049h\u{1b}[H\u{1b}[2J";
const FIRST_SCREEN: &str = "\u{1b}[?1049l";

/// How long to wait for a terminal that accepts no output.
const PATIENCE: Duration = Duration::from_secs(1);

// === impl Screen ===

impl Screen {
    pub fn take() -> Result<Self, Fault> {
        let raw = RawMode::enter()?;
        let before = Before { raw: Some(raw) };
        say(OTHER_SCREEN);
        Ok(Self {
            writer: Some(Writer::start()),
            drawing: Drawing::default(),
            before,
        })
    }

    /// Draws; false when nothing can be written any more.
    pub async fn draw(&mut self, bytes: &[u8]) -> bool {
        let passed = self.drawing.pass(bytes);
        match &self.writer {
            Some(writer) => writer.draw(Bytes::from(passed)).await,
            None => false,
        }
    }

    /// Starts with an empty screen: earlier drawing may have been cut off anywhere.
    pub async fn clear(&mut self) -> bool {
        self.drawing = Drawing::default();
        self.draw(b"\x1b[m\x1b[H\x1b[2J").await
    }

    /// Shows a message on the last line, until that is redrawn.
    pub async fn note(&mut self, text: &str) -> bool {
        let size = terminal::size();
        let text: String = text.chars().filter(|one| !one.is_control()).collect();
        let text: String = text.chars().take(usize::from(size.cols)).collect();
        let line = format!("\u{1b}[{};1H\u{1b}[0;7m{text}\u{1b}[0m", size.rows);
        self.draw(line.as_bytes()).await
    }

    /// Waits until everything is drawn, and resets the terminal.
    pub async fn give_back(mut self) {
        if let Some(writer) = self.writer.take() {
            let _ = tokio::time::timeout(PATIENCE, writer.finish()).await;
        }
        drop(self.before);
    }
}

impl Drop for Before {
    fn drop(&mut self) {
        say(RESET);
        say(FIRST_SCREEN);
        // Pending keys and mouse reports were meant for the session, not for the next reader of
        // this terminal.
        let _ = rustix::termios::tcflush(rustix::stdio::stdin(), QueueSelector::IFlush);
        self.raw = None;
    }
}

fn say(text: &str) {
    // A terminal that is gone needs no reset.
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes());
    let _ = stdout.flush();
}
