//! The uncommitted state of the checkout (`up --dirty`), exactly: staged, unstaged and untracked
//! files, deletions, modes, links; not what git ignores.
//!
//! It is taken with a copy of the index and an object directory of its own, so that the user's
//! repository gains nothing and its index stays as it is.

use super::Repository;
use crate::command::{Cancel, Git};
use crate::{GitError, quote};
use std::ffi::OsString;
use std::fs::{File, FileTimes};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The uncommitted state, as objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dirty {
    /// Holds what the two trees have and the commit has not; may hold nothing.
    pub pack: PathBuf,
    /// The tree of everything in the checkout that is not ignored.
    pub worktree_tree: String,
    /// The tree of the index; that of the checkout while a merge has conflicts.
    pub index_tree: String,
    /// Paths of the index that have no content yet (`git add --intent-to-add`), which a tree cannot
    /// say; those that are text.
    pub intended: Vec<String>,
    /// Repositories in the checkout that git does not know as submodules. They are files of another
    /// repository, so they are not in the state.
    pub nested: Vec<PathBuf>,
    /// What the checkout has instead of the commit's files, with the ids of their content; `None`
    /// is deleted. Those that are text.
    pub changed: Vec<(String, Option<String>)>,
}

/// Where the state is put together, below the caller's directory. Removed when done.
#[derive(Debug)]
pub(super) struct Scratch {
    directory: PathBuf,
    objects: PathBuf,
    index: PathBuf,
}

// === impl Repository ===

impl Repository {
    /// Writes the pack of the uncommitted state to a new file in `out_dir`. Seven processes.
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
        // Deltas would take longer than they save: the pack travels a few centimetres.
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

    /// Puts everything in the checkout that is not ignored into the scratch index; returns the
    /// repositories that were left out.
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

    /// Git would take such a directory for a submodule, and fails when it has no commit yet.
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
            return Err(finished.into_error());
        }
        let tree = String::from_utf8_lossy(&finished.stdout).trim().to_owned();
        Ok(Some(tree))
    }
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

    /// Copies the index with its time: git compares it with the times of files, to find those that
    /// were changed within the same tick as the index.
    fn copy_index(&self, source: &Path) -> io::Result<()> {
        let mut from = match File::open(source) {
            Ok(file) => file,
            // Nothing was ever added.
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
        // What is left over is in a directory that the caller throws away anyway.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
