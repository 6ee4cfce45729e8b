//! Whether two trees can be merged. git merges them in a bare repository that is made for this and deleted
//! afterwards: it has no attributes, no settings but holm's, and its objects are those of others, read only.
//! No file of a tree is checked out, and no merge driver exists.

use crate::GitError;
use crate::bare::{Bare, is_object_id};
use crate::command::{Cancel, Git, known_version};
use crate::repository::fetch::empty_tree;
use crate::version::Version;
use std::path::{Path, PathBuf};

/// A merge of two trees. Every id is that of a tree or a commit.
#[derive(Clone, Debug)]
pub struct Merge {
    /// The directories that have the objects.
    pub objects: Vec<PathBuf>,
    pub object_format: String,
    /// What both started from; `None` is the empty tree.
    pub base: Option<String>,
    pub sides: [String; 2],
}

/// The first git with `merge-tree --write-tree`.
pub const MERGES_TREES: Version = Version(2, 38);

/// A larger content is not merged line by line.
const BIG_FILE: &str = "core.bigFileThreshold=16m";

/// Commits need an identity; these are never kept.
const IDENTITY: [(&str, &str); 6] = [
    ("GIT_AUTHOR_NAME", "holm"),
    ("GIT_AUTHOR_EMAIL", "holm"),
    ("GIT_AUTHOR_DATE", "@0 +0000"),
    ("GIT_COMMITTER_NAME", "holm"),
    ("GIT_COMMITTER_EMAIL", "holm"),
    ("GIT_COMMITTER_DATE", "@0 +0000"),
];

/// Whether git is new enough to merge trees.
pub fn can_merge_trees() -> Result<bool, GitError> {
    Ok(known_version()? >= MERGES_TREES)
}

// === impl Merge ===

impl Merge {
    /// The paths that cannot be merged. `place` must not exist; it is made and removed. Four processes.
    pub fn conflicts(&self, place: &Path, cancel: &Cancel) -> Result<Vec<Vec<u8>>, GitError> {
        let ids = self.sides.iter().chain(&self.base);
        for id in ids {
            if !is_object_id(id, &self.object_format) {
                return Err(GitError::InvalidObjectId {
                    text: id.chars().take(80).collect(),
                });
            }
        }
        let found = self.merge(place, cancel);
        let removed = std::fs::remove_dir_all(place).map_err(GitError::file("remove", place));
        found.and_then(|found| removed.map(|()| found))
    }

    fn merge(&self, place: &Path, cancel: &Cancel) -> Result<Vec<Vec<u8>>, GitError> {
        let bare = Bare::open_or_init(place, &self.object_format)?;
        let alternates = bare.objects_dir().join("info/alternates");
        let mut lines = Vec::new();
        for directory in &self.objects {
            lines.extend(crate::quote::alternate(directory).into_encoded_bytes());
            lines.push(b'\n');
        }
        std::fs::write(&alternates, lines).map_err(GitError::file("write", &alternates))?;
        // git before 2.45 merges commits only.
        let base = self.base.as_deref();
        let base = commit(place, base.unwrap_or(empty_tree(&self.object_format)), None)?;
        let [ours, theirs] = &self.sides;
        let ours = commit(place, ours, Some(&base))?;
        let theirs = commit(place, theirs, Some(&base))?;
        let merged = Git::sealed_in(place, "merge-tree")?
            .config(BIG_FILE)
            .args(["--write-tree", "-z", "--name-only", "--no-messages"])
            .more([ours, theirs])
            .cancel(cancel)
            .run()?;
        if !matches!(merged.status.code(), Some(0 | 1)) {
            return Err(merged.error());
        }
        conflicts_of(&merged.stdout).ok_or_else(|| {
            let said = &merged.stdout;
            GitError::unexpected("merge-tree", &said[..said.len().min(200)])
        })
    }
}

fn commit(place: &Path, tree: &str, parent: Option<&str>) -> Result<String, GitError> {
    let mut git = Git::sealed_in(place, "commit-tree")?;
    for (name, value) in IDENTITY {
        git = git.env(name, value);
    }
    let parent = parent.map(|parent| ["-p", parent]);
    let commit = git
        .args(["-m", "merge"])
        .more(parent.into_iter().flatten())
        .more([format!("{tree}^{{tree}}")])
        .output()?;
    Ok(String::from_utf8_lossy(&commit).trim().to_owned())
}

/// Parses the merged tree and the names of the files in conflict, each once.
fn conflicts_of(said: &[u8]) -> Option<Vec<Vec<u8>>> {
    let said = said.strip_suffix(b"\0")?;
    let mut fields = said.split(|byte| *byte == 0);
    holm_core::head::object_id(fields.next()?)?;
    let mut paths: Vec<Vec<u8>> = fields.map(<[u8]>::to_vec).collect();
    paths.dedup();
    Some(paths)
}
