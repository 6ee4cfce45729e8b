//! The user's terminal: whether a command gets it, its size, and raw mode that ends with its value.

use holm_core::session::Size;
use holm_core::{Code, Fault};
use rustix::termios::{OptionalActions, Termios};
use std::io::IsTerminal;
use std::os::fd::BorrowedFd;

/// Raw mode of stdin. Dropping it restores the settings, also when the program panics.
pub struct RawMode {
    before: Termios,
}

/// How the streams of a command inside are connected to this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// A terminal on both ends.
    Terminal,
    /// Exact bytes on stdin, stdout and stderr.
    Pipes,
    /// JSON Lines on stdout.
    Lines,
}

/// Whether a program inside should get a terminal: stdin and stdout are one, and this job has it. A
/// background job would be stopped for touching it.
pub fn is_interactive() -> bool {
    std::io::stdin().is_terminal()
        && std::io::stdout().is_terminal()
        && !is_in_background(rustix::stdio::stdin())
}

/// The size of the terminal; an unknown size counts as 24 × 80.
pub fn size() -> Size {
    match rustix::termios::tcgetwinsize(rustix::stdio::stdout()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => Size {
            rows: size.ws_row,
            cols: size.ws_col,
        },
        _ => Size { rows: 24, cols: 80 },
    }
}

/// The columns of the terminal that stderr is; unknown ones count as 80.
pub fn size_of_stderr() -> usize {
    match rustix::termios::tcgetwinsize(rustix::stdio::stderr()) {
        Ok(size) if size.ws_col > 0 => size.ws_col.into(),
        _ => 80,
    }
}

/// The columns into which text on stdout is broken: those of its terminal, or as many as it takes.
pub fn columns_to_fill() -> usize {
    if std::io::stdout().is_terminal() {
        size().cols.into()
    } else {
        usize::MAX
    }
}

/// Whether reading stdin now would stop this process, because another job has the terminal.
pub fn is_in_background(stdin: BorrowedFd<'_>) -> bool {
    match rustix::termios::tcgetpgrp(stdin) {
        Ok(foreground) => foreground != rustix::process::getpgrp(),
        Err(_) => false,
    }
}

// === impl RawMode ===

impl RawMode {
    pub fn enter() -> Result<Self, Fault> {
        let failed = |error: rustix::io::Errno| {
            Fault::new(
                Code::Internal,
                "cannot set the terminal to raw mode",
                "redirect stdin or stdout to run without a terminal",
            )
            .because(error)
        };
        let stdin = rustix::stdio::stdin();
        let before = rustix::termios::tcgetattr(stdin).map_err(failed)?;
        let mut raw = before.clone();
        raw.make_raw();
        rustix::termios::tcsetattr(stdin, OptionalActions::Now, &raw).map_err(failed)?;
        Ok(Self { before })
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // A terminal that is gone needs no restoring.
        let stdin = rustix::stdio::stdin();
        let _ = rustix::termios::tcsetattr(stdin, OptionalActions::Now, &self.before);
    }
}
