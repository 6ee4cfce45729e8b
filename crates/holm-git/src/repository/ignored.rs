//! Ignored files of the checkout: those that `include` selects, and those worth mentioning because
//! they are not copied.

use super::{Repository, path_bytes};
use crate::GitError;
use holm_core::layer::FileDate;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// How many ignored entries are mentioned at most.
const NOTABLE: usize = 20;

// === impl Repository ===

impl Repository {
    /// Ignored files that match `patterns` (in `.gitignore` syntax), relative to the root, sorted.
    ///
    /// Patterns that name a path (`/.env`, `config/local.yml`) cost two processes, however large
    /// the checkout is. A wildcard, a negation or a name without `/` makes git search the whole
    /// checkout, including ignored directories.
    pub fn ignored_matching(&self, patterns: &[String]) -> Result<Vec<PathBuf>, GitError> {
        let patterns: Vec<&str> = patterns
            .iter()
            .map(|pattern| pattern.trim())
            .filter(|pattern| !pattern.is_empty() && !pattern.starts_with('#'))
            .collect();
        let paths: Option<Vec<&str>> = patterns.iter().map(|p| literal_path(p)).collect();
        let candidates = match paths {
            Some(paths) => self.files_below(&paths)?,
            None => self.files_matching(&patterns)?,
        };
        let ignored = self.ignored_of(&candidates)?;
        self.without_tracked(ignored)
    }

    /// Every directory that is ignored as a whole, relative to the root. One process, which does
    /// not descend into them.
    pub fn ignored_directories(&self) -> Result<Vec<PathBuf>, GitError> {
        let listed = self
            .git("ls-files")?
            .args(["-z", "--others", "--ignored", "--exclude-standard"])
            .more(["--directory"])
            .output()?;
        let directories = listed.split(|byte| *byte == 0);
        let directories = directories.filter_map(|path| path.strip_suffix(b"/"));
        Ok(directories
            .map(|path| PathBuf::from(OsString::from_vec(path.to_vec())))
            .collect())
    }

    /// The modification times of unchanged tracked files. Two processes.
    pub fn dates(&self) -> Result<Vec<FileDate>, GitError> {
        let changed = self
            .git("diff-files")?
            .args(["-z", "--name-only", "--no-renames"])
            .output()?;
        let changed: BTreeSet<&[u8]> = changed.split(|byte| *byte == 0).collect();
        let listed = self.git("ls-files")?.args(["-z", "--stage"]).output()?;
        let entries = listed.split(|byte| *byte == 0);
        // `mode object stage`, a tab, and the path.
        let dates = entries.filter_map(|entry| {
            let tab = entry.iter().position(|byte| *byte == b'\t')?;
            let (head, path) = (str::from_utf8(&entry[..tab]).ok()?, &entry[tab + 1..]);
            if changed.contains(path) {
                return None;
            }
            let path = str::from_utf8(path).ok()?;
            let metadata = self.toplevel.join(path).symlink_metadata().ok()?;
            Some(FileDate {
                path: path.to_owned(),
                object: head.split(' ').nth(1)?.to_owned(),
                seconds: metadata.mtime(),
                nanoseconds: u32::try_from(metadata.mtime_nsec()).ok()?,
            })
        });
        Ok(dates.collect())
    }

    /// Ignored entries at the root of the checkout (directories end with `/`), at most twenty.
    /// Two processes, however large the checkout is.
    pub fn ignored_notable(&self) -> Result<Vec<String>, GitError> {
        let entries =
            std::fs::read_dir(&self.toplevel).map_err(GitError::file("list", &self.toplevel))?;
        let mut names = BTreeSet::new();
        for entry in entries {
            let entry = entry.map_err(GitError::file("list", &self.toplevel))?;
            if entry.file_name() != ".git" {
                names.insert(PathBuf::from(entry.file_name()));
            }
        }
        let ignored = self.without_tracked(self.ignored_of(&names)?)?;
        let named = ignored.iter().take(NOTABLE).map(|path| {
            let is_directory = self
                .toplevel
                .join(path)
                .symlink_metadata()
                .is_ok_and(|meta| meta.is_dir());
            let slash = if is_directory { "/" } else { "" };
            format!("{}{slash}", path.display())
        });
        Ok(named.collect())
    }

