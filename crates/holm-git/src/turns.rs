//! The objects of a workspace's turns: a bare repository of the daemon that can read the project's objects.
//! Every object of a pack from inside is checked before it is stored. `refs/turns/<n>` keeps the tree of a
//! turn.

use crate::GitError;
use crate::bare::{Bare, is_object_id};
use crate::command::Git;
use crate::repository::fetch::empty_tree;
use holm_core::tree_change::{Entry, TreeChange, tree_changes};
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The most paths that are arguments of one git.
const MOST_NAMED: usize = 100;

#[derive(Clone, Debug)]
pub struct TurnObjects {
    git_dir: PathBuf,
    object_format: String,
}

/// Doubtful names are refused, as `fetch` refuses them.
const STRICT: &str = "--strict=hasDotgit=error,hasDot=error,hasDotdot=error,fullPathname=error";

/// A content larger than this is not compared line by line.
const BIG_FILE: &str = "core.bigFileThreshold=16m";

/// Contents are held in memory, and a workspace decides how large its files are.
const MOST_CONTENT: u64 = 128 << 20;

// === impl TurnObjects ===

impl TurnObjects {
    /// Opens the repository at `path`, or creates it.
    pub fn open_or_init(
        path: &Path,
        project_objects: &Path,
        object_format: &str,
    ) -> Result<Self, GitError> {
        let bare = Bare::open_or_init(path, object_format)?;
        let alternates = bare.objects_dir().join("info/alternates");
        if !alternates.exists() {
            let mut line = crate::quote::alternate(project_objects).into_encoded_bytes();
            line.push(b'\n');
            std::fs::write(&alternates, line).map_err(GitError::file("write", &alternates))?;
        }
        Ok(Self {
            git_dir: path.to_owned(),
            object_format: object_format.to_owned(),
        })
    }

    pub fn objects_dir(&self) -> PathBuf {
        self.git_dir.join("objects")
    }

    /// Stores the objects of a pack, all of which are checked and complete, among them `tree`. `pack` is read
    /// from its current position; an empty one adds nothing. At most two processes.
    pub fn take(&self, pack: File, tree: &str) -> Result<(), GitError> {
        self.check(tree)?;
        let length = pack.metadata().map(|found| found.len()).unwrap_or(0);
        if length > 0 {
            self.git("index-pack")?
                .config(BIG_FILE)
                .args(["--stdin", STRICT])
                .stdin_from(pack)
                .output()?;
        }
        // A tree that the pack has was checked with everything below it.
        let kind = self.git("cat-file")?.args(["-t", tree]).run()?;
        if kind.stdout != b"tree\n" {
            return Err(GitError::MissingObject {
                reference: "a turn".to_owned(),
                object: tree.to_owned(),
            });
        }
        Ok(())
    }

    /// Keeps a tree as that of turn `number`. Starts no process.
    pub fn mark(&self, number: u64, tree: &str) -> Result<(), GitError> {
        let place = self.git_dir.join("refs/turns");
        std::fs::create_dir_all(&place).map_err(GitError::file("make", &place))?;
        let file = place.join(number.to_string());
        std::fs::write(&file, format!("{tree}\n")).map_err(GitError::file("write", &file))
    }

    /// Every object of a tree that the project's commit does not have. One process.
    pub fn objects_of(&self, tree: &str, base: Option<&str>) -> Result<Vec<String>, GitError> {
        self.listed(tree, base, None)
    }

    /// The same without the contents of files. One process.
    pub fn trees_of(&self, tree: &str, base: Option<&str>) -> Result<Vec<String>, GitError> {
        self.listed(tree, base, Some("--filter=blob:none"))
    }

    fn listed(
        &self,
        tree: &str,
        base: Option<&str>,
        filter: Option<&str>,
    ) -> Result<Vec<String>, GitError> {
        self.check(tree)?;
        let mut wanted = vec![tree.to_owned()];
        if let Some(base) = base {
            self.check(base)?;
            wanted.push(format!("^{base}^{{tree}}"));
        }
        let listed = self
            .git("rev-list")?
            .args(["--objects", "--no-object-names"])
            .more(filter)
            .more(wanted)
            .output()?;
        let text = String::from_utf8_lossy(&listed);
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// What differs between two trees or commits; `None` is the empty one. One process.
    pub fn changes(&self, from: Option<&str>, to: &str) -> Result<Vec<TreeChange>, GitError> {
        let listed = self.diff_tree(from, to, &["-z", "--raw", "--numstat", "--no-abbrev"])?;
        let listed = listed.output()?;
        tree_changes(&listed)
            .ok_or_else(|| GitError::unexpected("diff-tree", &listed[..listed.len().min(200)]))
    }

    /// The paths that differ; both of a renamed file. Reads no content. One process.
    pub fn changed_paths(&self, from: Option<&str>, to: &str) -> Result<Vec<Vec<u8>>, GitError> {
        let flags = ["-z", "--name-only", "--no-renames"];
        let listed = self.diff_tree(from, to, &flags)?.output()?;
        let names = listed
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty());
        Ok(names.map(<[u8]>::to_vec).collect())
    }

