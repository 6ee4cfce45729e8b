//! Masks the workspace's secrets in a session's output before it reaches a screen or the history:
//! with a star per character, because the program counts columns.
//!
//! A possible prefix of a value waits for more. The user may be typing just that, so short prefixes
//! wait at most [`HOLD`].

use holm_secrets::mask::{Known, Masker, Style};
use std::time::{Duration, Instant};

/// Shorter than a user notices, and longer than a program needs between two writes.
const HOLD: Duration = Duration::from_millis(30);

pub struct Masking {
    masker: Masker,
    /// When to check the held bytes again.
    until: Option<Instant>,
}

// === impl Masking ===

impl Masking {
    pub fn new(known: Known) -> Self {
        Self {
            masker: Masker::with_style(known, Style::Stars),
            until: None,
        }
    }

    /// Takes output of the program; returns what can be shown now.
    pub fn take(&mut self, bytes: &[u8], known: &Known) -> Vec<u8> {
        self.masker.set_known(known);
        let masked = self.masker.take(bytes);
        let is_holding = self.masker.is_holding();
        self.until = is_holding.then(|| Instant::now() + HOLD);
        masked
    }

    pub fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Bytes that have waited long enough.
    pub fn waited(&mut self) -> Vec<u8> {
        match self.until {
            Some(until) if until <= Instant::now() => {
                self.until = None;
                self.masker.pause()
            }
            _ => Vec::new(),
        }
    }

    /// Ends the stream.
    pub fn finish(&mut self) -> Vec<u8> {
        self.until = None;
        self.masker.finish()
    }
}
