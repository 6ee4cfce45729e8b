//! Reads the record of a run from a cursor on, while it is written. Readers delay nothing; a slow
//! one is told how much it missed.

use super::{HEADER, Header, Stream, segment, segments};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

pub struct Reader {
    directory: PathBuf,
    cursor: u64,
    open: Option<Open>,
}

struct Open {
    file: File,
    start: u64,
    /// The position of the next header in the file.
    at: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    Output {
        /// The cursor after it.
        cursor: u64,
        time_ms: i64,
        stream: Stream,
        bytes: Vec<u8>,
    },
    /// This many bytes are gone.
    Missed { bytes: u64, cursor: u64 },
}

// === impl Piece ===

impl Piece {
    /// Adds the piece as the record has it. That something was missed is seen by the gap.
    pub fn encode(&self, into: &mut Vec<u8>) {
        if let Piece::Output {
            cursor,
            time_ms,
            stream,
            bytes,
        } = self
        {
            let header = Header {
                length: bytes.len() as u32,
                stream: *stream,
                time_ms: *time_ms,
                start: cursor - bytes.len() as u64,
            };
            into.extend(header.to_bytes());
            into.extend(bytes);
        }
    }

    /// Pieces behind a cursor, which goes on to the end of the last.
    pub fn decode(mut encoded: &[u8], cursor: &mut u64) -> io::Result<Vec<Self>> {
        let mut pieces = Vec::new();
        while let Some((header, rest)) = encoded.split_first_chunk::<HEADER>() {
            let header = Header::from_bytes(header)?;
            let (bytes, rest) = rest
                .split_at_checked(header.length as usize)
                .ok_or(io::ErrorKind::UnexpectedEof)?;
            encoded = rest;
            if header.start > *cursor {
                pieces.push(Piece::Missed {
                    bytes: header.start - *cursor,
                    cursor: header.start,
                });
            }
            *cursor = header.start + u64::from(header.length);
            pieces.push(Piece::Output {
                cursor: *cursor,
                time_ms: header.time_ms,
                stream: header.stream,
                bytes: bytes.to_vec(),
            });
        }
        Ok(pieces)
    }
}

// === impl Reader ===

impl Reader {
    pub fn new(directory: PathBuf, after: u64) -> Self {
        Self {
            directory,
            cursor: after,
            open: None,
        }
    }

    /// The next piece; `None`: no more at the moment.
    pub fn piece(&mut self) -> io::Result<Option<Piece>> {
        loop {
            if self.open.is_none() && !self.find()? {
                return Ok(None);
            }
            let Some(open) = &mut self.open else {
                return Ok(None);
            };
            let Some(header) = open.header()? else {
                if !self.turn()? {
                    return Ok(None);
                }
                continue;
            };
            let end = header.start + u64::from(header.length);
            if end <= self.cursor {
                open.at += HEADER as u64 + u64::from(header.length);
                continue;
            }
            if header.start > self.cursor {
                let bytes = header.start - self.cursor;
                self.cursor = header.start;
                let cursor = self.cursor;
                return Ok(Some(Piece::Missed { bytes, cursor }));
            }
            let Some(mut bytes) = open.payload(header)? else {
                return Ok(None);
            };
            bytes.drain(..(self.cursor - header.start) as usize);
            open.at += HEADER as u64 + u64::from(header.length);
            self.cursor = end;
            return Ok(Some(Piece::Output {
                cursor: end,
                time_ms: header.time_ms,
                stream: header.stream,
                bytes,
            }));
        }
    }

    /// Opens the file that contains the cursor, or the first after it.
    fn find(&mut self) -> io::Result<bool> {
        let found = match segments(&self.directory) {
            // The run has not started, or its record is gone.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            found => found?,
        };
        let before = found.iter().rev().find(|start| **start <= self.cursor);
        let Some(start) = before.or(found.first()) else {
            return Ok(false);
        };
        self.open(*start)
    }

    /// Continues with the next file, if there is one.
    fn turn(&mut self) -> io::Result<bool> {
        let Some(open) = &self.open else {
            return Ok(false);
        };
        let found = match segments(&self.directory) {
            // The workspace was moved to the trash.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            found => found?,
        };
        let Some(next) = found.iter().find(|start| **start > open.start) else {
            return Ok(false);
        };
        // More may have been written to this file before the next one was created.
        if *next == self.cursor || open.header()?.is_none() {
            let next = *next;
            return self.open(next);
        }
        Ok(true)
    }