    /// The same as a patch on the command's stdout.
    pub fn patch(&self, from: Option<&str>, to: &str) -> Result<Command, GitError> {
        let flags = ["-p", "--binary", "--full-index"];
        Ok(self.diff_tree(from, to, &flags)?.into_command())
    }

    /// The patch of one change with this many unchanged lines around each changed one, without the content of a binary file.
    pub fn patch_of(
        &self,
        from: Option<&str>,
        to: &str,
        change: &TreeChange,
        context: usize,
    ) -> Result<Command, GitError> {
        let paths = [Some(&change.path), change.from.as_ref()];
        let paths = paths.into_iter().flatten().map(|path| literal(path));
        let context = format!("-U{context}");
        let patch = self.diff_tree(from, to, &["-p", "--full-index", &context])?;
        Ok(patch.more(["--"]).more(paths).into_command())
    }

    /// The changed lines between two contents as a patch, without unchanged lines around them. One process.
    pub fn changed_lines(&self, from: &str, to: &str) -> Result<Vec<u8>, GitError> {
        self.check(from)?;
        self.check(to)?;
        self.git("diff")?
            .config(BIG_FILE)
            .args(["-U0", "--no-ext-diff", "--no-textconv", "--no-color"])
            .more([from, to])
            .output()
    }

    fn diff_tree(&self, from: Option<&str>, to: &str, flags: &[&str]) -> Result<Git, GitError> {
        let from = from.unwrap_or(empty_tree(&self.object_format));
        self.check(from)?;
        self.check(to)?;
        Ok(self
            .git("diff-tree")?
            .config("core.quotePath=true")
            .config(BIG_FILE)
            .args(["-r", "-M", "-l1000", "--no-ext-diff", "--no-textconv"])
            .more(["--no-color"])
            .more(flags)
            .more([from, to]))
    }

    /// The entries of a tree at these paths. One process, which reads the whole tree only for many paths.
    pub fn entries(
        &self,
        tree: &str,
        paths: &[Vec<u8>],
    ) -> Result<HashMap<Vec<u8>, Entry>, GitError> {
        self.check(tree)?;
        if paths.is_empty() {
            return Ok(HashMap::new());
        }
        let named = if paths.len() <= MOST_NAMED {
            paths
        } else {
            &[]
        };
        let listed = self
            .git("ls-tree")?
            .args(["-r", "-z", "--full-tree", tree])
            .more(named.iter().map(|path| literal(path)))
            .output()?;
        let wanted: std::collections::HashSet<&[u8]> = paths.iter().map(Vec::as_slice).collect();
        let mut entries = HashMap::new();
        for line in listed
            .split(|byte| *byte == 0)
            .filter(|line| !line.is_empty())
        {
            let unexpected = || GitError::unexpected("ls-tree", line);
            let tab = line.iter().position(|byte| *byte == b'\t');
            let (head, path) = line.split_at(tab.ok_or_else(unexpected)?);
            if wanted.contains(&path[1..]) {
                let head = std::str::from_utf8(head).map_err(|_| unexpected())?;
                let mut words = head.split(' ');
                let mode = words
                    .next()
                    .and_then(|mode| u32::from_str_radix(mode, 8).ok());
                let object = words.nth(1).ok_or_else(unexpected)?.to_owned();
                let mode = mode.ok_or_else(unexpected)?;
                entries.insert(path[1..].to_vec(), Entry { mode, object });
            }
        }
        Ok(entries)
    }

