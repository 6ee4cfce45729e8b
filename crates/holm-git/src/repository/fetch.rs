//! Fetches a workspace's commits into the user's repository (`fetch`, `merge`).
//!
//! git fetches through a command of ours that runs `git upload-pack` *inside* the workspace.
//! Objects are checked before they are stored; no tag, submodule, hook or setting of the workspace
//! is taken over. The commit is recorded as `refs/holm/<id>`, which `git branch` does not show. A
//! branch is moved only if the same workspace moved it last.

use super::{Repository, files};
use crate::GitError;
use crate::bare::is_object_id;
use crate::command::{Cancel, Git};
use holm_core::concern::Arrival;
use holm_core::{Label, WorkspaceId};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The branch with a workspace's commits in the user's repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// Without `refs/heads/`.
    pub name: String,
    pub is_moved: bool,
    /// The preferred branch name, if it was not used because something else than this workspace
    /// wrote that branch last.
    pub avoided: Option<String>,
}

/// The commit of a branch, and the worktree that has it checked out.
type Tip = (String, Option<PathBuf>);

/// Settings of every fetch from a workspace: all objects are checked, and doubtful ones are
/// refused.
pub(super) const FETCH_CONFIG: [&str; 11] = [
    "protocol.file.allow=always",
    "protocol.version=2",
    "fetch.fsckObjects=true",
    "transfer.fsckObjects=true",
    "fetch.fsck.hasDotgit=error",
    "fetch.fsck.hasDot=error",
    "fetch.fsck.hasDotdot=error",
    "fetch.recurseSubmodules=false",
    "fetch.writeCommitGraph=false",
    "fetch.negotiationAlgorithm=default",
    "submodule.recurse=false",
];

pub(super) const FETCH_FLAGS: [&str; 8] = [
    "--quiet",
    "--force",
    "--no-tags",
    "--no-prune",
    "--no-recurse-submodules",
    "--no-write-fetch-head",
    "--no-auto-maintenance",
    "--no-show-forced-updates",
];

/// The repository argument for git, which our upload-pack command ignores.
pub(super) const NOWHERE: &str = "/holm/workspace";

/// The prefix of reflog messages.
const WRITTEN_BY: &str = "holm: fetched from ";

/// The kernel follows no longer symlink targets.
const LONGEST_LINK: usize = 4096;

/// How often to retry a fetch when another process moves its ref meanwhile.
const MOST_TRIES: usize = 5;

// === impl Repository ===

impl Repository {
    /// Fetches `commit` through `upload_pack`, a shell command that speaks git's upload-pack, and
    /// records it as `refs/holm/<id>`. If it is killed midway, that ref is unchanged.
    pub fn fetch(
        &self,
        upload_pack: &str,
        commit: &str,
        id: &WorkspaceId,
        cancel: &Cancel,
    ) -> Result<(), GitError> {
        self.check_object(commit)?;
        let mut tries = 0;
        loop {
            let mut git = self.git("fetch")?;
            for setting in FETCH_CONFIG {
                git = git.config(setting);
            }
            let finished = git
                .args(FETCH_FLAGS)
                .more([format!("--upload-pack={upload_pack}")])
                .more([NOWHERE.to_owned(), format!("+{commit}:refs/holm/{id}")])
                .cancel(cancel)
                .run()?;
            tries += 1;
            // Another process moved the ref first, perhaps the still running git of a killed
            // command.
            let complaint = String::from_utf8_lossy(&finished.stderr);
            let was_overtaken = complaint.contains("cannot lock ref") && tries < MOST_TRIES;
            if finished.status.success() {
                return Ok(());
            }
            if !was_overtaken {
                return Err(finished.error());
            }
        }
    }

