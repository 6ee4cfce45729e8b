//! A directory as a tar archive, and back. Coming in, the rules are those of
//! [`super::unpack`], whatever is in the archive and whatever changes in the tree meanwhile.

use super::root::{READ, Root, failure};
use super::unpack::{GitDirectory, unpack_at};
use super::walk::{Go, WalkItem, walk};
use holm_core::TreePath;
use holm_core::files::{Entry, Failure, Kind, MOST_ARCHIVE};
use rustix::fs::{Access, AtFlags, FileType, Mode, accessat, fstat, openat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// How many names are reported.
const MOST_NAMED: usize = 10;

/// The longest symlink target that fits into a header.
const LONGEST_LINK: usize = 100;

/// Unpacks an archive into an existing directory.
pub fn unpack(root: &Root, path: &TreePath, archive: impl Read) -> Result<(), Failure> {
    let top = root.passage(path)?;
    unpack_at(archive, &top, GitDirectory::Take).map_err(|error| match error.raw_os_error() {
        Some(number) => failure(Errno::from_raw_os_error(number)),
        None => Failure::BadArchive(error.to_string()),
    })
}

/// Refuses, before anything is sent, a directory that could not be packed completely: files that
/// the workspace's user cannot read, or too much data.
pub fn require_readable(root: &Root, path: &TreePath) -> Result<(), Failure> {
    let (mut closed, mut left, mut failed) = (Vec::new(), MOST_ARCHIVE, None);
    let walked = walk(root, path, |seen| {
        let (directory, path, entry) = match seen {
            WalkItem::Entry(directory, path, entry) => (directory, path, entry),
            WalkItem::Closed(failure) => {
                failed = Some(failure);
                return Ok(ControlFlow::Break(()));
            }
        };
        left = left.saturating_sub(packed_size(entry));
        if is_closed(directory, entry) {
            closed.push(path.as_bytes().to_vec());
            return Ok(if closed.len() > MOST_NAMED {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(Go::Past)
            });
        }
        Ok(ControlFlow::Continue(Go::Below))
    });
    walked.map_err(|error| Failure::System(error.raw_os_error().unwrap_or(libc::EIO)))?;
    if !closed.is_empty() {
        let has_more = closed.len() > MOST_NAMED;
        closed.truncate(MOST_NAMED);
        return Err(Failure::Unreadable(closed, has_more));
    }
    match (failed, left) {
        (Some(failure), _) => Err(failure),
        (None, 0) => Err(Failure::TooLarge(MOST_ARCHIVE)),
        (None, _) => Ok(()),
    }
}

fn packed_size(entry: &Entry) -> u64 {
    match entry.kind {
        Kind::File => entry.size,
        Kind::Directory | Kind::Link | Kind::Other => 0,
    }
}

/// Whether a file cannot be read or a directory cannot be entered.
fn is_closed(directory: &OwnedFd, entry: &Entry) -> bool {
    let needed = match entry.kind {
        Kind::File => Access::READ_OK,
        Kind::Directory => Access::READ_OK | Access::EXEC_OK,
        Kind::Link | Kind::Other => return false,
    };
    let name = entry.name.as_slice();
    accessat(directory, name, needed, AtFlags::EACCESS) == Err(Errno::ACCESS)
}

/// Writes files, directories and symlinks; pipes, sockets and devices are left out. An error means
/// that the archive is incomplete.
pub fn pack(root: &Root, path: &TreePath, to: &mut impl Write) -> io::Result<()> {
    let mut builder = tar::Builder::new(to);
    let mut left = MOST_ARCHIVE;
    let above = if path.is_root() {
        0
    } else {
        path.as_bytes().len() + 1
    };
    walk(root, path, |seen| {
        let (directory, path, entry) = match seen {
            WalkItem::Entry(directory, path, entry) => (directory, path, entry),
            WalkItem::Closed(failure) => return Err(io::Error::other(failure)),
        };
        let name = Path::new(OsStr::from_bytes(&path.as_bytes()[above..]));
        append(&mut builder, directory, name, entry, &mut left)?;
        Ok(ControlFlow::Continue(Go::Below))
    })?;
    builder.finish()
}

fn append(
    builder: &mut tar::Builder<&mut impl Write>,
    directory: &OwnedFd,
    name: &Path,
    entry: &Entry,
    left: &mut u64,
) -> io::Result<()> {
    match (entry.kind, &entry.target) {
        (Kind::Directory, _) => {
            let mut header = header(builder, entry)?;
            header.set_entry_type(tar::EntryType::Directory);
            builder.append_data(&mut header, name, io::empty())
        }
        (Kind::Link, Some(target)) => {
            let mut header = header(builder, entry)?;
            header.set_entry_type(tar::EntryType::Symlink);
            if target.len() <= LONGEST_LINK {
                // Exactly the target; the library's other method would normalise it.
                header.set_link_name_literal(target)?;
            }
            builder.append_data(&mut header, name, io::empty())
        }
        (Kind::File, _) => {
            // Opens exactly what was listed: no symlink and no pipe in its place.
            let file = match openat(directory, entry.name.as_slice(), READ, Mode::empty()) {
                Ok(file) => File::from(file),
                Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            let stat = fstat(&file)?;
            if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
                return Ok(());
            }
            let size = stat.st_size.max(0).cast_unsigned();
            *left = left.checked_sub(size).ok_or_else(|| {
                io::Error::other(format!("more than {MOST_ARCHIVE} bytes, or a sparse file"))
            })?;
            let mut header = header(builder, entry)?;
            header.set_entry_type(tar::EntryType::Regular);
            header.set_size(size);
            // A file that grows or shrinks meanwhile (a log) must not break the archive.
            let content = file.take(size).chain(io::repeat(0)).take(size);
            builder.append_data(&mut header, name, content)
        }
        (Kind::Link | Kind::Other, _) => Ok(()),
    }
}

/// The header, preceded by extended records for the exact time and a long symlink target.
fn header(builder: &mut tar::Builder<&mut impl Write>, entry: &Entry) -> io::Result<tar::Header> {
    let (seconds, nanoseconds) = (entry.seconds.max(0), entry.nanoseconds);
    let time = format!("{seconds}.{nanoseconds:09}");
    let long = entry.target.as_deref();
    let long = long.filter(|target| target.len() > LONGEST_LINK);
    let extensions = [("mtime", time.as_bytes())].into_iter();
    builder.append_pax_extensions(extensions.chain(long.map(|target| ("linkpath", target))))?;
    let mut header = tar::Header::new_gnu();
    header.set_mode(entry.mode & 0o777);
    header.set_mtime(seconds.cast_unsigned());
    header.set_size(0);
    header.set_uid(0);
    header.set_gid(0);
    Ok(header)
}
