//! Compares the tree that git inside wrote with the writable layer, which the driver reads from outside.

use super::seen::{Found, Kept, ReadLayer};
use super::{hex, is_moving};
use crate::App;
use crate::work::escaped;
use holm_core::Fault;
use holm_core::spec::WorkspaceSpec;
use holm_core::tree_change::{Entry, TreeChange};
use holm_core::turn::{Discrepancy, DiscrepancyKind as Kind};
use holm_engine::driver::{Blob, LayerChanges};
use holm_engine::{WrittenTree, try_blocking};
use holm_git::TurnObjects;
use std::collections::{BTreeMap, HashMap, HashSet};

/// The result of a comparison.
#[derive(Debug, Default)]
pub struct Checked {
    pub found: Vec<Discrepancy>,
    /// The digest of the layer, if nothing changed meanwhile.
    pub layer: Option<[u8; 32]>,
    /// What the next recording need not read.
    pub seen: Option<ReadLayer>,
    /// The difference to the last turn, if it was computed.
    pub since_last: Option<Vec<TreeChange>>,
}

/// At most so many are stored.
const MOST: usize = 200;

/// More hidden files of one directory are stored as the directory.
const MOST_OF_DIRECTORY: usize = 5;

// === impl Checked ===

impl Checked {
    pub fn is_moving(&self) -> bool {
        self.found.iter().any(is_moving)
    }
}

// === impl App ===

impl App {
    pub(super) async fn check_turn(
        &self,
        spec: &WorkspaceSpec,
        objects: &TurnObjects,
        written: &WrittenTree,
        listed: Option<LayerChanges>,
        kept: Kept,
    ) -> Result<Checked, Fault> {
        let mut found: Vec<Found> = Vec::new();
        found.extend(
            written
                .unread
                .iter()
                .map(|line| (line.clone().into_bytes(), Kind::Unread)),
        );
        let Some(listed) = listed else {
            found.push((b".".to_vec(), Kind::Uncompared));
            let found = discrepancies(found);
            return Ok(Checked {
                found,
                ..Checked::default()
            });
        };
        let driver = self.engine.driver(spec)?;
        let read = read(
            objects,
            spec,
            written.tree.clone(),
            &listed,
            kept.tree.clone(),
        )
        .await?;
        let is_read = |path: &&Vec<u8>| !kept.entries.contains_key(*path);
        let files: Vec<Vec<u8>> = listed.files.iter().filter(is_read).cloned().collect();
        let listed_files = files.len();
        let paths = [files, read.unlisted.clone()].concat();
        let blobs = driver.blobs(spec, paths.clone()).await?;
        let ignored: HashSet<&[u8]> = written.ignored.iter().map(Vec::as_slice).collect();
        for (number, (path, blob)) in paths.iter().zip(&blobs).enumerate() {
            let is_listed = number < listed_files;
            let entry = read.entries.get(path);
            // What the list does not have is as in the base, or ignored by it.
            let is_explained = *blob == Blob::Absent || entry.is_none();
            if !is_listed && is_explained && entry == read.base.get(path) {
                continue;
            }
            let kind = verdict(entry, blob, is_listed, ignored.contains(&path[..]));
            found.extend(kind.map(|kind| (path.clone(), kind)));
        }
        found.extend(of_kept(&kept, &read, &ignored));
        found.extend(of_list(&listed, &read));
        let after = driver.layer_changes(spec).await?;
        let is_still = after.is_some_and(|after| after.digest == listed.digest);
        if !is_still {
            tracing::debug!(layer = hex(&listed.digest), "changed while it was recorded");
            for (_, kind) in &mut found {
                if matches!(kind, Kind::Differs | Kind::Invented) {
                    *kind = Kind::Moving;
                }
            }
        }
        let base = spec.code.base_commit();
        Ok(Checked {
            seen: is_still.then(|| ReadLayer::new(&written.tree, base, &listed, &found)),
            since_last: read.since_kept,
            found: discrepancies(found),
            layer: is_still.then_some(listed.digest),
        })
    }
}

/// What is wrong with files that were not read again.
fn of_kept(kept: &Kept, read: &Read, ignored: &HashSet<&[u8]>) -> Vec<Found> {
    let verdicts = kept.entries.iter().filter_map(|(path, entry)| {
        let kind = match read.entries.get(path) {
            Some(now) if now == entry => kept.large.contains(path).then_some(Kind::TooLarge),
            None if ignored.contains(&path[..]) => Some(Kind::Hidden),
            _ => Some(Kind::Differs),
        };
        Some((path.clone(), kind?))
    });
    verdicts.collect()
}

