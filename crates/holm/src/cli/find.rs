//! Searches git repositories below the user's source folders, for `project find`.

use holm_api::project::Project;
use serde::Serialize;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct FoundRepository {
    pub path: String,
    /// Whether it is a project already.
    pub known: bool,
    pub project: Option<String>,
    pub project_id: Option<String>,
}

/// The search depth below a source folder.
const DEPTH: usize = 4;

/// Every repository with its own work tree, sorted by path.
pub fn repositories(source_dirs: &[PathBuf], known: &[Project]) -> Vec<FoundRepository> {
    let mut paths = Vec::new();
    for directory in source_dirs {
        if let Ok(directory) = directory.canonicalize() {
            search(&directory, DEPTH, &mut paths);
        }
    }
    let mut found: Vec<_> = paths.iter().map(|path| describe(path, known)).collect();
    found.sort();
    found.dedup();
    found
}

fn describe(path: &Path, known: &[Project]) -> FoundRepository {
    let project = known
        .iter()
        .find(|project| Path::new(&project.path) == path);
    FoundRepository {
        path: path.to_string_lossy().into_owned(),
        known: project.is_some(),
        project: project.map(|project| project.name.clone()),
        project_id: project.map(|project| project.id.clone()),
    }
}

/// Repositories inside another one belong to it; unreadable directories are skipped.
fn search(directory: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    if directory.join(".git").is_dir() {
        found.push(directory.to_owned());
        return;
    }
    if depth == 0 {
        return;
    }
    let Ok(entries) = std::fs::read_dir(directory) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_skipped = name.as_encoded_bytes().starts_with(b".") || name == "node_modules";
        // The type of the entry itself: symlinks are not followed, so there are no loops.
        if !is_skipped && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            search(&entry.path(), depth - 1, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_are_found_four_levels_deep() {
        let source = tempfile::tempdir().unwrap();
        let root = source.path().canonicalize().unwrap();
        for repository in [
            "shop",
            "a/b/c/d",
            "a/b/c/d/inner",
            "a/b/c/x/deep",
            ".hidden/r",
            "node_modules/m",
        ] {
            std::fs::create_dir_all(root.join(repository).join(".git")).unwrap();
        }
        std::fs::create_dir(root.join("linked")).unwrap();
        std::fs::write(root.join("linked/.git"), "gitdir: /elsewhere").unwrap();
        let known = [Project {
            id: "p000000000001".to_owned(),
            name: "shop".to_owned(),
            path: root.join("shop").to_string_lossy().into_owned(),
            created_at: String::new(),
            workspaces: 0,
            protected_paths: Vec::new(),
            isolation: None,
        }];
        let found = repositories(
            &[root.clone(), root.join("shop"), root.join("none")],
            &known,
        );
        let found: Vec<_> = found
            .iter()
            .map(|found| {
                let path = Path::new(&found.path).strip_prefix(&root).unwrap();
                (path.to_str().unwrap(), found.known)
            })
            .collect();
        assert_eq!(found, [("a/b/c/d", false), ("shop", true)]);
    }
}
