//! Puts one text in place of another of the same shape, in a whole text or in a stream that comes in
//! pieces. Called by the gateway: placeholders become values in requests, values become placeholders
//! in answers.
//!
//! Both have the same length in every form, so lengths that were announced stay true. What could be
//! the beginning of a value is held back, never more than its longest form. A reader that cannot wait
//! takes it: of a value that has begun in an answer it gets a few letters, and for the rest those of
//! the token.

use crate::Value;
use crate::encodings;
use crate::patterns::Patterns;
use std::fmt;
use std::sync::Arc;
use zeroize::Zeroizing;

/// Wiped when it is dropped.
type Text = Zeroizing<Vec<u8>>;

/// What is exchanged for what; cheap to clone.
#[derive(Clone)]
pub struct Exchange(Arc<Pairs>);

struct Pairs {
    patterns: Patterns,
    /// Few, and looked through only when one of them was found.
    texts: Vec<(Text, Text)>,
}

/// At most so many letters of a value that only began are told, and never more than a quarter of it.
/// With fewer, texts that merely begin alike would be changed.
const MOST_TOLD: usize = 8;

/// One stream.
#[derive(Debug)]
pub struct Exchanger {
    exchange: Exchange,
    state: u32,
    /// Not told yet, each with what is told in its place.
    held: Vec<(u8, Option<u8>)>,
}

// === impl Exchange ===

impl Exchange {
    /// A token becomes its value, as it is or as URLs have it. Other forms are not exchanged: what
    /// stands beside the value in them would have to change too.
    pub fn into_value(token: &str, value: &Value) -> Self {
        Self::new(
            encodings::in_urls(token),
            encodings::in_urls(value.reveal()),
        )
    }

    /// Values become their tokens, in every form that gives a value away.
    pub fn into_tokens<'a>(pairs: impl Iterator<Item = (&'a str, &'a Value)>) -> Self {
        let (from, to) = forms(pairs);
        Self::new(from, to)
    }

    /// The same in names of headers, which the parser hands over in small letters.
    pub fn into_tokens_in_names<'a>(pairs: impl Iterator<Item = (&'a str, &'a Value)>) -> Self {
        let (mut from, mut to) = forms(pairs);
        for form in from.iter_mut().chain(&mut to) {
            form.make_ascii_lowercase();
        }
        Self::new(from, to)
    }

    fn new(from: Vec<Vec<u8>>, to: Vec<Vec<u8>>) -> Self {
        let pairs = from.into_iter().zip(to);
        // Never another length: whoever announced one is believed.
        let fitting = pairs.filter(|(from, to)| from.len() == to.len());
        let texts: Vec<_> = fitting
            .map(|(from, to)| (Zeroizing::new(from), Zeroizing::new(to)))
            .collect();
        Self(Arc::new(Pairs {
            patterns: Patterns::new(texts.iter().map(|(from, _)| from.as_slice())),
            texts,
        }))
    }

    /// All of a text at once; `None`: there is nothing to exchange in it.
    pub fn swap(&self, text: &[u8]) -> Option<Vec<u8>> {
        let mut exchanger = Exchanger::new(self.clone());
        let mut swapped = exchanger.take(text);
        exchanger.tell(exchanger.held.len(), &mut swapped);
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

    /// Takes in a piece; returns what can be told of the stream by now.
    pub fn take(&mut self, piece: &[u8]) -> Vec<u8> {
        let pairs = Arc::clone(&self.exchange.0);
        let mut told = Vec::with_capacity(piece.len());
        for byte in piece {
            if self.held.is_empty() && pairs.patterns.next(self.state, *byte) == 0 {
                // Nothing begins here, which is so of nearly every byte.
                self.state = 0;
                told.push(*byte);
                continue;
            }
            self.step(&pairs, *byte);
            let sure = self.sure();
            // Moving few bytes often costs more than holding some of them a little longer.
            if sure == self.held.len() || sure >= 4096 {
                self.tell(sure, &mut told);
            }
        }
        let sure = self.sure();
        self.tell(sure, &mut told);
        told
    }

    pub fn holds_something(&self) -> bool {
        !self.held.is_empty()
    }

    /// What is held back: the stream has ended, or its reader cannot wait. What follows may still be
    /// the rest of a value.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut told = Vec::new();
        self.cover_begun();
        self.tell(self.held.len(), &mut told);
        told
    }

    /// Puts the token in place of a value of which more than a few letters are held.
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

    /// How many of the bytes that are held cannot be part of anything to come.
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
        // Its beginning may have been told to a reader that could not wait.
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

    fn tell(&mut self, count: usize, told: &mut Vec<u8>) {
        let sure = self.held.drain(..count);
        told.extend(sure.map(|(byte, instead)| instead.unwrap_or(byte)));
    }
}

/// All forms of the values, and of the tokens at the same places.
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
