//! Copies an entry with everything below it: contents, modes, times, attributes and hard links.

use holm_keeper::files::READ;
use holm_keeper::files::remove::is_mount;
use rustix::fs::{
    AtFlags, Dir, FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, Uid, XattrFlags,
    chownat, fchmod, fchown, fgetxattr, flistxattr, fsetxattr, fstat, futimens, linkat, mkdirat,
    mknodat, openat, readlinkat, statat, symlinkat, utimensat,
};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// overlayfs's own attributes; in a copy they would mean something else.
const OVERLAY_ATTRIBUTES: &[u8] = b"user.overlay.";

/// The kind of source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Files that no process changes, without what is mounted below.
    Still,
    /// Files that may be removed meanwhile; those are skipped.
    Living,
    /// An upper layer, with overlayfs's attributes.
    Layer,
}

/// Copies `name` of one directory as `copy` of another. Calls back for each file; an error from it
/// ends the copy and leaves the partial result.
pub fn copy_entry(
    (from, name): (BorrowedFd<'_>, &[u8]),
    (to, copy): (BorrowedFd<'_>, &[u8]),
    source: Source,
    tell: &mut dyn FnMut() -> Result<(), Errno>,
) -> Result<(), Errno> {
    let item = Item {
        from,
        name,
        to,
        copy,
        place: copy,
    };
    let mut copier = Copier {
        top: to,
        shared: HashMap::new(),
        device: None,
        source,
        tell,
    };
    copier.entry(&item)
}

/// One entry to copy.
struct Item<'a> {
    from: BorrowedFd<'a>,
    name: &'a [u8],
    to: BorrowedFd<'a>,
    copy: &'a [u8],
    /// The copy's path from the top.
    place: &'a [u8],
}

struct Copier<'a> {
    top: BorrowedFd<'a>,
    /// Files with several hard links: the path of the first copy, from the top.
    shared: HashMap<(u64, u64), Vec<u8>>,
    /// Of the first directory.
    device: Option<u64>,
    source: Source,
    tell: &'a mut dyn FnMut() -> Result<(), Errno>,
}

// === impl Copier ===

impl Copier<'_> {
    fn entry(&mut self, item: &Item<'_>) -> Result<(), Errno> {
        (self.tell)()?;
        let stat = match statat(item.from, item.name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) if self.source == Source::Living => return Ok(()),
            stat => stat?,
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => self.directory(item, &stat),
            FileType::RegularFile => self.file(item, &stat),
            FileType::Symlink => {
                let target = readlinkat(item.from, item.name, Vec::new())?;
                symlinkat(target, item.to, item.copy)?;
                own_entry(item, &stat);
                utimensat(item.to, item.copy, &times(&stat), AtFlags::SYMLINK_NOFOLLOW)
            }
            kind @ (FileType::Fifo | FileType::Socket) => {
                let mode = Mode::from_raw_mode(stat.st_mode);
                mknodat(item.to, item.copy, kind, mode, 0)?;
                own_entry(item, &stat);
                Ok(())
            }
            // A whiteout.
            FileType::CharacterDevice if self.source == Source::Layer && stat.st_rdev == 0 => {
                let mode = Mode::from_raw_mode(stat.st_mode);
                mknodat(item.to, item.copy, FileType::CharacterDevice, mode, 0)
            }
            _ => Err(Errno::XDEV),
        }
    }

    fn directory(&mut self, item: &Item<'_>, stat: &Stat) -> Result<(), Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let source = openat(item.from, item.name, flags, Mode::empty())?;
        // Directories of one mount have one device, even where overlayfs reports another for files.
        let device = *self.device.get_or_insert(stat.st_dev);
        if self.source == Source::Still && (device != stat.st_dev || is_mount(&source)?) {
            return Err(Errno::BUSY);
        }
        mkdirat(item.to, item.copy, Mode::RWXU)?;
        let target = openat(item.to, item.copy, flags, Mode::empty())?;
        for found in Dir::read_from(&source)? {
            let found = found?;
            let child = found.file_name().to_bytes();
            if matches!(child, b"." | b"..") {
                continue;
            }
            self.entry(&Item {
                from: source.as_fd(),
                name: child,
                to: target.as_fd(),
                copy: child,
                place: &[item.place, b"/", child].concat(),
            })?;
        }
        finish(&source, &target, stat, self.source)
    }

    fn file(&mut self, item: &Item<'_>, stat: &Stat) -> Result<(), Errno> {
        let identity = (stat.st_dev, stat.st_ino);
        if stat.st_nlink > 1
            && let Some(first) = self.shared.get(&identity)
        {
            return linkat(
                self.top,
                first.as_slice(),
                item.to,
                item.copy,
                AtFlags::empty(),
            );
        }
        let write = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        // Neither a lease nor a pipe in place of the file blocks this process.
        let mut source = File::from(openat(item.from, item.name, READ, Mode::empty())?);
        if FileType::from_raw_mode(fstat(&source)?.st_mode) != FileType::RegularFile {
            return Err(Errno::BUSY);
        }
        let mode = Mode::RUSR | Mode::WUSR;
        let mut target = File::from(openat(item.to, item.copy, write, mode)?);
        // Uses reflinks where the file system has them.
        io::copy(&mut source, &mut target)
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        finish(
            &OwnedFd::from(source),
            &OwnedFd::from(target),
            stat,
            self.source,
        )?;
        if stat.st_nlink > 1 {
            self.shared.insert(identity, item.place.to_vec());
        }
        Ok(())
    }
}

