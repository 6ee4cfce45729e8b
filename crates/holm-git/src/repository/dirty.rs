//! Captures the uncommitted state of the checkout (`up --dirty`): staged, unstaged and untracked
//! files, deletions, modes and links, without ignored files.
//!
//! It uses a copy of the index and a separate object directory, so the user's repository and index
//! stay unchanged.

use super::Repository;
use super::extent::Extent;
use super::fetch::empty_tree;
use crate::command::{Cancel, Git};
use crate::{GitError, quote};
use std::ffi::{OsStr, OsString};
use std::fs::{File, FileTimes};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Untracked files whose lines are counted, and the largest of them in bytes.
const MOST_COUNTED: usize = 1000;
const LARGEST_COUNTED: u64 = 1024 * 1024;

/// The uncommitted state as git objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dirty {
    /// Objects that the two trees have and the commit lacks; may be empty.
    pub pack: PathBuf,
    /// The tree of all files in the checkout that are not ignored.
    pub worktree_tree: String,
    /// The tree of the index; during a merge with conflicts, the tree of the checkout.
    pub index_tree: String,
    /// Paths with `git add --intent-to-add`, which a tree cannot express. UTF-8 paths only.
    pub intended: Vec<String>,
    /// Repositories in the checkout that are not submodules. Their files are not part of the state.
    pub nested: Vec<PathBuf>,
    /// Changed paths with the ids of their new content; `None`: deleted. UTF-8 paths only.
    pub changed: Vec<(String, Option<String>)>,
}

/// A temporary directory to build the state in. Removed on drop.
#[derive(Debug)]
pub(super) struct Scratch {
    directory: PathBuf,
    objects: PathBuf,
    index: PathBuf,
}

// === impl Repository ===

impl Repository {
    /// Writes a pack of the uncommitted state to a new file in `out_dir`. Seven processes.
    pub fn dirty_state(&self, out_dir: &Path, cancel: &Cancel) -> Result<Dirty, GitError> {
        let scratch = Scratch::make(self, out_dir)?;
        let index_tree = self.write_tree(&scratch)?;
        let nested = self.add_everything(&scratch, cancel)?;
        let worktree_tree = self
            .write_tree(&scratch)?
            .ok_or_else(|| GitError::unexpected("write-tree", b"unmerged after `git add`"))?;
        let index_tree = index_tree.unwrap_or_else(|| worktree_tree.clone());
        let changed = self.changed(&scratch, &worktree_tree)?;
        let pack = out_dir.join("dirty.pack");
        let file = File::create_new(&pack).map_err(GitError::file("make", &pack))?;
        let mut wanted = format!("{worktree_tree}\n{index_tree}\n");
        if let Some(head) = &self.head {
            wanted.push_str(&format!("^{head}^{{tree}}\n"));
        }
        // Deltas would cost more time than they save, because the pack stays on this machine.
        self.in_scratch(&scratch, "pack-objects")?
            .config("pack.compression=1")
            .args(["--revs", "--stdout", "--quiet", "--window=0"])
            .stdin(wanted.into_bytes())
            .stdout_to(file)
            .cancel(cancel)
            .output()?;
        Ok(Dirty {
            pack,
            worktree_tree,
            index_tree,
            intended: self.intended()?,
            nested,
            changed,
        })
    }

    /// How much the checkout differs from HEAD, untracked files included. Two processes.
    ///
    /// Lines of untracked files are counted for the first [`MOST_COUNTED`] files, and not for binary or large ones.
    pub fn extent_uncommitted(&self) -> Result<Extent, GitError> {
        let from = self.head.as_deref();
        let differing = self
            .git("diff")?
            .args(["--numstat", "-z", "--no-renames"])
            .more(["--no-ext-diff", "--no-textconv", "--ignore-submodules"])
            .more([from.unwrap_or_else(|| empty_tree(&self.object_format))])
            .output()?;
        let mut extent = Extent::of_numstat(&differing);
        let untracked = self
            .git("ls-files")?
            .args(["-z", "--others", "--exclude-standard"])
            .output()?;
        let names = untracked.split(|byte| *byte == 0);
        let names = names.filter(|name| !name.is_empty());
        for (counted, name) in names.enumerate() {
            extent.files += 1;
            if counted < MOST_COUNTED {
                extent.added += lines_of(&self.toplevel.join(OsStr::from_bytes(name)));
            }
        }
        Ok(extent)
    }

    /// Adds everything that is not ignored to the scratch index; returns the nested repositories
    /// that were left out.
    pub(super) fn add_everything(
        &self,
        scratch: &Scratch,
        cancel: &Cancel,
    ) -> Result<Vec<PathBuf>, GitError> {
        let nested = self.nested_repositories()?;
        let mut paths = Vec::new();
        if !nested.is_empty() {
            paths.push(OsString::from("."));
        }
        for path in &nested {
            let mut excluded = OsString::from(":(exclude,literal)");
            excluded.push(path);
            paths.push(excluded);
        }
        self.in_scratch(scratch, "add")?
            .config("core.safecrlf=false")
            .config("advice.addEmbeddedRepo=false")
            .config("core.splitIndex=false")
            .config("core.untrackedCache=false")
            .args(["--all", "--"])
            .more(paths)
            .cancel(cancel)
            .output()?;
        Ok(nested)
    }

