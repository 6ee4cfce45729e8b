//! Compares the tree that git inside wrote with the writable layer, which the driver reads from outside.

use super::{hex, is_moving};
use crate::App;
use crate::work::escaped;
use holm_core::Fault;
use holm_core::spec::WorkspaceSpec;
use holm_core::turn::{Discrepancy, DiscrepancyKind as Kind};
use holm_engine::driver::{Blob, LayerChanges};
use holm_engine::{WrittenTree, try_blocking};
use holm_git::{Entry, TurnObjects};
use std::collections::{BTreeMap, HashSet};

/// The result of a comparison.
#[derive(Debug, Default)]
pub struct Checked {
    pub found: Vec<Discrepancy>,
    /// The digest of the layer, if nothing changed meanwhile.
    pub layer: Option<[u8; 32]>,
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
    ) -> Result<Checked, Fault> {
        let mut found: Vec<Found> = Vec::new();
        found.extend(
            written
                .unread
                .iter()
                .map(|line| (line.clone().into_bytes(), Kind::Unread)),
        );
        let Some(listed) = listed else {
            let found = discrepancies(found);
            return Ok(Checked { found, layer: None });
        };
        let driver = self.engine.driver(spec)?;
        let (tree, reading) = (written.tree.clone(), objects.clone());
        let base = spec.code.base_commit().map(str::to_owned);
        let (changes, entries) = try_blocking({
            let files = listed.files.clone();
            move || {
                let changes = reading.changes(base.as_deref(), &tree)?;
                let mut paths = files;
                paths.extend(changes.iter().map(|change| change.path.clone()));
                Ok((changes, reading.entries(&tree, &paths)?))
            }
        })
        .await?;
        let known: HashSet<&[u8]> = listed.files.iter().map(Vec::as_slice).collect();
        // Changes that the list does not explain: files that git tracks although they are ignored, or lies.
        let more = changes.iter().flat_map(|change| {
            let from = change.from.as_ref().filter(|_| change.status == b'R');
            std::iter::once(&change.path).chain(from)
        });
        let more: Vec<Vec<u8>> = more
            .filter(|path| !known.contains(&path[..]) && !is_gone(&listed.gone, path))
            .filter(|path| !is_replaced(&known, path))
            .cloned()
            .collect();
        let paths = [listed.files.clone(), more.clone()].concat();
        let blobs = driver.blobs(spec, paths.clone()).await?;
        let ignored: HashSet<&[u8]> = written.ignored.iter().map(Vec::as_slice).collect();
        for (number, (path, blob)) in paths.iter().zip(&blobs).enumerate() {
            let is_listed = number < listed.files.len();
            let kind = verdict(
                entries.get(path),
                blob,
                is_listed,
                ignored.contains(&path[..]),
            );
            found.extend(kind.map(|kind| (path.clone(), kind)));
        }
        found.extend(
            listed
                .nested
                .iter()
                .map(|path| (path.clone(), Kind::Nested)),
        );
        found.extend(
            listed
                .unread
                .iter()
                .map(|path| (path.clone(), Kind::Unread)),
        );
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
        Ok(Checked {
            found: discrepancies(found),
            layer: is_still.then_some(listed.digest),
        })
    }
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

/// Whether a path or a directory above it is gone.
fn is_gone(gone: &[Vec<u8>], path: &[u8]) -> bool {
    gone.iter().any(|gone| {
        let rest = path.strip_prefix(&gone[..]);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    })
}

/// Whether a file has the place of a directory above the path.
fn is_replaced(files: &HashSet<&[u8]>, path: &[u8]) -> bool {
    let mut places = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    places.any(|(place, _)| files.contains(&path[..place]))
}

/// A path and what is wrong with it.
type Found = (Vec<u8>, Kind);

/// Many hidden files of one directory become one entry.
fn discrepancies(found: Vec<Found>) -> Vec<Discrepancy> {
    let mut groups: BTreeMap<(u8, Vec<u8>), Vec<Found>> = BTreeMap::new();
    for (path, kind) in found {
        let end = path.iter().position(|byte| *byte == b'/');
        let top = end.map_or_else(|| path.clone(), |end| path[..=end].to_vec());
        groups
            .entry((kind as u8, top))
            .or_default()
            .push((path, kind));
    }
    let mut all: Vec<Discrepancy> = Vec::new();
    for ((_, top), members) in groups {
        let is_hidden = members.iter().all(|(_, kind)| *kind == Kind::Hidden);
        if is_hidden && members.len() > MOST_OF_DIRECTORY {
            let path = escaped(&top);
            all.push(Discrepancy {
                path,
                kind: Kind::Hidden,
            });
        } else {
            let each = members.iter().map(|(path, kind)| Discrepancy {
                path: escaped(path),
                kind: *kind,
            });
            all.extend(each);
        }
    }
    all.truncate(MOST);
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
}
