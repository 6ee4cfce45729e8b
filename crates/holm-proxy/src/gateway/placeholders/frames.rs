//! WebSocket frames on their way into the workspace: secret values in messages are replaced by
//! their tokens, even when a message is split over several frames with control frames between them.
//!
//! Tokens have the length of their values, so frame headers pass unchanged. Called by
//! [`super::serve`].

use holm_secrets::exchange::{Exchange, Exchanger};
use std::collections::VecDeque;

pub struct Frames {
    exchange: Exchange,
    /// Sees the payloads of all messages as one stream.
    exchanger: Exchanger,
    reading: Reading,
    /// Payload bytes received, and payload bytes already passed on.
    said: u64,
    output: u64,
    /// Headers and control frames with their position in the payload stream.
    between: VecDeque<(u64, Vec<u8>)>,
}

enum Reading {
    Header(Vec<u8>),
    /// Inside a data frame, with this many bytes left.
    Message(u64),
    /// Inside a control frame: the bytes so far, the length of its header, and the bytes left.
    Control(Vec<u8>, usize, u64),
}

/// The frame is not valid from a server, or a value in it would be invisible (an extension is in
/// use).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotReadable;

/// Bit masks for the first two header bytes.
const EXTENSION: u8 = 0b0111_0000;
const CONTROL: u8 = 0b0000_1000;
const MASKED: u8 = 0b1000_0000;
const LENGTH: u8 = 0b0111_1111;

// === impl Frames ===

impl Frames {
    pub fn new(exchange: Exchange) -> Self {
        Self {
            exchanger: Exchanger::new(exchange.clone()),
            exchange,
            reading: Reading::Header(Vec::new()),
            said: 0,
            output: 0,
            between: VecDeque::new(),
        }
    }

    /// Takes the next bytes; returns those that can be passed on now.
    pub fn take(&mut self, mut piece: &[u8]) -> Result<Vec<u8>, NotReadable> {
        let mut output = Vec::with_capacity(piece.len());
        while !piece.is_empty() {
            piece = match &mut self.reading {
                Reading::Header(header) => {
                    header.push(piece[0]);
                    if let Some(length) = length(header)? {
                        self.begin(length);
                    }
                    &piece[1..]
                }
                Reading::Message(left) => {
                    let (content, rest) = split(piece, *left);
                    *left -= content.len() as u64;
                    self.said += content.len() as u64;
                    let content = self.exchanger.take(content);
                    self.emit(&content, &mut output);
                    rest
                }
                Reading::Control(frame, _, left) => {
                    let (content, rest) = split(piece, *left);
                    *left -= content.len() as u64;
                    frame.extend(content);
                    rest
                }
            };
            self.end_frame();
        }
        self.emit(&[], &mut output);
        Ok(output)
    }

    pub fn holds_something(&self) -> bool {
        self.exchanger.holds_something()
    }

    /// Releases the bytes held back, because the stream ended or its reader cannot wait.
    pub fn rest(&mut self) -> Vec<u8> {
        let (rest, mut output) = (self.exchanger.rest(), Vec::new());
        self.emit(&rest, &mut output);
        output
    }

    fn begin(&mut self, length: u64) {
        let Reading::Header(header) = &mut self.reading else {
            return;
        };
        let header = std::mem::take(header);
        self.reading = if header[0] & CONTROL == 0 {
            self.between.push_back((self.said, header));
            Reading::Message(length)
        } else {
            let before = header.len();
            Reading::Control(header, before, length)
        };
    }

    /// Expects the next frame when the current one is complete.
    fn end_frame(&mut self) {
        match &mut self.reading {
            Reading::Message(0) => {}
            Reading::Control(frame, content, 0) => {
                let mut frame = std::mem::take(frame);
                if let Some(swapped) = self.exchange.swap(&frame[*content..]) {
                    frame.splice(*content.., swapped);
                }
                self.between.push_back((self.said, frame));
            }
            _ => return,
        }
        self.reading = Reading::Header(Vec::new());
    }

    /// Appends payload to the output, with headers and control frames at their positions.
    fn emit(&mut self, mut content: &[u8], output: &mut Vec<u8>) {
        loop {
            let place = self.between.front().map_or(u64::MAX, |(place, _)| *place);
            let (before, rest) = split(content, place - self.output);
            output.extend(before);
            self.output += before.len() as u64;
            content = rest;
            match self.between.front() {
                Some((place, _)) if *place == self.output => {
                    output.extend(
                        self.between
                            .pop_front()
                            .into_iter()
                            .flat_map(|(_, bytes)| bytes),
                    );
                }
                _ => return,
            }
        }
    }
}

