//! Prints a run's output to the user's stdout and stderr. The program is not trusted, so a terminal
//! gets only what [`Drawing`] lets pass, unless exact bytes are requested. Used by `run` and `runs
//! show --output`.

use super::stream::{Stream, Writer};
use bytes::Bytes;
use holm_core::session::drawing::{Drawing, RESET};
use rustix::io::Errno;
use std::io::{IsTerminal, Write};

/// How bytes reach a terminal; files and pipes always get them unchanged.
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

/// One of the two streams. Dropping it resets its terminal.
struct Shown {
    stream: Stream,
    /// `None`: bytes pass unchanged.
    drawing: Option<Drawing>,
}

// === impl Form ===

impl Form {
    /// From `--raw`.
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

    /// Prints a piece of the run's output; false when nothing can be written any more.
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

    /// Prints a message of holm in between.
    pub async fn say(&self, stream: Stream, text: String) -> bool {
        self.writer.write(stream, Bytes::from(text)).await
    }

    /// Waits until everything is written, and resets the terminal.
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
        // A terminal that is gone needs no reset.
        let _ = match self.stream {
            Stream::Stdout => std::io::stdout().write_all(RESET.as_bytes()),
            Stream::Stderr => std::io::stderr().write_all(RESET.as_bytes()),
        };
        let _ = std::io::stdout().flush();
    }
}
