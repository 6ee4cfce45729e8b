//! Protected paths that do not exist when a workspace starts. Called by [`super::tree`]. They look
//! absent, and nothing can be created there.
//!
//! [`hide`] creates a whiteout for each such path in the upper layer, which overlayfs shows as
//! absent. [`hold`] binds that layer at a hidden place below the tree, and mounts each whiteout
//! there on itself. To create the path overlayfs would have to replace the whiteout, and the kernel
//! refuses to replace a mount point of the caller's namespace (EBUSY), for every system call.
//!
//! A placeholder would be visible: a file to git and to programs that read it, a directory to `ls`.

use super::LaunchPlan;
use super::PROTECTED_WITHIN;
use super::beneath::{OPEN, PLAIN, make_directories, open_plain};
use super::root::{NewRoot, clone_tree, overlay, pin};
use crate::sys::mount::{NO_DEV, NO_SUID, READ_ONLY};
use holm_keeper::plan::Stepped;
use holm_keeper::plan::{LaunchFailure, Part};
use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, fremovexattr, fstat, mkdirat, mknodat, openat2, statat,
    unlinkat,
};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// overlayfs's mark of a directory that hides the one below it.
const OPAQUE: &str = "user.overlay.opaque";

/// The layers of the tree, before it is mounted.
pub struct Layers<'a> {
    pub upper: &'a OwnedFd,
    /// Top first.
    pub lower: &'a [OwnedFd],
    /// The lowest one: directories above protected paths.
    pub pins: &'a OwnedFd,
}

/// How absent protected paths are handled.
#[derive(Default)]
pub struct Absent {
    /// Paths with a whiteout, to be held.
    pub hidden: Vec<PathBuf>,
    /// Empty directories that mark a directory which exists only for an absent protected path:
    /// without one, `git clean` and `git stash -u` would try to remove that directory, and fail.
    pub marks: Vec<PathBuf>,
}

/// Creates a whiteout for each absent path. Where overlayfs would not hide one, because its
/// directory is not merged with a lower one, an empty directory takes its place.
pub fn hide(layers: &Layers<'_>, protected: &[&Path]) -> Result<Absent, LaunchFailure> {
    let step = "look for the protected paths";
    let merged = layers.merged(&[]).step(Part::Overlay, step)?;
    let mut absent = Absent::default();
    for path in protected {
        match open_plain(merged.as_fd(), path) {
            Ok(_) => continue,
            Err(Errno::NOENT) => {}
            Err(error) => return Err(unprotectable(path, error)),
        }
        let way = layers.make_way(&merged, path);
        let Some(directory) = way.map_err(|error| unprotectable(path, error))? else {
            layers.make_placeholder(path)?;
            continue;
        };
        let name = path.file_name().unwrap_or_default();
        match mknodat(
            &directory,
            name,
            FileType::CharacterDevice,
            Mode::empty(),
            0,
        ) {
            Ok(()) | Err(Errno::EXIST) => {}
            // A file system without whiteouts cannot hold an upper layer.
            made => made.step(Part::Overlay, "make a whiteout in the writable layer")?,
        }
        absent.hidden.push((*path).to_owned());
        absent.marks.extend(layers.mark(path)?);
    }
    drop(merged);
    // The root always has a lower layer.
    let is_nested = |path: &PathBuf| path.parent() != Some(Path::new(""));
    let (nested, top): (Vec<_>, _) = absent.hidden.into_iter().partition(is_nested);
    absent.hidden = top;
    if nested.is_empty() {
        return Ok(absent);
    }
    let merged = layers.merged(&[layers.pins]).step(Part::Overlay, step)?;
    for path in nested {
        if is_listed(&merged, &path).map_err(|error| unprotectable(&path, error))? {
            layers.unhide(&path)?;
        } else {
            absent.hidden.push(path);
        }
    }
    Ok(absent)
}

/// Keeps the whiteouts from being replaced. The tree is mounted on top afterwards.
pub fn hold(root: &NewRoot, plan: &LaunchPlan, hidden: &[PathBuf]) -> Result<(), LaunchFailure> {
    let step = "hold the protected paths that are absent";
    let upper = clone_tree(&plan.keeper.dir.join("upper")).step(Part::ProtectedPath, step)?;
    root.attach(&upper, &plan.keeper.root)
        .step(Part::ProtectedPath, step)?;
    for path in hidden {
        let place = open_plain(upper.as_fd(), path).map_err(|error| unprotectable(path, error))?;
        let stat = fstat(&place).step(Part::ProtectedPath, step)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::CharacterDevice {
            return Err(unprotectable(path, Errno::EXIST));
        }
        pin(&place, READ_ONLY | NO_SUID | NO_DEV).step(Part::ProtectedPath, step)?;
    }
    Ok(())
}

