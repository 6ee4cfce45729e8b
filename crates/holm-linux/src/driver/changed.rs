//! Lists what a workspace's writable layer has, from outside, and computes the git ids of its files. The
//! server compares both with what git inside recorded: a program inside can lie to git, but not to this.
//!
//! Programs inside write these files while they are read. Every step is relative to a descriptor and follows
//! no symlink; a file is opened without blocking, and only a regular file is read.

use super::upper;
use holm_core::ignore::Rules;
use holm_engine::driver::{Blob, LayerChanges, Stamp};
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fgetxattr, fstat, openat,
    openat2, readlinkat, statat,
};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use sha1::Sha1;
use sha2::{Digest, Sha256};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

/// A layer with more entries is not listed.
const MOST_ENTRIES: usize = 300_000;
/// Directories in each other, all open at once.
const DEEPEST: usize = 200;
/// Larger files are not read, and no more than this in all.
const LARGEST_FILE: u64 = 64 << 20;
const MOST_READ: u64 = 512 << 20;

/// The kernel stamps files with the time of its last tick, which can be this much before the time of the clock.
pub const TICK: Duration = Duration::from_millis(20);

/// overlayfs's mark of a directory that hides the one below it.
const OPAQUE: &str = "user.overlay.opaque";

pub const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Files of `.git` that decide what git considers tracked or ignored.
const GIT_FILES: [&str; 3] = [".git/index", ".git/info/exclude", ".git/config"];

struct Walk<'a> {
    base: Option<&'a OwnedFd>,
    rules: Rules,
    found: LayerChanges,
    digest: Sha256,
    left: usize,
    /// What changed later has no stamp.
    settled: Duration,
}

/// A directory of the walk, with the names of those below that are still to be entered.
struct Level {
    directory: OwnedFd,
    path: Vec<u8>,
    to_enter: Vec<CString>,
}

/// Lists the layer. `excluded` are the paths that holm itself excluded from git when it made the workspace.
/// `None`: it has too many entries. Blocks.
pub fn list(upper: &Path, base: &Path, excluded: &[String]) -> io::Result<Option<LayerChanges>> {
    let top = openat(CWD, upper, DIRECTORY, Mode::empty())?;
    // A project without a commit has an empty base.
    let base = openat(CWD, base, DIRECTORY, Mode::empty()).ok();
    let mut walk = Walk {
        base: base.as_ref(),
        rules: Rules::default(),
        found: LayerChanges::default(),
        digest: Sha256::new(),
        left: most_entries(),
        settled: upper::time(clock_gettime(ClockId::Realtime)).saturating_sub(TICK),
    };
    for path in excluded {
        walk.rules.add(b"", format!("/{path}").as_bytes());
    }
    for name in GIT_FILES {
        if let Some(stat) = stat_beneath(&top, name.as_bytes()) {
            walk.add(name.as_bytes(), &stat);
        }
    }
    if !walk.tree(top)? {
        return Ok(None);
    }
    walk.found.digest = walk.digest.finalize().into();
    Ok(Some(walk.found))
}

/// Tests use a lower limit (`HOLM_TEST_MOST_ENTRIES=100`).
fn most_entries() -> usize {
    let asked = std::env::var("HOLM_TEST_MOST_ENTRIES").ok();
    let asked = asked.filter(|_| cfg!(debug_assertions));
    asked
        .and_then(|number| number.parse().ok())
        .unwrap_or(MOST_ENTRIES)
}

// === impl Walk ===

