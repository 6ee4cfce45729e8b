//! Reads the place, the commit and the refs of an ordinary repository from its files, without git.
//!
//! Ordinary is: `.git` is a directory of this user, refs are files, and the configuration has
//! nothing that changes where the work tree, the objects or the refs are. Every other repository
//! (linked work trees, submodules, reftable, SHA-256, bare, partial, of another user) and everything
//! unexpected gives `None`; then the caller asks git. These functions never fail.

use super::Discovered;
use crate::bare::is_object_id;
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const FORMAT: &str = "sha1";

/// Prefixes of the refs that are shared with workspaces.
pub(super) const SHARED: [&str; 3] = ["refs/heads", "refs/tags", "refs/remotes"];

/// Words in the configuration that git has to interpret.
const NOT_ORDINARY: [&str; 8] = [
    "include",
    "extensions",
    "worktree",
    "promisor",
    "partialclone",
    "bare",
    "repositoryformatversion",
    "\\",
];

/// The values that `git init` writes.
const ORDINARY: [&str; 2] = ["bare=false\n", "repositoryformatversion=0\n"];

/// A longer configuration is left to git.
const LONGEST_CONFIG: u64 = 256 * 1024;

/// The ordinary repository around `directory`.
pub(super) fn place(directory: &Path) -> Option<Discovered> {
    let directory = directory.canonicalize().ok()?;
    let (toplevel, git_dir) = find(&directory)?;
    is_ordinary(&git_dir).then_some(())?;
    let head = small_text(&git_dir.join("HEAD"))?;
    let (head, head_name) = match head.strip_prefix("ref: ") {
        Some(name) => {
            let name = name.trim();
            is_plain_name(name).then_some(())?;
            (value_of(&git_dir, name)?, name.to_owned())
        }
        None => (object(head.trim())?, "HEAD".to_owned()),
    };
    Some(Discovered {
        toplevel,
        common_dir: git_dir.clone(),
        git_dir,
        object_format: FORMAT.to_owned(),
        head: Some(head),
        head_name: Some(head_name),
    })
}

/// The refs of an ordinary repository that are shared with workspaces, sorted by name.
pub(super) fn refs(git_dir: &Path) -> Option<Vec<(String, String)>> {
    is_ordinary(git_dir).then_some(())?;
    let mut found = BTreeMap::new();
    // Loose refs first: `git pack-refs` writes the packed ones before it removes these.
    for prefix in SHARED {
        gather(git_dir, prefix, &mut found)?;
    }
    for (name, object) in packed(git_dir)? {
        if SHARED.iter().any(|prefix| is_below(&name, prefix)) {
            found.entry(name).or_insert(Some(object));
        }
    }
    let refs = found.into_iter();
    Some(
        refs.filter_map(|(name, object)| Some((name, object?)))
            .collect(),
    )
}

/// The commit of a branch, if git would take the name for this branch and for nothing else.
pub(super) fn branch(git_dir: &Path, name: &str) -> Option<String> {
    let full = format!("refs/heads/{name}");
    if !is_plain_name(&full) || name == "@" || is_object_id(name, FORMAT) {
        return None;
    }
    let refs = refs(git_dir)?;
    let find = |name: String| refs.iter().find(|(found, _)| *found == name);
    let is_elsewhere = git_dir.join(name).symlink_metadata().is_ok()
        || value_of(git_dir, &format!("refs/{name}")).is_some()
        || find(format!("refs/tags/{name}")).is_some();
    find(full)
        .filter(|_| !is_elsewhere)
        .map(|(_, commit)| commit.clone())
}

/// The branch that is checked out, if the repository has no linked work trees; empty: none is.
pub(super) fn only_checked_out(git_dir: &Path) -> Option<String> {
    is_ordinary(git_dir).then_some(())?;
    let linked = git_dir.join("worktrees").symlink_metadata();
    let head = small_text(&git_dir.join("HEAD")).filter(|_| linked.is_err())?;
    Some(match head.strip_prefix("ref: ") {
        Some(name) => name.trim().to_owned(),
        None => String::new(),
    })
}

/// The message of the newest entry in the reflog of a branch; empty: there is none.
pub(super) fn last_reflog(git_dir: &Path, branch: &str) -> Option<String> {
    let name = format!("refs/heads/{branch}");
    (is_ordinary(git_dir) && is_plain_name(&name)).then_some(())?;
    let text = match fs::read_to_string(git_dir.join("logs").join(&name)) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Some(String::new()),
        Err(_) => return None,
    };
    let last = text.lines().last().unwrap_or_default();
    let message = last.split_once('\t').map(|(_, message)| message);
    Some(message.unwrap_or_default().to_owned())
}