    /// Untracked files that match any pattern, whether git ignores them or not.
    fn files_matching(&self, patterns: &[&str]) -> Result<BTreeSet<PathBuf>, GitError> {
        let excludes = patterns
            .iter()
            .map(|pattern| format!("--exclude={pattern}"));
        let listed = self
            .git("ls-files")?
            .args(["-z", "--others", "--ignored"])
            .more(excludes)
            .output()?;
        let paths = split_paths(&listed);
        // A nested repository is listed as a directory; it is not a file of this repository.
        Ok(paths
            .filter(|path| !path_bytes(path).ends_with(b"/"))
            .collect())
    }

    /// The files at or below the given paths.
    fn files_below(&self, paths: &[&str]) -> Result<BTreeSet<PathBuf>, GitError> {
        let mut found = BTreeSet::new();
        let mut open: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
        while let Some(path) = open.pop() {
            let full = self.toplevel.join(&path);
            let Ok(meta) = full.symlink_metadata() else {
                continue;
            };
            if !meta.is_dir() {
                found.insert(path);
                continue;
            }
            let entries = std::fs::read_dir(&full).map_err(GitError::file("list", &full))?;
            for entry in entries {
                let entry = entry.map_err(GitError::file("list", &full))?;
                if entry.file_name() != ".git" {
                    open.push(path.join(entry.file_name()));
                }
            }
        }
        Ok(found)
    }

    fn ignored_of(&self, candidates: &BTreeSet<PathBuf>) -> Result<Vec<PathBuf>, GitError> {
        if candidates.is_empty() {
            return Ok(Vec::new());
        }
        // The index is left out because reading it takes long in a large repository.
        let finished = self
            .git("check-ignore")?
            .args(["--no-index", "-z", "--stdin"])
            .stdin(joined(candidates.iter().map(PathBuf::as_path)))
            .run()?;
        // Exit code 1: none is ignored.
        if finished.status.code() == Some(1) {
            return Ok(Vec::new());
        }
        let mut ignored: Vec<PathBuf> = split_paths(&finished.success()?).collect();
        ignored.sort();
        Ok(ignored)
    }

    /// Removes paths that the current commit contains although a pattern ignores them.
    fn without_tracked(&self, mut paths: Vec<PathBuf>) -> Result<Vec<PathBuf>, GitError> {
        let Some(head) = &self.head else {
            return Ok(paths);
        };
        paths.retain(|path| !path_bytes(path).contains(&b'\n'));
        if paths.is_empty() {
            return Ok(paths);
        }
        let mut asked = Vec::new();
        for path in &paths {
            asked.extend_from_slice(format!("{head}:").as_bytes());
            asked.extend_from_slice(path_bytes(path));
            asked.push(b'\n');
        }
        let answer = self
            .git("cat-file")?
            .args(["--batch-check"])
            .stdin(asked)
            .output()?;
        let mut lines = answer.split(|byte| *byte == b'\n');
        paths.retain(|_| lines.next().is_some_and(|line| line.ends_with(b" missing")));
        Ok(paths)
    }
}

/// The path that a pattern names, if it can match only one.
fn literal_path(pattern: &str) -> Option<&str> {
    if pattern.contains(['*', '?', '[', '\\']) || pattern.starts_with('!') {
        return None;
    }
    let path = pattern.trim_end_matches('/');
    if !path.contains('/') {
        return None;
    }
    let path = path.trim_start_matches('/');
    let is_inside = path
        .split('/')
        .all(|name| !matches!(name, "" | "." | ".." | ".git"));
    is_inside.then_some(path)
}

fn split_paths(listed: &[u8]) -> impl Iterator<Item = PathBuf> {
    listed
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
        .map(|name| PathBuf::from(OsString::from_vec(name.to_vec())))
}

fn joined<'a>(paths: impl Iterator<Item = &'a Path>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for path in paths {
        bytes.extend_from_slice(path_bytes(path));
        bytes.push(0);
    }
    bytes
}
