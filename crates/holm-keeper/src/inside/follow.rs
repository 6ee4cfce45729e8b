//! Follows files of the tree for a service of a Compose file (`develop.watch`), in the root of the service and with its
//! rights. It copies what changed to where the service expects it, and tells the keeper what follows, in one line of
//! JSON each.
//!
//! The keeper starts the service's program when everything is watched and copied, so no change is missed in between.

mod copy;

use copy::copy;
use holm_core::container::{AfterChange, Watch};
use holm_core::dockerignore::DockerIgnore;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What the helper tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Told {
    /// From here on no change is missed.
    Armed,
    Copied {
        rule: usize,
        /// The first, relative to the root of the tree.
        path: String,
        count: usize,
    },
    /// What the rule says for after a change.
    Due {
        rule: usize,
        path: String,
    },
    Failed {
        why: String,
    },
}

/// Programs often write several files: they are handled together when this long none has changed, or after the limit.
const QUIET: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};
const LONGEST: Duration = Duration::from_secs(2);

const EVENTS: WatchFlags = WatchFlags::CLOSE_WRITE
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::ONLYDIR)
    .union(WatchFlags::DONT_FOLLOW);

const IGNORE_FILE: &str = ".dockerignore";
/// No rule means the repository itself.
const GIT: &str = ".git";

struct Follower {
    inotify: OwnedFd,
    /// By the number of the watch. Several rules may show one directory at several places.
    directories: BTreeMap<i32, BTreeSet<PathBuf>>,
    rules: Vec<Rule>,
    changed: BTreeSet<PathBuf>,
}

struct Rule {
    watch: Watch,
    /// Where the base is, and the path below it that the rule names.
    place: PathBuf,
    root: PathBuf,
    of_context: DockerIgnore,
    ignore: DockerIgnore,
    include: Option<DockerIgnore>,
}

/// Follows until the keeper is gone or the watching fails. `text` has the rules.
pub fn follow(text: &str) -> bool {
    let Ok(watches) = serde_json::from_str::<Vec<Watch>>(text) else {
        return false;
    };
    let followed = Follower::new(watches).and_then(|mut follower| follower.follow());
    if let Err(error) = followed {
        // The keeper may be gone.
        let _ = tell(&Told::Failed {
            why: format!("the tree cannot be watched: {error}"),
        });
    }
    false
}

/// Without a keeper that listens, this process ends.
fn tell(told: &Told) -> io::Result<()> {
    let mut line = serde_json::to_vec(told)?;
    line.push(b'\n');
    io::stdout().write_all(&line)?;
    io::stdout().flush()
}

// === impl Follower ===

impl Follower {
    fn new(watches: Vec<Watch>) -> io::Result<Self> {
        let rules = watches.into_iter().enumerate();
        Ok(Self {
            inotify: inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?,
            directories: BTreeMap::new(),
            rules: rules
                .map(|(number, watch)| Rule::new(number, watch))
                .collect(),
            changed: BTreeSet::new(),
        })
    }

    fn follow(&mut self) -> io::Result<()> {
        self.arm_all()?;
        let mark = Path::new(Watch::MARK);
        let is_first = !mark.exists();
        let found = std::mem::take(&mut self.changed);
        for (number, rule) in self.rules.iter().enumerate() {
            if rule.watch.is_initial || !is_first {
                rule.copy_all(number, &found)?;
            }
        }
        // In a root that is read-only nothing can be copied either.
        let _ = fs::write(mark, "");
        tell(&Told::Armed)?;
        loop {
            self.gather()?;
            let changed = std::mem::take(&mut self.changed);
            for (number, rule) in self.rules.iter().enumerate() {
                rule.handle(number, &changed)?;
            }
        }
    }

    /// Waits for changes, and then until there are no more for a moment.
    fn gather(&mut self) -> io::Result<()> {
        let mut begun = None;
        loop {
            let wait = begun.map(|_| &QUIET);
            let ready = match poll(&mut [PollFd::new(&self.inotify, PollFlags::IN)], wait) {
                Err(Errno::INTR) => continue,
                ready => ready?,
            };
            if ready == 0 {
                return Ok(());
            }
            self.read()?;
            if !self.changed.is_empty() {
                let begun = begun.get_or_insert_with(Instant::now);
                if begun.elapsed() > LONGEST {
                    return Ok(());
                }
            }
        }
    }