    /// As [`fetch`](Self::fetch), if the commit has exactly the approved tree. Another one is refused, and no
    /// ref is changed.
    pub fn fetch_approved(
        &self,
        upload_pack: &str,
        commit: &str,
        id: &WorkspaceId,
        approved: &str,
    ) -> Result<(), GitError> {
        self.check_object(commit)?;
        let unapproved = format!("refs/holm/unapproved/{id}");
        let mut git = self.git("fetch")?;
        for setting in FETCH_CONFIG {
            git = git.config(setting);
        }
        git.args(FETCH_FLAGS)
            .more([format!("--upload-pack={upload_pack}")])
            .more([NOWHERE.to_owned(), format!("+{commit}:{unapproved}")])
            .output()?;
        let checked = refuse_other_tree(&|name| self.git(name), commit, approved);
        let kept = checked.and_then(|()| {
            let update = self.git("update-ref")?;
            let update = update.args([format!("refs/holm/{id}"), commit.to_owned()]);
            update.output().map(drop)
        });
        self.git("update-ref")?.args(["-d", &unapproved]).output()?;
        kept
    }

    /// Points `holm/<label>` to `commit` if the branch is absent or was last written for this id;
    /// otherwise uses `holm/<label>-<first 4 of id>`.
    pub fn point_branch(
        &self,
        label: &Label,
        id: &WorkspaceId,
        commit: &str,
    ) -> Result<Branch, GitError> {
        let plain = format!("holm/{label}");
        let own = format!("{plain}-{}", &id.as_str()[..4]);
        let mut tips = self.tips([&plain, &own])?;
        let mut avoided = None;
        for name in [plain, own] {
            let (tip, place) = tips.remove(&name).unzip();
            if let Some(tip) = &tip
                && !self.is_written_for(&name, tip, id)?
            {
                avoided = avoided.or(Some(name));
                continue;
            }
            let is_moved = tip.as_deref() != Some(commit);
            if is_moved {
                // Every difference would become an uncommitted change there.
                if let Some(path) = place.flatten() {
                    return Err(GitError::BranchCheckedOut {
                        branch: name,
                        path,
                        id: id.to_string(),
                    });
                }
                self.git("update-ref")?
                    .args(["--create-reflog", "-m", &format!("{WRITTEN_BY}{id}")])
                    .more([format!("refs/heads/{name}"), commit.to_owned()])
                    .more([tip.unwrap_or_else(|| "0".repeat(commit.len()))])
                    .output()?;
            }
            return Ok(Branch {
                name,
                is_moved,
                avoided,
            });
        }
        Err(GitError::BranchTaken {
            branch: avoided.unwrap_or_default(),
            id: id.to_string(),
        })
    }

