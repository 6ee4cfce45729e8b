//! What happened to secrets: a file of lines, each with the hash of the one before. Lines are only
//! added. A line that was changed, taken out, moved or added by somebody else breaks the chain; lines
//! that were cut off the end are missed, because the head of the chain is written down beside it, and
//! by the daemon in its own store, for the case that both files go.
//!
//! Several processes write (the daemon, and keepers without it), one at a time under a lock. What is
//! not promised: a program with the user's own rights can write a whole new chain, both heads too.

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

/// A workspace is given a value from now on.
pub const RECEIVED: &str = "received";
/// The time of a value is up.
pub const EXPIRED: &str = "expired";
/// A value was taken back.
pub const WITHDRAWN: &str = "withdrawn";

/// One thing that happened. Never has a value.
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
pub struct Head {
    pub number: u64,
    pub hash: String,
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
        match happenings.is_empty() {
            true => Ok(()),
            false => self.add(&mut self.locked()?, happenings),
        }
    }

    /// As [`Self::append`], for values whose time is up: daemon and keeper both see it, and one line
    /// is enough.
    pub fn append_ends(&self, happenings: &[Happening]) -> io::Result<()> {
        if happenings.is_empty() {
            return Ok(());
        }
        let mut file = self.locked()?;
        let known = parsed(&texts(&file)?);
        let mut fresh = happenings.to_vec();
        fresh.retain(|happening| !has_ended(&known, happening));
        match fresh.is_empty() {
            true => Ok(()),
            false => self.add(&mut file, &fresh),
        }
    }

    /// The file of lines; nobody else writes for as long as it is open.
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

    /// The last whole line; half a one, of a machine that stopped, is taken away. Where lines were cut
    /// off it goes on from the head, so that the gap stays to be seen.
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
        // One that is not ours is found by whoever verifies; ours are written all the same.
        let last = last.and_then(|text| serde_json::from_slice::<Line>(text).ok());
        let last = last.map_or_else(Head::beginning, |line| line.head());
        let head = self.head()?.filter(|head| head.number > last.number);
        Ok(head.unwrap_or(last))
    }

    fn head(&self) -> io::Result<Option<Head>> {
        let text = file::read(&self.head)?;
        Ok(text.and_then(|text| serde_json::from_slice(&text).ok()))
    }

    /// Every line that can be read.
    pub fn read(&self) -> io::Result<Vec<Line>> {
        Ok(parsed(&self.texts()?))
    }

    /// Whether nothing was changed, also since the head that somebody else knows. Says which line is
    /// the last one.
    pub fn verify(&self, known: Option<&Head>) -> io::Result<Result<Head, Broken>> {
        // Before the lines: those that come meanwhile are more than it knows, never less.
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
            // A machine may have stopped between a line and the head.
            (Some(head), _) if is_passed(head) => Ok(last),
            (Some(head), _) => Err(Broken::Cut(head.number)),
            (None, _) if last.number == 0 => Ok(last),
            (None, _) => Err(Broken::NoHead),
        })
    }

    /// The newest head, where what was added since a known one follows from it. `None`: something
    /// was changed, and [`Self::verify`] says what.
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

/// The head after a line, if the line is what follows.
fn follow(last: &Head, text: &[u8]) -> Result<Head, Broken> {
    let number = last.number + 1;
    let line = serde_json::from_slice::<Line>(text).map_err(|_| Broken::Unreadable(number))?;
    let expected = Line::after(last, line.happening.clone());
    // Also another writing of the same is a change.
    let is_ours = serde_json::to_vec(&expected).is_ok_and(|ours| ours == text);
    match line == expected && is_ours {
        true => Ok(line.head()),
        false => Err(Broken::Changed(number)),
    }
}

/// Whether a value that a workspace was given is known to be withdrawn already.
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
        // Plain text and numbers always become JSON.
        let text = serde_json::to_vec(&line).unwrap_or_default();
        line.hash = encode(&Sha256::digest(text));
        line
    }
}

#[cfg(test)]
#[path = "audit_tests.rs"]
mod tests;
