//! How the writable layer of a workspace's tree looks from outside: a digest of what the kernel
//! says about every entry, without reading a file. The engine compares two looks and asks git
//! inside only if something changed. Called through the driver.
//!
//! Programs inside write these files. They can set every time of a file but its change time
//! (`ctime`), so the digest has that. Whatever could change what git inside says without showing
//! here makes the answer `None`: a mount in the tree, a symlink or a pointer file that leads git
//! elsewhere, a file system whose change times do not follow writes, a directory that holm cannot
//! read, or a layer that is so large that git is quicker.

use crate::numbers::init_of;
use holm_core::spec::WorkspaceSpec;
use holm_engine::driver::{Stillness, Upper};
use holm_keeper::directories::WorkspaceDirs;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, fstatfs, openat, openat2,
    statat,
};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_getres, clock_gettime};
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Entries of a layer; git skips ignored directories and is quicker than a longer walk.
const MOST_ENTRIES: usize = 20_000;
/// Directories in each other, all open at once.
const DEEPEST: usize = 100;
/// Programs inside whose mappings are read.
const MOST_PROCESSES: usize = 500;

/// While programs run, one long `write` may still be changing a file: its change time is that of
/// the beginning.
const LONGEST_WRITE: Duration = Duration::from_secs(2);

/// File systems whose change times follow every write, also through a mapping: ext4, XFS, Btrfs,
/// F2FS, bcachefs. On tmpfs a write through a mapping changes no time.
const TIMED: [u64; 5] = [0xEF53, 0x5846_5342, 0x9123_683E, 0xF2F5_2010, 0xCA45_1A4E];

/// What git reads in home, with the directories that could hide it.
const SETTINGS: [&str; 6] = [
    ".gitconfig",
    ".config",
    ".config/git",
    ".config/git/config",
    ".config/git/ignore",
    ".config/git/attributes",
];

/// The device of anonymous shared memory, as `/proc/<pid>/maps` writes it.
const SHARED_MEMORY: &str = "00:01";

/// Looks at a running workspace; `ignored` has the paths that git ignores. Blocks.
pub fn look(
    dirs: &WorkspaceDirs,
    spec: &WorkspaceSpec,
    ignored: &HashSet<Vec<u8>>,
) -> Option<Upper> {
    let mut mounted = spec.volumes.iter().map(|volume| &volume.path);
    let mut cached = spec.caches.iter().map(|cache| &cache.path);
    if mounted.any(|path| path.starts_with(&spec.root))
        || cached.any(|path| path.starts_with(&spec.root))
    {
        return None;
    }
    let (init, _) = init_of(dirs)?;
    // The kernel's own clock for change times: a later change has this time or a later one.
    let began = time(clock_gettime(ClockId::RealtimeCoarse));
    let top = open(CWD, dirs.upper()).ok()?;
    let magic = fstatfs(&top).ok()?.f_type;
    if !TIMED.contains(&magic.cast_unsigned()) {
        return None;
    }
    let mut walk = Walk {
        files: Sha256::new(),
        objects: Sha256::new(),
        newest: Duration::ZERO,
        left: MOST_ENTRIES,
        ignored,
    };
    walk.settings(dirs)?;
    walk.tree(top)?;
    let stillness = match running(init)? {
        Programs::None if walk.newest < began => Stillness::Still,
        Programs::None => Stillness::After(time(clock_getres(ClockId::RealtimeCoarse))),
        Programs::Some if walk.newest + LONGEST_WRITE < began => Stillness::Still,
        Programs::Some | Programs::Mapping => Stillness::No,
    };
    Some(Upper {
        files: walk.files.finalize().into(),
        objects: walk.objects.finalize().into(),
        stillness,
    })
}

struct Walk<'a> {
    /// Everything but git's objects.
    files: Sha256,
    objects: Sha256,
    newest: Duration,
    left: usize,
    ignored: &'a HashSet<Vec<u8>>,
}

