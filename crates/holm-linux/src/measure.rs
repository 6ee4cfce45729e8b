//! Measures the disk use of a workspace: the blocks of everything in its directory, each file once.
//!
//! It is a role of its own ([`command`]): directories that a program inside closed can be read only
//! with rights over them, which needs a user namespace, and only fresh processes may enter one. It
//! prints one line per path: the number of bytes. Called by keepers periodically, and by the driver
//! before a launch and for `top`. The driver measures the whole data directory with the same
//! [`Meter`].

use crate::programs::OWN_PROGRAM;
use crate::sub_ids;
use holm_core::sub_ids::SubIds;
use holm_keeper::complain;
use holm_keeper::directories::descriptor_path;
use holm_keeper::files::remove::BLOCK;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use std::collections::HashSet;
use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The hidden first argument of a process that measures a workspace's disk.
pub const ROLE: &str = "__measure";

pub fn main() -> ! {
    let mut arguments = std::env::args_os().skip(2);
    let ids = arguments.next().unwrap_or_default();
    let ids: Option<SubIds> = ids
        .to_str()
        .and_then(|text| serde_json::from_str(text).ok());
    let mut directories = arguments.map(PathBuf::from);
    let Some(directory) = directories.next() else {
        std::process::exit(2)
    };
    // A failure here makes the count smaller or slower, not wrong.
    let _ = rustix::process::setpriority_process(None, 19);
    crate::closed::enter_directories(ids.as_ref());
    match disk_usage(&directory) {
        Ok(bytes) => {
            println!("{bytes}");
            for part in directories {
                println!("{}", Meter::default().tree(&part).bytes);
            }
            std::process::exit(0)
        }
        Err(error) => {
            complain!("cannot measure: {error}");
            std::process::exit(1)
        }
    }
}

/// The command for this role. `directory` must exist; parts of it can be added as arguments, and
/// missing ones count nothing. `ids` are the ranges that its files may be of.
pub fn command(program: &Path, directory: &Path, ids: Option<&SubIds>) -> Command {
    let mut command = Command::new(program);
    command
        .arg(ROLE)
        .arg(serde_json::to_string(&ids).unwrap_or_default())
        .arg(directory)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    command
}

/// Parses the output for the directory.
pub fn understand(stdout: &[u8]) -> io::Result<u64> {
    let mut sizes = understand_all(stdout)?;
    if sizes.is_empty() {
        Err(silent())
    } else {
        Ok(sizes.swap_remove(0))
    }
}

/// Parses the output for the directory and its parts, in the order of the arguments.
pub fn understand_all(stdout: &[u8]) -> io::Result<Vec<u64>> {
    let text = String::from_utf8_lossy(stdout);
    let sizes = text.lines().map(|line| line.trim().parse());
    sizes.collect::<Result<_, _>>().map_err(|_| silent())
}

fn silent() -> io::Error {
    io::Error::other("the measuring process did not say")
}

/// Sums up trees; a file with several hard links counts once. Changes no mode, follows no symlink,
/// and skips what it may not read.
#[derive(Default)]
pub struct Meter {
    seen: HashSet<(u64, u64)>,
    /// Directories that could not be read.
    pub unread: u64,
    /// A process of its own measures what belongs to users of the ranges of ids.
    has_helper: bool,
}

/// The size of one tree.
#[derive(Clone, Copy, Default)]
pub struct Measured {
    pub bytes: u64,
    /// The part in files with further hard links.
    pub linked: u64,
}

/// The position of the walk: directories still to be entered, level by level. Only the current one
/// is open, so depth is no limit.
struct Level {
    /// The directory's identity when it was entered, to find the way back.
    identity: (u64, u64),
    to_enter: Vec<CString>,
}

/// The bytes of everything in a directory. Concurrent changes may be missed.
pub fn disk_usage(directory: &Path) -> io::Result<u64> {
    open(CWD, directory)?;
    Ok(Meter::default().tree(directory).bytes)
}

// === impl Meter ===

impl Meter {
    /// One that also measures what services of images made as other users.
    pub fn with_users() -> Self {
        Self {
            has_helper: true,
            ..Self::default()
        }
    }

    /// A directory that this process may not read.
    fn closed(&mut self, path: &Path, measured: &mut Measured) {
        let ids = self.has_helper.then(sub_ids::find).and_then(Result::ok);
        let bytes = ids.and_then(|ids| {
            let output = command(Path::new(OWN_PROGRAM), path, Some(&ids)).output();
            understand(&output.ok()?.stdout).ok()
        });
        match bytes {
            Some(bytes) => measured.bytes += bytes,
            None => self.unread += 1,
        }
    }

