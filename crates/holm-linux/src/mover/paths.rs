//! Reads a caller's request: paths from its memory, directories from its descriptors.

use crate::sys::notify::{Notification, read_text};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

const LONGEST: usize = 4095;
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// A thread that waits for its rename.
pub struct Caller<'a> {
    pub thread: i32,
    /// The host's `/proc`.
    pub processes: &'a OwnedFd,
}

/// A rename with its complete context.
pub struct Call {
    pub from: PathAt,
    pub to: PathAt,
    pub flags: u32,
}

/// A path and the directory it is relative to.
pub struct PathAt {
    pub directory: OwnedFd,
    pub path: Vec<u8>,
}

// === impl Caller ===

impl Caller<'_> {
    /// `None`: a path that means something else in this process than in the caller.
    pub fn call(&self, notification: &Notification) -> Result<Option<Call>, Errno> {
        let [a, b, c, d, e, _] = notification.arguments;
        let current = libc::AT_FDCWD as u64;
        let (from, to, flags) = match notification.number {
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rename => ((current, a), (current, b), 0),
            libc::SYS_renameat => ((a, b), (c, d), 0),
            libc::SYS_renameat2 => ((a, b), (c, d), e as u32),
            _ => return Ok(None),
        };
        let (Some(from), Some(to)) = (self.place(from)?, self.place(to)?) else {
            return Ok(None);
        };
        Ok(Some(Call { from, to, flags }))
    }

    fn place(&self, (descriptor, address): (u64, u64)) -> Result<Option<PathAt>, Errno> {
        let path = read_text(self.thread, address, LONGEST)
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::FAULT))?;
        if path.starts_with(b"/proc/") {
            return Ok(None);
        }
        let directory = match (path.first(), descriptor as i32) {
            (Some(b'/'), _) => openat(CWD, "/", DIRECTORY, Mode::empty())?,
            (_, libc::AT_FDCWD) => self.open("cwd").map_err(|_| Errno::NOENT)?,
            (_, number) => self
                .open(&format!("fd/{number}"))
                .map_err(|_| Errno::BADF)?,
        };
        Ok(Some(PathAt { directory, path }))
    }

    fn open(&self, name: &str) -> Result<OwnedFd, Errno> {
        openat(
            self.processes,
            format!("{}/{name}", self.thread),
            DIRECTORY,
            Mode::empty(),
        )
    }
}