    /// Merges a branch into the checkout like `git merge`, without hooks.
    pub fn merge(&self, branch: &str) -> Result<(), GitError> {
        let finished = self
            .git("merge")?
            .config("submodule.recurse=false")
            .args(["--no-edit", "--no-stat", "--no-autostash", branch])
            .detached()
            .run()?;
        if finished.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&finished.stdout);
        let conflicts: Vec<String> = said
            .lines()
            .filter(|line| line.starts_with("CONFLICT "))
            .map(str::to_owned)
            .collect();
        if !conflicts.is_empty() {
            return Err(GitError::MergeConflict {
                branch: branch.to_owned(),
                conflicts,
            });
        }
        let complaint = String::from_utf8_lossy(&finished.stderr);
        if complaint.contains("would be overwritten by merge") {
            let files = complaint.lines().filter_map(|line| line.strip_prefix('\t'));
            return Err(GitError::InTheWay {
                paths: files.map(str::to_owned).collect(),
            });
        }
        Err(finished.error())
    }

    /// Tracked files that differ from HEAD, staged or not. One process.
    pub fn uncommitted(&self) -> Result<Vec<String>, GitError> {
        let listed = self
            .git("status")?
            .args(["--porcelain=v1", "-z", "--untracked-files=no"])
            .more(["--no-renames"])
            .output()?;
        let entries = listed.split(|byte| *byte == 0);
        Ok(entries
            .filter(|entry| entry.len() > 3)
            .map(|entry| String::from_utf8_lossy(&entry[3..]).into_owned())
            .collect())
    }

    /// How many files differ from HEAD or are new; a new directory counts as one. One process.
    pub fn count_uncommitted(&self) -> Result<usize, GitError> {
        let listed = self
            .git("status")?
            .args(["--porcelain=v1", "-z", "--untracked-files=normal"])
            .more(["--no-renames"])
            .output()?;
        let entries = listed.split(|byte| *byte == 0);
        Ok(entries.filter(|entry| entry.len() > 3).count())
    }

    /// The files that merging `commit` would change: its differences from the merge base with HEAD.
    pub fn arrivals_of_merge(&self, commit: &str) -> Result<Vec<Arrival>, GitError> {
        self.check_object(commit)?;
        let base = self.git("merge-base")?.args(["HEAD", commit]).run()?;
        let base = if base.status.success() {
            String::from_utf8_lossy(&base.stdout).trim().to_owned()
        } else {
            // No common history, or no commit here yet: all files are new.
            empty_tree(&self.object_format).to_owned()
        };
        arrivals(&|name| self.git(name), &base, commit)
    }

    pub(super) fn check_object(&self, text: &str) -> Result<(), GitError> {
        if is_object_id(text, &self.object_format) {
            Ok(())
        } else {
            Err(GitError::InvalidObjectId {
                text: text.chars().take(80).collect(),
            })
        }
    }

    /// The commits of those branches that exist, and where each is checked out. One process, unless the files of an
    /// ordinary repository say it.
    fn tips(&self, branches: [&str; 2]) -> Result<HashMap<String, Tip>, GitError> {
        if let Some(checked_out) = files::only_checked_out(&self.git_dir)
            && let Some(refs) = files::refs(&self.git_dir)
        {
            let tips = refs.into_iter().filter_map(|(name, commit)| {
                let branch = name.strip_prefix("refs/heads/")?;
                let place = (name == checked_out).then(|| self.toplevel.clone());
                let is_wanted = branches.contains(&branch);
                is_wanted.then(|| (branch.to_owned(), (commit, place)))
            });
            return Ok(tips.collect());
        }
        let listed = self
            .git("for-each-ref")?
            .args(["--format=%(objectname)%00%(refname)%00%(worktreepath)%00"])
            .more(branches.map(|name| format!("refs/heads/{name}")))
            .output()?;
        let listed = String::from_utf8_lossy(&listed);
        let mut fields = listed.split('\0');
        let mut tips = HashMap::new();
        // A line end follows each ref.
        while let (Some(commit), Some(name)) = (fields.next(), fields.next()) {
            let path = fields.next().filter(|path| !path.is_empty());
            let name = name.trim_start_matches("refs/heads/").to_owned();
            tips.insert(name, (commit.trim().to_owned(), path.map(PathBuf::from)));
        }
        Ok(tips)
    }

    /// Whether this workspace moved the branch last, according to the reflog. If the reflog has
    /// expired, the commit recorded at the last fetch decides.
    fn is_written_for(&self, branch: &str, tip: &str, id: &WorkspaceId) -> Result<bool, GitError> {
        let message = match files::last_reflog(&self.git_dir, branch) {
            Some(message) => message,
            None => {
                let reflog = self
                    .git("reflog")?
                    .args(["show", "-1", "--format=%gs"])
                    .more([format!("refs/heads/{branch}")])
                    .output()?;
                String::from_utf8_lossy(&reflog).into_owned()
            }
        };
        match message.trim() {
            "" => {
                let config = self
                    .git("for-each-ref")?
                    .args(["--format=%(objectname)", &format!("refs/holm/{id}")])
                    .output()?;
                let recorded = String::from_utf8_lossy(&config).trim().to_owned();
                Ok(tip == recorded)
            }
            message => Ok(message == format!("{WRITTEN_BY}{id}")),
        }
    }
}

/// The id of the empty tree, which git knows without storing it.
pub(crate) fn empty_tree(object_format: &str) -> &'static str {
    match object_format {
        "sha256" => "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
        _ => "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    }
}

/// Fails unless a commit has exactly this tree. The objects were fetched and checked, so nothing that happens
/// in the workspace afterwards changes the answer.
pub(super) fn refuse_other_tree(
    git: &dyn Fn(&str) -> Result<Git, GitError>,
    commit: &str,
    approved: &str,
) -> Result<(), GitError> {
    let tree = git("rev-parse")?
        .args(["--verify", "--quiet", "--end-of-options"])
        .more([format!("{commit}^{{tree}}")])
        .output()?;
    let tree = String::from_utf8_lossy(&tree).trim().to_owned();
    if tree == approved {
        return Ok(());
    }
    Err(GitError::NotApproved {
        tree,
        approved: approved.to_owned(),
    })
}

