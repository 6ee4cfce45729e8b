//! Decides which of the user's programs a workspace sees, and its PATH.
//!
//! Called by the daemon when a workspace is created, with the client's PATH and functions that read
//! the disk. PATH entries below home are shown read-only together with the toolchain they need
//! ([`table`]). No shown directory contains a place for credentials ([`denied`]), and home itself
//! is never shown.

pub mod denied;
pub mod table;

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// The client's environment.
pub struct Client<'a> {
    /// `$PATH`.
    pub path: &'a str,
    pub home: &'a Path,
    /// Variables that move a toolchain (`RUSTUP_HOME`, `NVM_DIR`, …), as far as known.
    pub variables: &'a BTreeMap<String, String>,
    /// The code's path inside; everything below belongs to the workspace.
    pub root: &'a Path,
    /// Further directories to show (`[toolchains] paths`).
    pub extra: &'a [PathBuf],
}

/// Functions that read the disk.
pub struct Look<'a> {
    /// The target of a symlink, as written.
    pub read_link: &'a dyn Fn(&Path) -> Option<PathBuf>,
    /// Whether the path exists, following symlinks.
    pub exists: &'a dyn Fn(&Path) -> bool,
    /// The entries of a directory, as full paths.
    pub list: &'a dyn Fn(&Path) -> Vec<PathBuf>,
}

/// The decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Visible {
    /// Host paths to show read-only at the same path; none is below another.
    pub shown: Vec<PathBuf>,
    /// `$PATH` inside.
    pub path: String,
    /// PATH entries and configured directories that are not visible inside, and why.
    pub left_out: Vec<LeftOut>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    pub path: PathBuf,
    pub why: Why,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// Relative or empty: it would depend on the current directory.
    Relative,
    /// It does not exist.
    Absent,
    /// It contains, or is in, a place for credentials.
    Credentials,
    /// It belongs to the running system, to other users, or is writable by everyone.
    Denied,
    /// It is home, or a parent of the code.
    TooWide,
}

/// The directory of holm itself inside.
const HOLM_BIN: &str = "/run/holm/bin";

/// System directories that every workspace sees.
const SYSTEM: [&str; 7] = [
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
];

/// Places of the running system. Not even the user's settings can show these.
const RUNNING_SYSTEM: [&str; 7] = ["/proc", "/sys", "/dev", "/run", "/var/run", "/boot", "/etc"];

/// Places that are writable by everyone or belong to other users.
const OTHERS: [&str; 5] = ["/tmp", "/var/tmp", "/root", "/home", "/snap"];

/// Software for all users below an otherwise denied place.
const SYSTEM_PREFIXES: [&str; 1] = ["/home/linuxbrew/.linuxbrew"];

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

/// What happens to one PATH entry.
enum Fate {
    /// It is visible anyway.
    Kept,
    /// It is visible once these are shown.
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
        // An entry that is not UTF-8 can be neither printed nor passed on.
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
            // Whatever a row says, the entry itself must be visible.
            None => Fate::Needs(with_entry(needs, &entry)),
        };
        (entry, fate)
    }

    /// Whether a PATH entry belongs to other users, is writable by everyone, or is on a Windows
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

    /// Symlinks in a program directory below home point to where installers keep the programs.
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

    /// A resolved path with its name inside, where home is not a symlink.
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

/// What a directory outside home needs: software below `/opt` and the like is installed as a whole,
/// anything else needs only itself.
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

/// The path without `.`, `..` and double slashes.
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

/// Resolves symlinks. A loop ends after a fixed number of steps.
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

/// Sorted, without duplicates and without paths below others.
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
