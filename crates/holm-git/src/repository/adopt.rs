//! The whole difference of a workspace in the user's checkout, uncommitted (`apply`).
//!
//! Everything is put together in a quarantine first: a bare repository of ours that sees the user's
//! objects and into which the workspace's objects are fetched and checked. There the state of the
//! checkout and that of the workspace are merged over the commit that the workspace started from.
//! Only a merge without conflicts that touches no uncommitted edit becomes a patch, and `git apply`
//! checks all of it before it writes the first file.

use super::Repository;
use super::dirty::Scratch;
use super::fetch::{
    FETCH_CONFIG, FETCH_FLAGS, NOWHERE, arrivals, differing, empty_tree, os_path, shown,
};
use crate::command::{Cancel, Finished, Git};
use crate::{GitError, quote};
use holm_core::concern::Arrival;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What to take over, as it was captured inside.
#[derive(Clone, Debug)]
pub struct Work {
    /// A shell command that speaks git's upload-pack.
    pub upload_pack: String,
    pub start: Option<String>,
    /// The tree that the workspace started with when it was made of an uncommitted state.
    pub dirty_start: Option<String>,
    /// A commit of the workspace's tree.
    pub state: String,
}

/// A change that fits the checkout and is not in it yet.
#[derive(Debug)]
pub struct Staged {
    repository: Repository,
    quarantine: Quarantine,
    // Holds objects of the checkout until the patch is made.
    _scratch: Scratch,
    patch: PathBuf,
    ours: String,
    merged: String,
}

#[derive(Debug)]
struct Quarantine {
    git_dir: PathBuf,
}

const MOST_NAMES: usize = 10;

// === impl Repository ===

impl Repository {
    /// Fetches, checks and merges in `out_dir`, an empty directory of the caller's. The checkout and
    /// the repository stay as they are.
    pub fn stage(&self, out_dir: &Path, work: &Work, cancel: &Cancel) -> Result<Staged, GitError> {
        let objects = work.start.iter().chain(&work.dirty_start);
        for object in objects.chain([&work.state]) {
            self.check_object(object)?;
        }
        let scratch = Scratch::make(self, out_dir)?;
        self.add_everything(&scratch, cancel)?;
        let ours = self.write_tree(&scratch)?;
        let ours =
            ours.ok_or_else(|| GitError::unexpected("write-tree", b"unmerged after `git add`"))?;
        let quarantine = Quarantine::make(self, out_dir, scratch.objects())?;
        quarantine.fetch(work, cancel)?;
        let empty = empty_tree(&self.object_format);
        let start = work.start.as_deref().unwrap_or(empty);
        let mut merged = quarantine.merge(start, &ours, &work.state, cancel)?;
        if let (Err(_), Some(dirty)) = (&merged, &work.dirty_start) {
            merged = quarantine.merge(dirty, &ours, &work.state, cancel)?;
        }
        let merged = merged.map_err(|paths| GitError::DoesNotApply { paths })?;
        let staged = Staged {
            repository: self.clone(),
            patch: out_dir.join("patch"),
            quarantine,
            _scratch: scratch,
            ours,
            merged,
        };
        staged.refuse_overlap(work.dirty_start.as_deref())?;
        Ok(staged)
    }
}

// === impl Staged ===

impl Staged {
    /// What the checkout would get, without what is only deleted.
    pub fn arrivals(&self) -> Result<Vec<Arrival>, GitError> {
        let git = |name: &str| self.quarantine.git(name);
        arrivals(&git, &self.ours, &self.merged)
    }

    /// How many paths would change.
    pub fn len(&self) -> Result<usize, GitError> {
        let git = |name: &str| self.quarantine.git(name);
        Ok(differing(&git, &self.ours, &self.merged)?.len())
    }

    pub fn is_empty(&self) -> bool {
        self.ours == self.merged
    }

    /// Puts the change into the checkout: all of it, or an error and nothing. git goes on by itself
    /// when this process is killed.
    pub fn apply(&self) -> Result<(), GitError> {
        let file = File::create_new(&self.patch).map_err(GitError::file("make", &self.patch))?;
        self.quarantine
            .git("diff-tree")?
            .args(["-r", "-p", "--binary", "--full-index", "--no-renames"])
            .more(["--no-ext-diff", "--no-textconv", "--ignore-submodules=all"])
            .more([&self.ours, &self.merged])
            .stdout_to(file)
            .output()?;
        let size = self.patch.metadata().map(|metadata| metadata.len());
        if size.map_err(GitError::file("look at", &self.patch))? > 0 {
            let finished = self
                .repository
                .git("apply")?
                .args(["--whitespace=nowarn", "--binary", "-p1"])
                .more([&self.patch])
                .detached()
                .run()?;
            if !finished.status.success() {
                return Err(refused(finished));
            }
        }
        self.point_submodules()
    }