/// A directory of the walk, with the names of those below that are still to be entered.
struct Level {
    directory: OwnedFd,
    path: Vec<u8>,
    place: Region,
    to_enter: Vec<CString>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Region {
    Tree,
    /// In some `.git` directory.
    Git,
    /// In `objects` of the tree's own `.git`.
    Objects,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Programs {
    None,
    Some,
    /// A program can change a file through memory, which sets no time while the page is dirty.
    Mapping,
}

// === impl Walk ===

impl Walk<'_> {
    /// The settings of git in home. What a lower layer has stays the same.
    fn settings(&mut self, dirs: &WorkspaceDirs) -> Option<()> {
        let plain = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let home = open(CWD, dirs.home()).ok()?;
        for name in SETTINGS {
            match openat2(&home, name, flags, Mode::empty(), plain) {
                Ok(found) => {
                    let stat = fstat(&found).ok()?;
                    if kind(&stat) == FileType::Symlink {
                        return None;
                    }
                    self.add(Region::Tree, name.as_bytes(), &stat);
                }
                Err(Errno::NOENT) => self.files.update([0]),
                // A whiteout of a directory.
                Err(Errno::NOTDIR) => self.files.update([1]),
                Err(_) => return None,
            }
        }
        Some(())
    }

    fn tree(&mut self, top: OwnedFd) -> Option<()> {
        let stat = fstat(&top).ok()?;
        self.add(Region::Tree, b"", &stat);
        let mut levels = vec![self.level(top, Vec::new(), Region::Tree)?];
        while let Some(level) = levels.last_mut() {
            let Some(name) = level.to_enter.pop() else {
                levels.pop();
                continue;
            };
            let below = open(&level.directory, name.as_c_str()).ok()?;
            let path = joined(&level.path, &name);
            let place = match (level.place, path.as_slice()) {
                (Region::Git, b".git/objects") => Region::Objects,
                (Region::Tree, _) if name.as_bytes() == b".git" => Region::Git,
                (place, _) => place,
            };
            if levels.len() == DEEPEST {
                return None;
            }
            levels.push(self.level(below, path, place)?);
        }
        Some(())
    }

    /// Adds the entries of a directory.
    fn level(&mut self, directory: OwnedFd, path: Vec<u8>, place: Region) -> Option<Level> {
        let mut to_enter = Vec::new();
        let mut count: u64 = 0;
        for entry in Dir::read_from(&directory).ok()? {
            let entry = entry.ok()?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            if place == Region::Tree && self.ignored.contains(&joined(&path, name)) {
                continue;
            }
            self.left = self.left.checked_sub(1)?;
            let stat = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
            if leads_away(place, name.to_bytes(), kind(&stat), path.is_empty()) {
                return None;
            }
            // Git changes this directory when it adds an object.
            let is_of_objects = path == b".git" && name.to_bytes() == b"objects";
            let digested = if is_of_objects {
                Region::Objects
            } else {
                place
            };
            self.add(digested, name.to_bytes(), &stat);
            count += 1;
            if kind(&stat) == FileType::Directory {
                to_enter.push(name.to_owned());
            }
        }
        self.digest(place).update(count.to_le_bytes());
        Some(Level {
            directory,
            path,
            place,
            to_enter,
        })
    }

    fn add(&mut self, place: Region, name: &[u8], stat: &Stat) {
        self.newest = self.newest.max(ctime(stat));
        let digest = self.digest(place);
        digest.update((name.len() as u64).to_le_bytes());
        digest.update(name);
        for number in [
            u64::from(stat.st_mode),
            stat.st_ino,
            stat.st_size.cast_unsigned(),
            stat.st_rdev,
            stat.st_ctime.cast_unsigned(),
            stat.st_ctime_nsec,
        ] {
            digest.update(number.to_le_bytes());
        }
    }

    fn digest(&mut self, place: Region) -> &mut Sha256 {
        match place {
            Region::Objects => &mut self.objects,
            Region::Tree | Region::Git => &mut self.files,
        }
    }
}

/// Whether an entry makes git read files that the walk does not see.
fn leads_away(place: Region, name: &[u8], kind: FileType, is_top: bool) -> bool {
    let is_link = kind == FileType::Symlink;
    match (place, name) {
        (Region::Tree, b".git") if is_top => kind != FileType::Directory,
        (Region::Tree, b".git") => is_link || kind == FileType::RegularFile,
        (Region::Tree, b".gitignore" | b".gitattributes" | b".gitmodules") => is_link,
        (Region::Tree, _) => false,
        (Region::Git, b"commondir") => true,
        (Region::Git | Region::Objects, _) => is_link,
    }
}

/// Whether programs run inside, besides init.
fn running(init: i32) -> Option<Programs> {
    let mut found = Programs::None;
    let mut left = MOST_PROCESSES;
    let mut to_see = children(init)?;
    while let Some(pid) = to_see.pop() {
        found = Programs::Some;
        left = left.checked_sub(1)?;
        // A process that has ended meanwhile has no mapping.
        let Ok(maps) = fs::read_to_string(format!("/proc/{pid}/maps")) else {
            if fs::exists(format!("/proc/{pid}")).ok()? {
                return Some(Programs::Mapping);
            }
            continue;
        };
        if maps.lines().any(is_shared_file) {
            return Some(Programs::Mapping);
        }
        to_see.extend(children(pid).unwrap_or_default());
    }
    Some(found)
}

/// The children of all threads of a process.
fn children(pid: i32) -> Option<Vec<i32>> {
    let mut all = Vec::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        let text = fs::read_to_string(thread.ok()?.path().join("children")).ok()?;
        all.extend(
            text.split_ascii_whitespace()
                .filter_map(|pid| pid.parse::<i32>().ok()),
        );
    }
    Some(all)
}