impl Walk<'_> {
    /// False: there are too many entries.
    fn tree(&mut self, top: OwnedFd) -> io::Result<bool> {
        let Some(level) = self.level(top, Vec::new())? else {
            return Ok(false);
        };
        let mut levels = vec![level];
        while let Some(level) = levels.last_mut() {
            let Some(name) = level.to_enter.pop() else {
                levels.pop();
                continue;
            };
            let path = joined(&level.path, &name);
            let below = openat(&level.directory, name.as_c_str(), DIRECTORY, Mode::empty());
            let below = match below {
                Ok(below) if levels.len() < DEEPEST => below,
                Ok(_) | Err(_) => {
                    self.found.unread.push(path);
                    continue;
                }
            };
            match self.level(below, path)? {
                Some(level) => levels.push(level),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Adds the entries of a directory; `None`: there are too many.
    fn level(&mut self, directory: OwnedFd, path: Vec<u8>) -> io::Result<Option<Level>> {
        let mut level = Level {
            directory,
            path,
            to_enter: Vec::new(),
        };
        let is_in_base = self.base_entry(&level.path) == Some(FileType::Directory);
        if !level.path.is_empty() {
            if !is_in_base && statat(&level.directory, ".git", AtFlags::SYMLINK_NOFOLLOW).is_ok() {
                self.found.nested.push(level.path.clone());
                return Ok(Some(level));
            }
            let mut value = [0; 1];
            let is_opaque = fgetxattr(&level.directory, OPAQUE, &mut value[..]).is_ok();
            let replaces = self
                .base_entry(&level.path)
                .is_some_and(|kind| kind != FileType::Directory);
            if (is_in_base && is_opaque) || replaces {
                self.found.gone.push(level.path.clone());
            }
        }
        if is_in_base {
            self.read_rules(&level.path);
        }
        let mut names = Vec::new();
        for entry in Dir::read_from(&level.directory)? {
            let entry = entry?;
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                names.push(entry.file_name().to_owned());
            }
        }
        names.sort();
        for name in names {
            let Some(left) = self.left.checked_sub(1) else {
                return Ok(None);
            };
            self.left = left;
            self.entry(&mut level, name);
        }
        Ok(Some(level))
    }

    fn entry(&mut self, level: &mut Level, name: CString) {
        if name.as_bytes() == b".git" {
            return;
        }
        let path = joined(&level.path, &name);
        let Ok(stat) = statat(&level.directory, name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW) else {
            // It was removed meanwhile; the directory has changed, which the next look shows.
            return;
        };
        let is_directory = kind(&stat) == FileType::Directory;
        // Tracked files of the base count, whatever is ignored around them.
        if self.rules.cover(&path, is_directory) && self.base_entry(&path).is_none() {
            return;
        }
        match kind(&stat) {
            FileType::Directory => level.to_enter.push(name),
            FileType::RegularFile | FileType::Symlink => {
                self.found.files.push(path.clone());
                self.found.stamps.push(self.stamp(&stat));
            }
            // overlayfs's mark of something that was deleted.
            FileType::CharacterDevice if stat.st_rdev == 0 => self.found.gone.push(path.clone()),
            _ => self.found.unread.push(path.clone()),
        }
        self.add(&path, &stat);
    }

    fn stamp(&self, stat: &Stat) -> Option<Stamp> {
        (upper::ctime(stat) < self.settled).then_some(Stamp {
            inode: stat.st_ino,
            size: stat.st_size.cast_unsigned(),
            mode: stat.st_mode,
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        })
    }

    fn add(&mut self, path: &[u8], stat: &Stat) {
        self.digest.update((path.len() as u64).to_le_bytes());
        self.digest.update(path);
        // The times of a directory change with what is ignored in it.
        let is_directory = kind(stat) == FileType::Directory;
        let times = if is_directory {
            [0; 3]
        } else {
            [
                stat.st_size.cast_unsigned(),
                stat.st_ctime.cast_unsigned(),
                stat.st_ctime_nsec,
            ]
        };
        for number in [u64::from(stat.st_mode), stat.st_ino, stat.st_rdev] {
            self.digest.update(number.to_le_bytes());
        }
        for number in times {
            self.digest.update(number.to_le_bytes());
        }
    }

    /// The kind of an entry of the base.
    fn base_entry(&self, path: &[u8]) -> Option<FileType> {
        let base = self.base?;
        if path.is_empty() {
            return Some(FileType::Directory);
        }
        stat_beneath(base, path).map(|stat| kind(&stat))
    }

    /// Adds the rules that the base has in a directory.
    fn read_rules(&mut self, directory: &[u8]) {
        let Some(base) = self.base else { return };
        let path = joined(directory, c".gitignore");
        let Ok(file) = open_beneath(base, &path) else {
            return;
        };
        let mut text = Vec::new();
        let mut file = File::from(file).take(1 << 20);
        // Rules that cannot be read ignore nothing, so more is listed.
        if file.read_to_end(&mut text).is_ok() {
            self.rules.add(directory, &text);
        }
    }
}

/// The git ids of files of the layer, in order. Blocks.
pub fn blobs(upper: &Path, object_format: &str, paths: &[Vec<u8>]) -> io::Result<Vec<Blob>> {
    let top = openat(CWD, upper, DIRECTORY, Mode::empty())?;
    let mut left = MOST_READ;
    let found = paths.iter().map(|path| {
        let is_sha256 = object_format == "sha256";
        blob(&top, path, is_sha256, &mut left).unwrap_or(Blob::Unread)
    });
    Ok(found.collect())
}

fn blob(top: &OwnedFd, path: &[u8], is_sha256: bool, left: &mut u64) -> io::Result<Blob> {
    let Some(stat) = stat_beneath(top, path) else {
        return Ok(Blob::Absent);
    };
    let (content, mode) = match kind(&stat) {
        FileType::Symlink => {
            let (parent, name) = match path.iter().rposition(|byte| *byte == b'/') {
                Some(place) => (&path[..place], &path[place + 1..]),
                None => (&b"."[..], path),
            };
            let flags = DIRECTORY | OFlags::PATH;
            let parent = openat2(top, parent, flags, Mode::empty(), beneath())?;
            (
                readlinkat(parent, name, Vec::new())?.into_bytes(),
                0o120_000,
            )
        }
        FileType::RegularFile => {
            let size = stat.st_size.cast_unsigned();
            if size > LARGEST_FILE || size > *left {
                return Ok(Blob::TooLarge);
            }
            let file = File::from(open_beneath(top, path)?);
            if kind(&fstat(&file)?) != FileType::RegularFile {
                return Ok(Blob::Unread);
            }
            let mut content = Vec::new();
            file.take(LARGEST_FILE + 1).read_to_end(&mut content)?;
            let is_executable = stat.st_mode & 0o100 != 0;
            (content, if is_executable { 0o100_755 } else { 0o100_644 })
        }
        _ => return Ok(Blob::Unread),
    };
    *left = left.saturating_sub(content.len() as u64);
    let lines = content.windows(2).any(|pair| pair == b"\r\n").then(|| {
        // What `text` attributes make of line ends.
        let mut lines = Vec::with_capacity(content.len());
        for (place, byte) in content.iter().enumerate() {
            if *byte != b'\r' || content.get(place + 1) != Some(&b'\n') {
                lines.push(*byte);
            }
        }
        object_id(&lines, is_sha256)
    });
    Ok(Blob::Is {
        id: object_id(&content, is_sha256),
        with_plain_lines: lines,
        mode,
    })
}

fn object_id(content: &[u8], is_sha256: bool) -> String {
    let head = format!("blob {}\0", content.len());
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    if is_sha256 {
        hex(&Sha256::new()
            .chain_update(head)
            .chain_update(content)
            .finalize())
    } else {
        hex(&Sha1::new()
            .chain_update(head)
            .chain_update(content)
            .finalize())
    }
}

fn beneath() -> ResolveFlags {
    ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV
}

/// Opens a file for reading without waiting for a writer of a pipe.
fn open_beneath(top: impl AsFd, path: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat2(top, path, flags, Mode::empty(), beneath())
}

fn stat_beneath(top: impl AsFd, path: &[u8]) -> Option<Stat> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = openat2(top, path, flags, Mode::empty(), beneath()).ok()?;
    fstat(found).ok()
}

