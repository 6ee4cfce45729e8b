//! The directory that a layer is unpacked into, reached only through descriptors.
//!
//! Every path is opened from the root with `RESOLVE_BENEATH` and `RESOLVE_NO_SYMLINKS`, and the last part of a
//! path is only used by calls that do not follow links. So no entry can reach a file outside, whatever links
//! the entries before it made.

use super::UnpackError;
use super::names::{Inside, shown_path};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat, XattrFlags, fchmod, fsetxattr, mkdirat,
    mknodat, openat2, statat, unlinkat,
};
use rustix::io::Errno;
use std::path::{Path, PathBuf};

pub struct Tree {
    root: OwnedFd,
    /// The directory of the last entry: neighbours in an archive mostly share it.
    last: Option<(PathBuf, OwnedFd)>,
}

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Present {
    Nothing,
    Directory,
    Whiteout,
    /// A regular file or a symbolic link.
    File,
}

const OPAQUE: &str = "user.overlay.opaque";
/// While a layer is unpacked its directories must stay usable; their real modes follow at the end.
const OPEN_MODE: Mode = Mode::RWXU;

// === impl Tree ===

impl Tree {
    pub fn new(root: OwnedFd) -> Self {
        Self { root, last: None }
    }

    /// Opens a directory of the tree. The empty path is the root.
    pub fn open(&self, path: &Path) -> Result<OwnedFd, Errno> {
        let path = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat2(&self.root, path, flags, Mode::empty(), RESOLVE)
    }

    /// Opens the directory of an entry, and creates it if no entry before did.
    pub fn parent(&mut self, of: &Inside) -> Result<OwnedFd, UnpackError> {
        if let Some((path, directory)) = &self.last
            && *path == of.parent
        {
            return directory.try_clone().map_err(|error| UnpackError::File {
                action: "open the directory of",
                path: shown_path(&of.path()),
                source: Errno::from_io_error(&error).unwrap_or(Errno::IO),
            });
        }
        let directory = match self.open(&of.parent) {
            // A whiteout in the way is no directory yet.
            Err(Errno::NOENT | Errno::NOTDIR) => self.create_parents(&of.parent),
            opened => opened,
        };
        let directory = directory.map_err(|source| match source {
            Errno::LOOP | Errno::NOTDIR | Errno::XDEV => UnpackError::Through {
                path: shown_path(&of.path()),
            },
            source => UnpackError::File {
                action: "open the directory of",
                path: shown_path(&of.path()),
                source,
            },
        })?;
        let copy = directory.try_clone().ok();
        self.last = copy.map(|copy| (of.parent.clone(), copy));
        Ok(directory)
    }

    fn create_parents(&self, path: &Path) -> Result<OwnedFd, Errno> {
        let mut directory = self.open(Path::new(""))?;
        for part in path {
            let found = statat(&directory, part, AtFlags::SYMLINK_NOFOLLOW);
            let found = found.map(|found| FileType::from_raw_mode(found.st_mode));
            let is_hidden = found == Ok(FileType::CharacterDevice);
            if is_hidden {
                unlinkat(&directory, part, AtFlags::empty())?;
            }
            let is_new = is_hidden || found == Err(Errno::NOENT);
            if is_new {
                mkdirat(&directory, part, OPEN_MODE)?;
            }
            directory = open_at(&directory, Path::new(part))?;
            if is_new {
                fchmod(&directory, Mode::from_raw_mode(0o755))?;
            }
            if is_hidden {
                mark_opaque(&directory)?;
            }
        }
        Ok(directory)
    }

    /// Creates a directory. One that is there already stays, with its content.
    pub fn make_directory(&mut self, at: &Inside) -> Result<OwnedFd, UnpackError> {
        let parent = self.parent(at)?;
        let failed = failed("create the directory", at);
        let present = self.present(&parent, at)?;
        if present != Present::Directory {
            self.clear(&parent, at, present)?;
            mkdirat(&parent, &at.name, OPEN_MODE).map_err(failed)?;
        }
        let directory = open_at(&parent, Path::new(&at.name)).map_err(failed)?;
        if present == Present::Whiteout {
            mark_opaque(&directory).map_err(failed)?;
        }
        Ok(directory)
    }

    /// Removes a file of the same name that an earlier entry made, and returns the directory.
    pub fn make_room(&mut self, at: &Inside) -> Result<OwnedFd, UnpackError> {
        let parent = self.parent(at)?;
        let present = self.present(&parent, at)?;
        self.clear(&parent, at, present)?;
        Ok(parent)
    }

    /// Hides `at` of the layers below. Whiteouts never remove what the same layer contains.
    pub fn hide(&mut self, at: &Inside) -> Result<(), UnpackError> {
        let parent = self.parent(at)?;
        let failed = failed("create the whiteout of", at);
        match self.present(&parent, at)? {
            Present::File | Present::Whiteout => Ok(()),
            Present::Directory => {
                let directory = open_at(&parent, Path::new(&at.name)).map_err(failed)?;
                mark_opaque(&directory).map_err(failed)
            }
            // The kernel allows the device 0:0 to every user, because it means a whiteout.
            Present::Nothing => mknodat(
                &parent,
                &at.name,
                FileType::CharacterDevice,
                Mode::empty(),
                0,
            )
            .map_err(failed),
        }
    }

    /// Hides everything that the layers below have in `directory`.
    pub fn make_opaque(&mut self, directory: &Path) -> Result<(), UnpackError> {
        let inside = Inside {
            parent: directory.to_owned(),
            name: ".".into(),
        };
        let opened = self.parent(&inside)?;
        mark_opaque(&opened).map_err(failed("make opaque", &inside))
    }

    fn present(&self, parent: &OwnedFd, at: &Inside) -> Result<Present, UnpackError> {
        match stat(parent, at) {
            Err(Errno::NOENT) => Ok(Present::Nothing),
            Err(errno) => Err(failed("look at", at)(errno)),
            Ok(found) => Ok(match FileType::from_raw_mode(found.st_mode) {
                FileType::Directory => Present::Directory,
                FileType::CharacterDevice => Present::Whiteout,
                _ => Present::File,
            }),
        }
    }

    fn clear(
        &mut self,
        parent: &OwnedFd,
        at: &Inside,
        present: Present,
    ) -> Result<(), UnpackError> {
        let flags = match present {
            Present::Nothing => return Ok(()),
            Present::File | Present::Whiteout => AtFlags::empty(),
            Present::Directory => AtFlags::REMOVEDIR,
        };
        self.last = None;
        match unlinkat(parent, &at.name, flags) {
            Err(Errno::NOTEMPTY) => Err(UnpackError::ReplacesDirectory {
                path: shown_path(&at.path()),
            }),
            removed => removed.map_err(failed("replace", at)),
        }
    }
}

const RESOLVE: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

fn open_at(directory: impl AsFd, path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat2(directory, path, flags, Mode::empty(), RESOLVE)
}

/// Looks at the file itself, also if it is a link.
pub fn stat(parent: &OwnedFd, at: &Inside) -> Result<Stat, Errno> {
    statat(parent, &at.name, AtFlags::SYMLINK_NOFOLLOW)
}

fn mark_opaque(directory: &OwnedFd) -> Result<(), Errno> {
    fsetxattr(directory, OPAQUE, b"y", XattrFlags::empty())
}

pub fn failed<'a>(
    action: &'static str,
    at: &'a Inside,
) -> impl Fn(Errno) -> UnpackError + Copy + use<'a> {
    move |source| UnpackError::File {
        action,
        path: shown_path(&at.path()),
        source,
    }
}
