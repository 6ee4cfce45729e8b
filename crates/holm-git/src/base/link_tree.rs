//! Hard-links a base's tree: creates the directories, links files and symlinks, and leaves out the
//! root's `.git`. It works with directory handles, so depth and names do not matter.

use crate::command::Cancel;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, linkat, mkdirat,
    openat, readlinkat, statat, symlinkat, utimensat,
};
use rustix::io::Errno;
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::path::Path;

/// Whether every file of the new tree shares its inode with the old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Linked {
    All,
    /// Some files had reached the file system's limit of links per file.
    SomeCopied,
}

const DIRECTORY: OFlags = OFlags::DIRECTORY
    .union(OFlags::RDONLY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Links everything below `source` into the empty directory `target`.
pub(super) fn link_tree(source: &Path, target: &Path, cancel: &Cancel) -> io::Result<Linked> {
    let source = openat(CWD, source, DIRECTORY, Mode::empty())?;
    let target = openat(CWD, target, DIRECTORY, Mode::empty())?;
    let mut linked = Linked::All;
    let mut below = link_files(source.as_fd(), target.as_fd(), &mut linked)?;
    below.retain(|name| name.as_c_str() != c".git");
    let mut open = vec![(source, target, below)];
    // The stack holds one pair of handles per level, not per directory.
    while let Some((source, target, below)) = open.last_mut() {
        if cancel.is_raised() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let Some(name) = below.pop() else {
            open.pop();
            continue;
        };
        mkdirat(target.as_fd(), name.as_c_str(), Mode::from_raw_mode(0o777))?;
        let source = enter(source.as_fd(), &name)?;
        let target = enter(target.as_fd(), &name)?;
        let below = link_files(source.as_fd(), target.as_fd(), &mut linked)?;
        open.push((source, target, below));
    }
    Ok(linked)
}

fn enter(parent: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    Ok(openat(parent, name, DIRECTORY, Mode::empty())?)
}

/// Links all entries that are not directories; returns the names of the directories.
fn link_files(
    source: BorrowedFd<'_>,
    target: BorrowedFd<'_>,
    linked: &mut Linked,
) -> io::Result<Vec<std::ffi::CString>> {
    let mut directories = Vec::new();
    for entry in Dir::read_from(source)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let mut kind = entry.file_type();
        if kind == FileType::Unknown {
            let stat = statat(source, name, AtFlags::SYMLINK_NOFOLLOW)?;
            kind = FileType::from_raw_mode(stat.st_mode);
        }
        if kind == FileType::Directory {
            directories.push(name.to_owned());
            continue;
        }
        match linkat(source, name, target, name, AtFlags::empty()) {
            Ok(()) => {}
            Err(Errno::MLINK) => {
                copy(source, target, name, kind)?;
                *linked = Linked::SomeCopied;
            }
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(directories)
}

/// Copies a file with its mode and modification time.
fn copy(
    source: BorrowedFd<'_>,
    target: BorrowedFd<'_>,
    name: &CStr,
    kind: FileType,
) -> io::Result<()> {
    let stat = statat(source, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if kind == FileType::Symlink {
        let text = readlinkat(source, name, Vec::new())?;
        symlinkat(text.as_c_str(), target, name)?;
    } else {
        let read = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let write = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mut from = File::from(openat(source, name, read, Mode::empty())?);
        let mode = Mode::from_raw_mode(stat.st_mode);
        let mut to = File::from(openat(target, name, write, mode)?);
        io::copy(&mut from, &mut to)?;
    }
    let times = Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        last_modification: Timespec {
            tv_sec: stat.st_mtime,
            tv_nsec: stat.st_mtime_nsec as _,
        },
    };
    utimensat(target, name, &times, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    #[test]
    fn a_copy_is_as_good_as_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let (from, to) = (directory.path().join("from"), directory.path().join("to"));
        std::fs::create_dir(&from).unwrap();
        std::fs::create_dir(&to).unwrap();
        std::fs::write(from.join("run"), "#!").unwrap();
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(from.join("run"), executable).unwrap();
        std::os::unix::fs::symlink("run", from.join("link")).unwrap();
        let old =
            std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_nanos(1_000_000_007);
        File::open(from.join("run"))
            .unwrap()
            .set_modified(old)
            .unwrap();
        let source = openat(CWD, &from, DIRECTORY, Mode::empty()).unwrap();
        let target = openat(CWD, &to, DIRECTORY, Mode::empty()).unwrap();
        copy(
            source.as_fd(),
            target.as_fd(),
            c"run",
            FileType::RegularFile,
        )
        .unwrap();
        copy(source.as_fd(), target.as_fd(), c"link", FileType::Symlink).unwrap();
        let meta = std::fs::metadata(to.join("run")).unwrap();
        assert_eq!(meta.modified().unwrap(), old);
        assert_eq!(meta.mode() & 0o100, 0o100);
        assert_ne!(
            meta.ino(),
            std::fs::metadata(from.join("run")).unwrap().ino()
        );
        assert_eq!(
            std::fs::read_link(to.join("link")).unwrap(),
            Path::new("run")
        );
    }
}
