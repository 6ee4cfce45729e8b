//! The root of the tree as a descriptor. Everything below is opened by `openat2` without following
//! symlinks and without leaving. The result is a descriptor, so a later change of names has no
//! effect.

use holm_core::TreePath;
use holm_core::files::{Entry, Failure, Kind};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat2, readlinkat, statat,
};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS);

/// For traversal, not for reading. Without `NOFOLLOW`, because then the kernel would report a
/// symlink as "not a directory"; `BENEATH` refuses symlinks with its own error.
const PASSAGE: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Opening blocks neither on a pipe nor on a lease, and does not take over a terminal.
pub const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// The path length for one system call, with room for a last name.
const ONE_CALL: usize = 4000;

/// `project.root`.
#[derive(Debug)]
pub struct Root {
    top: OwnedFd,
}

// === impl Root ===

impl Root {
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let top = openat2(CWD, path, PASSAGE, Mode::empty(), resolve).map_err(failure)?;
        Ok(Self { top })
    }

    pub fn top(&self) -> &OwnedFd {
        &self.top
    }

    /// Opens exactly what is at the path. A path that is too long for one call is resolved in
    /// several.
    pub fn open_at(&self, path: &TreePath, flags: OFlags) -> Result<OwnedFd, Errno> {
        let mut rest = path.as_bytes();
        if rest.is_empty() {
            return openat2(&self.top, c".", flags, Mode::empty(), BENEATH);
        }
        let mut here: Option<OwnedFd> = None;
        while rest.len() > ONE_CALL {
            let end = rest[..ONE_CALL].iter().rposition(|byte| *byte == b'/');
            let end = end.ok_or(Errno::NAMETOOLONG)?;
            let from = here.as_ref().unwrap_or(&self.top);
            here = Some(openat2(
                from,
                &rest[..end],
                PASSAGE,
                Mode::empty(),
                BENEATH,
            )?);
            rest = &rest[end + 1..];
        }
        openat2(
            here.as_ref().unwrap_or(&self.top),
            rest,
            flags,
            Mode::empty(),
            BENEATH,
        )
    }

    /// Opens a directory for reading.
    pub fn directory(&self, path: &TreePath) -> Result<OwnedFd, Failure> {
        let flags = READ.difference(OFlags::NOFOLLOW) | OFlags::DIRECTORY;
        self.open_at(path, flags).map_err(failure)
    }

    /// Opens a directory for traversal.
    pub fn passage(&self, path: &TreePath) -> Result<OwnedFd, Failure> {
        self.open_at(path, PASSAGE).map_err(failure)
    }

    /// The parent directory of the path, and its name there. The root has none.
    pub fn parent<'a>(&self, path: &'a TreePath) -> Result<(OwnedFd, &'a [u8]), Failure> {
        let (directory, name) = path.split().ok_or(Failure::IsADirectory)?;
        Ok((self.passage(&directory)?, name))
    }

    /// Metadata of the path; of a symlink, the link itself.
    pub fn stat(&self, path: &TreePath) -> Result<Entry, Failure> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = self.open_at(path, flags).map_err(failure)?;
        let stat = fstat(&opened).map_err(failure)?;
        let name = path.split().map_or(&b"."[..], |(_, name)| name);
        let mut entry = entry(name, &stat);
        if entry.kind == Kind::Link {
            entry.target = readlinkat(&opened, c"", Vec::new())
                .ok()
                .map(|target| target.into_bytes());
        }
        Ok(entry)
    }
}

/// Metadata of a name in an open directory; `None` when it is gone.
pub fn entry_at(directory: impl AsFd, name: &[u8]) -> Result<Option<Entry>, Errno> {
    let stat = match statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut entry = entry(name, &stat);
    if entry.kind == Kind::Link {
        // If it is no longer a symlink, there is no target.
        entry.target = readlinkat(&directory, name, Vec::new())
            .ok()
            .map(|target| target.into_bytes());
    }
    Ok(Some(entry))
}

pub fn entry(name: &[u8], stat: &Stat) -> Entry {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Link,
        _ => Kind::Other,
    };
    Entry {
        name: name.to_vec(),
        kind,
        size: stat.st_size.max(0).cast_unsigned(),
        mode: stat.st_mode & 0o7777,
        seconds: stat.st_mtime,
        nanoseconds: u32::try_from(stat.st_mtime_nsec).unwrap_or(0),
        target: None,
    }
}

/// Translates an errno for the caller.
pub fn failure(error: Errno) -> Failure {
    match error {
        Errno::NOENT => Failure::NotFound,
        Errno::LOOP | Errno::XDEV => Failure::Link,
        Errno::NOTDIR => Failure::NotADirectory,
        Errno::ISDIR => Failure::IsADirectory,
        // A socket, or a pipe without a reader.
        Errno::NXIO | Errno::NODEV => Failure::Special,
        Errno::ACCESS | Errno::PERM => Failure::Denied,
        // A protected file is a mount point, which is busy.
        Errno::ROFS | Errno::BUSY => Failure::ReadOnly,
        Errno::NOTEMPTY | Errno::EXIST => Failure::NotEmpty,
        Errno::NAMETOOLONG => Failure::NameTooLong,
        Errno::NOSPC | Errno::DQUOT => Failure::DiskFull,
        other => Failure::System(other.raw_os_error()),
    }
}
