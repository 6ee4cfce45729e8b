//! `apply`: brings a workspace's whole difference into the user's checkout, uncommitted.
//!
//! Everything is prepared in a quarantine first: a bare repository of ours that can read the user's
//! objects, into which the workspace's objects are fetched and checked. There the checkout's state
//! and the workspace's state are merged over the commit that the workspace started from. Only a
//! merge without conflicts that touches no uncommitted edit becomes a plan of moves
//! ([`super::journal`]), which is carried out completely or undone.

use super::Repository;
use super::applied;
use super::dirty::Scratch;
use super::extent::Extent;
use super::fetch::{
    FETCH_CONFIG, FETCH_FLAGS, NOWHERE, arrivals, differing, empty_tree, os_path,
    refuse_other_tree, shown,
};
use super::journal::{Journal, Planned};
use super::moves::{Identity, Move, copy};
use super::plan::Plan;
use crate::command::{Cancel, Git};
use crate::{GitError, quote};
use holm_core::WorkspaceId;
use holm_core::concern::Arrival;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// A workspace's state to apply, captured inside.
#[derive(Clone, Debug)]
pub struct Work {
    pub workspace: WorkspaceId,
    /// A shell command that speaks git's upload-pack.
    pub upload_pack: String,
    pub start: Option<String>,
    /// The tree that the workspace started with, if it was created from an uncommitted state.
    pub dirty_start: Option<String>,
    /// A commit of the workspace's current tree.
    pub state: String,
    /// The only tree that may be taken over, if an approval is demanded.
    pub approved: Option<String>,
}

/// A merged change that is not in the checkout yet.
#[derive(Debug)]
pub struct Staged {
    repository: Repository,
    workspace: WorkspaceId,
    quarantine: Quarantine,
    /// Holds objects of the checkout, and the index that `ours` was made from.
    scratch: Scratch,
    ours: String,
    merged: String,
    // Must be the last field: dropping it removes the directory that holds the others.
    journal: Journal,
}

/// A file to create, replace or delete.
struct Change {
    path: Vec<u8>,
    is_old: bool,
    /// The new file's line for `git update-index --index-info`.
    line: Option<Vec<u8>>,
}

#[derive(Debug)]
struct Quarantine {
    git_dir: PathBuf,
}

const MOST_NAMES: usize = 10;

/// File modes as git prints them.
const POINTER: &str = "160000";
const ABSENT: &str = "000000";

// === impl Repository ===

impl Repository {
    /// Fetches, checks and merges in a separate directory. The checkout and the repository stay
    /// unchanged.
    pub fn stage(&self, work: &Work, cancel: &Cancel) -> Result<Staged, GitError> {
        let objects = work.start.iter().chain(&work.dirty_start);
        for object in objects.chain([&work.state]) {
            self.check_object(object)?;
        }
        let journal = Journal::begin(self)?;
        let out_dir = &journal.directory;
        let scratch = Scratch::make(self, out_dir)?;
        self.add_everything(&scratch, cancel)?;
        let ours = self.write_tree(&scratch)?;
        let ours =
            ours.ok_or_else(|| GitError::unexpected("write-tree", b"unmerged after `git add`"))?;
        let quarantine = Quarantine::make(self, out_dir, scratch.objects())?;
        quarantine.fetch(work, cancel)?;
        if let Some(approved) = &work.approved {
            let git = |name: &str| quarantine.git(name);
            refuse_other_tree(&git, &work.state, approved)?;
        }
        let empty = empty_tree(&self.object_format);
        let start = work.start.as_deref().unwrap_or(empty);
        let mut merged = quarantine.merge(start, &ours, &work.state, cancel)?;
        if let (Err(_), Some(dirty)) = (&merged, &work.dirty_start) {
            merged = quarantine.merge(dirty, &ours, &work.state, cancel)?;
        }
        if merged.is_err()
            && let Some(taken) = self.merged_before(&work.workspace)?
        {
            merged = quarantine.merge(&taken, &ours, &work.state, cancel)?;
        }
        let merged = merged.map_err(|paths| GitError::DoesNotApply { paths })?;
        let staged = Staged {
            repository: self.clone(),
            workspace: work.workspace.clone(),
            quarantine,
            scratch,
            ours,
            merged,
            journal,
        };
        staged.refuse_overlap(work.dirty_start.as_deref())?;
        Ok(staged)
    }