    /// The content of objects up to `most` bytes each; larger ones are left out, and those that do not fit into
    /// [`MOST_CONTENT`] with the ones before them. Two processes.
    pub fn contents(
        &self,
        objects: &[String],
        most: u64,
    ) -> Result<HashMap<String, Vec<u8>>, GitError> {
        let objects: Vec<&String> = objects
            .iter()
            .filter(|object| self.check(object).is_ok())
            .collect();
        if objects.is_empty() {
            return Ok(HashMap::new());
        }
        let lines = |objects: &[&str]| -> Vec<u8> {
            objects
                .iter()
                .flat_map(|object| format!("{object}\n").into_bytes())
                .collect()
        };
        let all: Vec<&str> = objects.iter().map(|object| object.as_str()).collect();
        let sizes = self
            .git("cat-file")?
            .args(["--batch-check=%(objectname) %(objecttype) %(objectsize)"])
            .stdin(lines(&all))
            .output()?;
        let sizes = String::from_utf8_lossy(&sizes).into_owned();
        let mut left = MOST_CONTENT;
        let small: Vec<&str> = sizes
            .lines()
            .filter_map(|line| {
                let mut words = line.split(' ');
                let (object, kind) = (words.next()?, words.next()?);
                let size: u64 = words.next()?.parse().ok()?;
                let is_wanted = kind == "blob" && size <= most && size <= left;
                left -= if is_wanted { size } else { 0 };
                is_wanted.then_some(object)
            })
            .collect();
        let said = self
            .git("cat-file")?
            .args(["--batch"])
            .stdin(lines(&small))
            .output()?;
        let mut rest = said.as_slice();
        let mut contents = HashMap::new();
        while !rest.is_empty() {
            let unexpected = || GitError::unexpected("cat-file", &rest[..rest.len().min(200)]);
            let end = rest
                .iter()
                .position(|byte| *byte == b'\n')
                .ok_or_else(unexpected)?;
            let head = String::from_utf8_lossy(&rest[..end]).into_owned();
            let (object, size) = head.split_once(" blob ").ok_or_else(unexpected)?;
            let size: usize = size.parse().map_err(|_| unexpected())?;
            let content = rest.get(end + 1..end + 1 + size).ok_or_else(unexpected)?;
            contents.insert(object.to_owned(), content.to_vec());
            rest = rest.get(end + size + 2..).ok_or_else(unexpected)?;
        }
        Ok(contents)
    }

    /// Writes a pack with every object of a tree that the project's commit does not have. Two processes.
    pub fn pack(&self, tree: &str, base: Option<&str>, file: &Path) -> Result<(), GitError> {
        let objects = self.objects_of(tree, base)?;
        let out = File::create(file).map_err(GitError::file("make", file))?;
        let lines: String = objects.iter().map(|object| format!("{object}\n")).collect();
        self.git("pack-objects")?
            .args(["-q", "--stdout"])
            .stdin(lines.into_bytes())
            .stdout_to(out)
            .output()?;
        Ok(())
    }

    /// The tree of a commit; `None` is the empty one. One process.
    pub fn tree_of(&self, commit: Option<&str>) -> Result<String, GitError> {
        let Some(commit) = commit else {
            return Ok(empty_tree(&self.object_format).to_owned());
        };
        self.check(commit)?;
        let tree = self
            .git("rev-parse")?
            .args(["--verify", "--quiet", "--end-of-options"])
            .more([format!("{commit}^{{tree}}")])
            .output()?;
        Ok(String::from_utf8_lossy(&tree).trim().to_owned())
    }

    /// Forgets turns. What only they had is deleted. Two processes.
    pub fn forget(&self, numbers: &[u64]) -> Result<(), GitError> {
        for number in numbers {
            let file = self.git_dir.join("refs/turns").join(number.to_string());
            match std::fs::remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(GitError::file("remove", &file)(error));
                }
                _ => {}
            }
        }
        self.git("repack")?
            .args(["-a", "-d", "-l", "-q"])
            .output()?;
        self.git("prune")?.args(["--expire=now"]).output()?;
        Ok(())
    }

    fn git(&self, name: &str) -> Result<Git, GitError> {
        Git::sealed_in(&self.git_dir, name)
    }

    fn check(&self, text: &str) -> Result<(), GitError> {
        if is_object_id(text, &self.object_format) {
            return Ok(());
        }
        Err(GitError::InvalidObjectId {
            text: text.chars().take(80).collect(),
        })
    }
}

/// A path as git takes it where patterns are allowed.
fn literal(path: &[u8]) -> OsString {
    OsString::from_vec([b":(literal)", path].concat())
}
