//! The record of the last `apply` of each workspace in a work tree, from which `apply --undo` goes
//! back ([`super::undo`]). Called by [`super::adopt`] and [`super::journal`].
//!
//! A record is `holm/applied/<id>` in the work tree's git directory: the directory in which the
//! apply was prepared, with its plan and the files that it replaced.

use super::Repository;
use super::moves::{Move, copy};
use super::plan::{DONE, Plan, SLOTS, remove, remove_places, remove_rubbish, remove_tree, save};
use crate::GitError;
use holm_core::WorkspaceId;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The directory of all records.
const RECORDS: &str = "holm/applied";

/// The id of the workspace that is applied.
const WORKSPACE: &str = "workspace";
/// The id of the workspace whose apply is undone.
pub(super) const UNDOES: &str = "undoes";
/// A digest of each new file, in the order of the plan; empty for a deletion.
pub(super) const WRITTEN: &str = "written";
/// The index entries that the pointers of the plan replace.
pub(super) const EARLIER: &str = "earlier";

/// Older records are deleted.
const KEPT_FOR: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Index entries by path: mode and object.
pub(super) type Entries<'a> = BTreeMap<&'a [u8], &'a [u8]>;

// === impl Repository ===

impl Repository {
    pub(super) fn index(&self) -> Result<Vec<u8>, GitError> {
        self.git("ls-files")?.args(["-s", "-z"]).output()
    }

    /// The index entries of the paths of `pointers`, as input for `git update-index --index-info`.
    fn earlier_entries(&self, pointers: &[u8]) -> Result<Vec<u8>, GitError> {
        if pointers.is_empty() {
            return Ok(Vec::new());
        }
        let index = self.index()?;
        let now = entries(&index);
        let width = if self.object_format == "sha256" {
            64
        } else {
            40
        };
        let absent = format!("0 {}", "0".repeat(width));
        let mut lines = Vec::new();
        for path in entries(pointers).keys() {
            lines.extend_from_slice(now.get(path).copied().unwrap_or(absent.as_bytes()));
            lines.push(b'\t');
            lines.extend_from_slice(path);
            lines.push(0);
        }
        Ok(lines)
    }
}

/// Writes beside a plan what undoing it will need.
pub(super) fn note(
    repository: &Repository,
    directory: &Path,
    id: &WorkspaceId,
    plan: &Plan,
) -> Result<(), GitError> {
    let mut written = Vec::new();
    for one in &plan.moves {
        if one.new.is_some() {
            written.extend_from_slice(&digest_of(&one.new_slot())?);
        }
        written.push(0);
    }
    write(&directory.join(WRITTEN), &written)?;
    let earlier = repository.earlier_entries(&plan.pointers)?;
    write(&directory.join(EARLIER), &earlier)?;
    write(&directory.join(WORKSPACE), id.as_str().as_bytes())
}

/// Ends a plan whose moves are all done: an apply becomes a record, and an undo removes its record.
/// May be repeated.
pub(super) fn settle(repository: &Repository, directory: &Path) -> Result<(), GitError> {
    if let Some(id) = id_in(&directory.join(UNDOES))? {
        remove_tree(&record_of(repository, &id))?;
        return remove(directory);
    }
    match id_in(&directory.join(WORKSPACE))? {
        Some(id) => keep(repository, directory, &record_of(repository, &id)),
        // Planned by a version that kept no records.
        None => remove(directory),
    }
}

fn keep(repository: &Repository, directory: &Path, record: &Path) -> Result<(), GitError> {
    let plan = Plan::read_done(directory)?;
    for one in plan.moves.iter().filter(|one| one.old.is_some()) {
        let (from, to) = (one.old_slot(), kept_slot(directory, one));
        if from != to && from.symlink_metadata().is_ok() {
            // An interrupted copy may be there.
            let _ = std::fs::remove_file(&to);
            copy(&from, &to).map_err(GitError::file("keep", &from))?;
        }
    }
    remove_places(directory)?;
    remove_rubbish(directory);
    let records = repository.git_dir.join(RECORDS);
    std::fs::create_dir_all(&records).map_err(GitError::file("make", &records))?;
    remove_old(&records);
    remove_tree(record)?;
    std::fs::rename(directory, record).map_err(GitError::file("rename", directory))
}

/// Deletes records that are too old. One that cannot be deleted is tried again by the next apply.
fn remove_old(records: &Path) {
    let is_old = |record: &Path| {
        let done = record.join(DONE).metadata();
        let age = done.and_then(|done| done.modified()).ok();
        let age = age.and_then(|at| SystemTime::now().duration_since(at).ok());
        age.is_some_and(|age| age > KEPT_FOR)
    };
    for entry in std::fs::read_dir(records).into_iter().flatten().flatten() {
        if is_old(&entry.path()) {
            let _ = remove_tree(&entry.path());
        }
    }
}

pub(super) fn record_of(repository: &Repository, id: &WorkspaceId) -> PathBuf {
    repository.git_dir.join(RECORDS).join(id.as_str())
}

/// Where a record has the file that a move replaced.
pub(super) fn kept_slot(record: &Path, one: &Move) -> PathBuf {
    record.join(SLOTS).join(format!("old-{}", one.number))
}

/// The id in a file; `None` if there is no such file.
fn id_in(file: &Path) -> Result<Option<WorkspaceId>, GitError> {
    let text = match std::fs::read_to_string(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(GitError::file("read", file))?,
    };
    let broken = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    let id = WorkspaceId::parse(&text).map_err(broken);
    id.map(Some).map_err(GitError::file("read", file))
}

/// Lines of `git ls-files -s -z` or for `git update-index --index-info`: without the stage, which
/// is 0 for all that are merged.
pub(super) fn entries(lines: &[u8]) -> Entries<'_> {
    let lines = lines.split(|byte| *byte == 0);
    lines
        .filter_map(|line| {
            let tab = line.iter().position(|byte| *byte == b'\t')?;
            let entry = &line[..tab];
            Some((&line[tab + 1..], entry.strip_suffix(b" 0").unwrap_or(entry)))
        })
        .collect()
}

/// The digest of a file's content or of a symlink's target.
pub(super) fn digest_of(path: &Path) -> Result<Vec<u8>, GitError> {
    let digest = || -> io::Result<Sha256> {
        let mut digest = Sha256::new();
        match std::fs::read_link(path) {
            Ok(target) => digest.update(target.as_os_str().as_bytes()),
            Err(_) => {
                io::copy(&mut File::open(path)?, &mut digest)?;
            }
        }
        Ok(digest)
    };
    let digest = digest().map_err(GitError::file("read", path))?;
    let text: String = digest
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Ok(text.into_bytes())
}

pub(super) fn read(file: &Path) -> Result<Vec<u8>, GitError> {
    std::fs::read(file).map_err(GitError::file("read", file))
}

pub(super) fn write(file: &Path, content: &[u8]) -> Result<(), GitError> {
    save(file, content).map_err(GitError::file("write", file))
}
