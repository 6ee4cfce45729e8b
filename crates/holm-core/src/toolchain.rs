//! Which of the user's programs a workspace sees, and the PATH inside.
//!
//! Called by the daemon when a workspace is created, with the client's PATH and a way to look at
//! the disk. PATH entries below home are shown read-only together with the toolchain they need
//! ([`table`]); nothing that is shown contains a place where credentials are kept ([`denied`]),
//! and home itself is never shown.

pub mod denied;
pub mod table;

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// What the client said.
pub struct Client<'a> {
    /// `$PATH`.
    pub path: &'a str,
    pub home: &'a Path,
    /// Variables that move a toolchain (`RUSTUP_HOME`, `NVM_DIR`, …), as far as known.
    pub variables: &'a BTreeMap<String, String>,
    /// Where the code is inside: what lies below is the workspace's own.
    pub root: &'a Path,
    /// More directories to show (`[toolchains] paths`).
    pub extra: &'a [PathBuf],
}

/// How to look at the disk, as data.
pub struct Look<'a> {
    /// The target of a symbolic link, as written.
    pub read_link: &'a dyn Fn(&Path) -> Option<PathBuf>,
    /// Whether there is something at the path, links followed.
    pub exists: &'a dyn Fn(&Path) -> bool,
    /// The entries of a directory, as whole paths.
    pub list: &'a dyn Fn(&Path) -> Vec<PathBuf>,
}

/// What a workspace gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Visible {
    /// Host paths to show read-only at the same place; none lies below another.
    pub shown: Vec<PathBuf>,
    /// `$PATH` inside.
    pub path: String,
    /// PATH entries and wishes that are not visible inside, and why.
    pub left_out: Vec<LeftOut>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    pub path: PathBuf,
    pub why: Why,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// Relative, or empty: it would depend on where a program runs.
    Relative,
    /// Nothing is there.
    Absent,
    /// It holds, or lies in, a place of credentials.
    Credentials,
    /// It belongs to the running system, to other users, or to everybody.
    Denied,
    /// It is home, or a directory around the code.
    TooWide,
}

/// Where holm itself is inside.
const HOLM_BIN: &str = "/run/holm/bin";

/// Directories of the system that every workspace sees.
const SYSTEM: [&str; 7] = [
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
];

/// Places of the running system. Not even a wish of the user shows these.
const RUNNING_SYSTEM: [&str; 7] = ["/proc", "/sys", "/dev", "/run", "/var/run", "/boot", "/etc"];

/// Places of everybody or of other users.
const OTHERS: [&str; 5] = ["/tmp", "/var/tmp", "/root", "/home", "/snap"];

/// Software that is installed for everybody below a place that is denied otherwise.
const SYSTEM_PREFIXES: [&str; 1] = ["/home/linuxbrew/.linuxbrew"];

/// Decides what is shown and what PATH is.
pub fn visible(client: &Client<'_>, look: &Look<'_>) -> Visible {
    let mut builder = Builder {
        client,
        look,
        real_home: resolve(client.home, look),
        shown: Vec::new(),
        path: vec![HOLM_BIN.to_owned()],
        left_out: Vec::new(),
    };
    for entry in client.path.split(':') {
        builder.add_entry(Path::new(entry));
    }
    for path in client.extra {
        builder.add_extra(path);
    }
    Visible {
        shown: outermost(builder.shown),
        path: builder.path.join(":"),
        left_out: builder.left_out,
    }
}

struct Builder<'a> {
    client: &'a Client<'a>,
    look: &'a Look<'a>,
    real_home: PathBuf,
    shown: Vec<PathBuf>,
    path: Vec<String>,
    left_out: Vec<LeftOut>,
}

/// What becomes of one PATH entry.
enum Fate {
    /// It is there anyway.
    Kept,
    /// It is there once these are shown.
    Needs(Vec<PathBuf>),
    LeftOut(Why),
}

// === impl Builder ===

