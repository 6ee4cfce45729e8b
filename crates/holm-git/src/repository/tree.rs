//! The files of a commit, or of the checkout as it is now, for a program of the user that needs them as files: a builder of
//! images.
//!
//! Files are exported as git stores them: no filter and no attribute changes them. A tree comes from the repository and is
//! hostile: nothing is written outside of the directory, whatever its entries are called.

use super::Repository;
use super::dirty::Scratch;
use crate::GitError;
use crate::bare::is_object_id;
use crate::command::{Cancel, Git};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Component, Path, PathBuf};

/// The files of one state of the repository. The state of a checkout is removed on drop.
#[derive(Debug)]
pub struct Tree {
    repository: Repository,
    /// A commit or a tree.
    object: String,
    scratch: Option<Scratch>,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TreeFile {
    /// Below the root.
    pub path: PathBuf,
    pub kind: TreeFileKind,
    /// The id of its content.
    pub object: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TreeFileKind {
    Plain,
    Executable,
    Link,
}

/// Where files are exported to.
#[derive(Clone, Copy, Debug)]
pub struct Export<'a> {
    /// Paths in the directory are relative to this one of the tree.
    pub top: &'a Path,
    /// The directory, which does not exist yet.
    pub to: &'a Path,
    pub cancel: &'a Cancel,
}

// === impl Repository ===

impl Repository {
    pub fn tree_of(&self, commit: &str) -> Result<Tree, GitError> {
        if !is_object_id(commit, &self.object_format) {
            return Err(GitError::InvalidObjectId {
                text: commit.to_owned(),
            });
        }
        Ok(Tree {
            repository: self.clone(),
            object: commit.to_owned(),
            scratch: None,
        })
    }

    /// Everything in the checkout that is not ignored. `out_dir` is for temporary files. Three processes.
    pub fn tree_of_checkout(&self, out_dir: &Path, cancel: &Cancel) -> Result<Tree, GitError> {
        let scratch = Scratch::make(self, out_dir)?;
        self.add_everything(&scratch, cancel)?;
        let tree = self.write_tree(&scratch)?;
        let unmerged = || GitError::unexpected("write-tree", b"unmerged after `git add`");
        Ok(Tree {
            repository: self.clone(),
            object: tree.ok_or_else(unmerged)?,
            scratch: Some(scratch),
        })
    }
}

// === impl Tree ===

impl Tree {
    /// All files, without submodules, sorted. One process.
    pub fn files(&self) -> Result<Vec<TreeFile>, GitError> {
        let listed = self
            .git("ls-tree")?
            .args(["-r", "-z", "--full-tree", &self.object])
            .output()?;
        let mut files = Vec::new();
        for entry in listed.split(|byte| *byte == 0).filter(|it| !it.is_empty()) {
            let unexpected = || GitError::unexpected("ls-tree", entry);
            // `mode type object`, a tab, and the path.
            let tab = entry.iter().position(|byte| *byte == b'\t');
            let (head, path) = entry.split_at(tab.ok_or_else(unexpected)?);
            let head = String::from_utf8_lossy(head);
            let mut words = head.split(' ');
            let kind = match words.next() {
                Some("100755") => TreeFileKind::Executable,
                Some("120000") => TreeFileKind::Link,
                Some("160000") => continue,
                _ => TreeFileKind::Plain,
            };
            files.push(TreeFile {
                path: PathBuf::from(OsString::from_vec(path[1..].to_vec())),
                kind,
                object: words.nth(1).ok_or_else(unexpected)?.to_owned(),
            });
        }
        files.sort();
        Ok(files)
    }

    /// The content of one file. One process.
    pub fn content(&self, file: &TreeFile) -> Result<Vec<u8>, GitError> {
        self.git("cat-file")?.args(["blob", &file.object]).output()
    }

