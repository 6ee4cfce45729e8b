//! What programs of a workspace left outside of its tree: files in home and `/tmp`, the content of volumes,
//! processes. Read from outside, by descriptor, without following symlinks and without opening a file.
//!
//! holm detects a change by a file's ctime, which no program inside can set. Deleting a file changes the ctime of its
//! directory. What cannot be read counts as not looked at, never as unchanged.

use super::changed::{DIRECTORY, TICK};
use super::upper::ctime;
use super::{renew, volume};
use crate::{Layout, numbers};
use holm_core::spec::{Volume, WorkspaceSpec};
use holm_engine::driver::{ChangedVolume, OutsideFiles, RunningProcess, Since, Traces};
use holm_keeper::directories::WorkspaceDirs;
use rustix::fs::{AtFlags, CWD, Dir, DirEntry, FileType, Mode, Stat, fstat, openat, statat};
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

/// More entries of one place are not looked at.
const MOST_ENTRIES: usize = 50_000;
const DEEPEST: usize = 64;
/// Files below this depth are counted under their directory.
const SHOWN_DEPTH: usize = 2;

/// Looks at everything that changed since a time.
pub fn look(layout: &Layout, dirs: &WorkspaceDirs, spec: &WorkspaceSpec, since: Since) -> Traces {
    let volumes = spec.volumes.iter().filter_map(|volume| {
        let changed = changed(&volume::place(layout, spec, dirs, volume), volume, since)?;
        Some(ChangedVolume {
            name: volume.name.clone(),
            services: renew::users(spec, &volume.path),
            ..changed
        })
    });
    Traces {
        volumes: volumes.collect(),
        outside: outside(dirs, since),
        processes: numbers::commands(dirs)
            .into_iter()
            .map(|(pid, command, service)| RunningProcess {
                pid,
                command,
                service,
            })
            .collect(),
    }
}

fn outside(dirs: &WorkspaceDirs, since: Since) -> Vec<OutsideFiles> {
    let since = match since {
        Since::Creation(time) | Since::Turn(time) => time,
    };
    let (mut outside, mut partial) = (BTreeMap::new(), Vec::new());
    for (place, shown) in [(dirs.home(), "~"), (dirs.tmp(), "/tmp")] {
        let mut walk = Walk::new();
        walk.tree(&place, &mut |path, stat| {
            if !is_directory(stat) && ctime(stat) >= since {
                let parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
                let place = parts[..parts.len().min(SHOWN_DEPTH)].join(&b'/');
                let place = format!("{shown}/{}", String::from_utf8_lossy(&place));
                *outside.entry(place).or_insert(0u64) += 1;
            }
        });
        partial.extend(walk.is_cut.then(|| OutsideFiles {
            path: shown.to_owned(),
            files: 0,
            is_partial: true,
        }));
    }
    let outside = outside.into_iter().map(|(path, files)| OutsideFiles {
        path,
        files,
        is_partial: false,
    });
    // First, because few are shown.
    partial.into_iter().chain(outside).collect()
}

/// Whether the files of a volume changed. They are in `place/own`. No program inside can change `place` itself, so its
/// ctime is the moment when the volume got its first content.
fn changed(place: &Path, volume: &Volume, since: Since) -> Option<ChangedVolume> {
    let is_shared = volume::is_shared(volume);
    let filled = match open(place).and_then(fstat) {
        Ok(stat) => ctime(&stat),
        Err(Errno::NOENT) => return None,
        Err(_) => {
            return Some(ChangedVolume {
                is_shared,
                is_partial: true,
                ..ChangedVolume::default()
            });
        }
    };
    let (since, is_replaced) = match since {
        Since::Creation(time) if is_shared => (time, false),
        Since::Creation(_) => (filled, false),
        Since::Turn(time) => (time.saturating_sub(TICK), filled > time && !is_shared),
    };
    let (mut files, mut is_changed) = (0, is_replaced);
    let mut walk = Walk::new();
    walk.tree(&place.join("own"), &mut |path, stat| {
        // Mounting an overlay notes something about the top, which is a change of the directory and not of its entries.
        let is_newer = if path.is_empty() {
            modified(stat) > since
        } else {
            ctime(stat) > since
        };
        is_changed |= is_newer;
        files += u64::from(is_newer && !is_directory(stat));
    });
    let is_partial = walk.is_cut;
    (is_changed || is_partial).then(|| ChangedVolume {
        files,
        is_replaced,
        is_shared,
        is_partial,
        ..ChangedVolume::default()
    })
}

