//! Makes a new base's files older than its index. Called when a base was checked out.
//!
//! Git compares times in whole seconds: a file that was written in the second of the index may have
//! been changed after it, so every `git status` reads its content. A checkout of thirty thousand
//! files takes less than that second, and all workspaces share its index. Files of that second are
//! therefore dated one second back, on disk and in the index. An edit in a workspace comes after the
//! index was written, so its time is never the one that the index has.
//!
//! Not done to files that replace others of an earlier base: build tools must see that they are newer.

use crate::GitError;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_OMIT, openat, utimensat};
use rustix::fs::{Mode, OFlags};
use sha1::Sha1;
use sha2::{Digest, Sha256};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Byte offsets in an index entry.
const MODIFIED: usize = 8;
const MODE: usize = 24;
const OBJECT: usize = 40;

const HEADER: usize = 12;

/// Flag: the entry has two more bytes of flags.
const IS_EXTENDED: u16 = 0x4000;

/// Fewer files than this are not worth a thread.
const PER_THREAD: usize = 2000;
const MOST_THREADS: usize = 4;

/// A file and its new modification time.
struct Aged<'a> {
    path: &'a OsStr,
    modified: Timespec,
}

/// Dates back the files that were written in the same second as the index. An index in an unknown
/// format stays as it is: that is slower but correct.
pub(super) fn age(tree: &Path, object_format: &str) -> Result<(), GitError> {
    let file = tree.join(".git/index");
    let failed = |error| GitError::file("rewrite", &file)(error);
    let written = std::fs::metadata(&file).map_err(failed)?.mtime();
    let index = std::fs::read(&file).map_err(failed)?;
    let mut newer = index.clone();
    let Some(aged) = aged(&index, &mut newer, object_format, written) else {
        return Ok(());
    };
    if aged.is_empty() {
        return Ok(());
    }
    set_times(tree, &aged).map_err(|errno| GitError::file("date", tree)(errno.into()))?;
    seal(&mut newer, object_format);
    let next = tree.join(".git/index.next");
    std::fs::write(&next, newer).map_err(failed)?;
    std::fs::rename(&next, &file).map_err(failed)
}

/// The files modified in the second `written` or later. Updates their entries in `newer`. `None`:
/// the index has an unknown format.
fn aged<'a>(
    index: &'a [u8],
    newer: &mut [u8],
    object_format: &str,
    written: i64,
) -> Option<Vec<Aged<'a>>> {
    let word = |at: usize| Some(u32::from_be_bytes(index.get(at..at + 4)?.try_into().ok()?));
    if index.get(..4)? != b"DIRC" || !matches!(word(4)?, 2 | 3) {
        return None;
    }
    let past = u32::try_from(written - 1).ok()?;
    let flags_at = OBJECT + digest_length(object_format);
    let mut files = Vec::new();
    let mut begin = HEADER;
    for _ in 0..word(8)? {
        let flags = begin + flags_at;
        let is_extended =
            u16::from_be_bytes(index.get(flags..flags + 2)?.try_into().ok()?) & IS_EXTENDED != 0;
        let name = flags + if is_extended { 4 } else { 2 };
        let length = index.get(name..)?.iter().position(|byte| *byte == 0)?;
        let is_file = matches!(word(begin + MODE)? >> 12, 0o10 | 0o12);
        if is_file && i64::from(word(begin + MODIFIED)?) >= written {
            newer[begin + MODIFIED..begin + MODIFIED + 4].copy_from_slice(&past.to_be_bytes());
            files.push(Aged {
                path: OsStr::from_bytes(&index[name..name + length]),
                modified: Timespec {
                    tv_sec: i64::from(past),
                    tv_nsec: word(begin + MODIFIED + 4)?.into(),
                },
            });
        }
        // An entry is padded with one to eight zero bytes to a multiple of eight.
        begin += (name + length - begin + 8) & !7;
    }
    Some(files)
}

fn set_times(tree: &Path, files: &[Aged<'_>]) -> rustix::io::Result<()> {
    let tree = openat(
        CWD,
        tree,
        OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let threads = files.len().div_ceil(PER_THREAD).clamp(1, MOST_THREADS);
    let each = |files: &[Aged<'_>]| {
        for file in files {
            let times = Timestamps {
                last_access: Timespec {
                    tv_sec: 0,
                    tv_nsec: UTIME_OMIT,
                },
                last_modification: file.modified,
            };
            utimensat(&tree, file.path, &times, AtFlags::SYMLINK_NOFOLLOW)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let parts = files.chunks(files.len().div_ceil(threads));
        let running: Vec<_> = parts.map(|part| scope.spawn(move || each(part))).collect();
        running
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or(Err(rustix::io::Errno::IO)))
    })
}

/// Writes the trailing checksum.
fn seal(index: &mut [u8], object_format: &str) {
    let (content, digest) = index.split_at_mut(index.len() - digest_length(object_format));
    match object_format {
        "sha256" => digest.copy_from_slice(&Sha256::digest(content)),
        _ => digest.copy_from_slice(&Sha1::digest(content)),
    }
}

fn digest_length(object_format: &str) -> usize {
    match object_format {
        "sha256" => 32,
        _ => 20,
    }
}
