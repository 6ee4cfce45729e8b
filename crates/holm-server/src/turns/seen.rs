//! What a recording saw of a layer, so that the next one reads only the files that changed since.
//!
//! A program inside can set times of modification, but neither an inode nor the time of the last change
//! ([`Stamp`]). A program that keeps a file mapped can write without a new time; therefore a command of a person
//! ([`Effort::Read`](super::Effort)) reads every file.

use holm_core::tree_change::Entry;
use holm_core::turn::DiscrepancyKind;
use holm_engine::driver::{LayerChanges, Stamp};
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

/// The files of a layer whose content the tree is known to have. Paths are kept as digests.
#[derive(Clone, Debug)]
pub struct ReadLayer {
    pub tree: String,
    /// The commit of the overlay's base.
    pub base: Option<String>,
    hashes: RandomState,
    files: HashMap<u64, Known>,
    attributes: Vec<(Vec<u8>, Option<Stamp>)>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    stamp: Stamp,
    /// Its content was not compared, and is not read again.
    is_large: bool,
}

/// The files that a recording does not read.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// The tree that has their entries; `None`: every file is read.
    pub tree: Option<String>,
    pub entries: HashMap<Vec<u8>, Entry>,
    pub large: HashSet<Vec<u8>>,
}

/// A path and what is wrong with it.
pub type Found = (Vec<u8>, DiscrepancyKind);

/// They decide how git stores other files.
const ATTRIBUTES: &[u8] = b".gitattributes";

// === impl ReadLayer ===

impl ReadLayer {
    /// A file with a discrepancy is read again, unless it is only large.
    pub fn new(tree: &str, base: Option<&str>, listed: &LayerChanges, found: &[Found]) -> Self {
        let hashes = RandomState::new();
        let found: HashMap<&[u8], DiscrepancyKind> = found
            .iter()
            .map(|(path, kind)| (path.as_slice(), *kind))
            .collect();
        let mut files = HashMap::with_capacity(listed.files.len());
        for (path, stamp) in listed.files.iter().zip(&listed.stamps) {
            let found = found.get(path.as_slice());
            let is_large = found == Some(&DiscrepancyKind::TooLarge);
            if let Some(stamp) = *stamp
                && (found.is_none() || is_large)
            {
                files.insert(hashes.hash_one(path), Known { stamp, is_large });
            }
        }
        Self {
            tree: tree.to_owned(),
            base: base.map(str::to_owned),
            hashes,
            files,
            attributes: attributes(listed),
        }
    }

    /// The listed files that look as they did, with the entries that the tree has for them.
    pub fn kept(&self, listed: &LayerChanges, entries: HashMap<Vec<u8>, Entry>) -> Kept {
        if attributes(listed) != self.attributes {
            return Kept::default();
        }
        let mut kept = Kept {
            tree: Some(self.tree.clone()),
            ..Kept::default()
        };
        let mut entries = entries;
        for (path, stamp) in listed.files.iter().zip(&listed.stamps) {
            let Some(known) = self.files.get(&self.hashes.hash_one(path)) else {
                continue;
            };
            if *stamp != Some(known.stamp) {
                continue;
            }
            if let Some(entry) = entries.remove(path) {
                if known.is_large {
                    kept.large.insert(path.clone());
                }
                kept.entries.insert(path.clone(), entry);
            }
        }
        kept
    }
}

fn attributes(listed: &LayerChanges) -> Vec<(Vec<u8>, Option<Stamp>)> {
    let files = listed.files.iter().zip(&listed.stamps);
    let named = files.filter(|(path, _)| {
        let mut parts = path.rsplit(|byte| *byte == b'/');
        parts.next() == Some(ATTRIBUTES)
    });
    named.map(|(path, stamp)| (path.clone(), *stamp)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(inode: u64) -> Option<Stamp> {
        Some(Stamp {
            inode,
            size: 1,
            mode: 0o100_644,
            changed: (1, 0),
        })
    }

    fn layer(files: &[(&str, Option<Stamp>)]) -> LayerChanges {
        LayerChanges {
            files: files
                .iter()
                .map(|(path, _)| path.as_bytes().to_vec())
                .collect(),
            stamps: files.iter().map(|(_, stamp)| *stamp).collect(),
            ..LayerChanges::default()
        }
    }

    fn kept(before: &[(&str, Option<Stamp>)], now: &[(&str, Option<Stamp>)]) -> Vec<String> {
        let found = [
            (b"differs".to_vec(), DiscrepancyKind::Differs),
            (b"large".to_vec(), DiscrepancyKind::TooLarge),
        ];
        let seen = ReadLayer::new("t", None, &layer(before), &found);
        let entry = |path: &str| {
            let entry = Entry {
                mode: 0o100_644,
                object: path.to_owned(),
            };
            (path.as_bytes().to_vec(), entry)
        };
        let entries = now.iter().filter(|(path, _)| *path != "hidden");
        let entries = entries.map(|(path, _)| entry(path)).collect();
        let kept = seen.kept(&layer(now), entries);
        assert!(kept.large.iter().all(|path| path == b"large"));
        let names = kept.entries.keys();
        let mut names: Vec<_> = names
            .map(|path| String::from_utf8_lossy(path).into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn only_what_looks_the_same_and_was_right_is_kept() {
        let before = [
            ("a", stamp(1)),
            ("b", stamp(2)),
            ("differs", stamp(3)),
            ("hidden", stamp(4)),
            ("large", stamp(5)),
            ("shortly", None),
        ];
        let now = [
            ("a", stamp(1)),
            ("b", stamp(9)),
            ("differs", stamp(3)),
            ("hidden", stamp(4)),
            ("large", stamp(5)),
            ("new", stamp(6)),
            ("shortly", stamp(7)),
        ];
        assert_eq!(kept(&before, &now), ["a", "large"]);
        let ruled = [("a", stamp(1)), ("x/.gitattributes", stamp(8))];
        assert_eq!(kept(&before, &ruled), [] as [&str; 0]);
        assert_eq!(kept(&ruled, &ruled), ["a", "x/.gitattributes"]);
    }
}
