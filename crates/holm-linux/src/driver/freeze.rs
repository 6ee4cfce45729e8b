//! Turns an upper layer into a shared layer: keeps ignored paths and removes everything that git
//! tracks. Kept files are never read.
//!
//! Nothing has the layer mounted. Every step is relative to a descriptor and follows no symlink,
//! because the setup chose the names.

use holm_keeper::files::READ;
use holm_keeper::files::remove::remove_at;
use holm_secrets::mask::Known;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fgetxattr, openat, readlinkat, statat,
    unlinkat,
};
use rustix::io::Errno;
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// overlayfs's mark of a directory that hides the one below it.
const OPAQUE: &str = "user.overlay.opaque";

/// The files of the upper layer before the setup ran (an uncommitted state).
#[derive(Debug, Default)]
pub struct Before(BTreeMap<Vec<u8>, Identity>);

/// Metadata that changes when a file does.
type Identity = (u64, i64, u64, i64, u64);

/// What was found during pruning.
#[derive(Debug, Default)]
pub struct Kept {
    /// Tracked paths that the setup changed or deleted.
    pub changed: Vec<String>,
    /// New paths that git does not ignore.
    pub left_out: Vec<String>,
}

// === impl Before ===

impl Before {
    pub fn look(upper: &Path) -> io::Result<Self> {
        let mut before = Self::default();
        before.add(&open(CWD, upper.as_os_str().as_bytes())?, b"")?;
        Ok(before)
    }

    /// These paths, and everything below them, may change.
    pub fn forget(&mut self, paths: &[String]) {
        self.0.retain(|known, _| {
            let known = Path::new(OsStr::from_bytes(known));
            !paths.iter().any(|path| known.starts_with(path))
        });
    }

    fn add(&mut self, directory: &OwnedFd, at: &[u8]) -> io::Result<()> {
        for name in names(directory)? {
            let path = below(at, &name);
            if path == b".git" {
                continue;
            }
            let stat = statat(directory, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW)?;
            if kind(&stat) == FileType::Directory {
                self.add(&open(directory.as_fd(), &name)?, &path)?;
            } else {
                self.0.insert(path, identity(&stat));
            }
        }
        Ok(())
    }
}

/// Removes from `upper` what may not be shared. `ignored` is git's output: a path with a trailing
/// `/` is a directory that is ignored as a whole. If the setup changed tracked paths, nothing is removed: the
/// user may keep those files to look into.
pub fn prune(upper: &Path, base: &Path, before: &Before, ignored: &[Vec<u8>]) -> io::Result<Kept> {
    let found = pass(upper, base, before, ignored, Pass::Look)?;
    if found.changed.is_empty() {
        pass(upper, base, before, ignored, Pass::Remove)?;
    }
    Ok(found)
}

fn pass(
    upper: &Path,
    base: &Path,
    before: &Before,
    ignored: &[Vec<u8>],
    pass: Pass,
) -> io::Result<Kept> {
    let mut pruning = Pruning {
        before,
        ignored: ignored.iter().map(Vec::as_slice).collect(),
        met: HashSet::new(),
        kept: Kept::default(),
        pass,
    };
    let top = open(CWD, upper.as_os_str().as_bytes())?;
    let base = open(CWD, base.as_os_str().as_bytes())?;
    if pass == Pass::Remove {
        remove_at(top.as_fd(), Path::new(".git"))?;
    }
    pruning.directory(&top, Some(&base), b"")?;
    let gone = before.0.keys().filter(|path| !pruning.met.contains(*path));
    let gone: Vec<_> = gone.map(|path| text(path)).collect();
    pruning.kept.changed.extend(gone);
    pruning.kept.changed.sort();
    pruning.kept.changed.dedup();
    Ok(pruning.kept)
}

/// Removes paths below a directory of the setup. A path that leads through a symlink is not followed: it may lead
/// to files of the host.
pub fn leave_out(top: &Path, paths: &[&str]) -> io::Result<()> {
    for path in paths {
        let (parents, name) = path.rsplit_once('/').unwrap_or(("", path));
        let mut place = open(CWD, top.as_os_str().as_bytes())?;
        let parents = parents.split('/').filter(|part| !part.is_empty());
        let mut is_there = true;
        for part in parents {
            match open(place.as_fd(), part.as_bytes()) {
                Ok(next) => place = next,
                // It does not exist, or it is no directory.
                Err(_) => {
                    is_there = false;
                    break;
                }
            }
        }
        if is_there && statat(&place, name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
            remove_at(place.as_fd(), Path::new(name))?;
        }
    }
    Ok(())
}

/// The first file below `top` that contains one of the values. Symlinks are not followed.
pub fn find(top: &Path, known: &Known) -> io::Result<Option<String>> {
    let mut directories = vec![(open(CWD, top.as_os_str().as_bytes())?, Vec::new())];
    while let Some((directory, at)) = directories.pop() {
        for name in names(&directory)? {
            let path = below(&at, &name);
            let stat = statat(&directory, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW)?;
            match kind(&stat) {
                FileType::Directory => {
                    directories.push((open(directory.as_fd(), &name)?, path));
                }
                FileType::RegularFile => {
                    let file = openat(&directory, name.as_slice(), READ, Mode::empty())?;
                    if known.is_in(File::from(file))? {
                        return Ok(Some(text(&path)));
                    }
                }
                _ => {}
            }
        }
    }
    Ok(None)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    Look,
    Remove,
}

struct Pruning<'a> {
    before: &'a Before,
    ignored: HashSet<&'a [u8]>,
    /// Paths of `before` that still exist.
    met: HashSet<Vec<u8>>,
    kept: Kept,
    pass: Pass,
}

// === impl Pruning ===

