//! Reading on in a log that is being written. The files are looked at again and again, so a reader
//! that is slow holds up nobody; what was dropped before it came to it is said.

use super::read::Position;
use super::{FILES, Record, Stream, now, parse, path};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// At most so much is read at once.
const CHUNK: usize = 1 << 20;

pub struct Follower {
    logs: PathBuf,
    service: String,
    /// `None`: there was no file yet.
    position: Option<Position>,
}

// === impl Follower ===

impl Follower {
    pub fn new(logs: &Path, service: &str, position: Option<Position>) -> Self {
        Self {
            logs: logs.to_owned(),
            service: service.to_owned(),
            position,
        }
    }

    pub fn service(&self) -> &str {
        &self.service
    }

    /// What has come since; nothing when nothing has. Bounded: ask again.
    pub fn read(&mut self) -> io::Result<Vec<Record>> {
        let mut records = Vec::new();
        loop {
            let Some(position) = &mut self.position else {
                match self.oldest()? {
                    Some(file) => self.position = Some(Position { file, offset: 0 }),
                    None => return Ok(records),
                }
                continue;
            };
            // Asked before it is read: what is turned in between is read the next time.
            let inode = position.file.metadata()?.ino();
            let is_written_to = age_of(&self.logs, &self.service, inode)? == Some(0);
            records.extend(position.read()?);
            if !records.is_empty() || is_written_to {
                return Ok(records);
            }
            match self.next(inode, &mut records)? {
                Some(file) => self.position = Some(Position { file, offset: 0 }),
                None => return Ok(records),
            }
        }
    }

    /// The file after the one that was read to its end.
    fn next(&self, inode: u64, records: &mut Vec<Record>) -> io::Result<Option<File>> {
        match age_of(&self.logs, &self.service, inode)? {
            Some(0) => Ok(None),
            Some(age) => opened(&path(&self.logs, &self.service, age - 1)),
            None => {
                let oldest = self.oldest()?;
                if oldest.is_some() {
                    records.push(Record {
                        time: now(),
                        stream: Stream::Holm,
                        text: b"[lines were left out: the log is written faster than it is read]"
                            .to_vec(),
                    });
                }
                Ok(oldest)
            }
        }
    }

    fn oldest(&self) -> io::Result<Option<File>> {
        for age in (0..FILES).rev() {
            if let Some(file) = opened(&path(&self.logs, &self.service, age))? {
                return Ok(Some(file));
            }
        }
        Ok(None)
    }
}

// === impl Position ===

impl Position {
    /// Whole lines that were not read yet.
    fn read(&mut self) -> io::Result<Vec<Record>> {
        let mut text = vec![0; CHUNK];
        let length = self.file.read_at(&mut text, self.offset)?;
        let end = text[..length].iter().rposition(|byte| *byte == b'\n');
        let end = end.map_or(0, |end| end + 1);
        self.offset += end as u64;
        let lines = text[..end].split(|byte| *byte == b'\n');
        Ok(lines.filter_map(parse).collect())
    }
}

/// Where a file is by now; `None`: it is gone.
fn age_of(logs: &Path, service: &str, inode: u64) -> io::Result<Option<usize>> {
    for age in 0..FILES {
        match std::fs::metadata(path(logs, service, age)) {
            Ok(found) if found.ino() == inode => return Ok(Some(age)),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(None)
}

fn opened(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
