//! Deletes files of a workspace that no start uses any more: earlier generations of volumes and
//! trees, unfinished snapshots. They are set aside by a rename and deleted in the background.

use super::volume::generation;
use super::{remove_tree, snapshot};
use holm_core::WorkspaceId;
use holm_core::spec::WorkspaceSpec;
use holm_keeper::directories::WorkspaceDirs;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Deletes, in the background, files of earlier generations of volumes, trees and snapshots. The
/// workspace has no processes, so nothing is mounted there. A failed deletion is repeated at the
/// next start.
pub fn sweep(dirs: &WorkspaceDirs, spec: &WorkspaceSpec) {
    let mut gone = snapshot::leftovers(dirs, spec);
    gone.extend(earlier(dirs, spec));
    for path in gone {
        // If it fails, the next start finds it again.
        let _ = set_aside(dirs, &path);
    }
    let old = dirs.old();
    if old.exists() {
        tokio::task::spawn_blocking(move || remove_tree(&old));
    }
}

/// The directories of earlier generations.
pub fn earlier(dirs: &WorkspaceDirs, spec: &WorkspaceSpec) -> Vec<PathBuf> {
    let is_current = |path: &PathBuf| {
        let mut kept = spec.volumes.iter().chain(&spec.retired_volumes);
        kept.any(|volume| generation(dirs, volume) == *path)
    };
    let all = entries(&dirs.volumes()).into_iter();
    let all = all.flat_map(|volume| entries(&volume));
    all.filter(|path| !is_current(path)).collect()
}

/// Renames a file of the workspace to the directory of files to be deleted.
pub fn set_aside(dirs: &WorkspaceDirs, path: &Path) -> io::Result<()> {
    let name = WorkspaceId::random().to_string();
    loop {
        fs::create_dir_all(dirs.old())?;
        match fs::rename(path, dirs.old().join(&name)) {
            // A deletion in the background also removes the directory.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if path.symlink_metadata().is_err() {
                    return Ok(());
                }
            }
            renamed => return renamed,
        }
    }
}

fn entries(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}
