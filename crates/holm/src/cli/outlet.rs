//! Prints a run's output to the user's stdout and stderr. The program is not trusted, so a terminal
//! gets only the text and the colours that [`Drawing`] lets pass, behind a [`Gutter`], unless exact bytes are
//! requested. Used by `run` and `runs show --output`.

use super::gutter::Gutter;
use super::output::for_glyphs;
use super::stream::{Stream, Writer};
use super::terminal;
use anstream::{AutoStream, ColorChoice};
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
    /// One for both streams, because a terminal shows them together.
    gutter: Gutter,
    /// A terminal that got exact bytes, and is in the middle of a line.
    open: Option<Stream>,
}

/// One of the two streams. Dropping it resets its terminal.
struct Shown {
    stream: Stream,
    is_terminal: bool,
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
        let stdout = Shown::new(Stream::Stdout, form);
        let (columns, choice) = if stdout.is_terminal {
            let choice = AutoStream::choice(&std::io::stdout());
            (terminal::size().cols.into(), choice)
        } else {
            let choice = AutoStream::choice(&std::io::stderr());
            (terminal::size_of_stderr(), choice)
        };
        Self {
            writer: Writer::start(),
            stdout,
            stderr: Shown::new(Stream::Stderr, form),
            gutter: Gutter::new(columns, &for_glyphs("│"), choice != ColorChoice::Never),
            open: None,
        }
    }

    /// Prints a piece of the run's output; false when nothing can be written any more.
    pub async fn show(&mut self, stream: Stream, bytes: Vec<u8>) -> bool {
        let shown = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        let bytes = match &mut shown.drawing {
            Some(drawing) => {
                let passed = drawing.pass(&bytes);
                // Whole characters pass.
                let drawn = self.gutter.draw(&String::from_utf8_lossy(&passed));
                drawn.into_bytes()
            }
            None => {
                if shown.is_terminal && !bytes.is_empty() {
                    self.open = (!bytes.ends_with(b"\n")).then_some(stream);
                }
                bytes
            }
        };
        self.writer.write(stream, Bytes::from(bytes)).await
    }

    /// Prints a message of holm in between, on a line of its own.
    pub async fn say(&mut self, stream: Stream, text: String) -> bool {
        self.end_line().await && self.writer.write(stream, Bytes::from(text)).await
    }

    /// Waits until everything is written, and resets the terminal.
    pub async fn finish(mut self) -> Result<(), Errno> {
        // If that cannot be written, the writer says why.
        self.end_line().await;
        self.writer.finish().await
    }

    /// Ends the line of a terminal that the program left open.
    async fn end_line(&mut self) -> bool {
        let end = self.gutter.close();
        let place = match self.open.take() {
            Some(stream) => Some((stream, "\n".to_owned())),
            None if end.is_empty() => None,
            None if self.stdout.drawing.is_some() => Some((Stream::Stdout, end)),
            None => Some((Stream::Stderr, end)),
        };
        match place {
            Some((stream, end)) => self.writer.write(stream, Bytes::from(end)).await,
            None => true,
        }
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
            is_terminal,
            drawing: (is_terminal && form == Form::Drawn).then(Drawing::of_progress),
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
