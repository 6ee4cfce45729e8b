//! Masks known values in a stream, however it is cut into pieces.
//!
//! What could be the beginning of a value is held back until it is known, never more than the longest
//! form of a value. Values that overlap are masked together. Without values nothing is copied twice.
//!
//! Where somebody looks on, a beginning that stays without an end is shown after a while, if it is
//! short ([`Masker::pause`]); what then follows of the value is masked all the same.

use crate::Value;
use crate::encodings;
use crate::patterns::Patterns;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What stands in place of a value.
pub const MASK: &[u8] = b"[secret]";

pub use encodings::{LONGEST_FORM, SHORTEST};

/// The values that are known; cheap to clone.
#[derive(Clone, Debug)]
pub struct Known(Arc<Patterns>);

/// One stream.
#[derive(Debug)]
pub struct Masker {
    known: Known,
    style: Style,
    state: u32,
    /// Not told yet, each with whether it belongs to a value.
    held: Vec<(u8, bool)>,
    /// The last byte that was told belonged to a value.
    is_inside: bool,
}

/// How values are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Each as [`MASK`].
    Word,
    /// A star for every character, because something was placed by counting them.
    Stars,
    /// A star for every byte, because somebody asks for bytes by their places.
    Bytes,
}

// === impl Known ===

impl Known {
    pub fn new<'a>(values: impl Iterator<Item = &'a Value>) -> Self {
        let forms: BTreeSet<Vec<u8>> = values.flat_map(encodings::of).collect();
        Self(Arc::new(Patterns::new(forms.iter().map(Vec::as_slice))))
    }

    pub fn none() -> Self {
        Self::new(std::iter::empty())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of a text at once.
    pub fn mask(&self, text: &[u8]) -> Vec<u8> {
        let mut masker = Masker::new(self.clone());
        let mut masked = masker.take(text);
        masked.extend(masker.finish());
        masked
    }
}

// === impl Masker ===

impl Masker {
    pub fn new(known: Known) -> Self {
        Self::with_style(known, Style::Word)
    }

    pub fn with_style(known: Known, style: Style) -> Self {
        Self {
            known,
            style,
            state: 0,
            held: Vec::new(),
            is_inside: false,
        }
    }

    /// From now on other values are known. What is held back is looked at again.
    pub fn know(&mut self, known: &Known) {
        if Arc::ptr_eq(&self.known.0, &known.0) {
            return;
        }
        self.known = known.clone();
        self.state = 0;
        let held = std::mem::take(&mut self.held);
        for (byte, is_covered) in held {
            self.step(byte);
            if let Some(last) = self.held.last_mut() {
                last.1 |= is_covered;
            }
        }
    }

    /// Takes in a piece; returns what can be told of the stream by now.
    pub fn take(&mut self, piece: &[u8]) -> Vec<u8> {
        if self.known.is_empty() && self.held.is_empty() {
            return piece.to_vec();
        }
        let mut told = Vec::with_capacity(piece.len());
        for byte in piece {
            let is_between = self.held.is_empty() && self.state == 0;
            if is_between && self.known.0.next(0, *byte) == 0 {
                // Nothing begins here, which is so of nearly every byte.
                self.is_inside = false;
                told.push(*byte);
                continue;
            }
            self.step(*byte);
            let sure = self.held.len() - self.known.0.depth(self.state).min(self.held.len());
            // Moving few bytes often costs more than holding some of them a little longer.
            if sure == self.held.len() || sure >= 4096 {
                self.tell(sure, &mut told);
            }
        }
        let sure = self.held.len() - self.known.0.depth(self.state).min(self.held.len());
        self.tell(sure, &mut told);
        told
    }

    /// Whether something was not told yet.
    pub fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Nothing came for a while: a few bytes that look like a beginning are told. What gives
    /// something away is still held back, and so is half a character.
    pub fn pause(&mut self) -> Vec<u8> {
        let mut told = Vec::new();
        if self.known.0.depth(self.state) < SHORTEST {
            let held: Vec<u8> = self.held.iter().map(|(byte, _)| *byte).collect();
            let half = match held.utf8_chunks().last() {
                Some(last) if is_cut(last.invalid()) => last.invalid().len(),
                _ => 0,
            };
            self.tell(held.len() - half, &mut told);
        }
        told
    }

    /// The stream has ended. The beginning of a value gives something away, too, unless it is short.
    pub fn finish(&mut self) -> Vec<u8> {
        let mut told = Vec::new();
        let begun = self.known.0.depth(self.state).min(self.held.len());
        if begun >= SHORTEST {
            let from = self.held.len() - begun;
            self.held[from..].iter_mut().for_each(|held| held.1 = true);
        }
        self.tell(self.held.len(), &mut told);
        self.state = 0;
        self.is_inside = false;
        told
    }

    fn step(&mut self, byte: u8) {
        self.held.push((byte, false));
        self.state = self.known.0.next(self.state, byte);
        let whole = self.known.0.whole(self.state).min(self.held.len());
        let begin = self.held.len() - whole;
        for covered in &mut self.held[begin..] {
            covered.1 = true;
        }
    }

    fn tell(&mut self, count: usize, told: &mut Vec<u8>) {
        for (byte, is_covered) in self.held.drain(..count) {
            match (is_covered, self.style) {
                (false, _) => told.push(byte),
                (true, Style::Word) if self.is_inside => {}
                (true, Style::Word) => told.extend(MASK),
                (true, Style::Stars) if byte.is_ascii_control() => told.push(byte),
                (true, Style::Stars) if is_continued(byte) => {}
                (true, Style::Stars | Style::Bytes) => told.push(b'*'),
            }
            self.is_inside = is_covered;
        }
    }
}

/// Whether a byte belongs to the character that began before it.
fn is_continued(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

/// Whether these are the first bytes of a character.
fn is_cut(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
#[path = "mask_tests.rs"]
mod tests;