/// What the list says by itself, and deletions that the tree does not have.
fn of_list(listed: &LayerChanges, read: &Read) -> Vec<Found> {
    let files: HashSet<&[u8]> = listed.files.iter().map(Vec::as_slice).collect();
    let is_there = |path: &&Vec<u8>| read.entries.contains_key(*path) && !files.contains(&path[..]);
    let there = listed.gone.iter().filter(is_there);
    let there = there.map(|path| (path.clone(), Kind::Differs));
    let nested = listed.nested.iter();
    let nested = nested.map(|path| (path.clone(), Kind::Nested));
    let unread = listed.unread.iter();
    let unread = unread.map(|path| (path.clone(), Kind::Unread));
    there.chain(nested).chain(unread).collect()
}

/// What the objects say about a tree.
struct Read {
    /// Since the tree whose entries were kept. Otherwise only names are compared, which reads no content.
    since_kept: Option<Vec<TreeChange>>,
    /// Of the listed, the gone and the changed paths.
    entries: HashMap<Vec<u8>, Entry>,
    /// Changed paths that the list does not explain: files that git tracks although they are ignored, files that
    /// were new at the last turn and are deleted, or lies.
    unlisted: Vec<Vec<u8>>,
    /// Their entries in the base.
    base: HashMap<Vec<u8>, Entry>,
}

async fn read(
    objects: &TurnObjects,
    spec: &WorkspaceSpec,
    tree: String,
    listed: &LayerChanges,
    since: Option<String>,
) -> Result<Read, Fault> {
    let (objects, listed) = (objects.clone(), listed.clone());
    let base = spec.code.base_commit().map(str::to_owned);
    try_blocking(move || {
        let since_kept = match since.as_deref() {
            Some(since) => Some(objects.changes(Some(since), &tree)?),
            None => None,
        };
        let changed: Vec<Vec<u8>> = match &since_kept {
            Some(changes) => {
                let paths = changes.iter().flat_map(TreeChange::paths);
                paths.map(<[u8]>::to_vec).collect()
            }
            None => objects.changed_paths(base.as_deref(), &tree)?,
        };
        let known: HashSet<&[u8]> = listed.files.iter().map(Vec::as_slice).collect();
        let gone: HashSet<&[u8]> = listed.gone.iter().map(Vec::as_slice).collect();
        // A path is explained by itself, or by a directory above it that is gone or has become a file.
        let unlisted = changed
            .iter()
            .map(Vec::as_slice)
            .filter(|path| !known.contains(path) && !gone.contains(path))
            .filter(|path| !is_below(&known, path) && !is_below(&gone, path))
            .map(<[u8]>::to_vec);
        let unlisted: Vec<Vec<u8>> = unlisted.collect();
        let wanted = [listed.files.clone(), listed.gone.clone(), changed].concat();
        let entries = objects.entries(&tree, &wanted)?;
        let base = match &base {
            Some(base) if !unlisted.is_empty() => objects.entries(base, &unlisted)?,
            _ => HashMap::new(),
        };
        Ok(Read {
            since_kept,
            entries,
            unlisted,
            base,
        })
    })
    .await
}

/// What is wrong with one path.
fn verdict(entry: Option<&Entry>, blob: &Blob, is_listed: bool, is_ignored: bool) -> Option<Kind> {
    match (entry, blob) {
        (
            Some(entry),
            Blob::Is {
                id,
                with_plain_lines,
                mode,
            },
        ) => {
            let is_same = entry.object == *id || with_plain_lines.as_ref() == Some(&entry.object);
            (!is_same || entry.mode != *mode).then_some(Kind::Differs)
        }
        // The layer does not have what git says that it changed.
        (Some(_), Blob::Absent) => Some(if is_listed {
            Kind::Differs
        } else {
            Kind::Invented
        }),
        (None, Blob::Is { .. }) if is_ignored => Some(Kind::Hidden),
        (None, Blob::Is { .. }) => Some(Kind::Differs),
        // It vanished while it was recorded, or git says that it is deleted and it is not.
        (None, Blob::Absent) => (!is_listed).then_some(Kind::Invented),
        (_, Blob::TooLarge) => Some(Kind::TooLarge),
        (_, Blob::Unread) => Some(Kind::Unread),
    }
}

/// Whether `above` has a parent directory of the path.
fn is_below(above: &HashSet<&[u8]>, path: &[u8]) -> bool {
    let mut places = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    places.any(|(place, _)| above.contains(&path[..place]))
}

