//! What happened to secrets: a file of lines, each with the hash of the one before. Lines are only
//! added. A line that was changed, taken out, moved or added by somebody else breaks the chain; lines
//! that were cut off the end are missed, because the head of the chain is written down beside it.
//!
//! Several processes write (the daemon, and keepers without it), one at a time under a lock. What is
//! not promised: a program with the user's own rights can write a whole new chain and a head for it.

use crate::file;
use crate::hexadecimal::encode;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The hash before the first line.
const NOTHING: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// No line is longer.
const LONGEST: u64 = 16 * 1024;

/// One thing that happened. Never has a value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Happening {
    /// RFC 3339.
    pub time: String,
    /// set removed given received shown used expired withdrawn rotated exported imported
    pub event: String,
    /// Who did it: a person, or `holm` itself.
    pub who: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// user, a project's id or a workspace's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// env file placeholder
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<String>,
    /// A service, runs or sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receiver: Option<String>,
    /// The number that the process has inside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// Where it was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// How often since the line before; none: once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

/// A line as it is in the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    pub number: u64,
    #[serde(flatten)]
    pub happening: Happening,
    pub previous: String,
    pub hash: String,
}

#[derive(Clone, Debug)]
pub struct Chain {
    lines: PathBuf,
    head: PathBuf,
}

/// The last line that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Head {
    number: u64,
    hash: String,
}

/// What is wrong with a chain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    #[error("line {0} is not one of ours")]
    Unreadable(u64),
    #[error("line {0} was changed, moved or added, or one before it was taken out")]
    Changed(u64),
    #[error("lines at the end were taken out: the last one was number {0}")]
    Cut(u64),
    #[error("the head of the chain was taken away")]
    NoHead,
}

// === impl Chain ===

impl Chain {
    /// Below a directory that is there, for nobody but the user.
    pub fn in_directory(directory: &Path) -> Self {
        Self {
            lines: directory.join("audit.jsonl"),
            head: directory.join("audit-head.json"),
        }
    }

    /// Adds lines; they are on the disk when this returns.
    pub fn append(&self, happenings: &[Happening]) -> io::Result<()> {
        if happenings.is_empty() {
            return Ok(());
        }
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(file::PRIVATE)
            .open(&self.lines)?;
        flock(&file, FlockOperation::LockExclusive)?;
        let mut last = self.last(&mut file)?;
        let mut text = Vec::new();
        for happening in happenings {
            let line = Line::after(&last, happening.clone());
            serde_json::to_writer(&mut text, &line)?;
            text.push(b'\n');
            last = Head {
                number: line.number,
                hash: line.hash,
            };
        }
        file.write_all(&text)?;
        file.sync_data()?;
        file::replace(&self.head, &serde_json::to_vec(&last)?)
    }

    /// The last whole line; half a one, of a machine that stopped, is taken away.
    fn last(&self, file: &mut File) -> io::Result<Head> {
        let length = file.metadata()?.len();
        let from = length.saturating_sub(2 * LONGEST);
        file.seek(SeekFrom::Start(from))?;
        let mut tail = Vec::new();
        io::Read::read_to_end(&mut io::Read::by_ref(file), &mut tail)?;
        let whole = tail
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |end| end + 1);
        if whole < tail.len() {
            file.set_len(from + whole as u64)?;
        }
        let last = tail[..whole].split(|byte| *byte == b'\n').rev().nth(1);
        let Some(last) = last.filter(|line| !line.is_empty()) else {
            return Ok(Head::beginning());
        };
        let line: Line = serde_json::from_slice(last)?;
        Ok(Head {
            number: line.number,
            hash: line.hash,
        })
    }

    /// Every line that can be read.
    pub fn read(&self) -> io::Result<Vec<Line>> {
        let lines = self.texts()?.into_iter();
        Ok(lines
            .filter_map(|text| serde_json::from_slice(&text).ok())
            .collect())
    }

    /// Whether nothing was changed. Says how many lines there are.
    pub fn verify(&self) -> io::Result<Result<u64, Broken>> {
        let head: Option<Head> = match file::read(&self.head)? {
            Some(text) => serde_json::from_slice(&text).ok(),
            None => None,
        };
        let (mut last, mut has_passed_head) = (Head::beginning(), false);
        for (index, text) in self.texts()?.into_iter().enumerate() {
            let number = index as u64 + 1;
            let Ok(line) = serde_json::from_slice::<Line>(&text) else {
                return Ok(Err(Broken::Unreadable(number)));
            };
            let expected = Line::after(&last, line.happening.clone());
            // Also another writing of the same is a change.
            if line != expected || serde_json::to_vec(&expected)? != text {
                return Ok(Err(Broken::Changed(number)));
            }
            last = Head {
                number,
                hash: line.hash,
            };
            has_passed_head |= head.as_ref() == Some(&last);
        }
        Ok(match head {
            // A machine may have stopped between a line and the head.
            Some(_) if has_passed_head => Ok(last.number),
            Some(head) => Err(Broken::Cut(head.number)),
            None if last.number == 0 => Ok(0),
            None => Err(Broken::NoHead),
        })
    }

    fn texts(&self) -> io::Result<Vec<Vec<u8>>> {
        let file = match File::open(&self.lines) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        flock(&file, FlockOperation::LockShared)?;
        BufReader::new(file).split(b'\n').collect()
    }
}

// === impl Head ===

impl Head {
    fn beginning() -> Self {
        Self {
            number: 0,
            hash: NOTHING.to_owned(),
        }
    }
}

// === impl Line ===

impl Line {
    fn after(last: &Head, happening: Happening) -> Self {
        let mut line = Self {
            number: last.number + 1,
            happening,
            previous: last.hash.clone(),
            hash: String::new(),
        };
        // Plain text and numbers always become JSON.
        let text = serde_json::to_vec(&line).unwrap_or_default();
        line.hash = encode(&Sha256::digest(text));
        line
    }
}

#[cfg(test)]
#[path = "audit_tests.rs"]
mod tests;