/// The work tree and its git directory, by the rules of git's own search.
fn find(directory: &Path) -> Option<(PathBuf, PathBuf)> {
    let own = rustix::process::geteuid().as_raw();
    let device = directory.metadata().ok()?.dev();
    for above in directory.ancestors() {
        let metadata = above.metadata().ok()?;
        // git does not look beyond the file system, and not below a git directory.
        if metadata.dev() != device || above.file_name().is_some_and(|name| name == ".git") {
            return None;
        }
        let git_dir = above.join(".git");
        match git_dir.symlink_metadata() {
            Ok(found) if found.is_dir() => {
                let is_own = found.uid() == own && metadata.uid() == own;
                return is_own.then(|| (above.to_owned(), git_dir));
            }
            Ok(_) => return None,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(_) => return None,
        }
        if above.join("HEAD").symlink_metadata().is_ok() {
            // It may be a bare repository.
            return None;
        }
    }
    None
}

fn is_ordinary(git_dir: &Path) -> bool {
    let is_dir = |name: &str| git_dir.join(name).is_dir();
    let is_absent = |name: &str| git_dir.join(name).symlink_metadata().is_err();
    let has_files = is_dir("objects") && is_dir("refs");
    let is_whole = is_absent("commondir") && is_absent("reftable") && is_absent("config.worktree");
    has_files && is_whole && ordinary_config(git_dir).is_some()
}

fn ordinary_config(git_dir: &Path) -> Option<()> {
    let path = git_dir.join("config");
    let metadata = path.symlink_metadata().ok()?;
    if !metadata.is_file() || metadata.len() > LONGEST_CONFIG {
        return None;
    }
    let mut text = fs::read_to_string(path).ok()?.to_ascii_lowercase();
    text.retain(|letter| letter != ' ' && letter != '\t');
    for value in ORDINARY {
        text = text.replace(value, "\n");
    }
    let is_other = |word: &&str| text.contains(*word);
    (!NOT_ORDINARY.iter().any(is_other)).then_some(())
}

/// The value of one ref, which may be loose or packed.
fn value_of(git_dir: &Path, name: &str) -> Option<String> {
    match fs::read_to_string(git_dir.join(name)) {
        Ok(text) => object(text.trim()),
        Err(error) if error.kind() == ErrorKind::NotFound => packed(git_dir)?
            .into_iter()
            .find(|(packed, _)| packed == name)
            .map(|(_, object)| object),
        Err(_) => None,
    }
}

/// Adds the loose refs below a directory; symbolic ones as `None`.
fn gather(
    git_dir: &Path,
    directory: &str,
    found: &mut BTreeMap<String, Option<String>>,
) -> Option<()> {
    let entries = match fs::read_dir(git_dir.join(directory)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Some(()),
        Err(_) => return None,
    };
    for entry in entries {
        let entry = entry.ok()?;
        let name = entry.file_name();
        let name = format!("{directory}/{}", name.to_str()?);
        let kind = entry.file_type().ok()?;
        if kind.is_dir() {
            gather(git_dir, &name, found)?;
        } else if kind.is_file() && !name.ends_with(".lock") {
            is_plain_name(&name).then_some(())?;
            let text = small_text(&entry.path())?;
            let value = match text.starts_with("ref: ") {
                true => None,
                false => Some(object(text.trim())?),
            };
            found.insert(name, value);
        } else if !kind.is_file() {
            return None;
        }
    }
    Some(())
}

fn packed(git_dir: &Path) -> Option<Vec<(String, String)>> {
    let text = match fs::read_to_string(git_dir.join("packed-refs")) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Some(Vec::new()),
        Err(_) => return None,
    };
    let lines = text.lines();
    // A line with `^` is the commit of the tag before it.
    let lines = lines.filter(|line| !line.starts_with('#') && !line.starts_with('^'));
    let refs = lines.map(|line| {
        let (value, name) = line.split_once(' ')?;
        is_plain_name(name).then_some(())?;
        Some((name.to_owned(), object(value)?))
    });
    refs.collect()
}

/// Whether a name needs no interpretation by git. Names that git would refuse are left to git.
fn is_plain_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+@#=,%".contains(&byte);
    name.starts_with("refs/")
        && name.bytes().all(is_plain)
        && !name.contains("..")
        && !name.contains("/.")
        && !name.contains("@{")
        && !name.ends_with(['/', '.'])
        && !name.ends_with(".lock")
}

fn is_below(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix)
        .is_some_and(|rest| rest.starts_with('/'))
}

fn object(text: &str) -> Option<String> {
    let is_some = is_object_id(text, FORMAT) && text.bytes().any(|digit| digit != b'0');
    is_some.then(|| text.to_owned())
}

/// A file of one short line.
fn small_text(path: &Path) -> Option<String> {
    let metadata = path.symlink_metadata().ok()?;
    if !metadata.is_file() || metadata.len() > 4096 {
        return None;
    }
    fs::read_to_string(path).ok()
}
