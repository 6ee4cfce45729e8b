//! Moves by copying: beside the target first, then atomically into place, then the original is
//! removed. Other processes can see it in progress; after a kill the journal completes or undoes
//! it.

use super::copy::{Source, copy_entry};
use super::journal::{Interrupted, Journal};
use super::paths::{Call, PathAt};
use crate::mounts;
use holm_keeper::files::remove::remove_at;
use rustix::fs::{
    Access, AtFlags, CWD, Dir, FileType, Mode, OFlags, PROC_SUPER_MAGIC, RenameFlags, Stat,
    accessat, fstat, fstatfs, openat, readlinkat, renameat_with, statat,
};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The parent directory and the last name of a path.
struct Entry {
    parent: OwnedFd,
    name: Vec<u8>,
}

pub fn relocate(call: &Call, journal: &Journal, processes: &OwnedFd) -> Result<(), Errno> {
    let flags = RenameFlags::from_bits_retain(call.flags);
    if flags.intersects(RenameFlags::EXCHANGE | RenameFlags::WHITEOUT) {
        return Err(Errno::XDEV);
    }
    let (from, to) = (entry(&call.from)?, entry(&call.to)?);
    let source = statat(
        &from.parent,
        from.name.as_slice(),
        AtFlags::SYMLINK_NOFOLLOW,
    )?;
    refuse_what_is_not_the_callers_to_move(&from)?;
    refuse_what_rename_refuses(&source, &to, flags)?;
    refuse_mounts(&from, &to, processes)?;

    let copy_name = format!(".holm-move-{:016x}", random()?).into_bytes();
    let original = path_of(&from.parent, &from.name, processes)?;
    let copy = path_of(&to.parent, &copy_name, processes)?;
    let number = journal
        .begin(&original, &copy)
        .map_err(|error| errno(&error))?;
    let moved = copy_entry(
        (from.parent.as_fd(), &from.name),
        (to.parent.as_fd(), &copy_name),
        Source::Still,
        &mut || Ok(()),
    )
    .and_then(|()| {
        renameat_with(
            &to.parent,
            copy_name.as_slice(),
            &to.parent,
            to.name.as_slice(),
            flags,
        )
    });
    let result = match moved {
        Ok(()) => {
            journal.arrived(number).map_err(|error| errno(&error))?;
            remove_at(from.parent.as_fd(), as_path(&from.name))
        }
        Err(error) => {
            // If it cannot be removed now, the next reading of the journal removes it.
            remove_at(to.parent.as_fd(), as_path(&copy_name)).and(Err(error.into()))
        }
    };
    journal.end(number).map_err(|error| errno(&error))?;
    result.map_err(|error| errno(&error))
}

/// Called before any other program of the workspace runs.
pub fn finish_interrupted(journal: &Journal) -> io::Result<()> {
    for interrupted in journal.interrupted()? {
        let path = match &interrupted {
            Interrupted::Copying { copy } => copy,
            Interrupted::Arrived { original } => original,
        };
        remove_at(CWD, as_path(path))?;
    }
    journal.clear()
}

/// Splits a path; its parent may contain symlinks, as for the kernel.
fn entry(place: &PathAt) -> Result<Entry, Errno> {
    let end = place
        .path
        .iter()
        .rposition(|byte| *byte != b'/')
        .map_or(0, |last| last + 1);
    let path = &place.path[..end];
    let (parent, name) = match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..=slash], &path[slash + 1..]),
        None => (b".".as_slice(), path),
    };
    if matches!(name, b"" | b"." | b"..") {
        return Err(Errno::BUSY);
    }
    let parent = openat(&place.directory, parent, DIRECTORY, Mode::empty())?;
    Ok(Entry {
        parent,
        name: name.to_vec(),
    })
}

/// The mover refuses to copy a file that the calling process could not move itself. The mover may
/// read more than the caller, which may be kept from secret files and other programs' environments.
/// The caller gets the kernel's error and copies what it can read.
fn refuse_what_is_not_the_callers_to_move(from: &Entry) -> Result<(), Errno> {
    let may_move = Access::WRITE_OK | Access::EXEC_OK;
    let allowed = accessat(&from.parent, ".", may_move, AtFlags::EACCESS);
    let is_of_processes = fstatfs(&from.parent)?.f_type == PROC_SUPER_MAGIC;
    if allowed.is_err() || is_of_processes {
        Err(Errno::XDEV)
    } else {
        Ok(())
    }
}

/// The kernel returns `EXDEV` before it checks these.
fn refuse_what_rename_refuses(source: &Stat, to: &Entry, flags: RenameFlags) -> Result<(), Errno> {
    let is_directory = |stat: &Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    match statat(&to.parent, to.name.as_slice(), AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => {}
        Err(error) => return Err(error),
        Ok(_) if flags.contains(RenameFlags::NOREPLACE) => return Err(Errno::EXIST),
        Ok(target) => match (is_directory(source), is_directory(&target)) {
            (true, false) => return Err(Errno::NOTDIR),
            (false, true) => return Err(Errno::ISDIR),
            (true, true) if !is_empty(to)? => return Err(Errno::NOTEMPTY),
            _ => {}
        },
    }
    if is_directory(source) && is_below(&to.parent, source)? {
        Err(Errno::INVAL)
    } else {
        Ok(())
    }
}

/// A mount point cannot be moved, and one below the original would stay while everything around it
/// is removed. The kernel compares mounts before it looks for mount points, so it returned `EXDEV`,
/// and programs that get that copy and remove by themselves. `EBUSY` is its error for a mount point
/// within one mount, and keeps the whole tree.
fn refuse_mounts(from: &Entry, to: &Entry, processes: &OwnedFd) -> Result<(), Errno> {
    let original = path_of(&from.parent, &from.name, processes)?;
    let target = path_of(&to.parent, &to.name, processes)?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = openat(processes, "self/mountinfo", flags, Mode::empty())?;
    let mut table = Vec::new();
    let read = File::from(file).read_to_end(&mut table);
    read.map_err(|error| errno(&error))?;
    let is_held =
        |place: PathBuf| place.starts_with(as_path(&original)) || place == as_path(&target);
    if mounts::points(&table).any(is_held) {
        Err(Errno::BUSY)
    } else {
        Ok(())
    }
}

fn is_empty(entry: &Entry) -> Result<bool, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = openat(&entry.parent, entry.name.as_slice(), flags, Mode::empty())?;
    for found in Dir::read_from(&directory)? {
        if !matches!(found?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a directory is `top` or inside it.
fn is_below(directory: &OwnedFd, top: &Stat) -> Result<bool, Errno> {
    let mut here = rustix::io::dup(directory)?;
    loop {
        let found = fstat(&here)?;
        if (found.st_dev, found.st_ino) == (top.st_dev, top.st_ino) {
            return Ok(true);
        }
        let above = openat(&here, "..", DIRECTORY, Mode::empty())?;
        let parent = fstat(&above)?;
        if (parent.st_dev, parent.st_ino) == (found.st_dev, found.st_ino) {
            return Ok(false);
        }
        here = above;
    }
}

/// The absolute path, for the journal.
fn path_of(parent: &OwnedFd, name: &[u8], processes: &OwnedFd) -> Result<Vec<u8>, Errno> {
    let link = format!("self/fd/{}", parent.as_raw_fd());
    let mut path = readlinkat(processes, link, Vec::new())?.into_bytes();
    path.push(b'/');
    path.extend(name);
    Ok(path)
}

fn random() -> Result<u64, Errno> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_le_bytes(bytes))
}

fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