/// The most important first. Many hidden files of one directory become one entry, and the last entry says how many
/// do not fit.
fn discrepancies(found: Vec<Found>) -> Vec<Discrepancy> {
    let mut groups: BTreeMap<(Kind, Vec<u8>), Vec<Vec<u8>>> = BTreeMap::new();
    for (path, kind) in found {
        let end = path.iter().position(|byte| *byte == b'/');
        let top = end.map_or_else(|| path.clone(), |end| path[..=end].to_vec());
        groups.entry((kind, top)).or_default().push(path);
    }
    let mut all: Vec<Discrepancy> = Vec::new();
    for ((kind, top), paths) in groups {
        let are_one = kind == Kind::Hidden && paths.len() > MOST_OF_DIRECTORY;
        let paths = if are_one { vec![top] } else { paths };
        all.extend(paths.iter().map(|path| Discrepancy {
            path: escaped(path),
            kind,
        }));
    }
    if all.len() > MOST {
        let path = format!("{} more paths", all.len() - MOST);
        all.truncate(MOST);
        all.push(Discrepancy {
            path,
            kind: Kind::Unlisted,
        });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_inside_is_not_believed() {
        let entry = |object: &str, mode| Entry {
            mode,
            object: object.to_owned(),
        };
        let is = |id: &str, mode| Blob::Is {
            id: id.to_owned(),
            with_plain_lines: Some("lf".to_owned()),
            mode,
        };
        let file = 0o100_644;
        for (entry, blob, is_listed, is_ignored, expected) in [
            (Some(entry("a", file)), is("a", file), true, false, None),
            (Some(entry("lf", file)), is("a", file), true, false, None),
            (
                Some(entry("b", file)),
                is("a", file),
                true,
                false,
                Some(Kind::Differs),
            ),
            (
                Some(entry("a", 0o100_755)),
                is("a", file),
                true,
                false,
                Some(Kind::Differs),
            ),
            (None, is("a", file), true, true, Some(Kind::Hidden)),
            (None, is("a", file), true, false, Some(Kind::Differs)),
            (None, is("a", file), false, false, Some(Kind::Differs)),
            (None, Blob::Absent, true, false, None),
            (
                Some(entry("a", file)),
                Blob::Absent,
                false,
                false,
                Some(Kind::Invented),
            ),
            (
                Some(entry("a", file)),
                Blob::Absent,
                true,
                false,
                Some(Kind::Differs),
            ),
            (
                Some(entry("a", file)),
                Blob::TooLarge,
                true,
                false,
                Some(Kind::TooLarge),
            ),
            (None, Blob::Unread, true, false, Some(Kind::Unread)),
            (None, Blob::Absent, false, false, Some(Kind::Invented)),
        ] {
            let found = verdict(entry.as_ref(), &blob, is_listed, is_ignored);
            assert_eq!(found, expected, "{entry:?} {blob:?}");
        }
    }

    #[test]
    fn many_hidden_files_are_one_entry() {
        let file = |number| (format!("dist/{number}").into_bytes(), Kind::Hidden);
        let mut found: Vec<_> = (0..10).map(file).collect();
        found.push((b"src/x".to_vec(), Kind::Hidden));
        found.push((b"dist/y".to_vec(), Kind::Differs));
        let found = discrepancies(found);
        let paths: Vec<&str> = found.iter().map(|found| found.path.as_str()).collect();
        assert_eq!(paths, ["dist/y", "dist/", "src/x"]);
    }

    #[test]
    fn a_flood_hides_nothing_that_matters_more() {
        let flood = |number| (format!("d{number}/x").into_bytes(), Kind::Hidden);
        let mut found: Vec<_> = (0..MOST + 10).map(flood).collect();
        found.push((b"z".to_vec(), Kind::Moving));
        found.push((b"y".to_vec(), Kind::Differs));
        let found = discrepancies(found);
        let first: Vec<_> = found.iter().take(2).map(|found| found.kind).collect();
        assert_eq!(first, [Kind::Moving, Kind::Differs]);
        let last = found.last().unwrap();
        assert_eq!(
            (last.path.as_str(), last.kind),
            ("12 more paths", Kind::Unlisted)
        );
    }

    #[test]
    fn a_directory_above_explains_a_path() {
        let above: HashSet<&[u8]> = [&b"a/b"[..]].into();
        assert!(is_below(&above, b"a/b/c/d"));
        assert!(!is_below(&above, b"a/b") && !is_below(&above, b"a/bc/d"));
    }
}