    /// The commit of a workspace that was fetched last, if HEAD contains it: after a merge both sides continue from there. At
    /// most two processes.
    fn merged_before(&self, id: &WorkspaceId) -> Result<Option<String>, GitError> {
        let name = format!("refs/holm/{id}^{{commit}}");
        let fetched = self
            .git("rev-parse")?
            .args(["--verify", "--quiet", "--end-of-options", &name])
            .run()?;
        if !fetched.status.success() {
            return Ok(None);
        }
        let commit = String::from_utf8_lossy(&fetched.stdout).trim().to_owned();
        let is_contained = self
            .git("merge-base")?
            .args(["--is-ancestor", &commit, "HEAD"])
            .run()?;
        Ok(is_contained.status.success().then_some(commit))
    }
}

// === impl Staged ===

impl Staged {
    /// The files that the checkout would get, without deletions.
    pub fn arrivals(&self) -> Result<Vec<Arrival>, GitError> {
        let git = |name: &str| self.quarantine.git(name);
        arrivals(&git, &self.ours, &self.merged)
    }

    /// How much would change.
    pub fn extent(&self) -> Result<Extent, GitError> {
        let listed = self
            .quarantine
            .git("diff-tree")?
            .args(["-r", "-z", "--numstat", "--no-renames"])
            .more([&self.ours, &self.merged])
            .output()?;
        Ok(Extent::of_numstat(&listed))
    }

    pub fn is_empty(&self) -> bool {
        self.ours == self.merged
    }

    /// Writes the plan to disk, so that it can be carried out or undone after a crash. `None`:
    /// nothing to do. The checkout stays unchanged.
    pub fn plan(self) -> Result<Option<Planned>, GitError> {
        let (changes, pointers) = self.changes()?;
        if changes.is_empty() && pointers.is_empty() {
            return Ok(None);
        }
        let moves = self.moves(&changes)?;
        self.refuse_edited(&changes)?;
        let plan = Plan { moves, pointers };
        let directory = &self.journal.directory;
        applied::note(&self.repository, directory, &self.workspace, &plan)?;
        plan.write(directory)?;
        Ok(Some(Planned::new(self.repository, self.journal)))
    }

    /// Every file that changes, and submodule pointers, which have no file.
    fn changes(&self) -> Result<(Vec<Change>, Vec<u8>), GitError> {
        let listed = self
            .quarantine
            .git("diff-tree")?
            .args(["-r", "-z", "--raw", "--no-renames", "--no-abbrev"])
            .more([&self.ours, &self.merged])
            .output()?;
        let unexpected = || GitError::unexpected("diff-tree", &listed);
        let mut fields = listed.split(|byte| *byte == 0);
        let (mut changes, mut pointers) = (Vec::new(), Vec::new());
        while let Some(entry) = fields.next().filter(|entry| !entry.is_empty()) {
            let text = std::str::from_utf8(entry).map_err(|_| unexpected())?;
            let [old, new, _, object, _] = text.split(' ').collect::<Vec<_>>()[..] else {
                return Err(unexpected());
            };
            let path = fields.next().ok_or_else(unexpected)?.to_vec();
            let mut line = format!("{new} {object}\t").into_bytes();
            line.extend_from_slice(&path);
            line.push(0);
            if new == POINTER {
                pointers.extend_from_slice(&line);
            }
            let is_file = |mode: &str| mode != POINTER && mode != ABSENT;
            let (is_old, line) = (
                is_file(old.trim_start_matches(':')),
                is_file(new).then_some(line),
            );
            if is_old || line.is_some() {
                changes.push(Change { path, is_old, line });
            }
        }
        Ok((changes, pointers))
    }

