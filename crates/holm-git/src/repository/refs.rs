//! Resolves revisions that a user typed, lists the refs shared with workspaces, and reads small
//! files of a commit.

use super::files::{self, SHARED};
use super::{Repository, or_too_old};
use crate::GitError;
use crate::bare::is_object_id;
use crate::command::Git;
use sha2::{Digest, Sha256};

/// The commit of a user's `--from`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    pub commit: String,
    /// The short name of the branch or tag (`main`, `origin/main`), if it is one.
    pub display: Option<String>,
}

/// Longer than any ref that git can store as a file.
const MAX_NAME: usize = 1024;

const ORIGIN_HEAD: &str = "refs/remotes/origin/HEAD";

/// The fields of a [`RecentRef`]; an annotated tag has a second object, the commit.
const RECENT: &str = "--format=%(refname)%00%(symref)%00%(objectname)%00%(*objectname)%00\
                      %(creatordate:iso-strict)%00%(contents:subject)%00";

/// A branch, tag or remote-tracking branch, as lists show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecentRef {
    /// Without `refs/heads/`, `refs/tags/` or `refs/remotes/`.
    pub name: String,
    pub commit: String,
    /// When its commit or tag was made, in ISO 8601.
    pub at: String,
    /// The first line of its message.
    pub subject: String,
}

