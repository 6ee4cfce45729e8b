//! Bases: complete, immutable, with times that tell what changed.

use crate::link::{bare, sync};
use crate::sandbox::*;
use holm_git::{
    Bare, COMMIT_FILES, Cancel, GitError, Repository, base_files, base_is_present, build_base,
    mark_base_used,
};
use std::cell::Cell;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

pub fn build(sandbox: &Sandbox, bare: &Bare, commit: Option<&str>) -> PathBuf {
    let bases = sandbox.path("bases");
    build_base(bare, commit, &bases, &Cancel::default(), &|_, _| {}).unwrap();
    assert!(base_is_present(&bases, commit));
    bases.join(commit.unwrap_or("empty")).join("tree")
}

/// git as inside a workspace, where the objects are mounted.
pub fn git_inside(tree: &Path, bare: &Bare) -> Command {
    let mut command = git_command(tree);
    command
        .env("GIT_ALTERNATE_OBJECT_DIRECTORIES", bare.objects_dir())
        .env("GIT_OPTIONAL_LOCKS", "0");
    command
}

fn status(tree: &Path, bare: &Bare) -> String {
    let output = git_inside(tree, bare)
        .args(["status", "--porcelain"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// How many files git has to read because their recorded times or inodes do not fit.
fn files_not_up_to_date(tree: &Path, bare: &Bare) -> usize {
    let output = git_inside(tree, bare)
        .args(["diff-files", "--raw"])
        .output()
        .unwrap();
    text(&output.stdout).lines().count()
}

fn times(path: &Path) -> (u64, SystemTime) {
    let meta = std::fs::symlink_metadata(path).unwrap();
    (meta.ino(), meta.modified().unwrap())
}

/// Makes everything in the base old, index included, as if it was made long ago.
fn age(tree: &Path) {
    for path in contents(tree).keys().filter(|path| !path.is_symlink()) {
        let file = std::fs::File::open(path).unwrap();
        let time = file.metadata().unwrap().modified().unwrap();
        file.set_modified(time - Duration::from_secs(1000)).unwrap();
    }
}

sealed_test! {
    fn a_base_is_the_commit_and_nothing_else(sandbox: &Sandbox) {
        let path = sandbox.repository("work");
        let bare = bare(sandbox, "sha1");
        sync(&path, &bare);
        let commit = head(&path);
        let tree = build(sandbox, &bare, Some(&commit));
        assert_eq!(status(&tree, &bare), "");
        assert_eq!(files_not_up_to_date(&tree, &bare), 0);
        assert_eq!(std::fs::read_to_string(tree.join("a.txt")).unwrap(), "one\n");
        assert_eq!(std::fs::metadata(tree.join("bin/run")).unwrap().mode() & 0o700, 0o700);
        assert_eq!(std::fs::metadata(tree.join("a.txt")).unwrap().mode() & 0o700, 0o600);
        assert_eq!(std::fs::read_link(tree.join("link")).unwrap(), Path::new("a.txt"));
        assert!(tree.join("line\nfeed").is_file());
        assert!(tree.join(OsStr::from_bytes(b"latin-\xe9")).is_file());
        let own = std::fs::metadata(sandbox.path("")).unwrap().uid();
        assert!(contents(&tree).keys().all(|file| file.symlink_metadata().unwrap().uid() == own));
        let read = |name: &str| std::fs::read_to_string(tree.join(".git").join(name)).unwrap();
        assert_eq!(read("HEAD"), format!("{commit}\n"));
        assert_eq!(read("objects/info/alternates"), "/run/holm/objects\n");
        assert_eq!(read("info/exclude"), "");
        assert!(contents(&tree.join(".git/refs")).is_empty());
        // Again is nothing.
        let before = contents(&sandbox.path("bases"));
        let inode = std::fs::metadata(&tree).unwrap().ino();
        build(sandbox, &bare, Some(&commit));
        assert_eq!(contents(&sandbox.path("bases")), before);
        assert_eq!(std::fs::metadata(&tree).unwrap().ino(), inode);
    }
}

sealed_test! {
    fn files_of_a_base_are_those_of_the_commit(sandbox: &Sandbox) {
        let path = sandbox.repository("work");
        write(&path.join("holm.toml"), "one\n");
        let plain = commit_all(&path, "plain");
        write(&path.join(".gitattributes"), "holm.toml eol=crlf\n");
        let converted = commit_all(&path, "converted");
        std::fs::remove_file(path.join(".gitattributes")).unwrap();
        std::fs::remove_file(path.join("holm.toml")).unwrap();
        symlink("/etc/passwd", path.join("holm.toml")).unwrap();
        let linked = commit_all(&path, "linked");
        let bare = bare(sandbox, "sha1");
        sync(&path, &bare);
        let bases = sandbox.path("bases");
        assert_eq!(base_files(&bases, &plain), None, "there is no base yet");
        let repository = Repository::discover(&path).unwrap();
        for commit in [&converted, &plain, &linked] {
            build(sandbox, &bare, Some(commit));
            let of_git = repository.files_at(commit, &COMMIT_FILES).unwrap();
            assert_eq!(base_files(&bases, commit), Some(of_git));
        }
        // The trees have what attributes made of the file, and links to it.
        for commit in [&converted, &plain] {
            let file = bases.join(commit).join("tree/holm.toml");
            assert_eq!(std::fs::read(file).unwrap(), b"one\r\n");
        }
        assert_eq!(base_files(&bases, &format!("../bases/{plain}")), None);
        // A base of an earlier release.
        std::fs::remove_dir_all(bases.join(&plain).join("files")).unwrap();
        assert_eq!(base_files(&bases, &plain), None);
    }
}

sealed_test! {
    fn unchanged_files_keep_their_time_and_changed_ones_get_now(sandbox: &Sandbox) {
        let path = sandbox.repository("work");
        write(&path.join("same/deep/file"), "same");
        write(&path.join("gone/file"), "gone");
        write(&path.join("becomes-directory"), "x");
        write(&path.join("mode.sh"), "x");
        let first = commit_all(&path, "first");
        std::fs::remove_dir_all(path.join("gone")).unwrap();
        std::fs::remove_file(path.join("becomes-directory")).unwrap();
        write(&path.join("becomes-directory/file"), "x");
        write(&path.join("a.txt"), "two\n");
        write(&path.join("new/file"), "new");
        make_executable(&path.join("mode.sh"));
        let second = commit_all(&path, "second");
        let bare = bare(sandbox, "sha1");
        sync(&path, &bare);

        let one = build(sandbox, &bare, Some(&first));
        age(&one);
        let output = git_inside(&one, &bare).args(["update-index", "--refresh"]).output().unwrap();
        assert!(output.status.success());
        let before = contents(&one);
        let two = build(sandbox, &bare, Some(&second));
        // git replaces files, it does not write into them: the first base is unchanged.
        assert_eq!(contents(&one), before);
        assert_eq!(status(&one, &bare), "");
        assert_eq!(status(&two, &bare), "");
        assert_eq!(files_not_up_to_date(&one, &bare), 0);
        assert_eq!(files_not_up_to_date(&two, &bare), 0);
        for name in ["same/deep/file", "bin/run", "link", "line\nfeed", "größe 日本.txt"] {
            assert_eq!(times(&one.join(name)), times(&two.join(name)), "{name}");
        }
        for name in ["a.txt", "mode.sh"] {
            let ((old_inode, old), (inode, new)) = (times(&one.join(name)), times(&two.join(name)));
            assert_ne!(old_inode, inode, "{name}");
            assert!(new > old + Duration::from_secs(500), "{name}");
        }
        assert!(!two.join("gone").exists());
        assert!(two.join("becomes-directory/file").is_file());
        // And back again: the content of the first commit, but `a.txt` is newer than in the second.
        std::fs::remove_dir_all(one.parent().unwrap()).unwrap();
        let again = build(sandbox, &bare, Some(&first));
        assert_eq!(status(&again, &bare), "");
        assert!(times(&again.join("a.txt")).1 > times(&two.join("a.txt")).1);
        assert_eq!(times(&again.join("bin/run")), times(&two.join("bin/run")));
    }
}

/// Git need not read a file of a new base, and sees an edit of the same second and length.
fn is_older_than_its_index(sandbox: &Sandbox, format: &str) {
    let path = sandbox.directory("work");
    git(
        &path,
        ["init", "--quiet", &format!("--object-format={format}")],
    );
    write(&path.join("deep/er/file"), "same");
    std::os::unix::fs::symlink("file", path.join("deep/er/link")).unwrap();
    let commit = commit_all(&path, "first");
    let bare = bare(sandbox, format);
    sync(&path, &bare);
    let tree = build(sandbox, &bare, Some(&commit));
    let index = std::fs::metadata(tree.join(".git/index")).unwrap();
    for name in ["deep/er/file", "deep/er/link"] {
        let modified = tree.join(name).symlink_metadata().unwrap().mtime();
        assert!(modified < index.mtime(), "{name}");
    }
    assert_eq!(files_not_up_to_date(&tree, &bare), 0);
    let fsck = git_inside(&tree, &bare).arg("fsck").output().unwrap();
    assert!(fsck.status.success(), "{}", text(&fsck.stderr));
    write(&tree.join("deep/er/file"), "edit");
    assert_eq!(status(&tree, &bare), " M deep/er/file\n");
}

sealed_test! {
    fn a_new_base_is_older_than_its_index(sandbox: &Sandbox) {
        is_older_than_its_index(sandbox, "sha1");
    }
}

sealed_test! {
    fn a_new_base_is_older_than_its_index_with_sha256(sandbox: &Sandbox) {
        is_older_than_its_index(sandbox, "sha256");
    }
}

sealed_test! {
    fn the_nearest_base_is_the_one_to_start_from(sandbox: &Sandbox) {
        let path = sandbox.repository("work");
        let mut commits = Vec::new();
        for round in 0..3 {
            for file in 0..4 {
                write(&path.join(format!("f{file}")), format!("{round} {file}"));
            }
            commits.push(commit_all(&path, "round"));
        }
        write(&path.join("f0"), "last");
        // One file away from round 1, four from the others.
        git(&path, ["checkout", "--quiet", &commits[1], "--", "f1", "f2", "f3"]);
        let wanted = commit_all(&path, "wanted");
        let bare = bare(sandbox, "sha1");
        sync(&path, &bare);
        let trees: Vec<_> = commits.iter().map(|c| build(sandbox, &bare, Some(c))).collect();
        mark_base_used(&sandbox.path("bases"), Some(&commits[0])).unwrap();
        let tree = build(sandbox, &bare, Some(&wanted));
        assert_eq!(times(&tree.join("f1")).0, times(&trees[1].join("f1")).0);
        assert_eq!(status(&tree, &bare), "");
    }
}

sealed_test! {
    fn nothing_of_the_repository_runs(sandbox: &Sandbox) {
        let path = sandbox.repository("hostile");
        let marker = sandbox.path("marker");
        let touch = format!("touch '{}'; cat", marker.display());
        let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n";
        write(&path.join("big.bin"), pointer);
        write(&path.join(".gitattributes"), "*.bin filter=lfs diff=lfs\n*.txt filter=evil\n");
        write(&path.join(".lfsconfig"), "[lfs]\n\turl = https://example.org/\n");
        write(&path.join(".gitmodules"), "[submodule \"s\"]\n\tpath = s\n\turl = https://example.org/s\n\tupdate = !touch\n");
        git(&path, ["add", "--all"]);
        git(&path, ["update-index", "--add", "--cacheinfo", &format!("160000,{},s", head(&path))]);
        git(&path, ["commit", "--quiet", "-m", "hostile"]);
        let commit = head(&path);
        let bare = bare(sandbox, "sha1");
        sync(&path, &bare);
        // Even when the user's own configuration has such filters and hooks.
        for key in ["filter.lfs.smudge", "filter.lfs.process", "filter.evil.smudge", "filter.evil.clean"] {
            git(&path, ["config", "--global", key, &touch]);
        }
        let hooks = sandbox.directory("hooks");
        write(&hooks.join("post-checkout"), format!("#!/bin/sh\n{touch}\n"));
        make_executable(&hooks.join("post-checkout"));
        git(&path, ["config", "--global", "core.hooksPath", hooks.to_str().unwrap()]);
        let tree = build(sandbox, &bare, Some(&commit));
        assert_eq!(std::fs::read_to_string(tree.join("big.bin")).unwrap(), pointer);
        assert!(tree.join("s").is_dir());
        assert!(!marker.exists());
        // The counterpart: a plain checkout of the user's runs them.
        git(&path, ["config", "--global", "--unset", "filter.lfs.process"]);
        std::fs::remove_file(path.join("a.txt")).unwrap();
        git(&path, ["checkout", "--", "a.txt"]);
        assert!(marker.exists());
    }
}

sealed_test! {
    fn an_empty_repository_and_sha256(sandbox: &Sandbox) {
        let bare = bare(sandbox, "sha256");
        let tree = build(sandbox, &bare, None);
        assert_eq!(status(&tree, &bare), "");
        let path = sandbox.directory("work");
        git(&path, ["init", "--quiet", "--object-format=sha256"]);
        write(&path.join("a"), "x");
        let commit = commit_all(&path, "first");
        sync(&path, &bare);
        let tree = build(sandbox, &bare, Some(&commit));
        assert_eq!(status(&tree, &bare), "");
        // A commit without files.
        git(&path, ["rm", "--quiet", "a"]);
        let commit = commit_all(&path, "nothing");
        sync(&path, &bare);
        let tree = build(sandbox, &bare, Some(&commit));
        assert_eq!(status(&tree, &bare), "");
    }
}

sealed_test! {
    fn what_a_killed_build_left_is_removed(sandbox: &Sandbox) {
        let path = sandbox.repository("work");
        let bare = bare(sandbox, "sha1");
        sync(&path, &bare);
        let commit = head(&path);
        write(&sandbox.path(format!("bases/.building-{commit}/tree/half")), "x");
        write(&sandbox.path("bases/.building-1111/tree/half"), "x");
        let tree = build(sandbox, &bare, Some(&commit));
        assert!(!tree.join("half").exists());
        let left: Vec<_> = std::fs::read_dir(sandbox.path("bases")).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }
}

sealed_test! {
    fn many_at_once_make_one(sandbox: &Sandbox) {
        let path = sandbox.repository("work");
        for file in 0..300 {
            write(&path.join(format!("d{}/f{file}", file % 7)), file.to_string());
        }
        let first = commit_all(&path, "many");
        write(&path.join("d1/f1"), "changed");
        let second = commit_all(&path, "changed");
        let bare = bare(sandbox, "sha1");
        sync(&path, &bare);
        std::thread::scope(|scope| {
            for number in 0..12 {
                let (bare, commit) = (&bare, if number % 2 == 0 { &first } else { &second });
                scope.spawn(move || build(sandbox, bare, Some(commit)));
            }
        });
        for commit in [&first, &second] {
            assert_eq!(status(&build(sandbox, &bare, Some(commit)), &bare), "");
        }
        assert_eq!(std::fs::read_dir(sandbox.path("bases")).unwrap().count(), 2);
    }
}

sealed_test! {
    fn progress_is_told_and_cancelling_leaves_nothing(sandbox: &Sandbox) {
        let path = sandbox.repository("work");
        for file in 0..2000 {
            write(&path.join(format!("d{}/f{file}", file % 7)), file.to_string());
        }
        let commit = commit_all(&path, "many");
        let bare = bare(sandbox, "sha1");
        sync(&path, &bare);
        let bases = sandbox.path("bases");
        let cancel = Cancel::default();
        let raise = |_, _| cancel.raise();
        let built = build_base(&bare, Some(&commit), &bases, &cancel, &raise);
        assert!(matches!(built, Err(GitError::Cancelled)), "{built:?}");
        assert!(!base_is_present(&bases, Some(&commit)));
        assert_eq!(std::fs::read_dir(&bases).unwrap().count(), 0);
        let last = Cell::new((0, 0));
        let note = |done, total| last.set((done, total));
        build_base(&bare, Some(&commit), &bases, &Cancel::default(), &note).unwrap();
        assert_eq!(last.get(), (2006, 2006));
    }
}

sealed_test! {
    fn a_commit_that_is_not_there_is_an_error_and_leaves_nothing(sandbox: &Sandbox) {
        let bare = bare(sandbox, "sha1");
        let bases = sandbox.path("bases");
        for commit in ["1".repeat(40), "../../x".to_owned(), "HEAD".to_owned()] {
            let built = build_base(&bare, Some(&commit), &bases, &Cancel::default(), &|_, _| {});
            assert!(built.is_err());
            let left = std::fs::read_dir(&bases).map_or(0, |entries| entries.count());
            assert_eq!(left, 0, "{commit}");
        }
    }
}

sealed_test! {
    fn a_partial_clone_has_what_is_checked_out(sandbox: &Sandbox) {
        let path = sandbox.repository("origin");
        write(&path.join("a.txt"), "two\n");
        commit_all(&path, "second");
        git(&path, ["config", "uploadpack.allowFilter", "true"]);
        let url = format!("file://{}", path.display());
        git(&sandbox.path(""), ["clone", "--quiet", "--filter=blob:none", &url, "partial"]);
        let partial = sandbox.path("partial");
        write(&partial.join("b.txt"), "mine\n");
        let commit = commit_all(&partial, "third");
        let bare = bare(sandbox, "sha1");
        assert!(sync(&partial, &bare).partial);
        let tree = build(sandbox, &bare, Some(&commit));
        assert_eq!(status(&tree, &bare), "");
        assert_eq!(std::fs::read_to_string(tree.join("a.txt")).unwrap(), "two\n");
    }
}
