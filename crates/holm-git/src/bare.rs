//! The daemon's bare repository of a project: objects and refs that the client sent. The daemon
//! owns it, workspaces cannot write to it, and only sealed git commands touch it.
//!
//! All refs are in one `packed-refs` file, which this module rewrites as a whole.
//! `refs/holm/keep/<commit>` keeps every commit that a base or a workspace was made of.
//! `refs/holm/sent/<object>` is the temporary ref of a push. A commit counts as present only when a
//! ref points to it: its object alone may be left over from an interrupted transfer.

use crate::GitError;
use crate::command::Git;
use rustix::fs::{FlockOperation, flock};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Clone, Debug)]
pub struct Bare {
    path: PathBuf,
    object_format: String,
}

pub(crate) const KEEP: &str = "refs/holm/keep/";
pub(crate) const SENT: &str = "refs/holm/sent/";

/// Prefixes of the refs that clients may set.
const USER_REFS: [&str; 3] = ["refs/heads/", "refs/tags/", "refs/remotes/"];

const PACKED_REFS_HEADER: &str = "# pack-refs with: peeled fully-peeled sorted \n";

/// Whether the text is a full hexadecimal object id of this format.
pub(crate) fn is_object_id(text: &str, object_format: &str) -> bool {
    let length = if object_format == "sha256" { 64 } else { 40 };
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.len() == length && text.bytes().all(is_hex)
}

/// All objects that the refs in one of our `packed-refs` files point to.
pub(crate) fn objects_of_packed_refs(file: &Path) -> Result<BTreeSet<String>, GitError> {
    let refs = read_packed_refs(file)?;
    Ok(refs.into_iter().map(|(_, object)| object).collect())
}

// === impl Bare ===

