//! Bases: the project's tree at a commit, checked out once, immutable, shared by workspaces as the
//! lowest overlay layer. Called by the driver.
//!
//! A base is built in `.building-<commit>` and renamed to `<commit>` when it is complete. The
//! directory is locked during the build; a directory without a lock holder was left by a killed
//! build, and the next build removes it.
//!
//! A new base starts from the nearest existing one: unchanged files are hard links to it and keep
//! inode and modification time, so build tools see exactly what changed. Git replaces files
//! (unlink, create) and never writes into them, so the older base stays as it is.

mod age;
mod date;
mod link_tree;

use crate::GitError;
use crate::bare::{Bare, is_object_id};
use crate::command::{Cancel, Git};
use crate::repository::refs::contents;
use crate::seed::OBJECTS_INSIDE;
use holm_core::layer::FileDate;
use link_tree::{Linked, link_tree};
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

const BUILDING: &str = ".building-";

/// The files at the root of a commit that holm reads.
pub const COMMIT_FILES: [&str; 4] = ["holm.toml", "AGENTS.md", ".gitmodules", ".gitattributes"];

/// Where a base has them, beside its tree.
const FILES: &str = "files";

/// How many of the most recently used bases are compared to find the nearest one.
const CANDIDATES: usize = 5;

/// How often to poll the lock while another process builds the same base.
const LOCK_POLL: Duration = Duration::from_millis(10);

/// How often to retry removing an unfinished build before leaving that to the next build.
const REMOVALS: usize = 200;

/// Whether the complete base of `commit` exists (`None`: of a repository without commits).
pub fn base_is_present(bases_dir: &Path, commit: Option<&str>) -> bool {
    base_dir(bases_dir, commit).join("tree").is_dir()
}

/// The [`COMMIT_FILES`] of a base, exactly as the commit has them; `None` for one that the commit does not have. `None` as
/// a whole: there is no such base, or an earlier release built it.
pub fn base_files(bases_dir: &Path, commit: &str) -> Option<Vec<Option<Vec<u8>>>> {
    let is_id = is_object_id(commit, "sha1") || is_object_id(commit, "sha256");
    let kept = base_dir(bases_dir, is_id.then_some(commit)).join(FILES);
    if !is_id || !kept.is_dir() {
        return None;
    }
    let read = |name: &&str| match std::fs::read(kept.join(name)) {
        Ok(content) => Some(Some(content)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some(None),
        Err(_) => None,
    };
    COMMIT_FILES.iter().map(read).collect()
}

/// Marks the base as recently used, so that new bases start from it.
pub fn mark_base_used(bases_dir: &Path, commit: Option<&str>) -> Result<(), GitError> {
    let path = base_dir(bases_dir, commit);
    File::open(&path)
        .and_then(|directory| directory.set_modified(SystemTime::now()))
        .map_err(GitError::file("mark", &path))
}

/// Builds `<bases_dir>/<commit or "empty">/tree` if it does not exist; waits if another process is
/// building it. `progress` gets the number of files done and in total.
pub fn build_base(
    bare: &Bare,
    commit: Option<&str>,
    bases_dir: &Path,
    cancel: &Cancel,
    progress: &dyn Fn(u64, u64),
) -> Result<(), GitError> {
    let build = Build {
        bases_dir,
        dates: &[],
        cancel,
        progress,
    };
    build_base_dated(bare, commit, &build)
}

/// Where a base is built, and how.
pub struct Build<'a> {
    pub bases_dir: &'a Path,
    /// In a full checkout, these files get these modification times.
    pub dates: &'a [FileDate],
    pub cancel: &'a Cancel,
    /// Gets the number of files done, and of all.
    pub progress: &'a dyn Fn(u64, u64),
}

/// Like [`build_base`], with modification times for files.
pub fn build_base_dated(
    bare: &Bare,
    commit: Option<&str>,
    build: &Build<'_>,
) -> Result<(), GitError> {
    let bases_dir = build.bases_dir;
    if let Some(commit) = commit
        && !is_object_id(commit, bare.object_format())
    {
        return Err(GitError::InvalidObjectId {
            text: commit.chars().take(80).collect(),
        });
    }
    std::fs::create_dir_all(bases_dir).map_err(GitError::file("make", bases_dir))?;
    remove_leftovers(bases_dir);
    let Some(building) = Building::begin(bases_dir, commit, build.cancel)? else {
        return Ok(());
    };
    let built = building.fill(bare, commit, build);
    match built {
        Ok(()) => building.publish(&base_dir(bases_dir, commit)),
        Err(error) => {
            discard(&building.path);
            Err(error)
        }
    }
}