/// Every entry that is added or changed between two trees, with symlink targets.
pub(super) fn arrivals(
    git: &dyn Fn(&str) -> Result<Git, GitError>,
    from: &str,
    to: &str,
) -> Result<Vec<Arrival>, GitError> {
    let listed = git("diff-tree")?
        .args(["-r", "-z", "--raw", "--no-renames", "--no-abbrev"])
        .more(["--diff-filter=d", from, to])
        .output()?;
    let unexpected = || GitError::unexpected("diff-tree", &listed);
    let mut fields = listed.split(|byte| *byte == 0);
    let (mut arrivals, mut links) = (Vec::new(), Vec::new());
    while let Some(entry) = fields.next().filter(|entry| !entry.is_empty()) {
        let text = std::str::from_utf8(entry).map_err(|_| unexpected())?;
        let words: Vec<&str> = text.split(' ').collect();
        let (mode, object) = match words.as_slice() {
            [_, mode, _, object, _] => (mode, object),
            _ => return Err(unexpected()),
        };
        let mode = u32::from_str_radix(mode, 8).map_err(|_| unexpected())?;
        if mode == 0o120_000 {
            links.push((arrivals.len(), (*object).to_owned()));
        }
        arrivals.push(Arrival {
            path: fields.next().ok_or_else(unexpected)?.to_vec(),
            mode,
            target: None,
        });
    }
    for (index, target) in targets(git, &links)? {
        arrivals[index].target = target;
    }
    Ok(arrivals)
}

type Target = (usize, Option<Vec<u8>>);

/// The targets of symlinks; `None` for one that is too long to follow.
fn targets(
    git: &dyn Fn(&str) -> Result<Git, GitError>,
    links: &[(usize, String)],
) -> Result<Vec<Target>, GitError> {
    if links.is_empty() {
        return Ok(Vec::new());
    }
    let asked: String = links
        .iter()
        .map(|(_, object)| format!("{object}\n"))
        .collect();
    let said = git("cat-file")?
        .args(["--batch"])
        .stdin(asked.into_bytes())
        .output()?;
    let unexpected = || GitError::unexpected("cat-file", &said[..said.len().min(200)]);
    let mut rest = said.as_slice();
    let mut targets = Vec::new();
    for (index, _) in links {
        let end = rest.iter().position(|byte| *byte == b'\n');
        let (header, body) = rest.split_at(end.ok_or_else(unexpected)?);
        let length = String::from_utf8_lossy(header)
            .rsplit(' ')
            .next()
            .and_then(|word| word.parse::<usize>().ok())
            .ok_or_else(unexpected)?;
        let content = body.get(1..=length).ok_or_else(unexpected)?;
        rest = body.get(length + 2..).ok_or_else(unexpected)?;
        let is_short = length <= LONGEST_LINK;
        targets.push((*index, is_short.then(|| content.to_vec())));
    }
    Ok(targets)
}

/// Paths that differ between two trees.
pub(super) fn differing(
    git: &dyn Fn(&str) -> Result<Git, GitError>,
    from: &str,
    to: &str,
) -> Result<Vec<Vec<u8>>, GitError> {
    let listed = git("diff-tree")?
        .args(["-r", "-z", "--name-only", "--no-renames", from, to])
        .output()?;
    let names = listed.split(|byte| *byte == 0);
    Ok(names
        .filter(|name| !name.is_empty())
        .map(<[u8]>::to_vec)
        .collect())
}

/// A path from inside the workspace, made safe for messages.
pub(super) fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path)
        .chars()
        .take(200)
        .collect::<String>()
        .escape_debug()
        .to_string()
}

/// The path in the operating system's form.
pub(super) fn os_path(path: &[u8]) -> &Path {
    use std::os::unix::ffi::OsStrExt;
    Path::new(std::ffi::OsStr::from_bytes(path))
}
