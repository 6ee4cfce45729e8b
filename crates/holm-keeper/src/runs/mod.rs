//! The output record of a run, beside the workspace: written by the keeper, read by the daemon at
//! its readers' pace. Bounded: the beginning and the newest part are kept.
//!
//! A cursor counts bytes of output. Each piece stores its own, so a late reader knows how much it
//! missed.

pub mod read;
pub mod write;

use holm_core::run::RunSeen;
use std::io;
use std::path::{Path, PathBuf};

/// The state of the run, in its directory.
const SEEN: &str = "run.json";
/// The prefix of output files; the cursor of their first byte follows.
const OUTPUT: &str = "out.";

/// Before each piece: its length, its stream, the time, the cursor of its first byte.
const HEADER: usize = 4 + 1 + 8 + 8;
/// The maximum length of a piece.
const LONGEST: usize = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    length: u32,
    stream: Stream,
    time_ms: i64,
    start: u64,
}

/// A run's own directory.
pub fn directory(workspace: &Path, run: &str) -> PathBuf {
    workspace.join("runs").join(run)
}

/// The state of a run; `None`: it never started.
pub fn seen(directory: &Path) -> io::Result<Option<RunSeen>> {
    match std::fs::read(directory.join(SEEN)) {
        Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Replaces the state atomically.
pub fn store(directory: &Path, seen: &RunSeen) -> io::Result<()> {
    let fresh = directory.join("run.json.new");
    std::fs::write(&fresh, serde_json::to_vec(seen)?)?;
    std::fs::rename(fresh, directory.join(SEEN))
}

/// The cursors at which output files begin, in order.
fn segments(directory: &Path) -> io::Result<Vec<u64>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(OUTPUT));
        found.extend(number.and_then(|number| number.parse::<u64>().ok()));
    }
    found.sort_unstable();
    Ok(found)
}

fn segment(directory: &Path, start: u64) -> PathBuf {
    directory.join(format!("{OUTPUT}{start:020}"))
}

// === impl Header ===

impl Header {
    fn to_bytes(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..4].copy_from_slice(&self.length.to_le_bytes());
        bytes[4] = match self.stream {
            Stream::Stdout => 1,
            Stream::Stderr => 2,
        };
        bytes[5..13].copy_from_slice(&self.time_ms.to_le_bytes());
        bytes[13..].copy_from_slice(&self.start.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; HEADER]) -> io::Result<Self> {
        let number = |from: usize| {
            let mut eight = [0; 8];
            eight.copy_from_slice(&bytes[from..from + 8]);
            u64::from_le_bytes(eight)
        };
        let length = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let stream = match bytes[4] {
            1 => Stream::Stdout,
            2 => Stream::Stderr,
            _ => return Err(damaged()),
        };
        if length as usize > LONGEST {
            return Err(damaged());
        }
        Ok(Self {
            length,
            stream,
            time_ms: number(5).cast_signed(),
            start: number(13),
        })
    }
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the record is damaged")
}
