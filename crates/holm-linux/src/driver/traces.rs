//! What programs of a workspace left outside of its tree: files in home and `/tmp`, the content of volumes,
//! processes. Read from outside, by descriptor, without following symlinks and without opening a file.

use crate::numbers;
use holm_core::spec::WorkspaceSpec;
use holm_engine::driver::{OutsideFiles, RunningProcess, Traces};
use holm_keeper::directories::WorkspaceDirs;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, statat};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// More entries of one place are not looked at.
const MOST_ENTRIES: usize = 50_000;
const DEEPEST: usize = 64;
/// Files are told by their directory below this depth.
const TOLD_DEPTH: usize = 2;

/// Looks at everything that changed since a time. `volumes` has the directory of each volume, in order.
pub fn look(
    dirs: &WorkspaceDirs,
    spec: &WorkspaceSpec,
    volumes: &[PathBuf],
    since: Duration,
) -> Traces {
    let mut outside = BTreeMap::new();
    for (place, shown) in [(dirs.home(), "~"), (dirs.tmp(), "/tmp")] {
        let mut walk = Walk::new();
        walk.tree(&place, &mut |path, changed, _| {
            if changed >= since {
                let parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
                let told = parts[..parts.len().min(TOLD_DEPTH)].join(&b'/');
                let told = format!("{shown}/{}", String::from_utf8_lossy(&told));
                *outside.entry(told).or_insert(0u64) += 1;
            }
        });
    }
    let digests = spec.volumes.iter().zip(volumes).map(|(volume, place)| {
        let (mut walk, mut digest) = (Walk::new(), Sha256::new());
        walk.tree(place, &mut |path, changed, size| {
            digest.update((path.len() as u64).to_le_bytes());
            digest.update(path);
            digest.update(changed.as_nanos().to_le_bytes());
            digest.update(size.to_le_bytes());
        });
        let hex: String = digest
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        (volume.name.clone(), hex)
    });
    let outside = outside.into_iter();
    Traces {
        volumes: digests.collect(),
        outside: outside
            .map(|(path, files)| OutsideFiles { path, files })
            .collect(),
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

struct Walk {
    left: usize,
}

/// Called with the path below the top, the change time and the size of each file.
type Visit<'a> = dyn FnMut(&[u8], Duration, u64) + 'a;

// === impl Walk ===

impl Walk {
    fn new() -> Self {
        Self { left: MOST_ENTRIES }
    }

    /// A place that cannot be read has nothing to tell.
    fn tree(&mut self, top: &Path, visit: &mut Visit<'_>) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if let Ok(top) = openat(CWD, top, flags, Mode::empty()) {
            self.directory(&top, b"", 0, visit);
        }
    }

    fn directory(&mut self, directory: &OwnedFd, path: &[u8], depth: usize, visit: &mut Visit<'_>) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(entries) = Dir::read_from(directory) else {
            return;
        };
        let mut names: Vec<_> = entries
            .filter_map(|entry| Some(entry.ok()?.file_name().to_owned()))
            .filter(|name| !matches!(name.to_bytes(), b"." | b".."))
            .collect();
        names.sort();
        for name in names {
            let Some(left) = self.left.checked_sub(1) else {
                return;
            };
            self.left = left;
            let Ok(stat) = statat(directory, name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            let mut below = path.to_vec();
            if !below.is_empty() {
                below.push(b'/');
            }
            below.extend_from_slice(name.to_bytes());
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                if depth < DEEPEST
                    && let Ok(next) = openat(directory, name.as_c_str(), flags, Mode::empty())
                {
                    self.directory(&next, &below, depth + 1, visit);
                }
                continue;
            }
            let seconds = u64::try_from(stat.st_ctime).unwrap_or(0);
            let changed = Duration::new(seconds, stat.st_ctime_nsec as u32);
            visit(&below, changed, stat.st_size.cast_unsigned());
        }
    }
}