impl Pruning<'_> {
    fn directory(
        &mut self,
        directory: &OwnedFd,
        base: Option<&OwnedFd>,
        at: &[u8],
    ) -> io::Result<()> {
        let found = names(directory)?;
        for name in &found {
            let stat = statat(directory, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW)?;
            let path = below(at, name);
            if path == b".git" {
                continue;
            }
            if kind(&stat) == FileType::Directory {
                self.subdirectory(directory, base, name, &path)?;
            } else {
                self.file(directory, base, name, (&path, &stat))?;
            }
        }
        if let Some(base) = base
            && is_opaque(directory)
        {
            // The directory was removed and recreated, so it hides the base's content.
            let hidden = names(base)?.into_iter();
            let hidden = hidden.filter(|name| !found.contains(name));
            let hidden = hidden.map(|name| text(&below(at, &name)));
            self.kept.changed.extend(hidden);
        }
        Ok(())
    }

    fn subdirectory(
        &mut self,
        parent: &OwnedFd,
        base: Option<&OwnedFd>,
        name: &[u8],
        path: &[u8],
    ) -> io::Result<()> {
        let base_child = match base.map(|base| open(base.as_fd(), name)) {
            None => None,
            Some(Ok(child)) => Some(child),
            Some(Err(error)) if error.raw_os_error() == Some(Errno::NOENT.raw_os_error()) => None,
            // A directory in place of a file of the base.
            Some(Err(_)) => {
                self.kept.changed.push(text(path));
                return Ok(());
            }
        };
        if base_child.is_none() && self.ignored.contains([path, b"/"].concat().as_slice()) {
            return Ok(());
        }
        let child = open(parent.as_fd(), name)?;
        self.directory(&child, base_child.as_ref(), path)?;
        if self.pass == Pass::Look {
            return Ok(());
        }
        // An empty directory contained nothing to keep.
        match unlinkat(parent, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOTEMPTY) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn file(
        &mut self,
        parent: &OwnedFd,
        base: Option<&OwnedFd>,
        name: &[u8],
        (path, stat): (&[u8], &Stat),
    ) -> io::Result<()> {
        let is_whiteout = kind(stat) == FileType::CharacterDevice;
        let is_looking = self.pass == Pass::Look;
        let take_out = || match is_looking {
            true => Ok(()),
            false => Ok(unlinkat(parent, name, AtFlags::empty())?),
        };
        if let Some(known) = self.before.0.get(path) {
            self.met.insert(path.to_vec());
            if *known != identity(stat) {
                self.kept.changed.push(text(path));
            }
            return take_out();
        }
        let in_base = base.and_then(|base| statat(base, name, AtFlags::SYMLINK_NOFOLLOW).ok());
        match (in_base, base) {
            (Some(tracked), Some(base)) => {
                if is_whiteout || !is_same((base, &tracked), (parent, stat), name)? {
                    self.kept.changed.push(text(path));
                }
                take_out()
            }
            // Hides a file of a lower layer, which is ignored as well.
            _ if is_whiteout => Ok(()),
            _ if self.ignored.contains(path) => Ok(()),
            _ => {
                self.kept.left_out.push(text(path));
                take_out()
            }
        }
    }
}

/// Whether a file was only touched.
fn is_same(
    (left_parent, left): (&OwnedFd, &Stat),
    (right_parent, right): (&OwnedFd, &Stat),
    name: &[u8],
) -> io::Result<bool> {
    if kind(left) != kind(right) || left.st_size != right.st_size {
        return Ok(false);
    }
    match kind(left) {
        FileType::Symlink => {
            let left = readlinkat(left_parent, name, Vec::new())?;
            Ok(left == readlinkat(right_parent, name, Vec::new())?)
        }
        FileType::RegularFile => {
            let is_executable = |stat: &Stat| stat.st_mode & 0o100 != 0;
            if is_executable(left) != is_executable(right) {
                return Ok(false);
            }
            let read = |parent: &OwnedFd| {
                let file = openat(parent, name, READ, Mode::empty())?;
                io::Result::Ok(io::BufReader::with_capacity(64 << 10, File::from(file)))
            };
            same_content(read(left_parent)?, read(right_parent)?)
        }
        _ => Ok(false),
    }
}

fn same_content(mut left: impl Read, mut right: impl Read) -> io::Result<bool> {
    let (mut one, mut other) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        let length = left.read(&mut one)?;
        if length == 0 {
            return Ok(right.read(&mut other)? == 0);
        }
        match right.read_exact(&mut other[..length]) {
            Ok(()) if one[..length] == other[..length] => {}
            Ok(()) => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}

fn is_opaque(directory: &OwnedFd) -> bool {
    let mut value = [0_u8; 8];
    fgetxattr(directory, OPAQUE, &mut value).is_ok_and(|length| &value[..length] == b"y")
}

fn names(directory: &OwnedFd) -> io::Result<Vec<Vec<u8>>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(directory)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if !matches!(name.as_slice(), b"." | b"..") {
            found.push(name);
        }
    }
    found.sort();
    Ok(found)
}

fn open(parent: BorrowedFd<'_>, name: &[u8]) -> io::Result<OwnedFd> {
    Ok(openat(
        parent,
        Path::new(OsStr::from_bytes(name)),
        DIRECTORY,
        Mode::empty(),
    )?)
}

fn below(at: &[u8], name: &[u8]) -> Vec<u8> {
    match at {
        b"" => name.to_vec(),
        at => [at, b"/", name].concat(),
    }
}

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

fn identity(stat: &Stat) -> Identity {
    (
        stat.st_ino,
        stat.st_ctime,
        stat.st_ctime_nsec,
        stat.st_mtime,
        stat.st_mtime_nsec,
    )
}

fn text(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

#[cfg(test)]
#[path = "freeze_tests.rs"]
mod tests;