/// Whether a line of `/proc/<pid>/maps` is a file that the process may share with others. A mapping
/// that is read-only now can become writable.
fn is_shared_file(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace();
    let (rights, device, inode) = (words.nth(1), words.nth(1), words.next());
    rights.is_some_and(|rights| rights.ends_with('s'))
        && device != Some(SHARED_MEMORY)
        && inode != Some("0")
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

/// When the file was last changed. A ctime before the epoch becomes the latest possible time, so the file counts as
/// changed.
pub fn ctime(stat: &Stat) -> Duration {
    let seconds = u64::try_from(stat.st_ctime).unwrap_or(u64::MAX);
    Duration::new(seconds, stat.st_ctime_nsec as u32)
}

pub fn time(time: rustix::time::Timespec) -> Duration {
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), time.tv_nsec as u32)
}

fn open(parent: impl std::os::fd::AsFd, name: impl rustix::path::Arg) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(parent, name, flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;

    /// The digests of files and objects.
    fn seen(dirs: &WorkspaceDirs, ignored: &[&str]) -> Option<([u8; 32], [u8; 32])> {
        let ignored = ignored
            .iter()
            .map(|path| path.as_bytes().to_vec())
            .collect();
        let mut walk = Walk {
            files: Sha256::new(),
            objects: Sha256::new(),
            newest: Duration::ZERO,
            left: MOST_ENTRIES,
            ignored: &ignored,
        };
        walk.settings(dirs)?;
        walk.tree(open(CWD, dirs.upper()).ok()?)?;
        Some((walk.files.finalize().into(), walk.objects.finalize().into()))
    }

    fn workspace(place: &Path) -> WorkspaceDirs {
        let dirs = WorkspaceDirs {
            dir: place.to_path_buf(),
            socket: place.join("socket"),
        };
        for directory in ["upper/.git/objects/ab", "upper/build", "upper/dir", "home"] {
            fs::create_dir_all(place.join(directory)).unwrap();
        }
        fs::write(dirs.upper().join("dir/file"), "one").unwrap();
        fs::write(dirs.upper().join("build/out"), "one").unwrap();
        fs::write(dirs.upper().join(".git/HEAD"), "ref: x").unwrap();
        dirs
    }

    #[test]
    fn every_change_shows_and_looking_does_not() {
        let place = tempfile::tempdir().unwrap();
        let dirs = workspace(place.path());
        let at = |path: &str| dirs.upper().join(path);
        let mut last = seen(&dirs, &["build"]).unwrap();
        assert_eq!(seen(&dirs, &["build"]), Some(last));
        assert_ne!(
            seen(&dirs, &[]),
            Some(last),
            "ignored paths are not part of it"
        );
        fs::write(at("build/out"), "two").unwrap();
        fs::read(at("dir/file")).unwrap();
        assert_eq!(seen(&dirs, &["build"]), Some(last));
        // Only objects changed: git adds them when it records a tree.
        for directory in ["ab", "ef"] {
            let directory = at(".git/objects").join(directory);
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("cd"), "object").unwrap();
            let now = seen(&dirs, &["build"]).unwrap();
            assert!(now.0 == last.0 && now.1 != last.1);
            last = now;
        }
        let file = fs::metadata(at("dir/file")).unwrap().modified().unwrap();
        let mut changes: Vec<Box<dyn FnMut()>> = vec![
            Box::new(|| {
                // The same size and modification time: only the change time differs.
                fs::write(at("dir/file"), "two").unwrap();
                let changed = fs::File::options()
                    .write(true)
                    .open(at("dir/file"))
                    .unwrap();
                changed.set_modified(file).unwrap();
            }),
            Box::new(|| {
                fs::set_permissions(at("dir/file"), Permissions::from_mode(0o755)).unwrap()
            }),
            Box::new(|| fs::rename(at("dir/file"), at("dir/other")).unwrap()),
            Box::new(|| fs::hard_link(at("dir/other"), at("dir/file")).unwrap()),
            Box::new(|| fs::remove_file(at("dir/file")).unwrap()),
            Box::new(|| symlink("a", at("dir/link")).unwrap()),
            Box::new(|| fs::create_dir(at("dir/empty")).unwrap()),
            Box::new(|| {
                // A directory that was replaced hides what is below it.
                fs::remove_dir(at("dir/empty")).unwrap();
                fs::create_dir(at("dir/empty")).unwrap();
            }),
            Box::new(|| fs::write(at(".git/HEAD"), "ref: y").unwrap()),
            Box::new(|| fs::write(dirs.home().join(".gitconfig"), "").unwrap()),
            Box::new(|| fs::create_dir_all(dirs.home().join(".config/git")).unwrap()),
            Box::new(|| fs::write(dirs.home().join(".config/git/ignore"), "x").unwrap()),
        ];
        for (number, change) in changes.iter_mut().enumerate() {
            change();
            let now = seen(&dirs, &["build"]).unwrap();
            assert_ne!(now.0, last.0, "change {number}");
            last = now;
        }
    }

    #[test]
    fn what_leads_git_elsewhere_is_not_trusted() {
        let check = |change: &dyn Fn(&Path), is_seen: bool| {
            let place = tempfile::tempdir().unwrap();
            let dirs = workspace(place.path());
            change(place.path());
            assert_eq!(seen(&dirs, &[]).is_some(), is_seen);
        };
        check(&|_| {}, true);
        check(&|at| symlink("x", at.join("upper/dir/link")).unwrap(), true);
        check(
            &|at| fs::create_dir(at.join("upper/dir/.git")).unwrap(),
            true,
        );
        check(
            &|at| fs::write(at.join("upper/dir/.git"), "gitdir: /x").unwrap(),
            false,
        );
        check(
            &|at| symlink("/x", at.join("upper/dir/.git")).unwrap(),
            false,
        );
        check(
            &|at| symlink("/x", at.join("upper/dir/.gitignore")).unwrap(),
            false,
        );
        check(
            &|at| symlink("/x", at.join("upper/.git/index")).unwrap(),
            false,
        );
        check(
            &|at| symlink("/x", at.join("upper/.git/objects/ac")).unwrap(),
            false,
        );
        check(
            &|at| fs::write(at.join("upper/.git/commondir"), "/x").unwrap(),
            false,
        );
        check(
            &|at| symlink("/x", at.join("home/.gitconfig")).unwrap(),
            false,
        );
        check(&|at| symlink("/x", at.join("home/.config")).unwrap(), false);
        let replaced = |at: &Path| {
            fs::remove_dir_all(at.join("upper/.git")).unwrap();
            fs::write(at.join("upper/.git"), "gitdir: /x").unwrap();
        };
        check(&replaced, false);
        let deep = |at: &Path| {
            let path: std::path::PathBuf = std::iter::repeat_n("d", DEEPEST + 1).collect();
            fs::create_dir_all(at.join("upper").join(path)).unwrap();
        };
        check(&deep, false);
        let many = |at: &Path| {
            for number in 0..MOST_ENTRIES {
                fs::hard_link(
                    at.join("upper/dir/file"),
                    at.join(format!("upper/dir/{number}")),
                )
                .unwrap();
            }
        };
        check(&many, false);
    }

    #[test]
    fn shared_files_in_memory_are_found() {
        let check = |line: &str, expected| assert_eq!(is_shared_file(line), expected, "{line}");
        check("7f00-7f01 rw-s 00000000 fe:00 1234 /src/data.mdb", true);
        check("7f00-7f01 r--s 00000000 00:2b 1234 /src/a b", true);
        check("7f00-7f01 rw-p 00000000 fe:00 1234 /usr/lib/x", false);
        check("7f00-7f01 rw-s 00000000 00:01 77 /memfd:x (deleted)", false);
        check("7f00-7f01 rw-p 00000000 00:00 0 [heap]", false);
    }
}