    /// A pointer to a submodule's commit has no file; it is noted in the index.
    fn point_submodules(&self) -> Result<(), GitError> {
        let mut lines = Vec::new();
        for arrival in self.arrivals()? {
            if arrival.mode != 0o160_000 {
                continue;
            }
            let listed = self
                .quarantine
                .git("ls-tree")?
                .args(["-z", &self.merged, "--"])
                .more([os_path(&arrival.path)])
                .output()?;
            lines.extend_from_slice(&listed);
        }
        if lines.is_empty() {
            return Ok(());
        }
        self.repository
            .git("update-index")?
            .args(["-z", "--add", "--index-info"])
            .stdin(lines)
            .output()?;
        Ok(())
    }

    /// Refuses when a path that would change has uncommitted edits, unless the workspace began with
    /// exactly these.
    fn refuse_overlap(&self, dirty_start: Option<&str>) -> Result<(), GitError> {
        let git = |name: &str| self.quarantine.git(name);
        let empty = empty_tree(&self.repository.object_format);
        let head = self.repository.head.as_deref().unwrap_or(empty);
        let edited = differing(&git, head, &self.ours)?;
        if edited.is_empty() {
            return Ok(());
        }
        let edited: BTreeSet<Vec<u8>> = edited.into_iter().collect();
        let touched = differing(&git, &self.ours, &self.merged)?;
        let mut both: Vec<Vec<u8>> = touched
            .into_iter()
            .filter(|path| edited.contains(path))
            .collect();
        if let (Some(dirty), false) = (dirty_start, both.is_empty()) {
            let (began, now) = (self.entries(dirty)?, self.entries(&self.ours)?);
            both.retain(|path| began.get(path) != now.get(path));
        }
        if both.is_empty() {
            return Ok(());
        }
        let names = both.iter().take(MOST_NAMES);
        Err(GitError::InTheWay {
            paths: names.map(|path| shown(path)).collect(),
        })
    }

    /// Every path of a tree with its mode and object.
    fn entries(&self, tree: &str) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, GitError> {
        let listed = self
            .quarantine
            .git("ls-tree")?
            .args(["-r", "-z", "--full-tree", tree])
            .output()?;
        let lines = listed.split(|byte| *byte == 0);
        Ok(lines
            .filter_map(|line| {
                let tab = line.iter().position(|byte| *byte == b'\t')?;
                Some((line[tab + 1..].to_vec(), line[..tab].to_vec()))
            })
            .collect())
    }
}

// === impl Quarantine ===

impl Quarantine {
    fn make(
        repository: &Repository,
        out_dir: &Path,
        scratch_objects: &Path,
    ) -> Result<Self, GitError> {
        let git_dir = out_dir.join("quarantine");
        let bare = crate::Bare::open_or_init(&git_dir, &repository.object_format)?;
        let mut alternates = Vec::new();
        for objects in [repository.objects_dir(), scratch_objects.to_owned()] {
            alternates.extend_from_slice(quote::alternate(&objects).as_bytes());
            alternates.push(b'\n');
        }
        let write = |path: PathBuf, content: &[u8]| {
            std::fs::write(&path, content).map_err(GitError::file("write", &path))
        };
        write(bare.objects_dir().join("info/alternates"), &alternates)?;
        if !repository.shallow.is_empty() {
            let lines = repository.shallow.join("\n") + "\n";
            write(git_dir.join("shallow"), lines.as_bytes())?;
        }
        // What both sides surely have, so that it is not sent.
        if let Some(head) = &repository.head {
            std::fs::create_dir_all(git_dir.join("refs/holm"))
                .map_err(GitError::file("make", &git_dir))?;
            write(
                git_dir.join("refs/holm/here"),
                format!("{head}\n").as_bytes(),
            )?;
        }
        Ok(Self { git_dir })
    }

    fn git(&self, name: &str) -> Result<Git, GitError> {
        Ok(Git::sealed_in(&self.git_dir, name)?
            .env("GIT_AUTHOR_NAME", "holm")
            .env("GIT_AUTHOR_EMAIL", "holm")
            .env("GIT_COMMITTER_NAME", "holm")
            .env("GIT_COMMITTER_EMAIL", "holm"))
    }