/// A digest of the names, sizes and times of each volume's files; `None`: not all of them can be read.
pub fn digests(
    layout: &Layout,
    dirs: &WorkspaceDirs,
    spec: &WorkspaceSpec,
) -> BTreeMap<String, Option<String>> {
    let digests = spec.volumes.iter().map(|volume| {
        let (mut digest, mut walk) = (Sha256::new(), Walk::new());
        let place = volume::place(layout, spec, dirs, volume);
        walk.tree(&place.join("own"), &mut |path, stat| {
            if is_directory(stat) {
                return;
            }
            digest.update((path.len() as u64).to_le_bytes());
            digest.update(path);
            digest.update(ctime(stat).as_nanos().to_le_bytes());
            digest.update(stat.st_size.to_le_bytes());
        });
        let hex = digest
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        (volume.name.clone(), (!walk.is_cut).then_some(hex))
    });
    digests.collect()
}

fn open(directory: &Path) -> Result<OwnedFd, Errno> {
    openat(CWD, directory, DIRECTORY, Mode::empty())
}

fn modified(stat: &Stat) -> Duration {
    let seconds = u64::try_from(stat.st_mtime).unwrap_or(0);
    Duration::new(seconds, stat.st_mtime_nsec as u32)
}

fn is_directory(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

/// A walk through the entries of one place.
struct Walk {
    left: usize,
    /// There are more entries, deeper ones, or some that cannot be read.
    is_cut: bool,
}

/// Called for each entry with its path below the top and its metadata.
type Visit<'a> = dyn FnMut(&[u8], &Stat) + 'a;

// === impl Walk ===

impl Walk {
    fn new() -> Self {
        Self {
            left: MOST_ENTRIES,
            is_cut: false,
        }
    }

    /// The top itself is visited with an empty path.
    fn tree(&mut self, top: &Path, visit: &mut Visit<'_>) {
        let found = open(top).and_then(|top| Ok((fstat(&top)?, top)));
        if let Some((stat, top)) = self.present(found) {
            visit(b"", &stat);
            self.directory(&top, b"", 0, visit);
        }
    }

    fn directory(&mut self, directory: &OwnedFd, path: &[u8], depth: usize, visit: &mut Visit<'_>) {
        let entries = Dir::read_from(directory).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let entries = self.present(entries).unwrap_or_default();
        let names = entries.iter().map(DirEntry::file_name);
        let mut names: Vec<_> = names
            .filter(|name| !matches!(name.to_bytes(), b"." | b".."))
            .collect();
        names.sort();
        for name in names {
            let Some(left) = self.left.checked_sub(1) else {
                self.is_cut = true;
                return;
            };
            self.left = left;
            let stat = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
            let Some(stat) = self.present(stat) else {
                continue;
            };
            let mut below = path.to_vec();
            if !below.is_empty() {
                below.push(b'/');
            }
            below.extend_from_slice(name.to_bytes());
            visit(&below, &stat);
            if !is_directory(&stat) {
                continue;
            }
            if depth == DEEPEST {
                self.is_cut = true;
                continue;
            }
            let next = openat(directory, name, DIRECTORY, Mode::empty());
            if let Some(next) = self.present(next) {
                self.directory(&next, &below, depth + 1, visit);
            }
        }
    }

    /// An entry that is gone meanwhile is nothing; one that cannot be read is noted.
    fn present<T>(&mut self, found: Result<T, Errno>) -> Option<T> {
        self.is_cut |= found.as_ref().is_err_and(|error| *error != Errno::NOENT);
        found.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holm_core::config::Policy;
    use std::fs;
    use std::time::{Instant, SystemTime, UNIX_EPOCH};

    fn volume(policy: Policy) -> Volume {
        Volume {
            name: "pg".to_owned(),
            path: "/data".into(),
            policy,
            single: false,
            seed: None,
            generation: 0,
            snapshot: None,
        }
    }

    /// The time of now, once the kernel stamps files with a later one, beyond the tolerance of a tick.
    fn later(probe: &Path) -> Duration {
        let begin = Instant::now();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        loop {
            fs::write(probe, "x").unwrap();
            let stat = statat(CWD, probe, AtFlags::empty()).unwrap();
            if ctime(&stat) > now + 2 * TICK {
                return now + 2 * TICK;
            }
            assert!(begin.elapsed() < Duration::from_secs(10));
        }
    }

    #[test]
    fn a_volume_changed_if_its_files_did_since_it_was_filled() {
        let base = tempfile::tempdir().unwrap();
        let (place, probe) = (base.path().join("0"), base.path().join("probe"));
        let (own, copy) = (place.join("own"), place.join("copy"));
        fs::create_dir_all(copy.join("base")).unwrap();
        fs::write(copy.join("base/seed"), "seed").unwrap();
        fs::rename(copy, &own).unwrap();
        let isolated = volume(Policy::Isolated);
        let files = |since: Since| changed(&place, &isolated, since).map(|found| found.files);
        let created = Since::Creation(Duration::ZERO);
        assert_eq!(files(created), None, "a seed is no change");
        let turn = Since::Turn(later(&probe));
        assert_eq!(files(turn), None);

        fs::write(own.join("base/seed"), "row").unwrap();
        // A program inside can set this time, and it hides nothing.
        let file = fs::File::options().write(true).open(own.join("base/seed"));
        file.unwrap().set_modified(UNIX_EPOCH).unwrap();
        fs::write(own.join("new"), "row").unwrap();
        assert_eq!((files(created), files(turn)), (Some(2), Some(2)));
        let turn = Since::Turn(later(&probe));
        assert_eq!((files(created), files(turn)), (Some(2), None));
        fs::remove_file(own.join("base/seed")).unwrap();
        assert_eq!(files(turn), Some(0), "a deletion");

        let turn = Since::Turn(later(&probe));
        fs::rename(&own, base.path().join("old")).unwrap();
        fs::create_dir(&own).unwrap();
        let found = changed(&place, &isolated, turn).unwrap();
        assert_eq!((found.is_replaced, found.files), (true, 0));
        assert_eq!(files(created), None, "it is as it was filled");
    }

    #[test]
    fn a_shared_volume_counts_from_the_creation_of_the_workspace() {
        let base = tempfile::tempdir().unwrap();
        let place = base.path().join("volume");
        fs::create_dir_all(place.join("own")).unwrap();
        fs::write(place.join("own/of another"), "x").unwrap();
        let shared = volume(Policy::Shared);
        let created = Since::Creation(later(&base.path().join("probe")));
        assert_eq!(changed(&place, &shared, created), None);
        fs::write(place.join("own/x"), "x").unwrap();
        let found = changed(&place, &shared, created).unwrap();
        assert_eq!((found.files, found.is_shared), (1, true));
    }

    #[test]
    fn files_outside_are_told_by_their_directory() {
        let base = tempfile::tempdir().unwrap();
        let dirs = WorkspaceDirs {
            dir: base.path().to_owned(),
            socket: base.path().join("socket"),
        };
        for place in [dirs.home().join(".npm/_logs/old"), dirs.tmp()] {
            fs::create_dir_all(place).unwrap();
        }
        fs::write(dirs.home().join("before"), "x").unwrap();
        let since = Since::Turn(later(&base.path().join("probe")));
        assert_eq!(outside(&dirs, since), []);
        for file in [".npm/_logs/1", ".npm/_logs/old/2", "note"] {
            fs::write(dirs.home().join(file), "x").unwrap();
        }
        // A link is told, and not followed.
        std::os::unix::fs::symlink("/etc", dirs.tmp().join("link")).unwrap();
        let found = outside(&dirs, since).into_iter();
        let found: Vec<_> = found.map(|files| (files.path, files.files)).collect();
        let expected = [("/tmp/link", 1), ("~/.npm/_logs", 2), ("~/note", 1)];
        assert_eq!(
            found,
            expected.map(|(path, files)| (path.to_owned(), files))
        );
    }

    #[test]
    fn a_walk_says_that_it_was_cut() {
        let base = tempfile::tempdir().unwrap();
        let mut deep = base.path().to_owned();
        deep.extend(std::iter::repeat_n("d", DEEPEST + 1));
        fs::create_dir_all(&deep).unwrap();
        let cut = |left: usize| {
            let mut walk = Walk {
                left,
                is_cut: false,
            };
            walk.tree(base.path(), &mut |_, _| {});
            walk.is_cut
        };
        assert!(cut(MOST_ENTRIES), "too deep");
        fs::remove_dir(&deep).unwrap();
        assert!(!cut(DEEPEST));
        assert!(cut(DEEPEST - 1), "too many");
    }

    #[test]
    fn what_cannot_be_read_is_not_taken_for_unchanged() {
        let base = tempfile::tempdir().unwrap();
        let place = base.path().join("0");
        fs::create_dir_all(place.join("own")).unwrap();
        let isolated = volume(Policy::Isolated);
        let found = || changed(&place, &isolated, Since::Creation(Duration::ZERO));
        assert_eq!(found(), None);
        // The link cannot be followed; unlike modes this also holds for root.
        fs::remove_dir(place.join("own")).unwrap();
        std::os::unix::fs::symlink("/etc", place.join("own")).unwrap();
        assert!(found().unwrap().is_partial);
        fs::remove_file(place.join("own")).unwrap();
        assert_eq!(found(), None, "what is not there has not changed");
    }
}
