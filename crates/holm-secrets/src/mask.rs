//! Masks known values in a stream, at any split into pieces.
//!
//! A possible prefix of a value is held back until it is decided, at most as long as the longest
//! encoding. Overlapping values are masked together. Without values nothing is copied twice.
//!
//! For interactive output, a short prefix is released after a while ([`Masker::pause`]); the rest
//! of the value is still masked.

use crate::Value;
use crate::encodings;
use crate::patterns::Patterns;
use std::collections::BTreeSet;
use std::io::{self, Read};
use std::sync::Arc;

/// The replacement for a value.
pub const MASK: &[u8] = b"[secret]";

pub use encodings::{LONGEST_FORM, SHORTEST};

/// The values to mask; cheap to clone.
#[derive(Clone, Debug)]
pub struct Known(Arc<Patterns>);

/// The state of one stream.
#[derive(Debug)]
pub struct Masker {
    known: Known,
    style: Style,
    state: u32,
    /// Bytes held back, each with whether it belongs to a value.
    held: Vec<(u8, bool)>,
    /// Whether the last byte released belonged to a value.
    is_inside: bool,
}

/// How values are masked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Each as [`MASK`].
    Word,
    /// A star per character, because the output is positioned by counting characters.
    Stars,
    /// A star per byte, because clients request bytes by offset.
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

    /// Whether a value is in what the reader reads.
    pub fn is_in(&self, mut reader: impl Read) -> io::Result<bool> {
        let mut buffer = vec![0; 64 << 10];
        let mut state = 0;
        loop {
            let length = match reader.read(&mut buffer) {
                Ok(0) => return Ok(false),
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            for byte in &buffer[..length] {
                state = self.0.next(state, *byte);
                if self.0.whole(state) > 0 {
                    return Ok(true);
                }
            }
        }
    }

    /// Masks a whole text.
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

    /// Replaces the known values. Bytes held back are checked again.
    pub fn set_known(&mut self, known: &Known) {
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

    /// Takes the next bytes; returns those that can be passed on now.
    pub fn take(&mut self, piece: &[u8]) -> Vec<u8> {
        if self.known.is_empty() && self.held.is_empty() {
            return piece.to_vec();
        }
        let mut output = Vec::with_capacity(piece.len());
        for byte in piece {
            let is_between = self.held.is_empty() && self.state == 0;
            if is_between && self.known.0.next(0, *byte) == 0 {
                // No value begins here, which is the case for nearly every byte.
                self.is_inside = false;
                output.push(*byte);
                continue;
            }
            self.step(*byte);
            let sure = self.held.len() - self.known.0.depth(self.state).min(self.held.len());
            // Moving few bytes often costs more than holding some of them longer.
            if sure == self.held.len() || sure >= 4096 {
                self.emit(sure, &mut output);
            }
        }
        let sure = self.held.len() - self.known.0.depth(self.state).min(self.held.len());
        self.emit(sure, &mut output);
        output
    }

    /// Whether bytes are held back.
    pub fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Releases a few bytes that look like a prefix, when no more came for a while. A longer
    /// prefix, which would reveal something, and half a character stay held back.
    pub fn pause(&mut self) -> Vec<u8> {
        let mut output = Vec::new();
        if self.known.0.depth(self.state) < SHORTEST {
            let held: Vec<u8> = self.held.iter().map(|(byte, _)| *byte).collect();
            let half = match held.utf8_chunks().last() {
                Some(last) if is_cut(last.invalid()) => last.invalid().len(),
                _ => 0,
            };
            self.emit(held.len() - half, &mut output);
        }
        output
    }

    /// Ends the stream. A long prefix of a value is masked too.
    pub fn finish(&mut self) -> Vec<u8> {
        let mut output = Vec::new();
        let begun = self.known.0.depth(self.state).min(self.held.len());
        if begun >= SHORTEST {
            let from = self.held.len() - begun;
            self.held[from..].iter_mut().for_each(|held| held.1 = true);
        }
        self.emit(self.held.len(), &mut output);
        self.state = 0;
        self.is_inside = false;
        output
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

    fn emit(&mut self, count: usize, output: &mut Vec<u8>) {
        for (byte, is_covered) in self.held.drain(..count) {
            match (is_covered, self.style) {
                (false, _) => output.push(byte),
                (true, Style::Word) if self.is_inside => {}
                (true, Style::Word) => output.extend(MASK),
                (true, Style::Stars) if byte.is_ascii_control() => output.push(byte),
                (true, Style::Stars) if is_continued(byte) => {}
                (true, Style::Stars | Style::Bytes) => output.push(b'*'),
            }
            self.is_inside = is_covered;
        }
    }
}

/// Whether the byte continues a UTF-8 character.
fn is_continued(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

/// Whether these are the first bytes of an incomplete UTF-8 character.
fn is_cut(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
#[path = "mask_tests.rs"]
mod tests;
