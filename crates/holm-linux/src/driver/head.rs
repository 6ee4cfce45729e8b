//! Reads HEAD of a workspace from its files on the host. Called by [`observe`](super::observe) for
//! each `show`, so it starts no process and reads only a few bytes. A list of all workspaces reads the files of a
//! workspace only if one of them changed since ([`Heads`]).
//!
//! Programs inside can write these files at any moment. Each is opened below the upper layer
//! without following symlinks, leaving the file system or blocking, must be a regular file, and is
//! read up to a limit; anything unexpected counts as unknown. No git of the host is involved.

use super::upper;
use holm_core::head::Tip;
use holm_core::head::{self, Head, LONGEST};
use holm_keeper::files::READ;
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, lstat, openat2};
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

const PLAIN: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A larger `packed-refs` file is not searched.
const MOST_PACKED: usize = 1 << 20;

/// How many workspaces are remembered. Those that no longer exist are dropped with all others.
const MOST_KNOWN: usize = 4096;

/// What was read of each workspace, by its upper layer.
#[derive(Default)]
pub struct Heads(Mutex<HashMap<PathBuf, Known>>);

/// A tip, and the files that it was read from.
struct Known {
    tip: Tip,
    files: Vec<(PathBuf, Version)>,
}

/// Differs after each change of a file. Programs inside cannot set the time of a file's last change. A program that
/// writes HEAD through a mapping may hide that from lists for a while; it decides about its HEAD anyway.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Version {
    device: u64,
    inode: u64,
    size: i64,
    changed: Duration,
}

/// The files of one workspace, as they are read.
struct Reading<'a> {
    upper: &'a Path,
    directory: OwnedFd,
    files: Vec<(PathBuf, Version)>,
}

/// All refs are in the upper layer: they are written there when the workspace is created.
pub fn tip(upper: &Path) -> Tip {
    let reading = Reading::begin(upper);
    reading
        .and_then(|mut reading| reading.tip())
        .unwrap_or_default()
}

// === impl Heads ===

impl Heads {
    /// As [`tip`], from memory if the files are the same. Only a file that was read safely is in the memory, and a
    /// file at the same path counts only if it is that one.
    pub fn tip(&self, upper: &Path) -> Tip {
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known().get(upper).filter(|known| known.is_current()) {
            return known.tip.clone();
        }
        let began = upper::time(clock_gettime(ClockId::RealtimeCoarse));
        let Some(mut reading) = Reading::begin(upper) else {
            known().remove(upper);
            return Tip::default();
        };
        let tip = reading.tip();
        let mut known = known();
        if known.len() >= MOST_KNOWN {
            known.clear();
        }
        match &tip {
            Some(tip) if reading.is_complete(tip) && reading.is_older_than(began) => {
                let (tip, files) = (tip.clone(), reading.files);
                known.insert(upper.to_owned(), Known { tip, files });
            }
            _ => drop(known.remove(upper)),
        }
        tip.unwrap_or_default()
    }
}

// === impl Known ===

impl Known {
    fn is_current(&self) -> bool {
        let mut files = self.files.iter();
        files.all(|(path, version)| lstat(path).is_ok_and(|found| Version::of(&found) == *version))
    }
}

// === impl Version ===

impl Version {
    fn of(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: stat.st_size,
            changed: upper::ctime(stat),
        }
    }
}

// === impl Reading ===

impl<'a> Reading<'a> {
    fn begin(upper: &'a Path) -> Option<Self> {
        let directory = openat2(CWD, upper, DIRECTORY, Mode::empty(), ResolveFlags::empty());
        Some(Self {
            upper,
            directory: directory.ok()?,
            files: Vec::new(),
        })
    }

    fn tip(&mut self) -> Option<Tip> {
        let head = Head::parse(&self.text(".git/HEAD", LONGEST)?)?;
        Some(Tip {
            branch: head.branch().map(str::to_owned),
            head: match head {
                Head::Detached(commit) => Some(commit),
                Head::Ref(name) => match self.text(&format!(".git/{name}"), LONGEST) {
                    Some(text) => head::loose(&text),
                    None => text_of(&self.directory, ".git/packed-refs", MOST_PACKED)
                        .and_then(|(packed, _)| head::packed(&packed, &name)),
                },
            },
        })
    }

    /// Whether the files that were read say all: a packed ref also depends on a file that is not there.
    fn is_complete(&self, tip: &Tip) -> bool {
        let is_detached = tip.branch.is_none();
        self.files.len() == if is_detached { 1 } else { 2 }
    }

    /// Two changes within one tick of the kernel's clock can have the same time.
    fn is_older_than(&self, time: Duration) -> bool {
        let mut files = self.files.iter();
        files.all(|(_, version)| version.changed < time)
    }

    fn text(&mut self, path: &str, most: usize) -> Option<Vec<u8>> {
        let (text, version) = text_of(&self.directory, path, most)?;
        self.files.push((self.upper.join(path), version));
        Some(text)
    }
}

