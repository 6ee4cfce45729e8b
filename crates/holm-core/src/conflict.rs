//! Conflicts: two live workspaces of a project, or one and the user's branch, changed the same lines. This
//! module decides which pairs are worth a merge and which recorded conflicts still hold; git merges.

use crate::WorkspaceId;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

/// Paths that cannot be merged, as found when a turn was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conflict {
    pub with: Other,
    /// The first of them; bytes that are not UTF-8 are written `\xNN`.
    pub paths: Vec<String>,
    /// How many further paths there are.
    pub more: u64,
}

/// The other side of a conflict, and its state at that time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Other {
    Workspace { id: WorkspaceId, tree: String },
    Branch { name: String, commit: String },
}

/// The paths that a workspace changed, as digests: many workspaces are compared with each other.
#[derive(Clone, Debug, Default)]
pub struct Touched {
    paths: HashSet<u64>,
    /// The directories above them.
    above: HashSet<u64>,
}

/// At most so many paths of a conflict are kept.
const MOST_PATHS: usize = 20;

// === impl Conflict ===

impl Conflict {
    /// `None`: no path is in conflict.
    pub fn new(with: Other, mut paths: Vec<String>) -> Option<Self> {
        let more = paths.len().saturating_sub(MOST_PATHS) as u64;
        paths.truncate(MOST_PATHS);
        (!paths.is_empty()).then_some(Self { with, paths, more })
    }

    /// Whether the other workspace is live and its last turn still has that tree. What became of a branch is
    /// not known here.
    pub fn holds(&self, tree_of: impl Fn(&WorkspaceId) -> Option<String>) -> bool {
        match &self.with {
            Other::Workspace { id, tree } => tree_of(id).as_ref() == Some(tree),
            Other::Branch { .. } => true,
        }
    }
}

// === impl Touched ===

impl Touched {
    /// Only values that were made with the same `hashes` can be compared.
    pub fn new(changed: &[Vec<u8>], hashes: &RandomState) -> Self {
        let mut touched = Self::default();
        for path in changed {
            touched.paths.insert(hashes.hash_one(&path[..]));
            let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
            let above = slashes.map(|(place, _)| hashes.hash_one(&path[..place]));
            touched.above.extend(above);
        }
        touched
    }

    /// Whether both changed one path, or one has a file where the other has a directory.
    pub fn overlaps(&self, other: &Self) -> bool {
        let meet = |one: &HashSet<u64>, other: &HashSet<u64>| !one.is_disjoint(other);
        meet(&self.paths, &other.paths)
            || meet(&self.paths, &other.above)
            || meet(&self.above, &other.paths)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pairs_that_touch_the_same_place_overlap() {
        let hashes = RandomState::new();
        let touched = |paths: &[&str]| {
            let paths: Vec<_> = paths.iter().map(|path| path.as_bytes().to_vec()).collect();
            Touched::new(&paths, &hashes)
        };
        let one = touched(&["src/a", "docs", "new", "old"]);
        for (path, expected) in [
            ("src/a", true),
            ("src/b", false),
            ("src", true),
            ("docs/x/y", true),
            ("docsx", false),
            ("old", true),
            ("new", true),
            ("other", false),
        ] {
            let other = touched(&[path]);
            assert_eq!(one.overlaps(&other), expected, "{path}");
            assert_eq!(other.overlaps(&one), expected, "{path}");
        }
        assert!(!Touched::default().overlaps(&one));
    }

    #[test]
    fn a_conflict_holds_while_the_other_tree_is_the_last() {
        let (id, other) = (WorkspaceId::random(), WorkspaceId::random());
        let tree = "1".repeat(40);
        let with = |id: &WorkspaceId| Other::Workspace {
            id: id.clone(),
            tree: tree.clone(),
        };
        let conflict = |with| Conflict::new(with, vec!["a".to_owned()]).unwrap();
        let last = |asked: &WorkspaceId| (*asked == id).then(|| tree.clone());
        assert!(conflict(with(&id)).holds(last));
        assert!(!conflict(with(&other)).holds(last), "it is in the trash");
        let later = |_: &WorkspaceId| Some("2".repeat(40));
        assert!(!conflict(with(&id)).holds(later), "it has another turn");
        assert_eq!(Conflict::new(with(&id), Vec::new()), None);
        let many = (0..25).map(|number| number.to_string()).collect();
        let many = Conflict::new(with(&id), many).unwrap();
        assert_eq!((many.paths.len(), many.more), (20, 5));
    }
}
