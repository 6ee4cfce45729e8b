//! Replaces texts by others of the same shape, in a whole text or in a stream. The gateway uses it:
//! placeholders become values in requests, values become placeholders in responses.
//!
//! Both have the same length in every encoding, so announced lengths stay correct. A possible
//! prefix of a value is held back, at most as long as the longest encoding. For a reader that
//! cannot wait, the held bytes are released: the reader may get a few letters of a value, and the
//! token's letters for the rest.

use crate::Value;
use crate::encodings;
use crate::patterns::Patterns;
use std::fmt;
use std::sync::Arc;
use zeroize::Zeroizing;

/// Wiped when it is dropped.
type Text = Zeroizing<Vec<u8>>;

/// The replacement table; cheap to clone.
#[derive(Clone)]
pub struct Exchange(Arc<Pairs>);

struct Pairs {
    patterns: Patterns,
    /// Few entries, searched only after a match.
    texts: Vec<(Text, Text)>,
}

/// The most letters of an incomplete value that are released, and never more than a quarter of it.
/// A lower limit would change texts that only begin like a value.
const MOST_TOLD: usize = 8;

/// The state of one stream.
#[derive(Debug)]
pub struct Exchanger {
    exchange: Exchange,
    state: u32,
    /// Bytes held back, each with its replacement.
    held: Vec<(u8, Option<u8>)>,
}

// === impl Exchange ===

impl Exchange {
    /// Replaces a token by its value, plain or URL-escaped. Other encodings are not replaced,
    /// because the letters around the value would change too.
    pub fn into_value(token: &str, value: &Value) -> Self {
        Self::new(
            encodings::in_urls(token),
            encodings::in_urls(value.reveal()),
        )
    }

    /// Replaces values by their tokens, in every encoding that reveals a value.
    pub fn into_tokens<'a>(pairs: impl Iterator<Item = (&'a str, &'a Value)>) -> Self {
        let (from, to) = forms(pairs);
        Self::new(from, to)
    }

    /// The same for header names, which the parser returns in lower case.
    pub fn into_tokens_in_names<'a>(pairs: impl Iterator<Item = (&'a str, &'a Value)>) -> Self {
        let (mut from, mut to) = forms(pairs);
        for form in from.iter_mut().chain(&mut to) {
            form.make_ascii_lowercase();
        }
        Self::new(from, to)
    }

    fn new(from: Vec<Vec<u8>>, to: Vec<Vec<u8>>) -> Self {
        let pairs = from.into_iter().zip(to);
        // Lengths must be equal, because the message's length was announced already.
        let fitting = pairs.filter(|(from, to)| from.len() == to.len());
        let texts: Vec<_> = fitting
            .map(|(from, to)| (Zeroizing::new(from), Zeroizing::new(to)))
            .collect();
        Self(Arc::new(Pairs {
            patterns: Patterns::new(texts.iter().map(|(from, _)| from.as_slice())),
            texts,
        }))
    }

    /// Replaces in a whole text; `None`: no match.
    pub fn swap(&self, text: &[u8]) -> Option<Vec<u8>> {
        let mut exchanger = Exchanger::new(self.clone());
        let mut swapped = exchanger.take(text);
        exchanger.emit(exchanger.held.len(), &mut swapped);
        (swapped != text).then_some(swapped)
    }
}

impl fmt::Debug for Exchange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("[exchange]")
    }
}

// === impl Exchanger ===

impl Exchanger {
    pub fn new(exchange: Exchange) -> Self {
        Self {
            exchange,
            state: 0,
            held: Vec::new(),
        }
    }

    /// Takes the next bytes; returns those that can be passed on now.
    pub fn take(&mut self, piece: &[u8]) -> Vec<u8> {
        let pairs = Arc::clone(&self.exchange.0);
        let mut output = Vec::with_capacity(piece.len());
        for byte in piece {
            if self.held.is_empty() && pairs.patterns.next(self.state, *byte) == 0 {
                // No pattern begins here, which is the case for nearly every byte.
                self.state = 0;
                output.push(*byte);
                continue;
            }
            self.step(&pairs, *byte);
            let sure = self.sure();
            // Moving few bytes often costs more than holding some of them longer.
            if sure == self.held.len() || sure >= 4096 {
                self.emit(sure, &mut output);
            }
        }
        let sure = self.sure();
        self.emit(sure, &mut output);
        output
    }

    pub fn holds_something(&self) -> bool {
        !self.held.is_empty()
    }

    /// Releases the held bytes, because the stream ended or its reader cannot wait. The next bytes
    /// may still complete a value.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut output = Vec::new();
        self.cover_begun();
        self.emit(self.held.len(), &mut output);
        output
    }

    /// Replaces a partial value by the token if more than a few letters of it are held.
    fn cover_begun(&mut self) {
        let pairs = Arc::clone(&self.exchange.0);
        let depth = pairs.patterns.depth(self.state);
        let here = depth.min(self.held.len());
        let begin = self.held.len() - here;
        let held = &mut self.held[begin..];
        let is_it = |from: &[u8]| from.iter().eq(held.iter().map(|(byte, _)| byte));
        let begun = pairs
            .texts
            .iter()
            .find(|(from, _)| from.get(depth - here..depth).is_some_and(is_it));
        let Some((from, to)) = begun else {
            return;
        };
        let differing = |length: usize| {
            let pairs = from.iter().zip(to.iter()).take(length);
            pairs.filter(|(from, to)| from != to).count()
        };
        if differing(depth) <= MOST_TOLD.min(differing(from.len()) / 4) {
            return;
        }
        for ((_, instead), byte) in held.iter_mut().zip(&to[depth - here..depth]) {
            instead.get_or_insert(*byte);
        }
    }

    /// How many of the held bytes cannot be part of a later match.
    fn sure(&self) -> usize {
        let depth = self.exchange.0.patterns.depth(self.state);
        self.held.len() - depth.min(self.held.len())
    }

    fn step(&mut self, pairs: &Pairs, byte: u8) {
        self.held.push((byte, None));
        self.state = pairs.patterns.next(self.state, byte);
        let whole = pairs.patterns.whole(self.state);
        if whole == 0 {
            return;
        }
        // Its first letters may already have been released to a reader that could not wait.
        let here = whole.min(self.held.len());
        let begin = self.held.len() - here;
        let held = &mut self.held[begin..];
        let is_it = |from: &[u8]| from.iter().eq(held.iter().map(|(byte, _)| byte));
        let found = pairs
            .texts
            .iter()
            .find(|(from, _)| from.len() == whole && is_it(&from[whole - here..]));
        if let Some((_, text)) = found {
            for (held, byte) in held.iter_mut().zip(&text[whole - here..]) {
                held.1 = Some(*byte);
            }
        }
    }

    fn emit(&mut self, count: usize, output: &mut Vec<u8>) {
        let sure = self.held.drain(..count);
        output.extend(sure.map(|(byte, instead)| instead.unwrap_or(byte)));
    }
}

/// All encodings of the values, and those of the tokens in the same order.
fn forms<'a>(pairs: impl Iterator<Item = (&'a str, &'a Value)>) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let (mut from, mut to) = (Vec::new(), Vec::new());
    for (token, value) in pairs {
        from.extend(encodings::list(value.reveal()));
        to.extend(encodings::list(token));
    }
    (from, to)
}

#[cfg(test)]
#[path = "exchange_tests.rs"]
mod tests;
