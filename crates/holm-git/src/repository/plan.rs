//! The plan of an apply on disk: which files are moved out and in, in the directory that
//! [`super::journal`] locks. Written before the first move.

use super::fetch::os_path;
use super::moves::Move;
use crate::GitError;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

pub(super) const PLAN: &str = "plan";
pub(super) const DONE: &str = "done";
const POINTERS: &str = "pointers";
pub(super) const PLACES: &str = "places";
pub(super) const SLOTS: &str = "slots";

/// The moves of an apply as stored on disk.
pub(super) struct Plan {
    pub moves: Vec<Move>,
    /// Input for `git update-index --index-info`, for submodule pointers.
    pub pointers: Vec<u8>,
}

// === impl Plan ===

impl Plan {
    /// Writes the plan to disk; it is in force when this returns.
    pub fn write(&self, directory: &Path) -> Result<(), GitError> {
        let save = |name: &str, content: &[u8]| save(&directory.join(name), content);
        let mut content = Vec::new();
        for one in &self.moves {
            one.write(&mut content);
        }
        let write = || -> io::Result<()> {
            save(POINTERS, &self.pointers)?;
            save("plan.next", &content)?;
            std::fs::rename(directory.join("plan.next"), directory.join(PLAN))?;
            File::open(directory)?.sync_all()
        };
        write().map_err(GitError::file("write", directory))
    }

    pub fn read(directory: &Path) -> Result<Plan, GitError> {
        Self::read_from(directory, PLAN)
    }

    /// Reads the plan of an apply that is done.
    pub fn read_done(directory: &Path) -> Result<Plan, GitError> {
        Self::read_from(directory, DONE)
    }

    fn read_from(directory: &Path, name: &str) -> Result<Plan, GitError> {
        let (file, pointers) = (directory.join(name), directory.join(POINTERS));
        let content = std::fs::read(&file).map_err(GitError::file("read", &file))?;
        let broken = || io::Error::new(io::ErrorKind::InvalidData, "not a plan of holm's");
        Ok(Plan {
            moves: Move::read_all(&content)
                .ok_or_else(|| GitError::file("read", &file)(broken()))?,
            pointers: std::fs::read(&pointers).map_err(GitError::file("read", &pointers))?,
        })
    }
}

/// Writes a file to disk.
pub(super) fn save(file: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = File::create(file)?;
    file.write_all(content)?;
    file.sync_all()
}

/// Removes what was only needed to prepare the plan.
pub(super) fn remove_rubbish(directory: &Path) {
    for rubbish in ["quarantine", "scratch", "staged", "index"] {
        // Failing here only costs disk space.
        let path = directory.join(rubbish);
        let _ = std::fs::remove_dir_all(&path).or_else(|_| std::fs::remove_file(&path));
    }
}

/// Removes the directory, and those created on other file systems.
pub(super) fn remove(directory: &Path) -> Result<(), GitError> {
    remove_places(directory)?;
    remove_tree(directory)
}

/// Removes the directories that were created on other file systems.
pub(super) fn remove_places(directory: &Path) -> Result<(), GitError> {
    let places = std::fs::read(directory.join(PLACES)).unwrap_or_default();
    let places = places.split(|byte| *byte == 0).map(os_path);
    for place in places.filter(|place| place.is_absolute()) {
        remove_tree(place)?;
    }
    Ok(())
}

pub(super) fn remove_tree(directory: &Path) -> Result<(), GitError> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(GitError::file("remove", directory)(error))
        }
        _ => Ok(()),
    }
}
