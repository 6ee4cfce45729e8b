//! Reads several logs, merged by time. Memory is bounded by one line per service, or by the
//! requested number from the end.

use super::{FILES, Record, parse, path};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// Longer lines are not records.
const LONGEST: u64 = 1 << 20;

/// Filters for records.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    pub since: Option<Duration>,
    /// At most this many from the end, per service.
    pub last: Option<usize>,
}

/// How far a service's log was read. The file is kept open, because the inode number of a deleted
/// one may be reused.
#[derive(Debug)]
pub struct Position {
    pub file: File,
    pub offset: u64,
}

/// One service's records, oldest first.
pub struct Log {
    pub service: String,
    /// Oldest first; all opened at once, so that a rotation meanwhile loses nothing.
    files: VecDeque<File>,
    current: Option<BufReader<File>>,
    /// `None`: there was no file.
    position: Option<Position>,
    wanted: Wanted,
    /// Records from the end, returned before anything is read.
    ready: VecDeque<Record>,
    next: Option<Record>,
}

/// Several logs, merged by time.
pub struct Merged {
    logs: Vec<Log>,
}

// === impl Log ===

impl Log {
    pub fn open(logs: &Path, service: &str, wanted: Wanted) -> io::Result<Self> {
        let mut files = VecDeque::new();
        // Starting with the newest, so that a rotation meanwhile loses nothing.
        for age in 0..FILES {
            match File::open(path(logs, service, age)) {
                Ok(file) => files.push_front(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        without_twins(&mut files)?;
        let mut log = Self {
            service: service.to_owned(),
            files,
            current: None,
            position: None,
            wanted,
            ready: VecDeque::new(),
            next: None,
        };
        if let Some(last) = wanted.last {
            log.skip_to_last(last)?;
        }
        Ok(log)
    }

    /// The next record; `None`: no more for now.
    pub fn read(&mut self) -> io::Result<Option<Record>> {
        if let Some(record) = self.ready.pop_front() {
            return Ok(Some(record));
        }
        while let Some(line) = self.line()? {
            if let Some(record) = parse(&line)
                && self.wanted.since.is_none_or(|since| record.time >= since)
            {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    /// How far it was read.
    pub fn into_position(self) -> Option<Position> {
        self.position
    }

    /// A complete line. An incomplete one is still being written.
    fn line(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            if self.current.is_none() {
                let Some(file) = self.files.pop_front() else {
                    return Ok(None);
                };
                self.position = Some(Position {
                    file: file.try_clone()?,
                    offset: 0,
                });
                self.current = Some(BufReader::new(file));
            }
            let Some(reader) = &mut self.current else {
                return Ok(None);
            };
            let mut line = Vec::new();
            reader.take(LONGEST).read_until(b'\n', &mut line)?;
            if line.pop_if(|byte| *byte == b'\n').is_some() {
                if let Some(position) = &mut self.position {
                    position.offset += line.len() as u64 + 1;
                }
                return Ok(Some(line));
            }
            self.current = None;
        }
    }

    /// Reads whole files, newest first, until there are enough records.
    fn skip_to_last(&mut self, last: usize) -> io::Result<()> {
        let mut found: VecDeque<Record> = VecDeque::new();
        while let Some(mut file) = self.files.pop_back() {
            let mut text = Vec::new();
            file.seek(SeekFrom::Start(0))?;
            file.read_to_end(&mut text)?;
            let end = text.iter().rposition(|byte| *byte == b'\n');
            let end = end.map_or(0, |end| end + 1);
            if self.position.is_none() {
                self.position = Some(Position {
                    file: file.try_clone()?,
                    offset: end as u64,
                });
            }
            for line in text[..end].split(|byte| *byte == b'\n').rev().skip(1) {
                if found.len() == last {
                    break;
                }
                if let Some(record) = parse(line)
                    && self.wanted.since.is_none_or(|since| record.time >= since)
                {
                    found.push_front(record);
                }
            }
            if found.len() == last {
                break;
            }
        }
        self.files.clear();
        self.ready = found;
        Ok(())
    }
}

/// A rotation while the files were opened may have opened one twice.
fn without_twins(files: &mut VecDeque<File>) -> io::Result<()> {
    let mut kept: VecDeque<(u64, File)> = VecDeque::new();
    while let Some(file) = files.pop_front() {
        let inode = file.metadata()?.ino();
        if kept.iter().all(|(other, _)| *other != inode) {
            kept.push_back((inode, file));
        }
    }
    files.extend(kept.into_iter().map(|(_, file)| file));
    Ok(())
}

// === impl Merged ===

impl Merged {
    pub fn open(logs: &Path, services: &[String], wanted: Wanted) -> io::Result<Self> {
        let logs = services
            .iter()
            .map(|service| Log::open(logs, service, wanted));
        Ok(Self {
            logs: logs.collect::<io::Result<_>>()?,
        })
    }

    /// The oldest record not returned yet, with its service.
    pub fn read(&mut self) -> io::Result<Option<(String, Record)>> {
        for log in &mut self.logs {
            if log.next.is_none() {
                log.next = log.read()?;
            }
        }
        let time = |log: &&mut Log| log.next.as_ref().map(|record| record.time);
        let oldest = self
            .logs
            .iter_mut()
            .filter(|log| log.next.is_some())
            .min_by_key(time);
        Ok(oldest.and_then(|log| Some((log.service.clone(), log.next.take()?))))
    }

    /// How far each was read.
    pub fn into_positions(self) -> Vec<(String, Option<Position>)> {
        let logs = self.logs.into_iter();
        logs.map(|log| (log.service.clone(), log.into_position()))
            .collect()
    }
}
