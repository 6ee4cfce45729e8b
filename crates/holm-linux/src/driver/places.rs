//! The empty places of the next workspace, made ahead: renaming one directory takes less time than making twenty.
//!
//! After each launch the driver makes the next places in `data/spare`. A daemon uses only what it made itself, and
//! removes what an earlier one left.

use super::environment::ETC;
use super::remove_tree;
use crate::Layout;
use crate::layout::make_directories;
use holm_git::make_git_places;
use holm_keeper::directories::WorkspaceDirs;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// At most one workspace's places.
#[derive(Default)]
pub struct Places(Mutex<Option<PathBuf>>);

// === impl Places ===

impl Places {
    /// Gives a new workspace its places: the spare ones, or new ones. The workspace's directory does not exist yet.
    pub fn take(&self, dirs: &WorkspaceDirs) -> io::Result<()> {
        // The lock is held during the rename, because `refill` uses the same name. A creation does not wait for `refill`:
        // it can make its own places in that time. The rename fails if something has removed the spare ones.
        if let Ok(mut spare) = self.0.try_lock()
            && let Some(path) = spare.take()
            && fs::rename(path, &dirs.dir).is_ok()
        {
            return Ok(());
        }
        make(dirs)
    }

    /// Makes the next places if there are none. Without them the next creation takes a little longer.
    pub fn refill(&self, layout: &Layout) {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.is_some() {
            return;
        }
        let dirs = WorkspaceDirs {
            dir: layout.data_dir.join("spare"),
            socket: PathBuf::new(),
        };
        match remove_tree(&dirs.dir).and_then(|()| make(&dirs)) {
            Ok(()) => *spare = Some(dirs.dir),
            Err(error) => tracing::warn!(%error, "cannot make the places of the next workspace"),
        }
    }
}

/// Directories, and empty files that every creation fills. Some file systems take a millisecond to create a file if many
/// were deleted just now.
fn make(dirs: &WorkspaceDirs) -> io::Result<()> {
    make_directories(dirs)?;
    for fresh in drafts(dirs) {
        fs::write(fresh, "")?;
    }
    for name in ETC {
        fs::write(dirs.etc().join(name), "")?;
    }
    fs::write(dirs.guest().join("id"), "")?;
    fs::write(dirs.keeper_log(), "")?;
    make_git_places(&dirs.upper())
}

/// The files that a creation and its first start write and then rename to their places.
fn drafts(dirs: &WorkspaceDirs) -> [PathBuf; 4] {
    [
        dirs.complete().with_extension("new"),
        dirs.guest_secret().with_extension("new"),
        dirs.last_run().with_extension("json.new"),
        dirs.guest().join(".AGENTS.md.new"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use holm_core::WorkspaceId;
    use std::collections::BTreeSet;
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    /// Every path below a directory, with its mode.
    fn content(directory: &Path, found: &mut BTreeSet<(PathBuf, u32)>, top: &Path) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let metadata = path.symlink_metadata().unwrap();
            let below = path.strip_prefix(top).unwrap().to_owned();
            found.insert((below, metadata.mode()));
            if metadata.is_dir() {
                content(&path, found, top);
            }
        }
    }

    #[test]
    fn creations_at_the_same_time_get_whole_places() {
        let place = tempfile::tempdir().unwrap();
        let layout = Layout {
            data_dir: place.path().to_owned(),
            run_dir: place.path().to_owned(),
        };
        fs::create_dir(place.path().join("workspaces")).unwrap();
        let places = Places::default();
        let create = || {
            let mut found = Vec::new();
            for _ in 0..50 {
                let dirs = layout.workspace(&WorkspaceId::random());
                places.take(&dirs).unwrap();
                places.refill(&layout);
                let mut below = BTreeSet::new();
                content(&dirs.dir, &mut below, &dirs.dir);
                found.push(below);
            }
            found
        };
        let found = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(create)).collect();
            let found = threads.into_iter().map(|thread| thread.join().unwrap());
            found.flatten().collect::<BTreeSet<_>>()
        });
        assert_eq!(found.len(), 1, "some places differ from others");
    }

    #[test]
    fn spare_places_are_as_new_ones_and_are_given_once() {
        let place = tempfile::tempdir().unwrap();
        let layout = Layout {
            data_dir: place.path().to_owned(),
            run_dir: place.path().to_owned(),
        };
        fs::create_dir(place.path().join("workspaces")).unwrap();
        // As an earlier daemon left it.
        fs::create_dir_all(place.path().join("spare/upper/stale")).unwrap();
        let places = Places::default();
        let given = || {
            let dirs = layout.workspace(&WorkspaceId::random());
            places.take(&dirs).unwrap();
            let mut found = BTreeSet::new();
            content(&dirs.dir, &mut found, &dirs.dir);
            (dirs.dir.metadata().unwrap().ino(), found)
        };
        let (_, new) = given();
        assert!(!new.is_empty());
        places.refill(&layout);
        let spare = place.path().join("spare").metadata().unwrap().ino();
        let (first, found) = given();
        assert_eq!((first, &found), (spare, &new));
        let (second, found) = given();
        assert_ne!(second, spare);
        assert_eq!(found, new);
        // The user empties the data directory.
        places.refill(&layout);
        fs::remove_dir_all(place.path().join("spare")).unwrap();
        assert_eq!(given().1, new);
    }
}
