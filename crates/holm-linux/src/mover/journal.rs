//! The moves under way, stored outside the workspace's reach. After a kill the next mover completes
//! moves whose copy is in place and undoes the others: the tree is old or new, never both.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

pub struct Journal(Mutex<Inner>);

struct Inner {
    file: File,
    under_way: usize,
    last: u64,
}

/// A move that a killed mover left. Paths are absolute and inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Interrupted {
    /// The copy is incomplete: remove it.
    Copying { copy: Vec<u8> },
    /// The copy is in place: remove the original.
    Arrived { original: Vec<u8> },
}

// === impl Journal ===

impl Journal {
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::options()
            .read(true)
            .append(true)
            .create(true)
            .open(path)?;
        Ok(Self(Mutex::new(Inner {
            file,
            under_way: 0,
            last: 0,
        })))
    }

    /// Before the first byte is copied.
    pub fn begin(&self, original: &[u8], copy: &[u8]) -> io::Result<u64> {
        let mut inner = self.lock();
        inner.under_way += 1;
        inner.last += 1;
        let number = inner.last;
        inner.write(&format!("begin {number} {} {}\n", hex(original), hex(copy)))?;
        Ok(number)
    }

    /// After the copy is in place, before the original is removed.
    pub fn arrived(&self, number: u64) -> io::Result<()> {
        self.lock().write(&format!("arrived {number}\n"))
    }

    /// The move is complete or undone.
    pub fn end(&self, number: u64) -> io::Result<()> {
        let mut inner = self.lock();
        inner.under_way -= 1;
        if inner.under_way == 0 {
            inner.file.set_len(0)
        } else {
            inner.write(&format!("end {number}\n"))
        }
    }

    /// What an earlier mover left.
    pub fn interrupted(&self) -> io::Result<Vec<Interrupted>> {
        let mut inner = self.lock();
        let mut text = String::new();
        inner.file.rewind()?;
        inner.file.read_to_string(&mut text)?;
        Ok(parse(&text))
    }

    pub fn clear(&self) -> io::Result<()> {
        self.lock().file.set_len(0)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Inner ===

impl Inner {
    fn write(&mut self, line: &str) -> io::Result<()> {
        self.file.write_all(line.as_bytes())?;
        self.file.sync_data()
    }
}

/// Incomplete lines are ignored.
fn parse(text: &str) -> Vec<Interrupted> {
    let mut found: Vec<(u64, Vec<u8>, Interrupted)> = Vec::new();
    for line in text
        .split_inclusive('\n')
        .filter_map(|line| line.strip_suffix('\n'))
    {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["begin", number, original, copy] => {
                if let (Ok(number), Some(original), Some(copy)) =
                    (number.parse(), unhex(original), unhex(copy))
                {
                    found.push((number, original, Interrupted::Copying { copy }));
                }
            }
            ["arrived", number] => {
                for (known, original, state) in &mut found {
                    if number.parse() == Ok(*known) {
                        *state = Interrupted::Arrived {
                            original: original.clone(),
                        };
                    }
                }
            }
            ["end", number] => found.retain(|(known, ..)| number.parse() != Ok(*known)),
            _ => {}
        }
    }
    found.into_iter().map(|(_, _, state)| state).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_under_way_is_found_again() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("moves");
        let journal = Journal::open(&path).unwrap();
        let copying = journal.begin(b"/a\n\xff", b"/b").unwrap();
        let arrived = journal.begin(b"/c", b"/d").unwrap();
        let ended = journal.begin(b"/e", b"/f").unwrap();
        journal.arrived(arrived).unwrap();
        journal.end(ended).unwrap();
        let found = Journal::open(&path).unwrap().interrupted().unwrap();
        let expect = [
            Interrupted::Copying {
                copy: b"/b".to_vec(),
            },
            Interrupted::Arrived {
                original: b"/c".to_vec(),
            },
        ];
        assert_eq!(found, expect);
        journal.end(copying).unwrap();
        journal.end(arrived).unwrap();
        assert_eq!(Journal::open(&path).unwrap().interrupted().unwrap(), []);
    }

    #[test]
    fn half_a_line_says_nothing() {
        assert_eq!(
            parse("begin 1 2f61 2f62\narrived 1"),
            [Interrupted::Copying {
                copy: b"/b".to_vec()
            }]
        );
        assert_eq!(parse("begin 1 2f61 2f6"), []);
        assert_eq!(parse("nonsense\nbegin x 00 00\nbegin 1 zz 00\n"), []);
    }
}