/// The content of a regular file up to a size limit.
fn text_of(upper: &OwnedFd, path: &str, most: usize) -> Option<(Vec<u8>, Version)> {
    let file = openat2(upper, path, READ, Mode::empty(), PLAIN).ok()?;
    let found = fstat(&file).ok()?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return None;
    }
    // Enough for what the file has now and for its end, in two reads.
    let length = usize::try_from(found.st_size).unwrap_or(most).min(most);
    let mut text = Vec::with_capacity(length + 1);
    let mut file = File::from(file).take(most as u64 + 1);
    file.read_to_end(&mut text).ok()?;
    (text.len() <= most).then_some((text, Version::of(&found)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn check(upper: &Path, head: Option<&str>, branch: Option<&str>) {
        let found = tip(upper);
        assert_eq!(
            (found.head.as_deref(), found.branch.as_deref()),
            (head, branch)
        );
    }

    #[test]
    fn head_is_read_and_nothing_else_is() {
        let (one, two) = ("1".repeat(40), "2".repeat(40));
        let place = tempfile::tempdir().unwrap();
        let (upper, git) = (place.path().join("upper"), place.path().join("upper/.git"));
        check(&upper, None, None);
        fs::create_dir_all(git.join("refs/heads/holm")).unwrap();
        check(&upper, None, None);
        let say = |file: &str, text: &str| fs::write(git.join(file), text).unwrap();
        say("HEAD", "ref: refs/heads/holm/fix\n");
        say("packed-refs", &format!("{two} refs/heads/holm/fix\n"));
        check(&upper, Some(&two), Some("holm/fix"));
        say("refs/heads/holm/fix", &format!("{one}\n"));
        check(&upper, Some(&one), Some("holm/fix"));
        fs::write(git.join("packed-refs"), vec![b'x'; MOST_PACKED + 1]).unwrap();
        fs::remove_file(git.join("refs/heads/holm/fix")).unwrap();
        check(&upper, None, Some("holm/fix"));
        say("HEAD", &format!("{two}\n"));
        check(&upper, Some(&two), None);
        // What a hostile program could put there: symlinks, a pipe, an endless file, a directory.
        let outside = place.path().join("outside");
        fs::write(&outside, format!("{one}\n")).unwrap();
        let head = git.join("HEAD");
        let replace = |make: &dyn Fn()| {
            fs::remove_file(&head).unwrap();
            make();
            check(&upper, None, None);
        };
        replace(&|| symlink(&outside, &head).unwrap());
        replace(&|| symlink("/dev/zero", &head).unwrap());
        replace(&|| {
            rustix::fs::mknodat(CWD, &head, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        });
        replace(&|| File::create(&head).unwrap().set_len(1 << 40).unwrap());
        replace(&|| fs::create_dir(&head).unwrap());
        fs::rename(&git, upper.join("moved")).unwrap();
        symlink(upper.join("moved"), &git).unwrap();
        check(&upper, None, None);
    }
    #[test]
    fn a_tip_is_remembered_until_a_file_changes() {
        let (one, two, three) = ("1".repeat(40), "2".repeat(40), "3".repeat(40));
        let place = tempfile::tempdir().unwrap();
        let (upper, git) = (place.path().join("upper"), place.path().join("upper/.git"));
        fs::create_dir_all(git.join("refs/heads")).unwrap();
        let say = |file: &str, text: &str| fs::write(git.join(file), text).unwrap();
        say("HEAD", "ref: refs/heads/fix\n");
        say("refs/heads/fix", &format!("{one}\n"));
        let heads = Heads::default();
        let found = || heads.tip(&upper).head;
        let is_known = || heads.0.lock().unwrap().contains_key(&upper);
        let deadline = std::time::Instant::now() + Duration::from_secs(10);
        while !is_known() {
            assert_eq!(found().as_ref(), Some(&one));
            assert!(std::time::Instant::now() < deadline, "it is not remembered");
        }
        // The memory has what a reading would refuse.
        fs::rename(&git, upper.join("moved")).unwrap();
        symlink(upper.join("moved"), &git).unwrap();
        assert_eq!((found(), tip(&upper).head), (Some(one.clone()), None));
        fs::remove_file(&git).unwrap();
        fs::rename(upper.join("moved"), &git).unwrap();
        for commit in [&two, &three] {
            say("refs/heads/fix", &format!("{commit}\n"));
            assert_eq!(found().as_ref(), Some(commit));
        }
        say("packed-refs", &format!("{two} refs/heads/fix\n"));
        fs::remove_file(git.join("refs/heads/fix")).unwrap();
        assert_eq!(found(), Some(two));
        assert!(!is_known());
        say("refs/heads/fix", &format!("{one}\n"));
        assert_eq!(found(), Some(one));
        say("HEAD", &format!("{three}\n"));
        assert_eq!(found(), Some(three));
        fs::remove_dir_all(&upper).unwrap();
        assert_eq!(found(), None);
    }
}
