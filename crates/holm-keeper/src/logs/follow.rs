//! Follows a log that is being written. The files are polled, so a slow reader delays nothing;
//! records that were deleted before it reached them are reported.

use super::read::Position;
use super::{FILES, Record, Stream, parse, path};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The size of one read.
const CHUNK: usize = 1 << 20;

pub struct Follower {
    logs: PathBuf,
    service: String,
    /// `None`: there was no file yet.
    position: Option<Position>,
    /// Records before the next one are gone, which must be reported.
    has_missed: bool,
}

// === impl Follower ===

impl Follower {
    pub fn new(logs: &Path, service: &str, position: Option<Position>) -> Self {
        Self {
            logs: logs.to_owned(),
            service: service.to_owned(),
            position,
            has_missed: false,
        }
    }

    pub fn service(&self) -> &str {
        &self.service
    }

    /// New records; empty if there are none. Bounded: call again.
    pub fn read(&mut self) -> io::Result<Vec<Record>> {
        loop {
            let Some(position) = &mut self.position else {
                match self.oldest()? {
                    Some(file) => self.position = Some(Position { file, offset: 0 }),
                    None => return Ok(Vec::new()),
                }
                continue;
            };
            // Read before the content: a rotation in between is handled the next time.
            let inode = position.file.metadata()?.ino();
            let is_written_to = age_of(&self.logs, &self.service, inode)? == Some(0);
            let mut records = position.read()?;
            if let Some(first) = records.first()
                && std::mem::take(&mut self.has_missed)
            {
                records.insert(0, missed(first.time));
            }
            if !records.is_empty() || is_written_to {
                return Ok(records);
            }
            match self.next(inode)? {
                Some(file) => self.position = Some(Position { file, offset: 0 }),
                None => return Ok(records),
            }
        }
    }

    /// The file after the one that was read to its end.
    fn next(&mut self, inode: u64) -> io::Result<Option<File>> {
        loop {
            let age = age_of(&self.logs, &self.service, inode)?;
            let found = match age {
                Some(0) => return Ok(None),
                Some(age) => opened(&path(&self.logs, &self.service, age - 1))?,
                None => break,
            };
            // If the files were rotated in between, it would be the one after the next.
            if age_of(&self.logs, &self.service, inode)? == age {
                return Ok(found);
            }
        }
        self.has_missed = true;
        self.oldest()
    }

    /// Starting with the newest, so that a rotation meanwhile loses nothing.
    fn oldest(&self) -> io::Result<Option<File>> {
        let mut oldest = None;
        for age in 0..FILES {
            oldest = opened(&path(&self.logs, &self.service, age))?.or(oldest);
        }
        Ok(oldest)
    }
}

// === impl Position ===

impl Position {
    /// Complete lines that were not read yet.
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

/// With the time of the next record, so that it sorts before it.
fn missed(time: Duration) -> Record {
    Record {
        time,
        stream: Stream::Holm,
        text: b"[lines were left out: the log is written faster than it is read]".to_vec(),
    }
}

/// The current age of a file; `None`: it is gone.
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