    fn changed(
        &self,
        scratch: &Scratch,
        tree: &str,
    ) -> Result<Vec<(String, Option<String>)>, GitError> {
        let Some(head) = &self.head else {
            return Ok(Vec::new());
        };
        let listed = self
            .in_scratch(scratch, "diff-tree")?
            .args(["-r", "-z", "--raw", "--no-renames", "--no-abbrev"])
            .more([head.as_str(), tree])
            .output()?;
        let mut fields = listed.split(|byte| *byte == 0);
        let mut changed = Vec::new();
        // `:mode mode object object status`, then the path.
        while let (Some(head), Some(path)) = (fields.next(), fields.next()) {
            let head = String::from_utf8_lossy(head);
            let mut words = head.split(' ').skip(3);
            let (object, status) = (words.next().unwrap_or_default(), words.next());
            if let Ok(path) = String::from_utf8(path.to_vec()) {
                let object = (status != Some("D")).then(|| object.to_owned());
                changed.push((path, object));
            }
        }
        Ok(changed)
    }

    fn intended(&self) -> Result<Vec<String>, GitError> {
        let listed = self
            .git("diff-files")?
            .args(["-z", "--name-only", "--diff-filter=A", "--no-renames"])
            .output()?;
        let names = listed.split(|byte| *byte == 0);
        Ok(names
            .filter(|name| !name.is_empty())
            .filter_map(|name| String::from_utf8(name.to_vec()).ok())
            .collect())
    }

    /// Git would treat such a directory as a submodule, and fails when it has no commit yet.
    fn nested_repositories(&self) -> Result<Vec<PathBuf>, GitError> {
        let listed = self
            .git("ls-files")?
            .args(["-z", "--others", "--exclude-standard"])
            .output()?;
        let directories = listed.split(|byte| *byte == 0);
        Ok(directories
            .filter_map(|name| name.strip_suffix(b"/"))
            .map(|name| PathBuf::from(OsString::from_vec(name.to_vec())))
            .collect())
    }

    pub(super) fn in_scratch(&self, scratch: &Scratch, name: &str) -> Result<Git, GitError> {
        Ok(self
            .git(name)?
            .env("GIT_INDEX_FILE", &scratch.index)
            .env("GIT_OBJECT_DIRECTORY", &scratch.objects)
            .env(
                "GIT_ALTERNATE_OBJECT_DIRECTORIES",
                quote::alternate(&self.objects_dir()),
            ))
    }

    /// The tree of the scratch index; `None` while it has conflicts.
    pub(super) fn write_tree(&self, scratch: &Scratch) -> Result<Option<String>, GitError> {
        let finished = self
            .in_scratch(scratch, "write-tree")?
            .config("core.splitIndex=false")
            .args([""; 0])
            .run()?;
        if !finished.status.success() {
            let complaint = String::from_utf8_lossy(&finished.stderr);
            if complaint.contains("unmerged (") {
                return Ok(None);
            }
            return Err(finished.error());
        }
        let tree = String::from_utf8_lossy(&finished.stdout).trim().to_owned();
        Ok(Some(tree))
    }
}

/// The lines of a text file; 0 for any other file, which has no lines to show.
fn lines_of(path: &Path) -> u64 {
    let is_small = |meta: std::fs::Metadata| meta.is_file() && meta.len() <= LARGEST_COUNTED;
    if !path.symlink_metadata().is_ok_and(is_small) {
        return 0;
    }
    let content = std::fs::read(path).unwrap_or_default();
    if content.contains(&0) {
        return 0;
    }
    content.split_inclusive(|byte| *byte == b'\n').count() as u64
}

// === impl Scratch ===

impl Scratch {
    pub(super) fn make(repository: &Repository, out_dir: &Path) -> Result<Scratch, GitError> {
        let directory = out_dir.join("scratch");
        let scratch = Scratch {
            objects: directory.join("objects"),
            index: directory.join("index"),
            directory,
        };
        std::fs::create_dir(&scratch.directory)
            .map_err(GitError::file("make", &scratch.directory))?;
        std::fs::create_dir(&scratch.objects).map_err(GitError::file("make", &scratch.objects))?;
        scratch
            .copy_index(&repository.git_dir.join("index"))
            .map_err(GitError::file("copy", &scratch.index))?;
        Ok(scratch)
    }

    pub(super) fn objects(&self) -> &Path {
        &self.objects
    }

    /// Copies the index with its modification time: git compares it with file times to find files
    /// that changed in the same tick as the index.
    fn copy_index(&self, source: &Path) -> io::Result<()> {
        let mut from = match File::open(source) {
            Ok(file) => file,
            // The index does not exist until the first `git add`.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let modified = from.metadata()?.modified()?;
        let mut to = File::create_new(&self.index)?;
        io::copy(&mut from, &mut to)?;
        to.set_times(FileTimes::new().set_modified(modified))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The caller deletes the directory above anyway.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