fn joined(path: &[u8], name: &CStr) -> Vec<u8> {
    if path.is_empty() {
        return name.to_bytes().to_vec();
    }
    [path, b"/", name.to_bytes()].concat()
}

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn text(paths: &[Vec<u8>]) -> Vec<&str> {
        paths
            .iter()
            .map(|path| std::str::from_utf8(path).unwrap())
            .collect()
    }

    #[test]
    fn the_layer_is_listed_without_what_the_base_ignores() {
        let place = tempfile::tempdir().unwrap();
        let (upper, base) = (place.path().join("upper"), place.path().join("base"));
        for directory in ["base/src", "base/dist", "upper/src", "upper/dist/new"] {
            fs::create_dir_all(place.path().join(directory)).unwrap();
        }
        for directory in ["upper/node_modules/a", "upper/lib/.git", "upper/.git/info"] {
            fs::create_dir_all(place.path().join(directory)).unwrap();
        }
        fs::write(base.join(".gitignore"), "node_modules/\ndist/\n*.log\n").unwrap();
        fs::write(base.join("dist/tracked.js"), "1").unwrap();
        for file in [
            "src/a",
            "dist/tracked.js",
            "dist/new/x",
            "node_modules/a/b",
            "lib/x",
            "x.log",
        ] {
            fs::write(upper.join(file), "x").unwrap();
        }
        symlink("/etc/passwd", upper.join("link")).unwrap();
        fs::write(upper.join("AGENTS.md"), "x").unwrap();
        let listed = || {
            list(&upper, &base, &["AGENTS.md".to_owned()])
                .unwrap()
                .unwrap()
        };
        let found = listed();
        assert_eq!(text(&found.files), ["link", "src/a", "dist/tracked.js"]);
        assert_eq!(text(&found.nested), ["lib"]);
        fs::write(upper.join("node_modules/a/c"), "x").unwrap();
        assert_eq!(listed().digest, found.digest);
        fs::write(upper.join(".git/info/exclude"), "src").unwrap();
        assert_ne!(listed().digest, found.digest);
    }

    #[test]
    fn ids_are_those_of_git_and_no_symlink_is_followed() {
        let place = tempfile::tempdir().unwrap();
        let upper = place.path();
        fs::write(upper.join("file"), "hello\n").unwrap();
        fs::write(upper.join("dos"), "hello\r\n").unwrap();
        fs::create_dir(upper.join("dir")).unwrap();
        symlink("file", upper.join("dir/link")).unwrap();
        symlink("dir", upper.join("away")).unwrap();
        let paths = ["file", "dos", "dir/link", "away/link", "dir", "none"];
        let paths = paths.map(|path| path.as_bytes().to_vec());
        let found = blobs(upper, "sha1", &paths).unwrap();
        let hello = "ce013625030ba8dba906f756967f9e9ca394464a".to_owned();
        let is = |id: &str, with_plain_lines: Option<String>, mode| Blob::Is {
            id: id.to_owned(),
            with_plain_lines,
            mode,
        };
        assert_eq!(found[0], is(&hello, None, 0o100_644));
        assert!(matches!(&found[1], Blob::Is { with_plain_lines: Some(id), .. } if *id == hello));
        assert_eq!(
            found[2],
            is("1a010b1c0f081b2e8901d55307a15c29ff30af0e", None, 0o120_000)
        );
        assert_eq!(found[3], Blob::Absent);
        assert_eq!(found[4], Blob::Unread);
        assert_eq!(found[5], Blob::Absent);
    }
}
