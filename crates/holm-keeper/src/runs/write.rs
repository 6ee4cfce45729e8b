//! Writes the record of a run. The only writer is the run's thread in the keeper.

use super::{HEADER, Header, LONGEST, Stream, segment, segments};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The sizes of the files: the first one and the newest few are kept.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    pub first: u64,
    pub each: u64,
    pub newest: usize,
}

/// 9 MiB in total.
pub const ROOM: Room = Room {
    first: 1 << 20,
    each: 2 << 20,
    newest: 4,
};

pub struct Writer {
    directory: PathBuf,
    room: Room,
    file: File,
    /// Of the current file.
    size: u64,
    most: u64,
    /// The cursor after the last byte.
    cursor: u64,
}

// === impl Writer ===

impl Writer {
    /// Starts the record in an existing directory.
    pub fn begin(directory: &Path, room: Room) -> io::Result<Self> {
        Ok(Self {
            directory: directory.to_owned(),
            room,
            file: create(directory, 0)?,
            size: 0,
            most: room.first,
            cursor: 0,
        })
    }

    pub fn cursor(&self) -> u64 {
        self.cursor
    }

    pub fn write(&mut self, stream: Stream, time_ms: i64, bytes: &[u8]) -> io::Result<()> {
        for piece in bytes.chunks(LONGEST) {
            if self.size >= self.most {
                self.turn()?;
            }
            let header = Header {
                length: piece.len() as u32,
                stream,
                time_ms,
                start: self.cursor,
            };
            // In one write, so that a reader sees complete pieces.
            let mut record = Vec::with_capacity(HEADER + piece.len());
            record.extend(header.to_bytes());
            record.extend(piece);
            self.file.write_all(&record)?;
            self.size += record.len() as u64;
            self.cursor += piece.len() as u64;
        }
        Ok(())
    }

    /// Starts the next file. Deletes the oldest after the first one.
    fn turn(&mut self) -> io::Result<()> {
        self.file = create(&self.directory, self.cursor)?;
        self.size = 0;
        self.most = self.room.each;
        let found = segments(&self.directory)?;
        let later = found.get(1..).unwrap_or_default();
        let surplus = later.len().saturating_sub(self.room.newest);
        for start in &later[..surplus] {
            std::fs::remove_file(segment(&self.directory, *start))?;
        }
        Ok(())
    }
}

fn create(directory: &Path, start: u64) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(true).mode(0o600);
    options.open(segment(directory, start))
}
