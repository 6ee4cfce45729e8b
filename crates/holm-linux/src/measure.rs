//! How much disk a workspace takes: the blocks of everything in its directory, each file once.
//!
//! A role of its own ([`command`]), because directories that somebody inside closed can be read only
//! by who has rights over them, which takes a user namespace, and those are for fresh processes. One
//! line on stdout: the number of bytes. Called by keepers now and then, and by the driver before a
//! launch.

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};

/// The role.
pub fn main() -> ! {
    let Some(directory) = std::env::args_os().nth(2) else {
        std::process::exit(2)
    };
    // Whatever of this does not work makes the count smaller or slower, not wrong.
    let _ = crate::sys::process::die_with_parent();
    let _ = rustix::process::setpriority_process(None, 19);
    let user = (
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    if crate::sys::process::own_user_namespace().is_ok() {
        let _ = crate::launch::map_user(user);
        // Gaining rights has cleared it.
        let _ = crate::sys::process::die_with_parent();
    }
    match disk_usage(Path::new(&directory)) {
        Ok(bytes) => {
            println!("{bytes}");
            std::process::exit(0)
        }
        Err(error) => {
            eprintln!("cannot measure: {error}");
            std::process::exit(1)
        }
    }
}

/// How this role is started.
pub fn command(program: &Path, directory: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .arg(crate::roles::MEASURE)
        .arg(directory)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    command
}

/// What the role said.
pub fn understand(stdout: &[u8]) -> io::Result<u64> {
    let text = String::from_utf8_lossy(stdout);
    text.trim()
        .parse()
        .map_err(|_| io::Error::other("the measuring process did not say"))
}

/// Where the walk is: directories that are still to be entered, level by level. Only the one that is
/// being read is open, so that no depth is too deep.
struct Level {
    /// What the directory was when it was entered, to find the way back.
    identity: (u64, u64),
    to_enter: Vec<CString>,
}

/// The bytes of everything in a directory. What changes meanwhile may be missed.
pub fn disk_usage(directory: &Path) -> io::Result<u64> {
    let mut here = open(CWD, directory)?;
    let top = fstat(&here)?;
    let mut count = Count {
        device: top.st_dev,
        seen: HashSet::new(),
        blocks: top.st_blocks as u64,
    };
    let mut levels = vec![Level {
        identity: (top.st_dev, top.st_ino),
        to_enter: count.read(&here)?,
    }];
    while let Some(level) = levels.last_mut() {
        if let Some(name) = level.to_enter.pop() {
            // It may be gone, or be something else by now.
            if let Ok(child) = open(here.as_fd(), name.as_c_str()) {
                let status = fstat(&child)?;
                if status.st_dev == count.device {
                    let to_enter = count.read(&child)?;
                    levels.push(Level {
                        identity: (status.st_dev, status.st_ino),
                        to_enter,
                    });
                    here = child;
                }
            }
            continue;
        }
        levels.pop();
        let Some(above) = levels.last() else { break };
        here = open(here.as_fd(), c"..")?;
        let status = fstat(&here)?;
        if (status.st_dev, status.st_ino) != above.identity {
            // Moved away under the walk. The next one starts from the top.
            break;
        }
    }
    Ok(count.blocks * 512)
}

struct Count {
    device: u64,
    /// Files with several names.
    seen: HashSet<u64>,
    blocks: u64,
}

// === impl Count ===

impl Count {
    /// Counts everything in one directory and returns the directories in it.
    fn read(&mut self, directory: &OwnedFd) -> io::Result<Vec<CString>> {
        let mut directories = Vec::new();
        for entry in Dir::read_from(directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let status = match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(status) => status,
                Err(Errno::NOENT) => continue,
                Err(error) => return Err(error.into()),
            };
            self.add(name, &status, &mut directories);
        }
        Ok(directories)
    }

    fn add(&mut self, name: &CStr, status: &Stat, directories: &mut Vec<CString>) {
        let is_directory = FileType::from_raw_mode(status.st_mode) == FileType::Directory;
        if is_directory {
            directories.push(name.to_owned());
        } else if status.st_nlink > 1 && !self.seen.insert(status.st_ino) {
            return;
        }
        self.blocks += status.st_blocks as u64;
    }
}

fn open(parent: impl AsFd, name: impl rustix::path::Arg) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(parent, name, flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

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
        crate::driver::remove_tree(place.path()).unwrap();
        fs::create_dir(place.path()).unwrap();
    }
}