// === impl Layers ===

impl Layers<'_> {
    /// The merged, read-only view of all layers.
    fn merged(&self, lowest: &[&OwnedFd]) -> io::Result<OwnedFd> {
        let all = std::iter::once(self.upper).chain(self.lower);
        let all = all.chain(lowest.iter().copied());
        let all = all.map(rustix::io::dup).collect::<Result<Vec<_>, _>>()?;
        overlay(&all, None)
    }

    fn is_below(&self, path: &Path) -> bool {
        let mut lower = self.lower.iter();
        lower.any(|layer| open_plain(layer.as_fd(), path).is_ok())
    }

    /// The upper layer's directory for a path, merged with a lower one. `None`: the upper layer
    /// hides a directory on the way, so its replacement is merged with nothing.
    fn make_way(&self, merged: &OwnedFd, path: &Path) -> Result<Option<OwnedFd>, Errno> {
        let parent = path.parent().unwrap_or(Path::new(""));
        let mut here = rustix::io::dup(self.upper)?;
        let mut way = PathBuf::new();
        for name in parent {
            way.push(name);
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let open = || openat2(&here, name, flags, Mode::empty(), PLAIN);
            let found = match open() {
                Err(Errno::NOENT) => {
                    // With the mode that overlayfs would copy up.
                    let mode = match open_plain(merged.as_fd(), &way) {
                        Ok(shown) => fstat(&shown)?.st_mode & 0o7777,
                        Err(_) => 0o755,
                    };
                    mkdirat(&here, name, Mode::RWXU)?;
                    rustix::fs::chmodat(&here, name, Mode::from_raw_mode(mode), AtFlags::empty())?;
                    open()?
                }
                Err(Errno::NOTDIR | Errno::LOOP) => return Ok(None),
                found => found?,
            };
            if !self.is_below(&way) {
                match fremovexattr(&found, OPAQUE) {
                    Ok(()) | Err(Errno::NODATA) => {}
                    Err(error) => return Err(error),
                }
            }
            here = found;
        }
        self.make_below(parent)?;
        Ok(Some(here))
    }

    fn mark(&self, path: &Path) -> Result<Option<PathBuf>, LaunchFailure> {
        let parent = path.parent().unwrap_or(Path::new(""));
        if parent.as_os_str().is_empty() || self.is_below(parent) {
            return Ok(None);
        }
        let mark = parent.join(PROTECTED_WITHIN);
        self.make_placeholder(&mark)?;
        Ok(Some(mark))
    }

    fn make_placeholder(&self, path: &Path) -> Result<(), LaunchFailure> {
        self.make_below(path)
            .map_err(|error| unprotectable(path, error))
    }

    /// Creates a directory in the lowest layer.
    fn make_below(&self, path: &Path) -> Result<(), Errno> {
        make_directories(self.pins.as_fd(), path)
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }

    fn unhide(&self, path: &Path) -> Result<(), LaunchFailure> {
        let parent = path.parent().unwrap_or(Path::new(""));
        let removed = openat2(self.upper, parent, OPEN, Mode::empty(), PLAIN).and_then(|parent| {
            let name = path.file_name().unwrap_or_default();
            let kind = statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode;
            match FileType::from_raw_mode(kind) {
                FileType::CharacterDevice => unlinkat(&parent, name, AtFlags::empty()),
                _ => Ok(()),
            }
        });
        removed.map_err(|error| unprotectable(path, error))?;
        self.make_placeholder(path)
    }
}

/// Whether a directory lists the name although it is absent.
fn is_listed(merged: &OwnedFd, path: &Path) -> Result<bool, Errno> {
    let parent = path.parent().unwrap_or(Path::new(""));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let parent = openat2(merged, parent, flags, Mode::empty(), PLAIN)?;
    for entry in Dir::read_from(&parent)? {
        if Some(entry?.file_name().to_bytes())
            == path.file_name().map(|name| name.as_encoded_bytes())
        {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(super) fn unprotectable(path: &Path, error: Errno) -> LaunchFailure {
    let cause = match error {
        Errno::LOOP => "it is a symbolic link, or one of its parents is".to_owned(),
        Errno::NOTDIR => "one of its parents is a file".to_owned(),
        other => io::Error::from(other).to_string(),
    };
    LaunchFailure {
        part: Part::ProtectedPath,
        step: format!("protect {}", path.display()),
        cause,
        errno: Some(error.raw_os_error()),
    }
}
