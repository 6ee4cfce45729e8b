//! Reads a range of a file, and replaces a file atomically.

use super::root::{READ, Root, entry, failure};
use super::unpack;
use holm_core::TreePath;
use holm_core::files::{Entry, Failure, Head, MOST_READ, Parents, Range, Write};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, fchmod, fstat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The mode of a new file.
const ORDINARY: u32 = 0o644;

/// How often to try another temporary name.
const MOST_TRIES: u32 = 100;

/// A part of a file, ready to be read.
#[derive(Debug)]
pub struct Opened {
    file: File,
    length: u64,
    size: u64,
}

// === impl Opened ===

impl Opened {
    pub fn head(&self) -> Head {
        let (length, size) = (self.length, self.size);
        Head::Content { length, size }
    }

    /// Copies exactly what the head announced, or fails.
    pub fn copy(self, to: &mut impl io::Write) -> io::Result<()> {
        let copied = io::copy(&mut self.file.take(self.length), to)?;
        if copied != self.length {
            return Err(io::Error::other(
                "the file became shorter while it was read",
            ));
        }
        Ok(())
    }
}

// === impl Root ===

impl Root {
    pub fn read(&self, path: &TreePath, range: Range) -> Result<Opened, Failure> {
        let file = self.open_at(path, READ).map_err(failure)?;
        let stat = fstat(&file).map_err(failure)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {}
            FileType::Directory => return Err(Failure::IsADirectory),
            _ => return Err(Failure::Special),
        }
        let size = stat.st_size.max(0).cast_unsigned();
        let rest = size.saturating_sub(range.offset);
        let length = range.length.unwrap_or(rest).min(rest);
        if length > MOST_READ {
            return Err(Failure::TooLarge(MOST_READ));
        }
        let mut file = File::from(file);
        // After the end of the file there is nothing.
        let start = range.offset.min(size);
        file.seek(SeekFrom::Start(start)).map_err(of_io)?;
        Ok(Opened { file, length, size })
    }

    /// A concurrent reader gets the old content or the new, never a part. A symlink at the path is
    /// not written through; one that appears at the last moment is replaced.
    pub fn write(
        &self,
        path: &TreePath,
        write: Write,
        content: &mut impl Read,
    ) -> Result<Entry, Failure> {
        let (parent, name) = match write.parents {
            Parents::Require => self.parent(path)?,
            Parents::Make => {
                let (directory, name) = path.split().ok_or(Failure::IsADirectory)?;
                let directory = Path::new(OsStr::from_bytes(directory.as_bytes()));
                let made = unpack::directory(self.top(), directory).map_err(of_io)?;
                (made, name)
            }
        };
        let mode = match statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => stat.st_mode & 0o777,
                FileType::Directory => return Err(Failure::IsADirectory),
                FileType::Symlink => return Err(Failure::Link),
                _ => return Err(Failure::Special),
            },
            Err(Errno::NOENT) => ORDINARY,
            Err(error) => return Err(failure(error)),
        };
        let mode = Mode::from_raw_mode(write.mode.map_or(mode, |given| given & 0o777));
        let (fresh, mut file) = new_file(&parent).map_err(failure)?;
        let written = fill(&mut file, content, write.length, mode)
            .and_then(|()| renameat(&parent, &fresh, &parent, name).map_err(failure))
            .and_then(|()| fstat(&file).map_err(failure));
        if written.is_err() {
            // The first error is reported; this one would only hide it.
            let _ = unlinkat(&parent, &fresh, AtFlags::empty());
        }
        Ok(entry(name, &written?))
    }
}

/// Creates a temporary file. Its name does not depend on the real one, which may have the maximum
/// length.
fn new_file(parent: &OwnedFd) -> Result<(String, File), Errno> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for number in 0..MOST_TRIES {
        let name = format!(".holm-write-{}-{number}", std::process::id());
        match openat(parent, &name, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => return Ok((name, File::from(file))),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Errno::EXIST)
}

fn fill(file: &mut File, content: &mut impl Read, length: u64, mode: Mode) -> Result<(), Failure> {
    let copied = io::copy(&mut content.take(length), file).map_err(of_io)?;
    if copied != length {
        let message = format!("{copied} of {length} bytes came");
        return Err(Failure::BadRequest(message));
    }
    // Separately, because the umask would apply at creation.
    fchmod(&*file, mode).map_err(failure)
}

fn of_io(error: io::Error) -> Failure {
    match error.raw_os_error() {
        Some(number) => failure(Errno::from_raw_os_error(number)),
        None => Failure::BadRequest(error.to_string()),
    }
}
