//! What is known of the workspace's secrets is masked in a session's output before it is on any screen
//! or in the history: with a star for every character, because the program counts columns.
//!
//! What may be the beginning of a value waits for what follows. Somebody may be typing just that, so
//! the first few characters of one do not wait for longer than [`HOLD`].

use holm_secrets::mask::{Known, Masker, Style};
use std::time::{Duration, Instant};

/// Less than anybody notices, and more than a program needs between two parts of what it prints.
const HOLD: Duration = Duration::from_millis(30);

pub struct Masking {
    masker: Masker,
    /// When what is held back is looked at again.
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

    /// Takes in what the program wrote; returns what can be shown by now.
    pub fn take(&mut self, bytes: &[u8], known: &Known) -> Vec<u8> {
        self.masker.know(known);
        let masked = self.masker.take(bytes);
        let is_holding = self.masker.is_holding();
        self.until = is_holding.then(|| Instant::now() + HOLD);
        masked
    }

    pub fn until(&self) -> Option<Instant> {
        self.until
    }

    /// What has waited long enough.
    pub fn waited(&mut self) -> Vec<u8> {
        match self.until {
            Some(until) if until <= Instant::now() => {
                self.until = None;
                self.masker.pause()
            }
            _ => Vec::new(),
        }
    }

    /// The program has ended.
    pub fn finish(&mut self) -> Vec<u8> {
        self.until = None;
        self.masker.finish()
    }
}