    fn open(&mut self, start: u64) -> io::Result<bool> {
        match File::open(segment(&self.directory, start)) {
            Ok(file) => {
                self.open = Some(Open { file, start, at: 0 });
                Ok(true)
            }
            // It was deleted at this moment; a later one exists.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.open = None;
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }
}

// === impl Open ===

impl Open {
    /// The next header; `None`: it does not exist or is incomplete.
    fn header(&self) -> io::Result<Option<Header>> {
        let mut bytes = [0; HEADER];
        match self.file.read_exact_at(&mut bytes, self.at) {
            Ok(()) => Header::from_bytes(&bytes).map(Some),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn payload(&self, header: Header) -> io::Result<Option<Vec<u8>>> {
        let mut bytes = vec![0; header.length as usize];
        match self.file.read_exact_at(&mut bytes, self.at + HEADER as u64) {
            Ok(()) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::write::{Room, Writer};
    use super::*;

    const SMALL: Room = Room {
        first: 60,
        each: 60,
        newest: 2,
    };

    fn all(reader: &mut Reader) -> Vec<(String, u64)> {
        let pieces = std::iter::from_fn(|| reader.piece().unwrap());
        let shown = pieces.map(|piece| match piece {
            Piece::Output { cursor, bytes, .. } => (String::from_utf8(bytes).unwrap(), cursor),
            Piece::Missed { bytes, cursor } => (format!("-{bytes}"), cursor),
        });
        shown.collect()
    }

    #[test]
    fn what_was_written_is_read_from_every_cursor() {
        let directory = tempfile::tempdir().unwrap();
        let mut writer = Writer::begin(directory.path(), SMALL).unwrap();
        let mut reader = Reader::new(directory.path().to_owned(), 0);
        assert_eq!(all(&mut reader), []);
        writer.write(Stream::Stdout, 1, b"one").unwrap();
        assert_eq!(all(&mut reader), [("one".to_owned(), 3)]);
        writer.write(Stream::Stderr, 2, b"two").unwrap();
        writer.write(Stream::Stdout, 3, b"three").unwrap();
        assert_eq!(
            all(&mut reader),
            [("two".to_owned(), 6), ("three".to_owned(), 11)]
        );
        let text = "onetwothree";
        for after in 0..=11 {
            let mut reader = Reader::new(directory.path().to_owned(), after);
            let found: String = all(&mut reader).into_iter().map(|(text, _)| text).collect();
            assert_eq!(found, text[after as usize..]);
        }
    }

    #[test]
    fn the_beginning_and_the_newest_stay_and_what_is_missed_is_counted() {
        let directory = tempfile::tempdir().unwrap();
        let mut writer = Writer::begin(directory.path(), SMALL).unwrap();
        let mut slow = Reader::new(directory.path().to_owned(), 0);
        writer.write(Stream::Stdout, 0, b"0000000000").unwrap();
        assert_eq!(all(&mut slow).len(), 1);
        for number in 1..40 {
            let text = format!("{number:010}");
            writer.write(Stream::Stdout, 0, text.as_bytes()).unwrap();
        }
        assert!(segments(directory.path()).unwrap().len() <= 3, "bounded");
        for mut reader in [slow, Reader::new(directory.path().to_owned(), 0)] {
            let found = all(&mut reader);
            let missed: u64 = found
                .iter()
                .filter_map(|(text, _)| text.strip_prefix('-'))
                .map(|bytes| bytes.parse::<u64>().unwrap())
                .sum();
            assert!(missed > 0);
            assert_eq!(found.last().unwrap(), &("0000000039".to_owned(), 400));
            let received: usize = found
                .iter()
                .filter(|(text, _)| !text.starts_with('-'))
                .map(|(text, _)| text.len())
                .sum();
            assert!(received as u64 + missed == 400 || received as u64 + missed == 390);
        }
    }

    #[test]
    fn a_damaged_record_is_an_error_and_nothing_more() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(segment(directory.path(), 0), [0xff; 64]).unwrap();
        let mut reader = Reader::new(directory.path().to_owned(), 0);
        assert!(reader.piece().is_err());
    }
}
