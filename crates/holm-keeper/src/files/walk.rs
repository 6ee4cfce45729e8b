//! Walks everything below a directory in tar's order. The directories on the way are kept as paths
//! with the remaining names, not as descriptors or on the stack, so depth is no limit; each is
//! opened below the root again when the walk returns to it.

use super::root::{Root, entry_at, failure};
use holm_core::TreePath;
use holm_core::files::{Entry, Failure, Kind};
use rustix::fs::Dir;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::vec::IntoIter;

/// What a walk found.
pub enum WalkItem<'a> {
    /// With its open parent directory.
    Entry(&'a OwnedFd, &'a TreePath, &'a Entry),
    /// A directory that cannot be read.
    Closed(Failure),
}

/// What to do with a directory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Go {
    Below,
    Past,
}

/// A directory that the walk is in.
struct Level {
    path: TreePath,
    names: IntoIter<Vec<u8>>,
}

/// Calls back for every entry below `start`, a directory before its content. What is no longer a
/// directory when its turn comes is skipped.
pub fn walk(
    root: &Root,
    start: &TreePath,
    mut see: impl FnMut(WalkItem<'_>) -> io::Result<ControlFlow<(), Go>>,
) -> io::Result<()> {
    let mut levels = Vec::new();
    let mut below = Some(start.clone());
    loop {
        if let Some(path) = below.take() {
            match root.directory(&path).and_then(|found| names(&found)) {
                Ok(names) => levels.push(Level { path, names }),
                Err(Failure::NotFound | Failure::Link | Failure::NotADirectory) => {}
                Err(failure) => {
                    if see(WalkItem::Closed(failure))?.is_break() {
                        return Ok(());
                    }
                }
            }
        }
        let Some(level) = levels.last_mut() else {
            return Ok(());
        };
        match go_on(root, level, &mut see)? {
            ControlFlow::Break(()) => return Ok(()),
            ControlFlow::Continue(Some(path)) => below = Some(path),
            ControlFlow::Continue(None) => drop(levels.pop()),
        }
    }
}

/// Continues to the next directory to enter, or to the end of this one.
fn go_on(
    root: &Root,
    level: &mut Level,
    see: &mut impl FnMut(WalkItem<'_>) -> io::Result<ControlFlow<(), Go>>,
) -> io::Result<ControlFlow<(), Option<TreePath>>> {
    if level.names.len() == 0 {
        return Ok(ControlFlow::Continue(None));
    }
    let Ok(directory) = root.directory(&level.path) else {
        // It could be read before, so it was removed.
        return Ok(ControlFlow::Continue(None));
    };
    for name in level.names.by_ref() {
        let path = level.path.join(&name);
        let (flow, is_directory) = match entry_at(&directory, &name) {
            Ok(None) => continue,
            Ok(Some(entry)) => {
                let flow = see(WalkItem::Entry(&directory, &path, &entry))?;
                (flow, entry.kind == Kind::Directory)
            }
            Err(error) => (see(WalkItem::Closed(failure(error)))?, false),
        };
        match flow {
            ControlFlow::Break(()) => return Ok(ControlFlow::Break(())),
            ControlFlow::Continue(Go::Below) if is_directory => {
                return Ok(ControlFlow::Continue(Some(path)));
            }
            ControlFlow::Continue(_) => {}
        }
    }
    Ok(ControlFlow::Continue(None))
}

fn names(directory: &OwnedFd) -> Result<IntoIter<Vec<u8>>, Failure> {
    let mut names = Vec::new();
    for found in Dir::read_from(directory).map_err(failure)? {
        let found = found.map_err(failure)?;
        let name = found.file_name().to_bytes();
        if !matches!(name, b"." | b"..") {
            names.push(name.to_vec());
        }
    }
    names.sort();
    Ok(names.into_iter())
}