    fn read(&mut self) -> io::Result<()> {
        let mut buffer = [MaybeUninit::uninit(); 8192];
        let mut seen = Vec::new();
        let mut reader = Reader::new(&self.inotify, &mut buffer);
        loop {
            let event = match reader.next() {
                Err(Errno::AGAIN) => break,
                event => event?,
            };
            let name = event.file_name().map(|name| name.to_bytes().to_vec());
            seen.push((event.wd(), event.events(), name));
        }
        for (number, events, name) in seen {
            if events.contains(ReadFlags::QUEUE_OVERFLOW) {
                self.arm_all()?;
            }
            if events.contains(ReadFlags::IGNORED) {
                self.directories.remove(&number);
            }
            let places = self.directories.get(&number).cloned();
            let Some((places, name)) = places.zip(name) else {
                continue;
            };
            let is_directory = events.contains(ReadFlags::ISDIR);
            let is_new = events.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO);
            for place in places {
                let path = place.join(OsStr::from_bytes(&name));
                if is_directory && is_new {
                    self.arm(path)?;
                    continue;
                }
                if is_directory {
                    self.forget(&path);
                }
                self.changed.insert(path);
            }
        }
        Ok(())
    }

    /// A directory that was moved is still watched, and is not at this path any more.
    fn forget(&mut self, path: &Path) {
        for places in self.directories.values_mut() {
            places.retain(|place| !place.starts_with(path));
        }
    }

    fn arm_all(&mut self) -> io::Result<()> {
        let places: BTreeSet<PathBuf> = self.rules.iter().map(|rule| rule.place.clone()).collect();
        places.into_iter().try_for_each(|place| self.arm(place))
    }

    /// Watches a directory and those below it that a rule means. Files in them count as changed.
    fn arm(&mut self, directory: PathBuf) -> io::Result<()> {
        let mut left = vec![directory];
        while let Some(directory) = left.pop() {
            if !self.rules.iter().any(|rule| rule.may_mean(&directory)) {
                continue;
            }
            match inotify::add_watch(&self.inotify, &directory, EVENTS) {
                Ok(number) => {
                    let places = self.directories.entry(number).or_default();
                    places.insert(directory.clone());
                }
                // It was removed or replaced meanwhile.
                Err(Errno::NOENT | Errno::NOTDIR) => continue,
                Err(Errno::NOSPC) => {
                    return Err(io::Error::other(
                        "fs.inotify.max_user_watches is too low for so many directories",
                    ));
                }
                Err(error) => return Err(error.into()),
            }
            let Ok(entries) = fs::read_dir(&directory) else {
                continue;
            };
            for entry in entries.flatten() {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    left.push(entry.path());
                } else {
                    self.changed.insert(entry.path());
                }
            }
        }
        Ok(())
    }
}

// === impl Rule ===

impl Rule {
    fn new(number: usize, watch: Watch) -> Self {
        let place = Watch::place(number);
        let of_context = if watch.is_context {
            fs::read_to_string(place.join(IGNORE_FILE)).unwrap_or_default()
        } else {
            String::new()
        };
        let listed = |patterns: &[String]| DockerIgnore::parse(&patterns.join("\n"));
        Self {
            root: place.join(&watch.path),
            of_context: DockerIgnore::parse(&of_context),
            ignore: listed(&watch.ignore),
            include: (!watch.include.is_empty()).then(|| listed(&watch.include)),
            place,
            watch,
        }
    }

    /// Whether files that it means may be below a directory.
    fn may_mean(&self, directory: &Path) -> bool {
        let leads_there = directory.starts_with(&self.place) && self.root.starts_with(directory);
        leads_there || (directory.starts_with(&self.root) && !self.is_ignored(directory))
    }

    fn means(&self, path: &Path) -> bool {
        if !path.starts_with(&self.root) || self.is_ignored(path) {
            return false;
        }
        let include = self.include.as_ref();
        include.is_none_or(|include| include.ignores(&self.below(path).to_string_lossy()))
    }

    fn is_ignored(&self, path: &Path) -> bool {
        let in_context = path.strip_prefix(&self.place).unwrap_or(path);
        in_context.iter().any(|part| part == GIT)
            || self.of_context.ignores(&in_context.to_string_lossy())
            || self.ignore.ignores(&self.below(path).to_string_lossy())
    }

    /// What patterns are about: the path below the one that the rule names, or its own name.
    fn below<'a>(&self, path: &'a Path) -> &'a Path {
        match path.strip_prefix(&self.root) {
            Ok(below) if below.as_os_str().is_empty() => {
                path.file_name().map_or(Path::new(""), Path::new)
            }
            Ok(below) => below,
            Err(_) => path,
        }
    }

    fn handle(&self, number: usize, changed: &BTreeSet<PathBuf>) -> io::Result<()> {
        let due = match &self.watch.target {
            Some(_) => self.copy_all(number, changed)?,
            None => changed.iter().find(|path| self.means(path)),
        };
        match due.filter(|_| self.watch.then != AfterChange::Nothing) {
            Some(path) => tell(&Told::Due {
                rule: number,
                path: self.shown(path),
            }),
            None => Ok(()),
        }
    }

    /// Copies those files that it means; returns the first that was different.
    fn copy_all<'a>(
        &self,
        number: usize,
        changed: &'a BTreeSet<PathBuf>,
    ) -> io::Result<Option<&'a PathBuf>> {
        let Some(target) = &self.watch.target else {
            return Ok(None);
        };
        let (mut first, mut count) = (None, 0);
        for path in changed.iter().filter(|path| self.means(path)) {
            match copy(path, &self.place_in(target, path)) {
                Ok(copy::Done::Same) => {}
                Ok(copy::Done::Changed) => {
                    count += 1;
                    first = first.or(Some(path));
                }
                Err(error) => tell(&Told::Failed {
                    why: format!("{} cannot be copied: {error}", self.shown(path)),
                })?,
            }
        }
        if let Some(path) = first {
            tell(&Told::Copied {
                rule: number,
                path: self.shown(path),
                count,
            })?;
        }
        Ok(first)
    }

    fn place_in(&self, target: &Path, path: &Path) -> PathBuf {
        let below = path.strip_prefix(&self.root).unwrap_or(path);
        match path.file_name() {
            Some(name) if below.as_os_str().is_empty() => {
                let is_directory = target.is_dir() || target.as_os_str().as_bytes().ends_with(b"/");
                if is_directory {
                    target.join(name)
                } else {
                    target.to_owned()
                }
            }
            _ => target.join(below),
        }
    }

    /// The path in the tree, for people: it cannot control a terminal.
    fn shown(&self, path: &Path) -> String {
        let below = path.strip_prefix(&self.place).unwrap_or(path);
        let path = self.watch.base.join(below);
        path.to_string_lossy().escape_debug().to_string()
    }
}

#[cfg(test)]
#[path = "follow_tests.rs"]
mod tests;
