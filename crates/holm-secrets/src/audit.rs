//! The audit record of secrets: a file of lines, each with the hash of the line before. Lines are
//! only appended. A line that another program changed, removed, moved or added breaks the chain.
//! Lines cut off the end are detected because the head of the chain is stored in a second file, and
//! also in the daemon's store in case both files are lost.
//!
//! The daemon and the keepers write, one at a time under a lock. Not promised: a program with the
//! user's own rights can write a whole new chain with both files.

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
/// The maximum length of a line.
const LONGEST: u64 = 16 * 1024;

/// Event: a workspace receives a value from now on.
pub const RECEIVED: &str = "received";
/// Event: a value has expired.
pub const EXPIRED: &str = "expired";
/// Event: a value was withdrawn.
pub const WITHDRAWN: &str = "withdrawn";

/// One event. It never contains a value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Happening {
    /// RFC 3339.
    pub time: String,
    /// set removed received given shown used refreshed expired withdrawn rotated unlocked exported imported
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
    /// The id of the run or session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub which: Option<String>,
    /// The process's pid inside the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// The host at which the value was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// How often since the line before; `None`: once.
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

/// The last line of the chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    pub number: u64,
    pub hash: String,
}

/// Why verification failed.
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
    /// `directory` must exist and be readable only by the user.
    pub fn in_directory(directory: &Path) -> Self {
        Self {
            lines: directory.join("audit.jsonl"),
            head: directory.join("audit-head.json"),
        }
    }

    /// Appends lines; they are on disk when this returns.
    pub fn append(&self, happenings: &[Happening]) -> io::Result<()> {
        if happenings.is_empty() {
            Ok(())
        } else {
            self.add(&mut self.locked()?, happenings)
        }
    }

    /// As [`Self::append`], for expired values: the daemon and the keeper both report these, so
    /// duplicates are dropped.
    pub fn append_ends(&self, happenings: &[Happening]) -> io::Result<()> {
        if happenings.is_empty() {
            return Ok(());
        }
        let mut file = self.locked()?;
        let known = parsed(&texts(&file)?);
        let mut fresh = happenings.to_vec();
        fresh.retain(|happening| !has_ended(&known, happening));
        if fresh.is_empty() {
            Ok(())
        } else {
            self.add(&mut file, &fresh)
        }
    }

    /// Opens and locks the file. No other process writes while it is open.
    fn locked(&self) -> io::Result<File> {
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(file::PRIVATE)
            .open(&self.lines)?;
        flock(&file, FlockOperation::LockExclusive)?;
        Ok(file)
    }

    fn add(&self, file: &mut File, happenings: &[Happening]) -> io::Result<()> {
        let mut last = self.last(file)?;
        let mut text = Vec::new();
        for happening in happenings {
            let line = Line::after(&last, happening.clone());
            serde_json::to_writer(&mut text, &line)?;
            text.push(b'\n');
            last = line.head();
        }
        file.write_all(&text)?;
        file.sync_data()?;
        file::replace(&self.head, &serde_json::to_vec(&last)?)
    }

    /// The last complete line. A partial line, left by a crash, is removed. If lines were cut off,
    /// the stored head is used, so that the gap stays visible.
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
        // A line that does not parse is reported by [`Self::verify`]; writing goes on after it.
        let last = last.and_then(|text| serde_json::from_slice::<Line>(text).ok());
        let last = last.map_or_else(Head::beginning, |line| line.head());
        let head = self.head()?.filter(|head| head.number > last.number);
        Ok(head.unwrap_or(last))
    }

    fn head(&self) -> io::Result<Option<Head>> {
        let text = file::read(&self.head)?;
        Ok(text.and_then(|text| serde_json::from_slice(&text).ok()))
    }

    /// Every line that parses.
    pub fn read(&self) -> io::Result<Vec<Line>> {
        Ok(parsed(&self.texts()?))
    }

    /// Checks the chain, also against a head that the caller remembers. Returns the last line.
    pub fn verify(&self, known: Option<&Head>) -> io::Result<Result<Head, Broken>> {
        // Read before the lines: lines appended meanwhile are allowed, missing ones are not.
        let head = self.head()?;
        let texts = self.texts()?;
        let (mut last, mut heads) = (Head::beginning(), Vec::new());
        for text in &texts {
            last = match follow(&last, text) {
                Ok(line) => line,
                Err(broken) => return Ok(Err(broken)),
            };
            heads.push(last.hash.clone());
        }
        let is_passed = |head: &Head| {
            let index = usize::try_from(head.number)
                .ok()
                .and_then(|n| n.checked_sub(1));
            index.is_some_and(|index| heads.get(index) == Some(&head.hash))
        };
        Ok(match (&head, known) {
            (_, Some(known)) if !is_passed(known) => Err(Broken::Cut(known.number)),
            // A crash may have happened after the line and before the head was written.
            (Some(head), _) if is_passed(head) => Ok(last),
            (Some(head), _) => Err(Broken::Cut(head.number)),
            (None, _) if last.number == 0 => Ok(last),
            (None, _) => Err(Broken::NoHead),
        })
    }

    /// The newest head, if the lines after `known` continue its chain. `None`: the chain is broken,
    /// and [`Self::verify`] says where.
    pub fn advance(&self, known: Option<&Head>) -> io::Result<Option<Head>> {
        let texts = self.texts()?;
        let mut rest = texts.iter();
        let mut last = match known {
            None => Head::beginning(),
            Some(known) => {
                let index = usize::try_from(known.number)
                    .ok()
                    .and_then(|n| n.checked_sub(1));
                let line = index.and_then(|index| rest.nth(index));
                let line = line.and_then(|text| serde_json::from_slice::<Line>(text).ok());
                match line.filter(|line| line.head() == *known) {
                    Some(line) => line.head(),
                    None => return Ok(None),
                }
            }
        };
        for text in rest {
            match follow(&last, text) {
                Ok(head) => last = head,
                Err(_) => return Ok(None),
            }
        }
        Ok(Some(last))
    }

    fn texts(&self) -> io::Result<Vec<Vec<u8>>> {
        let file = match File::open(&self.lines) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        flock(&file, FlockOperation::LockShared)?;
        texts(&file)
    }
}

