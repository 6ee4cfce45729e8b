//! The record of what left a workspace, as files: lines of JSON, the newest file without a number.

use crate::wire::{EgressFrom, EgressPlace};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The most files of a record.
pub const FILES: u32 = 5;

/// The name of the file that was full so many files ago.
pub fn older(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    PathBuf::from(name)
}

/// Whole lines, and where they end. What cannot be read now is perhaps there at the next look.
pub fn read(path: &Path, from: EgressFrom) -> (Vec<u8>, Option<EgressPlace>) {
    match from {
        EgressFrom::Last(limit) => last_lines(path, limit),
        EgressFrom::End => {
            let end = std::fs::metadata(path).ok().map(|metadata| EgressPlace {
                inode: metadata.ino(),
                read: metadata.len(),
            });
            (Vec::new(), end)
        }
        EgressFrom::After(place) => {
            let mut tail = Tail { path, place };
            let fresh = tail.read().unwrap_or_default();
            (fresh, tail.place)
        }
    }
}

/// The last lines of all files, and where the newest file ended.
fn last_lines(path: &Path, limit: usize) -> (Vec<u8>, Option<EgressPlace>) {
    let mut last = VecDeque::new();
    let mut end = None;
    let older = (1..FILES).rev().map(|number| older(path, number));
    for path in older.chain([path.to_owned()]) {
        // A file that is not there has no lines.
        let Ok(file) = File::open(path) else {
            end = None;
            continue;
        };
        let inode = file.metadata().map_or(0, |metadata| metadata.ino());
        let mut read = 0;
        let mut reader = BufReader::new(file);
        let mut line = Vec::new();
        while let Ok(length) = reader.read_until(b'\n', &mut line)
            && line.ends_with(b"\n")
        {
            read += length as u64;
            last.push_back(std::mem::take(&mut line));
            if last.len() > limit {
                last.pop_front();
            }
        }
        end = Some(EgressPlace { inode, read });
    }
    (last.into_iter().flatten().collect(), end)
}

/// A file that grows, and is now and then replaced by a new one.
struct Tail<'a> {
    path: &'a Path,
    place: Option<EgressPlace>,
}

// === impl Tail ===

impl Tail<'_> {
    /// The whole lines that came since the last look.
    fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut fresh = Vec::new();
        let inode = inode(self.path)?;
        if let Some(place) = self.place
            && place.inode != inode
        {
            // What was written to the old one before it was full.
            let before = older(self.path, 1);
            if inode_is(&before, place.inode) {
                self.take(&before, &mut fresh)?;
            }
            self.place = None;
        }
        let place = self.place.get_or_insert(EgressPlace { inode, read: 0 });
        place.inode = inode;
        self.take(self.path, &mut fresh)?;
        Ok(fresh)
    }

    fn take(&mut self, path: &Path, fresh: &mut Vec<u8>) -> io::Result<()> {
        let Some(place) = &mut self.place else {
            return Ok(());
        };
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(place.read))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n');
        bytes.truncate(whole.map_or(0, |end| end + 1));
        place.read += bytes.len() as u64;
        fresh.extend(bytes);
        Ok(())
    }
}

fn inode(path: &Path) -> io::Result<u64> {
    Ok(std::fs::metadata(path)?.ino())
}

fn inode_is(path: &Path, expected: u64) -> bool {
    inode(path).is_ok_and(|found| found == expected)
}
