//! Searches many texts at the same time, byte by byte (Aho-Corasick). After every byte it knows how
//! many of the last bytes could be a prefix of a text, and how many are a complete one.

use std::collections::VecDeque;

const NONE: u32 = u32::MAX;

/// A state stands for the longest prefix that the last bytes match. State 0 is the empty prefix.
#[derive(Debug)]
pub struct Patterns {
    states: Vec<State>,
    /// Transitions from state 0.
    first: Box<[u32; 256]>,
}

#[derive(Clone, Debug)]
struct State {
    /// The first child, and the next sibling.
    child: u32,
    sibling: u32,
    /// The longest proper suffix that is also a prefix.
    fallback: u32,
    depth: u32,
    /// The length of the longest complete text that ends here; 0: none.
    whole: u32,
    byte: u8,
}

// === impl Patterns ===

impl Patterns {
    pub fn new<'a>(texts: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut patterns = Self {
            states: vec![State::new(0, 0)],
            first: Box::new([0; 256]),
        };
        for text in texts.filter(|text| !text.is_empty()) {
            patterns.add(text);
        }
        patterns.link();
        patterns
    }

    pub fn is_empty(&self) -> bool {
        self.states.len() == 1
    }

    /// The state after one more byte.
    pub fn next(&self, mut state: u32, byte: u8) -> u32 {
        loop {
            if state == 0 {
                return self.first[usize::from(byte)];
            }
            match self.child(state, byte) {
                Some(child) => return child,
                None => state = self.states[state as usize].fallback,
            }
        }
    }

    /// How many of the last bytes are a prefix of a text or a complete text.
    pub fn depth(&self, state: u32) -> usize {
        self.states[state as usize].depth as usize
    }

    /// How many of the last bytes are a complete text; the longest one.
    pub fn whole(&self, state: u32) -> usize {
        self.states[state as usize].whole as usize
    }

    fn child(&self, state: u32, byte: u8) -> Option<u32> {
        let mut child = self.states[state as usize].child;
        while child != NONE {
            let found = &self.states[child as usize];
            if found.byte == byte {
                return Some(child);
            }
            child = found.sibling;
        }
        None
    }

    fn add(&mut self, text: &[u8]) {
        let mut state = 0;
        for byte in text {
            state = match self.child(state, *byte) {
                Some(child) => child,
                None => {
                    let child = self.states.len() as u32;
                    let parent = &mut self.states[state as usize];
                    let mut fresh = State::new(*byte, parent.depth + 1);
                    fresh.sibling = std::mem::replace(&mut parent.child, child);
                    self.states.push(fresh);
                    child
                }
            };
        }
        let state = &mut self.states[state as usize];
        state.whole = state.depth;
    }

    /// Computes the fallbacks, shorter prefixes first.
    fn link(&mut self) {
        let mut waiting = VecDeque::new();
        for child in self.children(0) {
            self.first[usize::from(self.states[child as usize].byte)] = child;
            waiting.push_back(child);
        }
        while let Some(state) = waiting.pop_front() {
            let fallback = self.states[state as usize].fallback;
            let whole = self.states[fallback as usize].whole;
            let own = &mut self.states[state as usize].whole;
            *own = (*own).max(whole);
            for child in self.children(state) {
                let byte = self.states[child as usize].byte;
                self.states[child as usize].fallback = self.next(fallback, byte);
                waiting.push_back(child);
            }
        }
    }

    fn children(&self, state: u32) -> Vec<u32> {
        let mut children = Vec::new();
        let mut child = self.states[state as usize].child;
        while child != NONE {
            children.push(child);
            child = self.states[child as usize].sibling;
        }
        children
    }
}

// === impl State ===

impl State {
    fn new(byte: u8, depth: u32) -> Self {
        Self {
            child: NONE,
            sibling: NONE,
            fallback: 0,
            depth,
            whole: 0,
            byte,
        }
    }
}
