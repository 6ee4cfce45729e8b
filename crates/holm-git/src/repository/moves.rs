//! The moves of an `apply`: old files are moved out of the checkout and new ones moved in.
//!
//! Both are renames, so every file is always complete, and its place shows how far the apply came.
//! Nothing is overwritten or deleted: old files wait beside the plan until all moves are done. A
//! file that differs from the planned one was changed by the user meanwhile, and stays.

use super::fetch::{os_path, shown};
use crate::GitError;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The change of one path of the checkout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Move {
    /// Below the root of the checkout.
    pub path: PathBuf,
    /// A directory on the same file system that holds the new file before the move and the old one
    /// after it.
    pub place: PathBuf,
    pub number: usize,
    /// The current file.
    pub old: Option<Identity>,
    /// The new file.
    pub new: Option<Identity>,
}

/// Identifies a file and its content by metadata, without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity([i64; 5]);

/// The result of [`undo`].
#[derive(Debug, Default)]
pub(super) struct Undone {
    /// Files that were changed since, and where their earlier content is.
    pub changed: Vec<(PathBuf, Option<PathBuf>)>,
}

/// Moves all old files out, then all new files in.
pub(super) fn carry_out(root: &Path, moves: &[Move]) -> Result<(), GitError> {
    for one in moves {
        let Some(old) = one.old else { continue };
        let (target, slot) = (root.join(&one.path), one.old_slot());
        if Identity::of(&target) != Some(old) {
            return Err(one.in_the_way());
        }
        std::fs::rename(&target, &slot).map_err(GitError::file("take", &target))?;
        // The file may have been replaced between the check and the rename.
        if Identity::of(&slot) != Some(old) {
            return Err(one.in_the_way());
        }
        remove_empty_parents(root, &one.path);
    }
    for one in moves.iter().filter(|one| one.new.is_some()) {
        let target = root.join(&one.path);
        make_parents(root, &one.path).map_err(|error| one.blocked("make room for", error))?;
        // A directory whose files were all moved out may have to become a file.
        let _ = std::fs::remove_dir(&target);
        put(&one.new_slot(), &target).map_err(|error| one.blocked("put in", error))?;
    }
    Ok(())
}

/// Whether every move was made.
pub(super) fn is_in_place(moves: &[Move]) -> bool {
    moves.iter().all(|one| {
        let is_taken = one.old.is_none() || exists(&one.old_slot());
        is_taken && (one.new.is_none() || !exists(&one.new_slot()))
    })
}

/// Whether no move was made.
pub(super) fn is_untouched(moves: &[Move]) -> bool {
    moves.iter().all(|one| {
        let is_there = one.old.is_none() || !exists(&one.old_slot());
        is_there && (one.new.is_none() || exists(&one.new_slot()))
    })
}

/// Restores the checkout. May be repeated after an interruption.
pub(super) fn undo(root: &Path, moves: &[Move]) -> Result<Undone, GitError> {
    let mut undone = Undone::default();
    for one in moves.iter().rev() {
        let (Some(new), target, slot) = (one.new, root.join(&one.path), one.new_slot()) else {
            continue;
        };
        if exists(&slot) {
            // Directories for the new files may exist already.
            remove_empty_parents(root, &one.path);
            continue;
        }
        match Identity::of(&target) {
            Some(found) if found == new => {
                std::fs::rename(&target, &slot).map_err(GitError::file("take back", &target))?;
                remove_empty_parents(root, &one.path);
            }
            // Edited by the user since, so it stays. If it has earlier content, that is listed
            // below.
            Some(_) if one.old.is_none() => undone.changed.push((one.path.clone(), None)),
            _ => {}
        }
    }
    for one in moves.iter().rev().filter(|one| one.old.is_some()) {
        let (target, slot) = (root.join(&one.path), one.old_slot());
        if !exists(&slot) {
            continue;
        }
        let is_back = make_parents(root, &one.path).and_then(|()| put(&slot, &target));
        match is_back {
            Ok(()) => {}
            Err(error) if is_occupied(&error) => {
                if !have_same_content(&slot, &target) {
                    undone.changed.push((one.path.clone(), Some(slot)));
                }
            }
            Err(error) => return Err(GitError::file("put back", &target)(error)),
        }
    }
    Ok(undone)
}

// === impl Move ===

impl Move {
    pub fn old_slot(&self) -> PathBuf {
        self.place.join(format!("old-{}", self.number))
    }

    pub fn new_slot(&self) -> PathBuf {
        self.place.join(format!("new-{}", self.number))
    }

    /// Five fields, each ended by a zero byte.
    pub fn write(&self, to: &mut Vec<u8>) {
        let number = self.number.to_string();
        let (old, new) = (text(self.old), text(self.new));
        for field in [
            self.path.as_os_str().as_bytes(),
            self.place.as_os_str().as_bytes(),
            number.as_bytes(),
            old.as_bytes(),
            new.as_bytes(),
        ] {
            to.extend_from_slice(field);
            to.push(0);
        }
    }

