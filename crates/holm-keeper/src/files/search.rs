//! Searches text in files, line by line, without repositories, binary files and symlinks. The time
//! is linear in the input, for every pattern.

use super::root::{READ, Root};
use super::walk::{Go, WalkItem, walk};
use holm_core::TreePath;
use holm_core::files::{Failure, Found, Kind, Match, Search, Syntax};
use regex::bytes::{Regex, RegexBuilder};
use rustix::fs::{FileType, Mode, fstat, openat};
use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;

/// Larger files are not written by hand.
const MOST_FILE: u64 = 8 << 20;

/// Like git, a zero byte in the beginning means binary.
const BEGINNING: usize = 8000;

/// How much of a long line is reported.
const MOST_TEXT: usize = 500;

/// The memory limit of a pattern.
const MOST_PATTERN: usize = 4 << 20;

pub fn search(root: &Root, path: &TreePath, search: &Search) -> Result<Found, Failure> {
    let pattern = compiled(search)?;
    // Refuses anything except a directory, which the walk would only skip.
    drop(root.directory(path)?);
    let mut found = Found::default();
    let walked = walk(root, path, |seen| {
        let (directory, path, entry) = match seen {
            WalkItem::Entry(directory, path, entry) => (directory, path, entry),
            WalkItem::Closed(_) => {
                found.skipped += 1;
                return Ok(ControlFlow::Continue(Go::Past));
            }
        };
        if entry.name == b".git" {
            return Ok(ControlFlow::Continue(Go::Past));
        }
        if entry.kind == Kind::File {
            match text(directory, &entry.name) {
                Ok(text) => look(&pattern, path, &text, search.limit, &mut found),
                Err(_) => found.skipped += 1,
            }
        }
        Ok(if found.more {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(Go::Below)
        })
    });
    walked.map_err(|error| Failure::System(error.raw_os_error().unwrap_or_default()))?;
    Ok(found)
}

fn compiled(search: &Search) -> Result<Regex, Failure> {
    let pattern = match search.syntax {
        Syntax::Literal => regex::escape(&search.pattern),
        Syntax::Regex => search.pattern.clone(),
    };
    RegexBuilder::new(&pattern)
        .size_limit(MOST_PATTERN)
        .dfa_size_limit(MOST_PATTERN)
        .build()
        .map_err(|error| Failure::BadPattern(error.to_string()))
}

/// The content of a text file; empty for a binary one.
fn text(directory: &OwnedFd, name: &[u8]) -> io::Result<Vec<u8>> {
    let mut file = File::from(openat(directory, name, READ, Mode::empty())?);
    let stat = fstat(&file)?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if !is_file || stat.st_size.cast_unsigned() > MOST_FILE {
        return Err(io::Error::other("not a text file"));
    }
    let mut text = vec![0; BEGINNING];
    let begun = read_up_to(&mut file, &mut text)?;
    text.truncate(begun);
    if text.contains(&0) {
        return Ok(Vec::new());
    }
    file.take(MOST_FILE).read_to_end(&mut text)?;
    Ok(text)
}

fn read_up_to(file: &mut File, into: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < into.len() {
        match file.read(&mut into[filled..])? {
            0 => break,
            length => filled += length,
        }
    }
    Ok(filled)
}

fn look(pattern: &Regex, path: &TreePath, text: &[u8], limit: usize, found: &mut Found) {
    for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !pattern.is_match(line) {
            continue;
        }
        if found.matches.len() == limit {
            found.more = true;
            return;
        }
        found.matches.push(Match {
            path: path.as_bytes().to_vec(),
            line: number,
            text: line[..line.len().min(MOST_TEXT)].to_vec(),
        });
    }
}
