//! Output of a run on its way to the user's own stdout and stderr. A program that no person has read
//! wrote it, so a terminal is told only what [`Drawing`] lets pass, unless exact bytes are asked for.
//! Used by `run` and `runs show --output`.

use super::stream::{Stream, Writer};
use bytes::Bytes;
use holm_core::session::drawing::{Drawing, RESET};
use rustix::io::Errno;
use std::io::{IsTerminal, Write};

/// How bytes reach a terminal; anything else always gets them as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Drawn,
    Raw,
}

pub struct Outlet {
    writer: Writer,
    stdout: Shown,
    stderr: Shown,
}

/// One of the two streams. Dropping it sets back what was drawn on its terminal.
struct Shown {
    stream: Stream,
    /// `None`: bytes pass as they are.
    drawing: Option<Drawing>,
}

// === impl Form ===

impl Form {
    /// By `--raw`.
    pub fn asked_for(is_raw: bool) -> Self {
        if is_raw { Form::Raw } else { Form::Drawn }
    }
}

// === impl Outlet ===

impl Outlet {
    pub fn start(form: Form) -> Self {
        Self {
            writer: Writer::start(),
            stdout: Shown::new(Stream::Stdout, form),
            stderr: Shown::new(Stream::Stderr, form),
        }
    }

    /// Shows a piece of the run's output; false when nothing can be written any more.
    pub async fn show(&mut self, stream: Stream, bytes: Vec<u8>) -> bool {
        let shown = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        let bytes = match &mut shown.drawing {
            Some(drawing) => drawing.pass(&bytes),
            None => bytes,
        };
        self.writer.write(stream, Bytes::from(bytes)).await
    }

    /// Says words of ours between.
    pub async fn say(&self, stream: Stream, text: String) -> bool {
        self.writer.write(stream, Bytes::from(text)).await
    }

    /// Waits until everything is written, and sets the terminal back.
    pub async fn finish(self) -> Result<(), Errno> {
        self.writer.finish().await
    }
}

// === impl Shown ===

impl Shown {
    fn new(stream: Stream, form: Form) -> Self {
        let is_terminal = match stream {
            Stream::Stdout => std::io::stdout().is_terminal(),
            Stream::Stderr => std::io::stderr().is_terminal(),
        };
        Self {
            stream,
            drawing: (is_terminal && form == Form::Drawn).then(Drawing::default),
        }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        if !self.drawing.as_ref().is_some_and(Drawing::has_steered) {
            return;
        }
        // A terminal that is gone needs nothing.
        let _ = match self.stream {
            Stream::Stdout => std::io::stdout().write_all(RESET.as_bytes()),
            Stream::Stderr => std::io::stderr().write_all(RESET.as_bytes()),
        };
        let _ = std::io::stdout().flush();
    }
}