/// Attributes, then mode, then times, because each would change the later ones.
fn finish(source: &OwnedFd, target: &OwnedFd, stat: &Stat, kind: Source) -> Result<(), Errno> {
    let mut names = Vec::new();
    match flistxattr(
        source,
        rustix::buffer::spare_capacity(sized(&mut names, 64 * 1024)),
    ) {
        Ok(_) => {}
        Err(Errno::NOTSUP) => {}
        Err(error) => return Err(error),
    }
    for name in names.split(|byte| *byte == 0) {
        let is_kept = kind == Source::Layer || !name.starts_with(OVERLAY_ATTRIBUTES);
        if !name.starts_with(b"user.") || !is_kept {
            continue;
        }
        let mut value = Vec::new();
        fgetxattr(
            source,
            name,
            rustix::buffer::spare_capacity(sized(&mut value, 64 * 1024)),
        )?;
        fsetxattr(target, name, &value, XattrFlags::empty())?;
    }
    if let Some((user, group)) = other_owner(stat) {
        // Only a process with rights over other users' files makes some.
        let _ = fchown(target, user, group);
    }
    fchmod(target, Mode::from_raw_mode(stat.st_mode & 0o7777))?;
    futimens(target, &times(stat))
}

/// The same for an entry that is never opened.
fn own_entry(item: &Item<'_>, stat: &Stat) {
    if let Some((user, group)) = other_owner(stat) {
        // As in `finish`.
        let _ = chownat(item.to, item.copy, user, group, AtFlags::SYMLINK_NOFOLLOW);
    }
}

/// The owner of a file that is not this process's user.
fn other_owner(stat: &Stat) -> Option<(Option<Uid>, Option<Gid>)> {
    let (user, group) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
    let is_own = user == geteuid() && group == getegid();
    (!is_own).then_some((Some(user), Some(group)))
}

/// An empty buffer with this capacity.
fn sized(buffer: &mut Vec<u8>, room: usize) -> &mut Vec<u8> {
    buffer.reserve(room);
    buffer
}

fn times(stat: &Stat) -> Timestamps {
    let time = |seconds: i64, nanoseconds: u64| Timespec {
        tv_sec: seconds,
        tv_nsec: nanoseconds as i64,
    };
    Timestamps {
        last_access: time(stat.st_atime, stat.st_atime_nsec),
        last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
    }
}