    /// Checks the new files out beside the plan and records the identity of the old ones.
    fn moves(&self, changes: &[Change]) -> Result<Vec<Move>, GitError> {
        let staged = self.journal.directory.join("staged");
        self.check_out(changes, &staged)?;
        let root = &self.repository.toplevel;
        let device = self.journal.make_slots()?;
        let mut moves = Vec::with_capacity(changes.len());
        for (number, change) in changes.iter().enumerate() {
            let path = os_path(&change.path).to_owned();
            let target = root.join(&path);
            let old = match (change.is_old, target.symlink_metadata()) {
                (true, _) => Some(Identity::of(&target).ok_or_else(|| in_the_way(&change.path))?),
                // A directory here may become empty during the apply, so it is no obstacle.
                (false, Ok(found)) if !found.is_dir() => {
                    let paths = vec![shown(&change.path)];
                    return Err(GitError::DoesNotApply { paths });
                }
                (false, _) => None,
            };
            let mut one = Move {
                place: self.journal.place_for(root, &path, device)?,
                path,
                number,
                old,
                new: None,
            };
            if change.line.is_some() {
                let (made, slot) = (staged.join(&one.path), one.new_slot());
                move_or_copy(&made, &slot).map_err(GitError::file("make", &slot))?;
                one.new = Identity::of(&slot);
            }
            moves.push(one);
        }
        Ok(moves)
    }

    /// Lets git write the new files below `staged`, with the user's line endings and filters.
    fn check_out(&self, changes: &[Change], staged: &Path) -> Result<(), GitError> {
        let coming = changes.iter().filter_map(|change| {
            let line = change.line.as_ref()?;
            Some((line, &change.path))
        });
        let (mut lines, mut paths) = (Vec::new(), Vec::new());
        for (line, path) in coming {
            lines.extend_from_slice(line);
            paths.extend_from_slice(path);
            paths.push(0);
        }
        if paths.is_empty() {
            return Ok(());
        }
        let index = self.journal.directory.join("index");
        let mut objects = quote::alternate(&self.quarantine.git_dir.join("objects"));
        objects.push(":");
        objects.push(quote::alternate(self.scratch.objects()));
        let git = |name: &str| {
            let git = self.repository.git(name)?;
            let git = git.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", &objects);
            Ok::<_, GitError>(git.env("GIT_INDEX_FILE", &index))
        };
        git("update-index")?
            .config("core.splitIndex=false")
            .args(["-z", "--add", "--index-info"])
            .stdin(lines)
            .output()?;
        let mut prefix = OsString::from("--prefix=");
        prefix.push(staged);
        prefix.push("/");
        git("checkout-index")?
            .args(["-z", "--stdin"])
            .more([prefix])
            .stdin(paths)
            .output()?;
        Ok(())
    }

    /// Fails when a file changed since the merge read it.
    fn refuse_edited(&self, changes: &[Change]) -> Result<(), GitError> {
        let listed = self
            .repository
            .in_scratch(&self.scratch, "diff-files")?
            .args([
                "-z",
                "--name-only",
                "--no-renames",
                "--ignore-submodules=all",
            ])
            .output()?;
        let edited: BTreeSet<&[u8]> = listed.split(|byte| *byte == 0).collect();
        match changes
            .iter()
            .find(|change| edited.contains(&change.path[..]))
        {
            Some(change) => Err(in_the_way(&change.path)),
            None => Ok(()),
        }
    }

    /// Fails when a path that would change has uncommitted edits, unless the workspace started with
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
            alternates.extend_from_slice(quote::alternate(&objects).as_encoded_bytes());
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
        // Commits that both sides have, so that they are not sent.
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

    /// Merges `ours` and `theirs` over `base`; returns the tree or the conflicting paths.
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
            // Git before 2.38: only changes in different files can be merged.
            Some(129) => return self.merge_files(&base, &ours, &theirs),
            _ => return Err(finished.error()),
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

    /// A commit of the tree of `tree_ish`, with at most one parent.
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

fn in_the_way(path: &[u8]) -> GitError {
    GitError::InTheWay {
        paths: vec![shown(path)],
    }
}

fn move_or_copy(from: &Path, to: &Path) -> io::Result<()> {
    match std::fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => copy(from, to),
        moved => moved,
    }
}