/// Removes an unfinished build. Git's helper processes were killed, but one may still create a file
/// while its last system call finishes, so this retries.
fn discard(path: &Path) {
    for _ in 0..REMOVALS {
        // Errors are dropped: the caller reports the build's own error, and the next build removes
        // the rest.
        if std::fs::remove_dir_all(path).is_ok() || !path.exists() {
            return;
        }
        std::thread::sleep(LOCK_POLL);
    }
}

/// A base that is being built, with its lock.
struct Building {
    path: PathBuf,
    _lock: File,
}

// === impl Building ===

impl Building {
    /// Creates and locks an empty build directory; `None` when another process finished the base
    /// meanwhile.
    fn begin(
        bases_dir: &Path,
        commit: Option<&str>,
        cancel: &Cancel,
    ) -> Result<Option<Building>, GitError> {
        let path = bases_dir.join(format!("{BUILDING}{}", commit.unwrap_or("empty")));
        let failed = |error| GitError::file("lock", &path)(error);
        loop {
            cancel.check()?;
            if base_is_present(bases_dir, commit) {
                return Ok(None);
            }
            match std::fs::create_dir(&path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(GitError::file("make", &path)(error));
                }
                _ => {}
            }
            let lock = match File::open(&path) {
                Ok(lock) => lock,
                // The process that held the lock renamed or removed the directory.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(failed(error)),
            };
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    std::thread::sleep(LOCK_POLL);
                    continue;
                }
                Err(errno) => return Err(failed(errno.into())),
            }
            if !is_same_directory(&lock, &path) {
                continue;
            }
            // We hold the lock, so these files belong to a killed build.
            empty_directory(&path).map_err(GitError::file("empty", &path))?;
            return Ok(Some(Building { path, _lock: lock }));
        }
    }

    fn publish(self, target: &Path) -> Result<(), GitError> {
        std::fs::rename(&self.path, target).map_err(GitError::file("rename", &self.path))
    }

    fn fill(&self, bare: &Bare, commit: Option<&str>, build: &Build<'_>) -> Result<(), GitError> {
        let (cancel, dates) = (build.cancel, build.dates);
        let tree = self.path.join("tree");
        std::fs::create_dir(&tree).map_err(GitError::file("make", &tree))?;
        if let Some(commit) = commit {
            let linked = self.start_from_nearest(bare, commit, build.bases_dir, cancel)?;
            write_git_dir(&tree, bare, Some(commit))?;
            check_out(bare, &tree, commit, build)?;
            self.keep_files(bare, commit)?;
            if linked == Some(Linked::SomeCopied) {
                refresh_index(bare, &tree, cancel)?;
            }
            // Only for a full checkout. Files that changed since the nearest base must stay newer
            // than it, so that build tools see the change. Files without a date stay new too,
            // because build output in the checkout may be only moments old.
            if linked.is_none() && dates.is_empty() {
                age::age(&tree, bare.object_format())?;
            } else if linked.is_none() {
                date::date(&tree, bare, commit, dates)?;
                refresh_index(bare, &tree, cancel)?;
            }
        } else {
            write_git_dir(&tree, bare, None)?;
        }
        // Written last, because the path exists only inside workspaces.
        let file = tree.join(".git/objects/info/alternates");
        std::fs::write(&file, format!("{OBJECTS_INSIDE}\n")).map_err(GitError::file("write", &file))
    }

    /// Keeps the [`COMMIT_FILES`]. Those of the tree may differ: git changes files by attributes, and links to another base
    /// keep the changes of its attributes.
    fn keep_files(&self, bare: &Bare, commit: &str) -> Result<(), GitError> {
        let kept = self.path.join(FILES);
        std::fs::create_dir(&kept).map_err(GitError::file("make", &kept))?;
        let cat_file = Git::sealed_in(bare.path(), "cat-file")?;
        for (name, content) in COMMIT_FILES
            .iter()
            .zip(contents(cat_file, commit, &COMMIT_FILES)?)
        {
            if let Some(content) = content {
                let path = kept.join(name);
                std::fs::write(&path, content).map_err(GitError::file("write", &path))?;
            }
        }
        Ok(())
    }

    /// Fills the tree with links to the nearest base, if there is one.
    fn start_from_nearest(
        &self,
        bare: &Bare,
        commit: &str,
        bases_dir: &Path,
        cancel: &Cancel,
    ) -> Result<Option<Linked>, GitError> {
        let Some(nearest) = nearest_base(bare, commit, bases_dir, cancel)? else {
            return Ok(None);
        };
        let source = base_dir(bases_dir, Some(&nearest)).join("tree");
        let tree = self.path.join("tree");
        let copy = || -> io::Result<Linked> {
            let linked = link_tree(&source, &tree, cancel)?;
            std::fs::create_dir(tree.join(".git"))?;
            std::fs::copy(source.join(".git/index"), tree.join(".git/index"))?;
            Ok(linked)
        };
        let copied = copy();
        cancel.check()?;
        match copied {
            Ok(linked) => Ok(Some(linked)),
            // Without the old base the build only takes longer.
            Err(_) => {
                empty_directory(&tree).map_err(GitError::file("empty", &tree))?;
                Ok(None)
            }
        }
    }
}

