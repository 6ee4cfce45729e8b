//! The format of service logs, shared by the writer (the keeper) and the readers (the daemon).
//!
//! A record is a line: seconds and microseconds since the epoch, a letter for the stream, the text.
//! `web.log` is the current file; when it is full it becomes `web.log.1`, that `web.log.2`, and the
//! oldest is deleted.

pub mod follow;
pub mod read;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Files per service.
pub const FILES: usize = 5;
/// The most bytes of one file.
pub const FILE_SIZE: u64 = 10 << 20;

/// Where a line came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
    /// Messages of holm about the log itself.
    Holm,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Since the epoch.
    pub time: Duration,
    pub stream: Stream,
    pub text: Vec<u8>,
}

/// A file of a service's log; 0 is the newest.
pub fn path(logs: &Path, service: &str, age: usize) -> PathBuf {
    match age {
        0 => logs.join(format!("{service}.log")),
        age => logs.join(format!("{service}.log.{age}")),
    }
}

/// The time of a new record.
pub fn now() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default()
}

/// Appends a record to the buffer.
pub fn append(buffer: &mut Vec<u8>, time: Duration, stream: Stream, text: &[u8]) {
    let (seconds, micros, letter) = (time.as_secs(), time.subsec_micros(), stream.letter());
    buffer.extend(format!("{seconds}.{micros:06} {letter} ").as_bytes());
    buffer.extend(text);
    buffer.push(b'\n');
}

/// Parses a line without its end.
pub fn parse(line: &[u8]) -> Option<Record> {
    let mut parts = line.splitn(3, |byte| *byte == b' ');
    let (time, letter, text) = (parts.next()?, parts.next()?, parts.next()?);
    let (seconds, micros) = std::str::from_utf8(time).ok()?.split_once('.')?;
    let micros: u32 = micros.parse().ok().filter(|micros| *micros < 1_000_000)?;
    Some(Record {
        time: Duration::new(seconds.parse().ok()?, micros * 1000),
        stream: Stream::of_letter(letter)?,
        text: text.to_vec(),
    })
}

// === impl Stream ===

impl Stream {
    pub fn as_str(self) -> &'static str {
        match self {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
            Stream::Holm => "holm",
        }
    }

    fn letter(self) -> char {
        match self {
            Stream::Stdout => 'o',
            Stream::Stderr => 'e',
            Stream::Holm => 'h',
        }
    }

    fn of_letter(letter: &[u8]) -> Option<Self> {
        match letter {
            b"o" => Some(Stream::Stdout),
            b"e" => Some(Stream::Stderr),
            b"h" => Some(Stream::Holm),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_as_they_were() {
        let time = Duration::new(1_763_247_946, 1_000);
        for text in [&b""[..], b"a b  c", b"\xff\x1b[31m", b"1.000002 o x"] {
            let mut buffer = Vec::new();
            append(&mut buffer, time, Stream::Stderr, text);
            assert_eq!(buffer.pop(), Some(b'\n'));
            let expect = Record {
                time,
                stream: Stream::Stderr,
                text: text.to_vec(),
            };
            assert_eq!(parse(&buffer), Some(expect));
        }
        for wrong in [
            &b""[..],
            b"x",
            b"1.0 o",
            b"1 o x",
            b"1.0 q x",
            b"1.1000000 o x",
        ] {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
    }
}