/// Splits after `count` bytes, or at the end.
fn split(bytes: &[u8], count: u64) -> (&[u8], &[u8]) {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    bytes.split_at(count.min(bytes.len()))
}

/// The payload length, once the header is complete.
fn length(header: &[u8]) -> Result<Option<u64>, NotReadable> {
    if header[0] & EXTENSION != 0 {
        return Err(NotReadable);
    }
    let Some(second) = header.get(1) else {
        return Ok(None);
    };
    if second & MASKED != 0 {
        return Err(NotReadable);
    }
    let (short, long) = (second & LENGTH, &header[2..]);
    // Control frames are at most 125 bytes long; a longer one is refused so that it need not be
    // buffered.
    if header[0] & CONTROL != 0 && short > 125 {
        return Err(NotReadable);
    }
    Ok(match (short, long.len()) {
        (0..=125, _) => Some(short.into()),
        (126, 2) | (127, 8) => Some(long.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use holm_secrets::Value;

    const VALUE: &str = "sk_live_51H+xCANARY/canary=0123";
    const TOKEN: &str = "sk_live_80T+qZZQWEX/zqwert=9876";

    fn frames() -> Frames {
        let value = Value::parse(VALUE.as_bytes().to_vec()).unwrap();
        Frames::new(Exchange::into_tokens([(TOKEN, &value)].into_iter()))
    }

    fn frame(first: u8, content: &str) -> Vec<u8> {
        let mut frame = vec![first];
        match content.len() {
            short @ ..126 => frame.push(short as u8),
            middle @ ..0x1_0000 => {
                frame.push(126);
                frame.extend((middle as u16).to_be_bytes());
            }
            long => {
                frame.push(127);
                frame.extend((long as u64).to_be_bytes());
            }
        }
        frame.extend(content.as_bytes());
        frame
    }

    /// A message in two frames, a ping and an empty message, and long ones.
    fn conversation(secret: &str) -> Vec<u8> {
        let (begin, end) = secret.split_at(13);
        let mut all = frame(0x01, &format!("key {begin}"));
        all.extend(frame(0x89, &format!("ping {secret}")));
        all.extend(frame(0x80, &format!("{end} end")));
        all.extend(frame(0x81, ""));
        all.extend(frame(0x82, &format!("{}{secret}", "x".repeat(200))));
        all.extend(frame(0x81, &format!("{secret}{}", "x".repeat(70_000))));
        all.extend(frame(0x88, ""));
        all
    }

    #[test]
    fn attack_189_a_value_is_seen_across_frames() {
        let (from, to) = (conversation(VALUE), conversation(TOKEN));
        for size in [1, 2, 3, 7, 64, 1000, from.len()] {
            let mut frames = frames();
            let mut output = Vec::new();
            for piece in from.chunks(size) {
                output.extend(frames.take(piece).unwrap());
            }
            assert!(!frames.holds_something());
            assert!(output == to, "{size}");
        }
        // As one byte stream, the value passes in two parts that do not match.
        let value = Value::parse(VALUE.as_bytes().to_vec()).unwrap();
        let stream = Exchange::into_tokens([(TOKEN, &value)].into_iter());
        let parts = [frame(0x01, &VALUE[..13]), frame(0x80, &VALUE[13..])].concat();
        assert_eq!(stream.swap(&parts), None);
    }

    #[test]
    fn what_cannot_be_read_ends_it() {
        for wrong in [&[0xc1, 0x01][..], &[0x91], &[0x81, 0x85], &[0x89, 0x7e]] {
            assert_eq!(frames().take(wrong), Err(NotReadable), "{wrong:?}");
        }
    }

    #[test]
    fn a_beginning_is_told_when_nothing_follows() {
        let mut frames = frames();
        let output = frames.take(&frame(0x81, "a sk")).unwrap();
        assert_eq!(output, frame(0x81, "a sk")[..4]);
        assert!(frames.holds_something());
        assert_eq!(frames.rest(), b"sk");
        assert_eq!(frames.take(&frame(0x81, "b")).unwrap(), frame(0x81, "b"));
    }
}