impl Bare {
    /// Opens the repository at `path`, or creates it. Starts no process.
    pub fn open_or_init(path: &Path, object_format: &str) -> Result<Bare, GitError> {
        let bare = Bare {
            path: path.to_owned(),
            object_format: object_format.to_owned(),
        };
        if !path.join("HEAD").exists() {
            bare.init()?;
        }
        let config = path.join("config");
        let text = std::fs::read_to_string(&config).map_err(GitError::file("read", &config))?;
        let found = if text.contains("objectFormat = sha256") {
            "sha256"
        } else {
            "sha1"
        };
        if found != object_format {
            return Err(GitError::ObjectFormat {
                expected: found.to_owned(),
                found: object_format.to_owned(),
            });
        }
        Ok(bare)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn object_format(&self) -> &str {
        &self.object_format
    }

    /// The object directory. Workspaces see it read-only at
    /// [`OBJECTS_INSIDE`](crate::OBJECTS_INSIDE), and clients of the same user hard-link objects
    /// into it.
    pub fn objects_dir(&self) -> PathBuf {
        self.path.join("objects")
    }

    /// The file with all refs, which the seed of a workspace is made from.
    pub fn packed_refs(&self) -> PathBuf {
        self.path.join("packed-refs")
    }

    /// Whether the commit and everything it needs is present. Starts no process.
    ///
    /// False for an ancestor that was never requested itself: sending it again costs next to
    /// nothing.
    pub fn has_commit(&self, commit: &str) -> Result<bool, GitError> {
        Ok(objects_of_packed_refs(&self.packed_refs())?.contains(commit))
    }

    /// The commit of a branch as the user's repository had it when it was last sent; a branch of a remote has
    /// the remote's name in front. Starts no process.
    pub fn branch(&self, name: &str) -> Result<Option<String>, GitError> {
        let refs: BTreeMap<String, String> =
            read_packed_refs(&self.packed_refs())?.into_iter().collect();
        let names = [format!("refs/heads/{name}"), format!("refs/remotes/{name}")];
        Ok(names.iter().find_map(|name| refs.get(name)).cloned())
    }

    /// The newest commit that both have; `None`: their histories have nothing in common. One process.
    pub fn merge_base(&self, one: &str, other: &str) -> Result<Option<String>, GitError> {
        self.check_object_id(one)?;
        self.check_object_id(other)?;
        let found = Git::sealed_in(&self.path, "merge-base")?
            .args([one, other])
            .run()?;
        if found.status.code() == Some(1) {
            return Ok(None);
        }
        let said = found.success()?;
        let base = said.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let base = holm_core::head::object_id(base);
        base.map(Some)
            .ok_or_else(|| GitError::unexpected("merge-base", &said))
    }

    /// Every file of a commit with the id of its content. One process.
    pub fn files(&self, commit: &str) -> Result<Vec<(String, String)>, GitError> {
        self.check_object_id(commit)?;
        let listed = Git::sealed_in(&self.path, "ls-tree")?
            .args(["-r", "-z", "--full-tree", commit])
            .output()?;
        let entries = listed.split(|byte| *byte == 0).filter(|e| !e.is_empty());
        entries
            .map(|entry| {
                let entry = String::from_utf8_lossy(entry);
                let (head, path) = entry.split_once('\t')?;
                Some((path.to_owned(), head.rsplit(' ').next()?.to_owned()))
            })
            .collect::<Option<_>>()
            .ok_or_else(|| GitError::unexpected("ls-tree", &listed))
    }

    /// Replaces the user's refs by `refs`, keeps `commit` forever, and stores the shallow lines.
    /// Every object must be present. One process.
    pub fn set_refs(
        &self,
        refs: &[(String, String)],
        commit: Option<&str>,
        shallow: &[String],
    ) -> Result<(), GitError> {
        for (name, object) in refs {
            if !is_user_ref(name) {
                return Err(GitError::InvalidRef { name: name.clone() });
            }
            self.check_object_id(object)?;
        }
        for object in shallow.iter().map(String::as_str).chain(commit) {
            self.check_object_id(object)?;
        }
        let lock_file = self.path.join("holm.lock");
        let lock = File::create(&lock_file).map_err(GitError::file("make", &lock_file))?;
        flock(&lock, FlockOperation::LockExclusive)
            .map_err(|errno| GitError::file("lock", &lock_file)(errno.into()))?;

        let mut wanted: BTreeMap<String, String> = refs.iter().cloned().collect();
        let objects: BTreeSet<&str> = refs.iter().map(|(_, object)| object.as_str()).collect();
        for (name, object) in read_packed_refs(&self.packed_refs())? {
            let is_kept = name.starts_with(KEEP)
                || (name.starts_with(SENT) && objects.contains(object.as_str()));
            if is_kept {
                wanted.insert(name, object);
            }
        }
        if let Some(commit) = commit {
            wanted.insert(format!("{KEEP}{commit}"), commit.to_owned());
        }
        let peeled = self.peel(&wanted, commit)?;
        self.write_shallow(shallow)?;
        self.write_packed_refs(&wanted, &peeled)?;
        self.remove_loose_refs()
    }

    /// `git receive-pack` on this repository. The caller copies bytes between it and a client that
    /// [pushes](crate::Repository::push).
    pub fn receive_pack(&self) -> Result<Command, GitError> {
        let git = Git::sealed_in(&self.path, "receive-pack")?
            .config("receive.shallowUpdate=true")
            .config("receive.unpackLimit=1")
            .config("receive.autogc=false")
            .config("receive.updateServerInfo=false")
            .config("receive.denyDeletes=true")
            .config("receive.denyCurrentBranch=ignore")
            .config("receive.advertisePushOptions=false")
            .args([&self.path]);
        Ok(git.into_command())
    }

    /// Creates the repository by writing its few files, without a process and without git
    /// templates.
    fn init(&self) -> Result<(), GitError> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let new = self
            .path
            .with_file_name(format!(".new-{}-{number}", std::process::id()));
        let make = |path: &Path| std::fs::create_dir_all(path);
        let write = || -> io::Result<()> {
            make(&new.join("objects/info"))?;
            make(&new.join("objects/pack"))?;
            make(&new.join("refs"))?;
            std::fs::write(new.join("config"), config_text(&self.object_format))?;
            // HEAD points to a branch that never exists, so that no branch of the user is special.
            std::fs::write(new.join("HEAD"), "ref: refs/heads/holm-has-no-head\n")?;
            match std::fs::rename(&new, &self.path) {
                // Another process created the repository at the same time.
                Err(_) if self.path.join("HEAD").exists() => std::fs::remove_dir_all(&new),
                other => other,
            }
        };
        write().map_err(|error| {
            let _ = std::fs::remove_dir_all(&new);
            GitError::file("make", &self.path)(error)
        })
    }

    fn check_object_id(&self, text: &str) -> Result<(), GitError> {
        if is_object_id(text, &self.object_format) {
            return Ok(());
        }
        Err(GitError::InvalidObjectId {
            text: text.chars().take(80).collect(),
        })
    }