impl Builder<'_> {
    fn add_entry(&mut self, written: &Path) {
        let (entry, fate) = self.judge(written);
        let needs = match fate {
            Fate::Kept => Vec::new(),
            Fate::Needs(needs) => needs,
            Fate::LeftOut(why) => return self.leave_out(written, why),
        };
        self.show_all(needs);
        self.follow_links(&entry);
        // PATH is text; an entry that is not can neither be printed nor passed on.
        if let Some(text) = entry.to_str()
            && !self.path.iter().any(|known| known == text)
        {
            self.path.push(text.to_owned());
        }
    }

    fn judge(&self, written: &Path) -> (PathBuf, Fate) {
        if !written.is_absolute() {
            return (written.to_owned(), Fate::LeftOut(Why::Relative));
        }
        let entry = lexical(written);
        if is_below_any(&entry, &SYSTEM) || entry.starts_with(self.client.root) {
            return (entry, Fate::Kept);
        }
        let entry = self.at_home(&resolve(&entry, self.look));
        if is_below_any(&entry, &SYSTEM) || entry.starts_with(self.client.root) {
            return (entry, Fate::Kept);
        }
        if !(self.look.exists)(&entry) {
            return (entry, Fate::LeftOut(Why::Absent));
        }
        let needs = match entry.strip_prefix(self.client.home) {
            Ok(_) => table::needs(&entry, self.client, self.look),
            Err(_) => needs_outside(&entry),
        };
        let fate = match self.refusal(&entry) {
            Some(why) => Fate::LeftOut(why),
            None if self.is_of_others(&entry) => Fate::LeftOut(Why::Denied),
            // Whatever a row says, an entry of PATH inside is visible.
            None => Fate::Needs(with_entry(needs, &entry)),
        };
        (entry, fate)
    }

    /// Whether a PATH entry leads to other users, to where everybody may write, or to a Windows
    /// drive of WSL2, whose programs need a socket of the host.
    fn is_of_others(&self, entry: &Path) -> bool {
        let windows = entry
            .strip_prefix("/mnt")
            .ok()
            .and_then(|below| below.iter().next());
        let windows = windows.is_some_and(|drive| drive.len() == 1);
        let exempt = entry.starts_with(self.client.home) || is_below_any(entry, &SYSTEM_PREFIXES);
        !exempt && (windows || is_below_any(entry, &OTHERS))
    }

    /// Why a path may not be shown, if so.
    fn refusal(&self, path: &Path) -> Option<Why> {
        let home = self.client.home;
        if home.starts_with(path) || self.client.root.starts_with(path) {
            return Some(Why::TooWide);
        }
        match path.strip_prefix(home) {
            Ok(below) => denied::touches(below).then_some(Why::Credentials),
            Err(_) => is_below_any(path, &RUNNING_SYSTEM).then_some(Why::Denied),
        }
    }

    fn show_all(&mut self, paths: Vec<PathBuf>) {
        for path in paths {
            let own = path.starts_with(self.client.root);
            let resolved = self.at_home(&resolve(&path, self.look));
            let refused = self
                .refusal(&path)
                .or_else(|| self.refusal(&resolved))
                .is_some();
            if !own && !refused && (self.look.exists)(&path) {
                self.shown.push(path);
            }
        }
    }

    fn add_extra(&mut self, path: &Path) {
        let path = lexical(path);
        let resolved = self.at_home(&resolve(&path, self.look));
        match self.refusal(&path).or_else(|| self.refusal(&resolved)) {
            Some(why) => self.leave_out(&path, why),
            None if !(self.look.exists)(&path) => self.leave_out(&path, Why::Absent),
            None if path.starts_with(self.client.root) => {}
            None => self.shown.push(path),
        }
    }

    /// Links in a directory of programs below home lead to where installers keep them.
    fn follow_links(&mut self, entry: &Path) {
        let home = self.client.home;
        if !entry.starts_with(home) || entry.starts_with(self.client.root) {
            return;
        }
        for program in (self.look.list)(entry) {
            if (self.look.read_link)(&program).is_none() {
                continue;
            }
            let target = self.at_home(&resolve(&program, self.look));
            let directory = target.parent().unwrap_or(&target);
            if directory.starts_with(entry) || !(self.look.exists)(&target) {
                continue;
            }
            if let Some(needs) = table::needs_of_link(directory, self.client, self.look) {
                self.show_all(needs);
            }
        }
    }

    /// A resolved path as it is called inside, where home is not a link.
    fn at_home(&self, path: &Path) -> PathBuf {
        match path.strip_prefix(&self.real_home) {
            Ok(below) => self.client.home.join(below),
            Err(_) => path.to_owned(),
        }
    }

    fn leave_out(&mut self, path: &Path, why: Why) {
        let left_out = LeftOut {
            path: path.to_owned(),
            why,
        };
        if !self.left_out.contains(&left_out) {
            self.left_out.push(left_out);
        }
    }
}

fn with_entry(mut needs: Vec<PathBuf>, entry: &Path) -> Vec<PathBuf> {
    if !needs.iter().any(|need| entry.starts_with(need)) {
        needs.push(entry.to_owned());
    }
    needs
}

/// What a directory outside of home needs: software below `/opt` and the like is installed as a
/// whole, anything else is just itself.
fn needs_outside(entry: &Path) -> Vec<PathBuf> {
    for prefix in SYSTEM_PREFIXES {
        if entry.starts_with(prefix) {
            return vec![PathBuf::from(prefix)];
        }
    }
    if entry.starts_with("/nix") {
        return vec![PathBuf::from("/nix")];
    }
    if let Ok(below) = entry.strip_prefix("/opt")
        && let Some(name) = below.components().next()
    {
        return vec![Path::new("/opt").join(name)];
    }
    vec![entry.to_owned()]
}

fn is_below_any(path: &Path, trees: &[&str]) -> bool {
    trees.iter().any(|tree| path.starts_with(tree))
}

/// The path without `.`, `..` and double slashes, as text.
fn lexical(path: &Path) -> PathBuf {
    let mut clean = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(part) => clean.push(part),
            Component::ParentDir => {
                clean.pop();
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    clean
}

/// The path with its links followed. A circle of links ends where it was entered too often.
fn resolve(path: &Path, look: &Look<'_>) -> PathBuf {
    let mut links_left = 40;
    let mut done = PathBuf::from("/");
    let mut parts: Vec<PathBuf> = parts_of(path);
    while let Some(part) = parts.pop() {
        if part == Path::new("..") {
            done.pop();
            continue;
        }
        let next = done.join(&part);
        match (look.read_link)(&next) {
            Some(target) if links_left > 0 => {
                links_left -= 1;
                if target.is_absolute() {
                    done = PathBuf::from("/");
                }
                parts.extend(parts_of(&target));
            }
            _ => done = next,
        }
    }
    done
}

/// The parts of a path, last first.
fn parts_of(path: &Path) -> Vec<PathBuf> {
    let parts = path.components().filter_map(|component| match component {
        Component::Normal(part) => Some(PathBuf::from(part)),
        Component::ParentDir => Some(PathBuf::from("..")),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    });
    let mut parts: Vec<_> = parts.collect();
    parts.reverse();
    parts
}

/// Without duplicates and without what lies below another, in order.
fn outermost(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.sort();
    paths.dedup();
    let mut kept: Vec<PathBuf> = Vec::new();
    for path in paths {
        if !kept.last().is_some_and(|last| path.starts_with(last)) {
            kept.push(path);
        }
    }
    kept
}
