//! Attack 10: a directory and a symlink that leads out change places, as fast as possible, while
//! every operation runs below that name. Nothing outside may ever be seen or touched; the
//! counterpart shows that checking first and opening then fails.

use super::tests::{content, found, path, write};
use super::{Root, archive};
use holm_core::files::{Depth, Head, Page, Parents, Range, Syntax};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope};
use tempfile::TempDir;

const ATTEMPTS: usize = 200_000;

/// Operations in one round.
const OPERATIONS: usize = 8 * 5 + 5;

/// `root/d` is a directory, `root/l` a symlink to `outside`.
struct Stage {
    _place: TempDir,
    root: PathBuf,
    outside: PathBuf,
    is_over: AtomicBool,
}

// === impl Stage ===

impl Stage {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().canonicalize().unwrap();
        let (root, outside) = (top.join("root"), top.join("outside"));
        fs::create_dir_all(root.join("d/folder")).unwrap();
        fs::write(root.join("d/f"), "inside").unwrap();
        fs::create_dir_all(outside.join("folder/deep")).unwrap();
        fs::write(outside.join("f"), "canary").unwrap();
        fs::write(outside.join("only-outside"), "canary").unwrap();
        fs::write(outside.join("folder/kept"), "canary").unwrap();
        symlink(&outside, root.join("l")).unwrap();
        Self {
            _place: place,
            root,
            outside,
            is_over: AtomicBool::new(false),
        }
    }

    /// Swaps until the test is over.
    fn swap<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        scope.spawn(|| {
            let (one, other) = (self.root.join("d"), self.root.join("l"));
            while !self.is_over.load(Ordering::Relaxed) {
                // One of them may just have been deleted.
                let _ = renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE);
            }
        });
    }

    /// The files outside, which must never change.
    fn outside(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut found = Vec::new();
        let mut waiting = vec![self.outside.clone()];
        while let Some(directory) = waiting.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    waiting.push(path.clone());
                    found.push((path, Vec::new()));
                } else {
                    found.push((path.clone(), fs::read(path).unwrap()))
                }
            }
        }
        found.sort();
        found
    }
}

/// Ends the swapping also when an assertion fails, which would otherwise wait forever.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn has_canary(bytes: &[u8]) -> bool {
    bytes.windows(6).any(|window| window == b"canary")
}

/// Tries every operation; returns how many succeeded and how many were refused.
fn round(root: &Root, archived: &[u8]) -> [usize; 2] {
    let mut counts = [0, 0];
    let mut count = |is_through: bool| counts[usize::from(!is_through)] += 1;
    let page = Page {
        after: None,
        limit: 100,
    };
    // Fast operations are tried more often.
    for _ in 0..8 {
        let read = content(root, &path("d/f"), Range::default());
        assert_ne!(read.as_deref(), Ok(&b"canary"[..]));
        count(read.is_ok());
        let listed = root.list(&path("d"), &page);
        if let Ok(Head::Listed { entries, .. }) = &listed {
            let mut names = entries.iter().map(|entry| entry.name.as_slice());
            assert!(names.all(|name| name != b"only-outside"));
        }
        count(listed.is_ok());
        root.stat(&path("d/only-outside")).unwrap_err();
        count(root.stat(&path("d/f")).is_ok());
        count(write(root, &path("d/written"), b"x", Parents::Require).is_ok());
        count(root.delete(&path("d/written"), Depth::One).is_ok());
    }
    let mut packed = Vec::new();
    let done = archive::pack(root, &path("d"), &mut packed);
    assert!(!has_canary(&packed));
    count(done.is_ok() && packed.len() > 1024);
    let hits = found(root, &path("d"), "canary", Syntax::Literal);
    assert!(hits.as_ref().is_ok_and(|hits| hits.matches.is_empty()) || hits.is_err());
    count(hits.is_ok());
    count(write(root, &path("d/folder/new/written"), b"x", Parents::Make).is_ok());
    count(archive::unpack(root, &path("d"), archived).is_ok());
    count(root.delete(&path("d/folder"), Depth::Whole).is_ok());
    counts
}

#[test]
fn attack_10_nothing_outside_is_seen_or_touched_while_directory_and_link_change_places() {
    let stage = Stage::new();
    let before = stage.outside();
    let root = Root::open(&stage.root).unwrap();
    let archived = archive_with("unpacked/file");
    thread::scope(|scope| {
        let _over = Over(&stage.is_over);
        stage.swap(scope);
        let (mut through, mut refused) = (0, 0);
        while through + refused < ATTEMPTS {
            let [one, other] = round(&root, &archived);
            assert_eq!(one + other, OPERATIONS);
            (through, refused) = (through + one, refused + other);
        }
        // Both states were met, and often.
        assert!(through > ATTEMPTS / 100, "{through} came through");
        assert!(refused > ATTEMPTS / 100, "{refused} were refused");
        // Deleting the name itself removes the directory or the symlink, never its target.
        for _ in 0..2000 {
            let _ = fs::create_dir(stage.root.join("d"));
            let _ = fs::create_dir(stage.root.join("d/below"));
            let _ = symlink(&stage.outside, stage.root.join("l"));
            let _ = root.delete(&path("d"), Depth::Whole);
        }
    });
    // `mkdir` of this test itself may have gone through the symlink.
    let after = stage.outside();
    let own = stage.outside.join("below");
    let after: Vec<_> = after.into_iter().filter(|(path, _)| *path != own).collect();
    assert_eq!(after, before);
}

fn archive_with(name: &str) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(1);
    header.set_mode(0o644);
    builder.append_data(&mut header, name, &b"x"[..]).unwrap();
    builder.into_inner().unwrap()
}

/// Checks where the path leads, then opens it: the vulnerable way.
fn naive(root: &Path) -> Option<Vec<u8>> {
    let path = root.join("d/f");
    let real = path.canonicalize().ok()?;
    real.starts_with(root).then(|| fs::read(path).ok())?
}

#[test]
fn attack_10_looking_first_and_opening_then_leaks() {
    let stage = Stage::new();
    thread::scope(|scope| {
        let _over = Over(&stage.is_over);
        stage.swap(scope);
        let leaks = (0..10 * ATTEMPTS)
            .filter_map(|_| naive(&stage.root))
            .filter(|bytes| has_canary(bytes))
            .take(10);
        assert_eq!(leaks.count(), 10);
    });
}