/// A digest of the refs and shallow lines that is the same in every version of holm.
pub fn refs_digest(refs: &[(String, String)], shallow: &[String]) -> String {
    let mut hash = Sha256::new();
    for (name, object) in refs {
        hash.update(format!("{object} {name}\n"));
    }
    for line in shallow {
        hash.update(format!("shallow {line}\n"));
    }
    let digest = hash.finalize();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

// === impl Repository ===

impl Repository {
    /// Resolves `name` to a commit. Two processes at once, unless the files of an ordinary repository say which branch it is.
    pub fn resolve(&self, name: &str) -> Result<Resolved, GitError> {
        let is_possible = !name.is_empty()
            && !name.starts_with('-')
            && name.len() <= MAX_NAME
            && !name.contains(|c: char| c.is_control());
        if !is_possible {
            return Err(self.no_such_ref(name));
        }
        if let Some(commit) = files::branch(&self.git_dir, name) {
            let display = Some(name.to_owned());
            return Ok(Resolved { commit, display });
        }
        let commit = self
            .git("rev-parse")?
            .args(["--verify", "--quiet", "--end-of-options"])
            .more([format!("{name}^{{commit}}")])
            .spawn()?;
        let full_name = self
            .git("rev-parse")?
            .args(["--quiet", "--symbolic-full-name", "--end-of-options", name])
            .spawn();
        let commit = commit.finish();
        let full_name = full_name.and_then(|running| running.finish());
        let commit = commit?;
        if !commit.status.success() {
            return Err(self.no_such_ref(name));
        }
        let commit = String::from_utf8_lossy(&commit.stdout).trim().to_owned();
        if !is_object_id(&commit, &self.object_format) {
            return Err(GitError::unexpected("rev-parse", commit.as_bytes()));
        }
        let full_name = full_name?;
        let said = String::from_utf8_lossy(&full_name.stdout);
        let display = said.lines().last().and_then(short_name);
        Ok(Resolved { commit, display })
    }

    /// All refs that are shared with workspaces, sorted by name. One process, unless the files of an
    /// ordinary repository say it.
    ///
    /// Symbolic refs and names that are not UTF-8 are left out.
    pub fn refs(&self) -> Result<Vec<(String, String)>, GitError> {
        if self.git_dir == self.common_dir
            && !self.partial
            && let Some(refs) = files::refs(&self.git_dir)
        {
            return Ok(refs);
        }
        let listed = self
            .git("for-each-ref")?
            .args(["--format=%(objectname) %(refname) %(symref)"])
            .more(SHARED)
            .output()?;
        let mut refs = Vec::new();
        for line in listed.split(|byte| *byte == b'\n') {
            let Ok(line) = std::str::from_utf8(line) else {
                continue;
            };
            let mut words = line.split(' ');
            if let (Some(object), Some(name), Some("")) = (words.next(), words.next(), words.next())
            {
                refs.push((name.to_owned(), object.to_owned()));
            }
        }
        Ok(refs)
    }

    /// The refs whose name contains `part`, newest first. One process.
    pub fn recent_refs(&self, part: &str, most: usize) -> Result<Vec<RecentRef>, GitError> {
        let listed = self
            .git("for-each-ref")?
            .args(["--sort=-creatordate", RECENT])
            .more(SHARED)
            .output()?;
        let listed = String::from_utf8_lossy(&listed);
        let part = part.to_lowercase();
        let is_wanted = |one: &RecentRef| one.name.to_lowercase().contains(&part);
        let refs = listed.split("\0\n").filter_map(recent_ref);
        Ok(refs.filter(is_wanted).take(most).collect())
    }

    /// Whether the current branch or the default branch contains a commit. At most two processes.
    ///
    /// The default branch is the one that `origin` had when it was cloned (`origin/HEAD`) and the
    /// local branch of the same name; without that, `main` and `master`.
    pub fn is_contained(&self, commit: &str) -> Result<bool, GitError> {
        if self.head.as_deref() == Some(commit) {
            return Ok(true);
        }
        let default = self
            .git("symbolic-ref")?
            .args(["--quiet", ORIGIN_HEAD])
            .run()?;
        let default = String::from_utf8_lossy(&default.stdout).trim().to_owned();
        let local = default.strip_prefix("refs/remotes/origin/");
        let branches = match local {
            Some(name) => vec![default.clone(), format!("refs/heads/{name}")],
            None => vec!["refs/heads/main".to_owned(), "refs/heads/master".to_owned()],
        };
        let head = self.head.as_ref().map(|_| "HEAD".to_owned());
        // Prints the commit unless one of the branches contains it.
        let missing = self
            .git("rev-list")?
            .args(["--max-count=1", "--ignore-missing", commit, "--not"])
            .more(head.into_iter().chain(branches))
            .output()?;
        Ok(missing.trim_ascii().is_empty())
    }

    /// The content of `paths` (below the root, `/` between names) at `commit`; `None` where there
    /// is no such file. One process.
    pub fn files_at(&self, commit: &str, paths: &[&str]) -> Result<Vec<Option<Vec<u8>>>, GitError> {
        if !is_object_id(commit, &self.object_format) {
            return Err(GitError::InvalidObjectId {
                text: commit.to_owned(),
            });
        }
        contents(self.git("cat-file")?, commit, paths).map_err(or_too_old)
    }

    fn no_such_ref(&self, name: &str) -> GitError {
        let name: String = name.chars().take(80).collect();
        let refs = self.refs().unwrap_or_default();
        let nearest = refs
            .iter()
            .filter_map(|(full, _)| short_name(full))
            .filter_map(|short| {
                let is_remote_twin = short.split_once('/').is_some_and(|(_, last)| last == name);
                let edits = if is_remote_twin {
                    0
                } else {
                    holm_core::reference::distance(&name, &short)
                };
                (edits <= 1 + short.len() / 4).then_some((edits, short))
            })
            .min()
            .map(|(_, short)| short);
        GitError::RefNotFound { name, nearest }
    }
}

/// Reads files of a commit by `git cat-file`.
pub(crate) fn contents(
    cat_file: Git,
    commit: &str,
    paths: &[&str],
) -> Result<Vec<Option<Vec<u8>>>, GitError> {
    let mut asked = String::new();
    for path in paths {
        // The protocol is line-based, so a name with a line feed is never found.
        let path = path.replace('\n', "\u{fffd}");
        asked.push_str(&format!("{commit}:{path}\n"));
    }
    let answer = cat_file
        .args(["--batch"])
        .stdin(asked.into_bytes())
        .output()?;
    let mut rest = answer.as_slice();
    let mut files = Vec::with_capacity(paths.len());
    for _ in paths {
        let (file, after) =
            batch_entry(rest).ok_or_else(|| GitError::unexpected("cat-file", rest))?;
        files.push(file.map(<[u8]>::to_vec));
        rest = after;
    }
    Ok(files)
}

/// One line of the output in the format [`RECENT`]. `None` for symbolic refs.
fn recent_ref(line: &str) -> Option<RecentRef> {
    let mut fields = line.split('\0');
    let mut next = || fields.next().map(str::to_owned);
    let (name, symref) = (next()?, next()?);
    let (object, target) = (next()?, next()?);
    let (at, subject) = (next()?, next()?);
    let commit = if target.is_empty() { object } else { target };
    symref.is_empty().then_some(RecentRef {
        name: short_name(&name)?,
        commit,
        at,
        subject,
    })
}

fn short_name(full: &str) -> Option<String> {
    SHARED.iter().find_map(|prefix| {
        let short = full.strip_prefix(prefix)?.strip_prefix('/')?;
        Some(short.to_owned())
    })
}

type Entry<'a> = (Option<&'a [u8]>, &'a [u8]);

/// Parses one answer of `cat-file --batch`; returns it and the rest.
fn batch_entry(answer: &[u8]) -> Option<Entry<'_>> {
    let end = answer.iter().position(|byte| *byte == b'\n')?;
    let (header, rest) = (&answer[..end], &answer[end + 1..]);
    if header.ends_with(b" missing") || header.ends_with(b" ambiguous") {
        return Some((None, rest));
    }
    let header = std::str::from_utf8(header).ok()?;
    let mut words = header.rsplit(' ');
    let size: usize = words.next()?.parse().ok()?;
    let kind = words.next()?;
    let content = rest.get(..size)?;
    let after = rest.get(size + 1..)?;
    Some(((kind == "blob").then_some(content), after))
}