    /// The size of a path, with everything below it on the same file system.
    pub fn tree(&mut self, path: &Path) -> Measured {
        let mut measured = Measured::default();
        let Ok(top) = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) else {
            return measured;
        };
        self.add(&top, &mut measured);
        if !is_directory(&top) {
            return measured;
        }
        let Ok(mut here) = open(CWD, path) else {
            self.closed(path, &mut measured);
            return measured;
        };
        let mut levels = vec![Level {
            identity: (top.st_dev, top.st_ino),
            to_enter: self.directory(&here, top.st_dev, &mut measured),
        }];
        while let Some(level) = levels.last_mut() {
            let Some(name) = level.to_enter.pop() else {
                levels.pop();
                let Some(above) = levels.last() else { break };
                // The directory was moved during the walk: the rest is skipped.
                let Some(back) = parent(&here, above.identity) else {
                    self.unread += 1;
                    break;
                };
                here = back;
                continue;
            };
            let opened = open(here.as_fd(), name.as_c_str());
            let Ok((stat, child)) = opened.and_then(|child| Ok((fstat(&child)?, child))) else {
                match std::fs::read_link(descriptor_path(&here)) {
                    Ok(above) => {
                        let name = OsStr::from_bytes(name.as_bytes());
                        self.closed(&above.join(name), &mut measured);
                    }
                    Err(_) => self.unread += 1,
                }
                continue;
            };
            if stat.st_dev == top.st_dev {
                levels.push(Level {
                    identity: (stat.st_dev, stat.st_ino),
                    to_enter: self.directory(&child, top.st_dev, &mut measured),
                });
                here = child;
            }
        }
        measured
    }

    /// Adds the entries of a directory; returns its subdirectories.
    fn directory(
        &mut self,
        directory: &OwnedFd,
        device: u64,
        measured: &mut Measured,
    ) -> Vec<CString> {
        let mut inner = Vec::new();
        let Ok(entries) = Dir::read_from(directory) else {
            self.unread += 1;
            return inner;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            // A file that is gone meanwhile counts nothing.
            let Ok(stat) = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            if stat.st_dev != device {
                continue;
            }
            self.add(&stat, measured);
            if is_directory(&stat) {
                inner.push(name.to_owned());
            }
        }
        inner
    }

    fn add(&mut self, stat: &Stat, measured: &mut Measured) {
        let bytes = stat.st_blocks.cast_unsigned() * BLOCK;
        if stat.st_nlink > 1 && !is_directory(stat) {
            if !self.seen.insert((stat.st_dev, stat.st_ino)) {
                return;
            }
            measured.linked += bytes;
        }
        measured.bytes += bytes;
    }
}

fn is_directory(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

/// The parent, if it is still the one that the walk came from.
fn parent(directory: &OwnedFd, identity: (u64, u64)) -> Option<OwnedFd> {
    let above = open(directory.as_fd(), c"..").ok()?;
    let stat = fstat(&above).ok()?;
    ((stat.st_dev, stat.st_ino) == identity).then_some(above)
}

fn open(parent: impl AsFd, name: impl rustix::path::Arg) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(parent, name, flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    const MIB: u64 = 1 << 20;

    #[test]
    fn every_file_counts_once_with_the_blocks_it_has() {
        let place = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("large"), vec![1; 4 << 20]).unwrap();
        let at = |name: &str| place.path().join(name);
        let empty = disk_usage(place.path()).unwrap();
        fs::create_dir(at("below")).unwrap();
        fs::write(at("below/file"), vec![1; 1 << 20]).unwrap();
        fs::hard_link(at("below/file"), at("again")).unwrap();
        symlink(outside.path(), at("link")).unwrap();
        fs::File::create(at("sparse"))
            .unwrap()
            .set_len(1 << 30)
            .unwrap();
        let full = disk_usage(place.path()).unwrap();
        assert!(full >= empty + MIB, "{full}");
        assert!(full < empty + 2 * MIB, "{full}");
    }

    #[test]
    fn no_depth_is_too_deep() {
        let place = tempfile::tempdir().unwrap();
        let name = "d".repeat(200);
        let mut here = open(CWD, place.path()).unwrap();
        for _ in 0..3000 {
            rustix::fs::mkdirat(&here, name.as_str(), Mode::RWXU).unwrap();
            here = open(&here, name.as_str()).unwrap();
        }
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = openat(&here, "file", flags, Mode::RUSR | Mode::WUSR).unwrap();
        rustix::io::write(&file, &vec![1; 1 << 20]).unwrap();
        rustix::io::write(&file, &vec![1; 1 << 20]).unwrap();
        assert!(disk_usage(place.path()).unwrap() >= 2 * MIB);
        holm_keeper::files::remove::remove_tree(place.path()).unwrap();
        fs::create_dir(place.path()).unwrap();
    }

    #[test]
    fn links_count_once_and_holes_not_at_all() {
        let place = tempfile::tempdir().unwrap();
        let (one, two) = (place.path().join("one"), place.path().join("two"));
        fs::create_dir(&one).unwrap();
        fs::create_dir(&two).unwrap();
        fs::write(one.join("file"), vec![1; 1 << 20]).unwrap();
        fs::File::open(one.join("file"))
            .unwrap()
            .sync_all()
            .unwrap();
        fs::hard_link(one.join("file"), two.join("file")).unwrap();
        fs::File::create(two.join("hole"))
            .unwrap()
            .set_len(1 << 40)
            .unwrap();
        symlink("/usr", two.join("out")).unwrap();
        let mut meter = Meter::default();
        let first = meter.tree(&one);
        assert!(first.bytes >= 1 << 20 && first.linked >= 1 << 20);
        assert!(meter.tree(&two).bytes < 1 << 20);
        assert!(Meter::default().tree(&two).bytes >= 1 << 20);
    }

    #[test]
    fn closed_directories_are_passed_by_and_stay_closed() {
        let place = tempfile::tempdir().unwrap();
        let closed = place.path().join("closed");
        fs::create_dir(&closed).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
        let mut meter = Meter::default();
        meter.tree(place.path());
        let mode = fs::metadata(&closed).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0);
        if !rustix::process::geteuid().is_root() {
            assert_eq!(meter.unread, 1);
        }
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    }
}