    pub fn read_all(content: &[u8]) -> Option<Vec<Move>> {
        let Some(content) = content.strip_suffix(b"\0") else {
            return content.is_empty().then(Vec::new);
        };
        let fields: Vec<&[u8]> = content.split(|byte| *byte == 0).collect();
        let chunks = fields.chunks(5).map(|fields| {
            let [path, place, number, old, new] = fields else {
                return None;
            };
            Some(Move {
                path: os_path(path).to_owned(),
                place: os_path(place).to_owned(),
                number: std::str::from_utf8(number).ok()?.parse().ok()?,
                old: identity(old)?,
                new: identity(new)?,
            })
        });
        chunks.collect()
    }

    fn in_the_way(&self) -> GitError {
        GitError::InTheWay {
            paths: vec![shown(self.path.as_os_str().as_bytes())],
        }
    }

    /// An error that says whether another file is in the way.
    fn blocked(&self, action: &'static str, error: io::Error) -> GitError {
        if is_occupied(&error) {
            GitError::DoesNotApply {
                paths: vec![shown(self.path.as_os_str().as_bytes())],
            }
        } else {
            GitError::file(action, &self.path)(error)
        }
    }
}

// === impl Identity ===

impl Identity {
    /// `None` unless it is a file or a symlink.
    pub fn of(path: &Path) -> Option<Identity> {
        let metadata = path.symlink_metadata().ok()?;
        (!metadata.is_dir()).then(|| Identity::from(&metadata))
    }

    /// Whether both have the same kind and permissions.
    pub fn has_mode_of(self, other: Identity) -> bool {
        self.0[4] == other.0[4]
    }
}

impl From<&Metadata> for Identity {
    fn from(metadata: &Metadata) -> Self {
        Identity([
            metadata.ino().cast_signed(),
            metadata.size().cast_signed(),
            metadata.mtime(),
            metadata.mtime_nsec(),
            metadata.mode().into(),
        ])
    }
}

fn text(identity: Option<Identity>) -> String {
    identity.map_or_else(String::new, |identity| {
        identity.0.map(|number| number.to_string()).join(" ")
    })
}

fn identity(field: &[u8]) -> Option<Option<Identity>> {
    if field.is_empty() {
        return Some(None);
    }
    let words = std::str::from_utf8(field).ok()?.split(' ');
    let numbers: Option<Vec<i64>> = words.map(|word| word.parse().ok()).collect();
    Some(Some(Identity(numbers?.try_into().ok()?)))
}

/// Renames without replacing an existing file.
fn put(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Some file systems do not support `RENAME_NOREPLACE`.
        Err(Errno::INVAL | Errno::NOSYS) if !exists(to) => std::fs::rename(from, to),
        Err(Errno::INVAL | Errno::NOSYS) => Err(Errno::EXIST.into()),
        done => Ok(done?),
    }
}

fn is_occupied(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory
    )
}

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Creates the directories above a path. Anything else in their place, also a symlink to a
/// directory, is an error.
fn make_parents(root: &Path, path: &Path) -> io::Result<()> {
    let mut directory = root.to_owned();
    for name in path.parent().into_iter().flat_map(Path::components) {
        directory.push(name);
        match std::fs::create_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if !directory.symlink_metadata()?.is_dir() {
                    return Err(Errno::NOTDIR.into());
                }
            }
            made => made?,
        }
    }
    Ok(())
}

fn remove_empty_parents(root: &Path, path: &Path) {
    let parents = path.ancestors().skip(1);
    for parent in parents.take_while(|parent| !parent.as_os_str().is_empty()) {
        // A directory that is not empty stays, and so do those above it.
        if std::fs::remove_dir(root.join(parent)).is_err() {
            return;
        }
    }
}

fn have_same_content(one: &Path, other: &Path) -> bool {
    let kind = |path: &Path| path.symlink_metadata().map(|metadata| metadata.mode()).ok();
    if kind(one) != kind(other) || kind(one).is_none() {
        return false;
    }
    match std::fs::read_link(one) {
        Ok(target) => std::fs::read_link(other).is_ok_and(|found| found == target),
        Err(_) => match (std::fs::read(one), std::fs::read(other)) {
            (Ok(one), Ok(other)) => one == other,
            _ => false,
        },
    }
}

/// Copies a file or a symlink.
pub(super) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    match std::fs::read_link(from) {
        Ok(target) => std::os::unix::fs::symlink(target, to),
        Err(_) => std::fs::copy(from, to).map(|_| ()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_are_read_as_they_were_written() {
        let one = Move {
            path: os_path(b"a b/caf\xe9\n").to_owned(),
            place: PathBuf::from("/x/slots"),
            number: 7,
            old: Some(Identity([1, 2, -3, 4, 5])),
            new: None,
        };
        let two = Move {
            new: one.old,
            old: None,
            number: 8,
            ..one.clone()
        };
        let mut content = Vec::new();
        one.write(&mut content);
        two.write(&mut content);
        assert_eq!(Move::read_all(&content), Some(vec![one, two]));
        assert_eq!(Move::read_all(b""), Some(Vec::new()));
        for cut in 1..content.len() {
            let whole = Move::read_all(&content[..cut]);
            assert!(whole.is_none_or(|moves| moves.len() == 1), "{cut}");
        }
    }
}