    fn fetch(&self, work: &Work, cancel: &Cancel) -> Result<(), GitError> {
        let mut git = self.git("fetch")?;
        for setting in FETCH_CONFIG {
            git = git.config(setting);
        }
        let mut wishes = vec![format!("+{}:refs/holm/state", work.state)];
        if let Some(tree) = &work.dirty_start {
            wishes.push(format!("+{tree}:refs/holm/dirty"));
        }
        git.args(FETCH_FLAGS)
            .more([format!("--upload-pack={}", work.upload_pack)])
            .more([NOWHERE.to_owned()])
            .more(wishes)
            .cancel(cancel)
            .output()?;
        Ok(())
    }

    /// The tree of `ours` and `theirs` merged over `base`, or the paths that do not go together.
    fn merge(
        &self,
        base: &str,
        ours: &str,
        theirs: &str,
        cancel: &Cancel,
    ) -> Result<Result<String, Vec<String>>, GitError> {
        let base = self.commit_of(base, None)?;
        let ours = self.commit_of(ours, Some(&base))?;
        let theirs = self.commit_of(theirs, Some(&base))?;
        let finished = self
            .git("merge-tree")?
            .args(["--write-tree", "-z", "--name-only", "--no-messages"])
            .more([&ours, &theirs])
            .cancel(cancel)
            .run()?;
        match finished.status.code() {
            Some(0 | 1) => {}
            // Older than 2.38, which merges only what is in different files.
            Some(129) => return self.merge_files(&base, &ours, &theirs),
            _ => return Err(finished.into_error()),
        }
        let mut fields = finished.stdout.split(|byte| *byte == 0);
        let tree = fields.next().unwrap_or_default();
        if finished.status.success() {
            return Ok(Ok(String::from_utf8_lossy(tree).trim().to_owned()));
        }
        let paths = fields.filter(|field| !field.is_empty());
        Ok(Err(paths.take(MOST_NAMES).map(shown).collect()))
    }

    fn merge_files(
        &self,
        base: &str,
        ours: &str,
        theirs: &str,
    ) -> Result<Result<String, Vec<String>>, GitError> {
        let index = self.git_dir.join("index");
        let git = |name: &str| Ok::<_, GitError>(self.git(name)?.env("GIT_INDEX_FILE", &index));
        git("read-tree")?
            .args(["-i", "-m", "--aggressive", base, ours, theirs])
            .output()?;
        let unmerged = git("ls-files")?.args(["-z", "--unmerged"]).output()?;
        let paths: BTreeSet<String> = unmerged
            .split(|byte| *byte == 0)
            .filter_map(|line| line.splitn(2, |byte| *byte == b'\t').nth(1))
            .map(shown)
            .collect();
        if !paths.is_empty() {
            return Ok(Err(paths.into_iter().take(MOST_NAMES).collect()));
        }
        let tree = git("write-tree")?.args([""; 0]).output()?;
        Ok(Ok(String::from_utf8_lossy(&tree).trim().to_owned()))
    }

    /// A commit of the tree that `tree_ish` is or has, with at most one parent.
    fn commit_of(&self, tree_ish: &str, parent: Option<&str>) -> Result<String, GitError> {
        let tree = format!("{tree_ish}^{{tree}}");
        let mut arguments = vec!["-m", "holm"];
        if let Some(parent) = parent {
            arguments.extend(["-p", parent]);
        }
        arguments.push(&tree);
        let commit = self.git("commit-tree")?.args(arguments).output()?;
        Ok(String::from_utf8_lossy(&commit).trim().to_owned())
    }
}

/// What `git apply` says before it has written anything.
fn refused(finished: Finished) -> GitError {
    let text = String::from_utf8_lossy(&finished.stderr);
    let paths: Vec<String> = text
        .lines()
        .filter_map(|line| line.strip_prefix("error: "))
        .filter_map(|line| {
            let known = [
                ": already exists in working directory",
                ": patch does not apply",
                ": does not exist in index",
                ": No such file or directory",
                ": beyond a symbolic link",
            ];
            known.iter().find_map(|end| line.strip_suffix(end))
        })
        .take(MOST_NAMES)
        .map(|path| shown(path.as_bytes()))
        .collect();
    match paths.is_empty() {
        true => finished.into_error(),
        false => GitError::DoesNotApply { paths },
    }
}