    /// Writes files into a new directory. One process.
    pub fn export(&self, files: &[TreeFile], export: &Export<'_>) -> Result<(), GitError> {
        let Export { top, to, cancel } = *export;
        fs::create_dir(to).map_err(GitError::file("make", to))?;
        refuse_hostile(files)?;
        let ids: String = files.iter().map(|it| format!("{}\n", it.object)).collect();
        let mut contents = tempfile(to)?;
        let out = contents.try_clone().map_err(GitError::file("open", to))?;
        self.git("cat-file")?
            .args(["--batch"])
            .stdin(ids.into_bytes())
            .stdout_to(out)
            .cancel(cancel)
            .output()?;
        contents.rewind().map_err(GitError::file("read", to))?;
        let mut contents = BufReader::new(contents);
        for file in files {
            cancel.check()?;
            let below = file.path.strip_prefix(top).unwrap_or(&file.path);
            let place = to.join(below);
            let written = write(&mut contents, file.kind, &place);
            written.map_err(GitError::file("write", &place))?;
        }
        Ok(())
    }

    fn git(&self, name: &str) -> Result<Git, GitError> {
        match &self.scratch {
            Some(scratch) => self.repository.in_scratch(scratch, name),
            None => self.repository.git(name),
        }
    }
}

/// Refuses a path that leaves the directory, by its text or by a link of the same tree.
fn refuse_hostile(files: &[TreeFile]) -> Result<(), GitError> {
    let links = files.iter().filter(|file| file.kind == TreeFileKind::Link);
    let links: BTreeSet<&Path> = links.map(|file| file.path.as_path()).collect();
    for file in files {
        let mut parts = file.path.components();
        let is_plain = parts.all(|part| matches!(part, Component::Normal(_)));
        let mut above = file.path.ancestors().skip(1);
        if !is_plain || above.any(|path| links.contains(path)) {
            let path = file.path.as_os_str().as_bytes();
            return Err(GitError::unexpected("ls-tree", path));
        }
    }
    Ok(())
}

/// A file without a name.
fn tempfile(beside: &Path) -> Result<File, GitError> {
    let path = beside.with_extension("contents");
    let failed = |error| GitError::file("make", &path)(error);
    let mut options = File::options();
    let file = options.read(true).write(true).create_new(true).open(&path);
    let file = file.map_err(failed)?;
    fs::remove_file(&path).map_err(GitError::file("remove", &path))?;
    Ok(file)
}

/// Copies the next answer of `cat-file --batch` to a new file.
fn write(contents: &mut impl BufRead, kind: TreeFileKind, to: &Path) -> io::Result<()> {
    let wrong = || io::Error::from(io::ErrorKind::InvalidData);
    let mut head = String::new();
    contents.read_line(&mut head)?;
    // `object blob size`.
    let size = head.trim_end().rsplit(' ').next().unwrap_or_default();
    let size: u64 = size.parse().map_err(|_| wrong())?;
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut content = contents.take(size);
    if kind == TreeFileKind::Link {
        let mut target = Vec::new();
        content.read_to_end(&mut target)?;
        symlink(OsStr::from_bytes(&target), to)?;
    } else {
        let mode = match kind {
            TreeFileKind::Executable => 0o755,
            TreeFileKind::Plain | TreeFileKind::Link => 0o644,
        };
        let mut options = File::options();
        let mut file = options.write(true).create_new(true).mode(mode).open(to)?;
        if io::copy(&mut content, &mut file)? != size {
            return Err(wrong());
        }
    }
    let mut end = [0];
    contents.read_exact(&mut end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, kind: TreeFileKind) -> TreeFile {
        TreeFile {
            path: PathBuf::from(path),
            kind,
            object: String::new(),
        }
    }

    #[test]
    fn a_tree_cannot_write_outside() {
        let check = |files: &[TreeFile], expect: bool| {
            assert_eq!(refuse_hostile(files).is_ok(), expect, "{files:?}");
        };
        let plain = |path| file(path, TreeFileKind::Plain);
        check(&[plain("a/b"), file("a/c", TreeFileKind::Link)], true);
        check(&[plain("../a")], false);
        check(&[plain("a/../../b")], false);
        check(&[plain("/a")], false);
        check(&[file("a", TreeFileKind::Link), plain("a/b")], false);
        check(&[file("a", TreeFileKind::Link), plain("a/b/c")], false);
    }
}