fn texts(mut file: &File) -> io::Result<Vec<Vec<u8>>> {
    file.seek(SeekFrom::Start(0))?;
    BufReader::new(file).split(b'\n').collect()
}

fn parsed(texts: &[Vec<u8>]) -> Vec<Line> {
    let lines = texts.iter();
    lines
        .filter_map(|text| serde_json::from_slice(text).ok())
        .collect()
}

/// The head after a line, if the line continues the chain.
fn follow(last: &Head, text: &[u8]) -> Result<Head, Broken> {
    let number = last.number + 1;
    let line = serde_json::from_slice::<Line>(text).map_err(|_| Broken::Unreadable(number))?;
    let expected = Line::after(last, line.happening.clone());
    // Another serialisation of the same content counts as a change too.
    let is_ours = serde_json::to_vec(&expected).is_ok_and(|ours| ours == text);
    if line == expected && is_ours {
        Ok(line.head())
    } else {
        Err(Broken::Changed(number))
    }
}

/// Whether the record already says that this workspace's value was withdrawn.
fn has_ended(known: &[Line], happening: &Happening) -> bool {
    let mut known = known.iter().rev().map(|line| &line.happening);
    let last = known.find(|known| {
        let is_its = known.secret == happening.secret && known.workspace == happening.workspace;
        is_its && [RECEIVED, EXPIRED, WITHDRAWN].contains(&known.event.as_str())
    });
    last.is_some_and(|last| last.event != RECEIVED)
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
    fn head(&self) -> Head {
        Head {
            number: self.number,
            hash: self.hash.clone(),
        }
    }

    fn after(last: &Head, happening: Happening) -> Self {
        let mut line = Self {
            number: last.number + 1,
            happening,
            previous: last.hash.clone(),
            hash: String::new(),
        };
        // Plain text and numbers always serialise.
        let text = serde_json::to_vec(&line).unwrap_or_default();
        line.hash = encode(&Sha256::digest(text));
        line
    }
}

#[cfg(test)]
#[path = "audit_tests.rs"]
mod tests;