    /// Asks git for every object: it must exist, and tags are peeled.
    fn peel(
        &self,
        refs: &BTreeMap<String, String>,
        commit: Option<&str>,
    ) -> Result<BTreeMap<String, String>, GitError> {
        let mut names: BTreeMap<&str, &str> = BTreeMap::new();
        for (name, object) in refs {
            names.entry(object).or_insert(name);
        }
        let mut asked = String::new();
        for object in names.keys() {
            asked.push_str(&format!("{object}^{{}}\n"));
        }
        if asked.is_empty() {
            return Ok(BTreeMap::new());
        }
        let answer = Git::sealed_in(&self.path, "cat-file")?
            .args(["--batch-check=%(objectname) %(objecttype)"])
            .stdin(asked.into_bytes())
            .output()?;
        let answer = String::from_utf8_lossy(&answer);
        let mut lines = answer.lines();
        let mut peeled = BTreeMap::new();
        for (object, name) in names {
            let line = lines.next().unwrap_or_default();
            let (end, kind) = line.split_once(' ').unwrap_or_default();
            let is_wrong_kind = commit == Some(object) && (kind != "commit" || end != object);
            if !is_object_id(end, &self.object_format) || is_wrong_kind {
                return Err(GitError::MissingObject {
                    reference: name.to_owned(),
                    object: object.to_owned(),
                });
            }
            if end != object {
                peeled.insert(object.to_owned(), end.to_owned());
            }
        }
        Ok(peeled)
    }

    fn write_shallow(&self, shallow: &[String]) -> Result<(), GitError> {
        let file = self.path.join("shallow");
        if shallow.is_empty() {
            return match std::fs::remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    Err(GitError::file("remove", &file)(error))
                }
                _ => Ok(()),
            };
        }
        let text: String = shallow.iter().map(|line| format!("{line}\n")).collect();
        replace(&file, text.as_bytes()).map_err(GitError::file("write", &file))
    }

    fn write_packed_refs(
        &self,
        refs: &BTreeMap<String, String>,
        peeled: &BTreeMap<String, String>,
    ) -> Result<(), GitError> {
        let mut text = String::from(PACKED_REFS_HEADER);
        for (name, object) in refs {
            text.push_str(&format!("{object} {name}\n"));
            if let Some(end) = peeled.get(object) {
                text.push_str(&format!("^{end}\n"));
            }
        }
        let file = self.packed_refs();
        replace(&file, text.as_bytes()).map_err(GitError::file("write", &file))
    }

    /// Removes loose refs that a push wrote: those that were asked for are in the packed file now.
    fn remove_loose_refs(&self) -> Result<(), GitError> {
        let folder = self.path.join("refs");
        let entries = std::fs::read_dir(&folder).map_err(GitError::file("list", &folder))?;
        for entry in entries {
            let path = entry.map_err(GitError::file("list", &folder))?.path();
            match std::fs::remove_dir_all(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(GitError::file("remove", &path)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn config_text(object_format: &str) -> &'static str {
    match object_format {
        "sha256" => {
            "[core]\n\trepositoryformatversion = 1\n\tfilemode = true\n\tbare = true\n\
             [extensions]\n\tobjectFormat = sha256\n"
        }
        _ => "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n",
    }
}

/// (name, object) of every ref in a `packed-refs` file; empty if the file does not exist.
pub(crate) fn read_packed_refs(file: &Path) -> Result<Vec<(String, String)>, GitError> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(GitError::file("read", file)(error)),
    };
    let lines = text.lines().filter(|line| !line.starts_with(['#', '^']));
    Ok(lines
        .filter_map(|line| line.split_once(' '))
        .map(|(object, name)| (name.to_owned(), object.to_owned()))
        .collect())
}

/// Replaces a file by rename after the new content is on disk.
fn replace(file: &Path, content: &[u8]) -> io::Result<()> {
    let new = file.with_extension("new");
    let mut written = File::create(&new)?;
    written.write_all(content)?;
    written.sync_all()?;
    std::fs::rename(&new, file)
}

/// Checks git's rules for ref names, and that the name has one of the user's prefixes.
fn is_user_ref(name: &str) -> bool {
    let is_below = USER_REFS.iter().any(|prefix| name.starts_with(prefix));
    let is_clean = |c: char| !c.is_ascii_control() && !" ~^:?*[\\".contains(c);
    is_below
        && name.len() <= 4096
        && name.chars().all(is_clean)
        && !name.contains("..")
        && !name.contains("@{")
        && !name.ends_with('.')
        && name
            .split('/')
            .all(|part| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_git_allows_become_refs() {
        let check = |name: &str, expect: bool| assert_eq!(is_user_ref(name), expect, "{name}");
        check("refs/heads/main", true);
        check("refs/heads/größe/日本", true);
        check("refs/remotes/origin/a-b", true);
        check("refs/tags/v1.0", true);
        check("refs/holm/keep/x", false);
        check("refs/heads/", false);
        check("refs/heads/../x", false);
        check("refs/heads/a b", false);
        check("refs/heads/a\nb", false);
        check("refs/heads/.x", false);
        check("refs/heads/x.lock", false);
        check("refs/heads/x@{1}", false);
        check("HEAD", false);
    }
}