fn base_dir(bases_dir: &Path, commit: Option<&str>) -> PathBuf {
    bases_dir.join(commit.unwrap_or("empty"))
}

/// The base with the fewest different files, among the most recently used. At most one process.
fn nearest_base(
    bare: &Bare,
    commit: &str,
    bases_dir: &Path,
    cancel: &Cancel,
) -> Result<Option<String>, GitError> {
    let mut bases = Vec::new();
    let entries = std::fs::read_dir(bases_dir).map_err(GitError::file("list", bases_dir))?;
    for entry in entries.flatten() {
        if let Some(name) = entry.file_name().to_str()
            && is_object_id(name, bare.object_format())
            && let Ok(used) = entry.metadata().and_then(|meta| meta.modified())
        {
            bases.push((used, name.to_owned()));
        }
    }
    bases.sort_by(|left, right| right.cmp(left));
    let mut names: Vec<String> = bases.into_iter().map(|(_, name)| name).collect();
    names.truncate(CANDIDATES);
    if names.len() < 2 {
        return Ok(names.pop());
    }
    let asked: String = names
        .iter()
        .map(|base| format!("{commit} {base}\n"))
        .collect();
    let finished = Git::sealed_in(bare.path(), "diff-tree")?
        .args(["--stdin", "--always", "-r", "--raw", "--no-renames"])
        .stdin(asked.into_bytes())
        .cancel(cancel)
        .run()?;
    // For each base git prints a line with the commit, then a line with a colon per different file.
    let mut differences = Vec::new();
    for line in finished.stdout.split(|byte| *byte == b'\n') {
        match (line.first(), differences.last_mut()) {
            (Some(b':'), Some(count)) => *count += 1u64,
            (Some(_), _) => differences.push(0),
            (None, _) => {}
        }
    }
    let nearest = names
        .iter()
        .zip(&differences)
        .min_by_key(|(_, count)| **count)
        .map(|(name, _)| name.clone());
    Ok(nearest.or_else(|| names.into_iter().next()))
}

/// Writes the small `.git` of a base. During the build, the environment tells git where the objects
/// are.
fn write_git_dir(tree: &Path, bare: &Bare, commit: Option<&str>) -> Result<(), GitError> {
    let git_dir = tree.join(".git");
    let head = match commit {
        Some(commit) => format!("{commit}\n"),
        None => "ref: refs/heads/main\n".to_owned(),
    };
    let write = || -> io::Result<()> {
        for folder in ["objects/info", "objects/pack", "refs/heads", "info"] {
            std::fs::create_dir_all(git_dir.join(folder))?;
        }
        std::fs::write(git_dir.join("HEAD"), head)?;
        std::fs::write(git_dir.join("info/exclude"), "")?;
        std::fs::write(
            git_dir.join("config"),
            crate::seed::core_config(bare.object_format()),
        )
    };
    write().map_err(GitError::file("make", &git_dir))
}

fn base_git(bare: &Bare, tree: &Path, name: &str) -> Result<Git, GitError> {
    Ok(Git::sealed_in(&tree.join(".git"), name)?
        .work_tree(tree)
        .env("GIT_OBJECT_DIRECTORY", bare.objects_dir())
        .env("GIT_PROGRESS_DELAY", "0"))
}

/// Lets git update the tree from what the index says to the commit.
fn check_out(bare: &Bare, tree: &Path, commit: &str, build: &Build<'_>) -> Result<(), GitError> {
    let mut line = Vec::new();
    base_git(bare, tree, "read-tree")?
        .config("checkout.workers=0")
        .config("index.threads=true")
        .args(["-m", "-u", "-v", "--no-recurse-submodules", commit])
        .cancel(build.cancel)
        .spawn()?
        .finish_with(&mut |bytes| {
            for byte in bytes {
                if matches!(byte, b'\r' | b'\n') {
                    if let Some((done, total)) = updated_files(&line) {
                        (build.progress)(done, total);
                    }
                    line.clear();
                } else {
                    line.push(*byte);
                }
            }
        })?
        .success()
        .map_err(|error| or_full(bare, tree, commit, error))?;
    Ok(())
}

/// Git does not say why it could not write a file, and removes the partial file. So this checks
/// whether the disk is full.
fn or_full(bare: &Bare, tree: &Path, commit: &str, error: GitError) -> GitError {
    const SOME: u64 = 1 << 20;
    let GitError::Failed { detail, .. } = &error else {
        return error;
    };
    let named = detail.split_once("unable to write file '");
    let named = named.and_then(|(_, rest)| rest.split_once('\''));
    let size = named.and_then(|(path, _)| {
        let answer = base_git(bare, tree, "cat-file").ok()?;
        let answer = answer.args(["-s", &format!("{commit}:{path}")]).output();
        String::from_utf8_lossy(&answer.ok()?).trim().parse().ok()
    });
    let free = rustix::fs::statvfs(tree).map(|disk| disk.f_bavail * disk.f_frsize);
    match free {
        Ok(free) if free < SOME.max(size.unwrap_or(0)) => GitError::File {
            action: "write all files to",
            path: tree.to_owned(),
            source: io::ErrorKind::StorageFull.into(),
        },
        _ => error,
    }
}

/// Updates the index for files that had to be copied and have new inodes.
fn refresh_index(bare: &Bare, tree: &Path, cancel: &Cancel) -> Result<(), GitError> {
    base_git(bare, tree, "update-index")?
        .args(["-q", "--refresh"])
        .cancel(cancel)
        .output()?;
    Ok(())
}

/// Parses `Updating files:  42% (13/30)`.
fn updated_files(line: &[u8]) -> Option<(u64, u64)> {
    let line = std::str::from_utf8(line).ok()?;
    let rest = line.strip_prefix("Updating files:")?;
    let (_, counts) = rest.split_once('(')?;
    let (counts, _) = counts.split_once(')')?;
    let (done, total) = counts.split_once('/')?;
    Some((done.parse().ok()?, total.parse().ok()?))
}

/// Removes the directories of killed builds. Running builds hold their lock.
fn remove_leftovers(bases_dir: &Path) {
    let Ok(entries) = std::fs::read_dir(bases_dir) else {
        return;
    };
    for entry in entries.flatten() {
        let is_building = entry
            .file_name()
            .as_encoded_bytes()
            .starts_with(BUILDING.as_bytes());
        let path = entry.path();
        if is_building
            && let Ok(lock) = File::open(&path)
            && flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()
            && is_same_directory(&lock, &path)
        {
            // Failing here only costs disk space until the next attempt.
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

fn is_same_directory(open: &File, path: &Path) -> bool {
    match (open.metadata(), path.symlink_metadata()) {
        (Ok(open), Ok(named)) => (open.dev(), open.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

fn empty_directory(path: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            std::fs::remove_dir_all(entry.path())?
        } else {
            std::fs::remove_file(entry.path())?
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_read_as_git_prints_it() {
        let check = |line: &str, expect: Option<(u64, u64)>| {
            assert_eq!(updated_files(line.as_bytes()), expect, "{line}");
        };
        check("Updating files:  42% (13/30)", Some((13, 30)));
        check("Updating files: 100% (30/30), done.", Some((30, 30)));
        check("warning: x (1/2)", None);
        check("Updating files: (x/y)", None);
    }
}
