//! Sharing objects by hard links.

use crate::sandbox::*;
use holm_git::{Bare, Cancel, GitError, Repository};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Links everything that `path` shares into a bare repository, as `up` does.
pub fn sync(path: &Path, bare: &Bare) -> Repository {
    let repository = Repository::discover(path).unwrap();
    let refs = repository.refs().unwrap();
    let commit = repository.head.as_deref();
    repository
        .link_objects(&bare.objects_dir(), &refs, commit, &Cancel::default())
        .unwrap();
    bare.set_refs(&refs, commit, &repository.shallow).unwrap();
    repository
}

pub fn bare(sandbox: &Sandbox, format: &str) -> Bare {
    Bare::open_or_init(&sandbox.path("repo.git"), format).unwrap()
}

fn objects(git_dir: &Path) -> BTreeSet<String> {
    let all = [
        "cat-file",
        "--batch-all-objects",
        "--batch-check=%(objectname)",
    ];
    git(git_dir, all).lines().map(str::to_owned).collect()
}

fn reachable(repository: &Path) -> BTreeSet<String> {
    let args = [
        "rev-list",
        "--objects",
        "--no-object-names",
        "--branches",
        "--tags",
        "--remotes",
    ];
    git(repository, args).lines().map(str::to_owned).collect()
}

fn dangle(repository: &Path) -> String {
    write(&repository.join("dangling"), "nobody reaches this\n");
    git(repository, ["hash-object", "-w", "dangling"])
}

sealed_test! {
    fn loose_and_packed_objects_are_shared_and_dangling_ones_are_not(sandbox: &Sandbox) {
        let path = sandbox.repository("work");
        git(&path, ["tag", "-a", "-m", "x", "v1"]);
        git(&path, ["repack", "-adq"]);
        write(&path.join("b.txt"), "loose");
        commit_all(&path, "second");
        write(&path.join("c.txt"), "amended away");
        commit_all(&path, "third");
        let amended = head(&path);
        git(&path, ["commit", "--quiet", "--amend", "-m", "fourth"]);
        let blob = dangle(&path);
        let bare = bare(sandbox, "sha1");
        let before = contents(&path.join(".git"));
        sync(&path, &bare);
        assert_eq!(contents(&path.join(".git")), before);
        assert_eq!(objects(bare.path()), reachable(&path));
        assert!(!objects(bare.path()).contains(&amended));
        assert!(!objects(bare.path()).contains(&blob));
        git(bare.path(), ["fsck", "--strict", "--full"]);
        // Links, not copies.
        for file in contents(&bare.objects_dir()).keys() {
            assert!(std::fs::metadata(file).unwrap().nlink() > 1, "{}", file.display());
        }
        assert_eq!(git(bare.path(), ["rev-parse", "v1^{commit}"]), git(&path, ["rev-parse", "main~2"]));
    }
}

sealed_test! {
    fn later_commits_follow_and_a_second_time_changes_nothing(sandbox: &Sandbox) {
        let path = sandbox.repository("work");
        let bare = bare(sandbox, "sha1");
        sync(&path, &bare);
        let once = contents(bare.path());
        sync(&path, &bare);
        assert_eq!(contents(bare.path()), once);
        let first = head(&path);
        for number in 0..5 {
            write(&path.join("b.txt"), number.to_string());
            commit_all(&path, "more");
        }
        sync(&path, &bare);
        assert!(reachable(&path).is_subset(&objects(bare.path())));
        // History is rewritten and the old commits are gone from the user's repository.
        git(&path, ["reset", "--quiet", "--hard", &first]);
        git(&path, ["reflog", "expire", "--expire=now", "--all"]);
        git(&path, ["gc", "--quiet", "--prune=now"]);
        write(&path.join("b.txt"), "other");
        commit_all(&path, "other");
        sync(&path, &bare);
        assert!(reachable(&path).is_subset(&objects(bare.path())));
        git(bare.path(), ["fsck", "--strict", "--full"]);
    }
}

sealed_test! {
    fn unreachable_packs_are_left_out_unless_reached_again(sandbox: &Sandbox) {
        let path = sandbox.repository("work");
        write(&path.join("b.txt"), "once and again\n");
        commit_all(&path, "second");
        git(&path, ["reset", "--quiet", "--hard", "HEAD~1"]);
        git(&path, ["reflog", "expire", "--expire=now", "--all"]);
        let blob = dangle(&path);
        git(&path, ["gc", "--quiet", "--cruft", "--prune=never"]);
        let cruft = contents(&path.join(".git/objects/pack"));
        assert!(cruft.keys().any(|file| file.extension() == Some("mtimes".as_ref())));
        // The same content comes back: git finds it in the unreachable pack and writes it no more.
        write(&path.join("b.txt"), "once and again\n");
        std::fs::remove_file(path.join("dangling")).unwrap();
        commit_all(&path, "again");
        let bare = bare(sandbox, "sha1");
        sync(&path, &bare);
        assert_eq!(objects(bare.path()), reachable(&path));
        assert!(!objects(bare.path()).contains(&blob));
        git(bare.path(), ["fsck", "--strict", "--full"]);
    }
}

sealed_test! {
    fn work_that_came_back_is_not_shared_even_when_packed(sandbox: &Sandbox) {
        let path = sandbox.repository("work");
        write(&path.join("secret.txt"), "of another workspace\n");
        let private = commit_all(&path, "came back");
        git(&path, ["update-ref", "refs/holm/w0123456789ab", &private]);
        git(&path, ["reset", "--quiet", "--hard", "HEAD~1"]);
        git(&path, ["gc", "--quiet"]);
        let bare = bare(sandbox, "sha1");
        sync(&path, &bare);
        assert_eq!(objects(bare.path()), reachable(&path));
        git(bare.path(), ["fsck", "--strict", "--full"]);
        write(&path.join("b.txt"), "x");
        commit_all(&path, "second");
        sync(&path, &bare);
        assert_eq!(objects(bare.path()), reachable(&path));
    }
}

sealed_test! {
    fn alternates_shallow_clones_and_sha256(sandbox: &Sandbox) {
        let path = sandbox.repository("origin");
        write(&path.join("b.txt"), "x");
        commit_all(&path, "second");
        let url = format!("file://{}", path.display());
        let clone = |args: &[&str], name: &str| -> PathBuf {
            let base = ["clone", "--quiet"].iter().chain(args).chain([&name]);
            git(&sandbox.path(""), base);
            sandbox.path(name)
        };
        let check = |path: &Path, format: &str| {
            let name = format!("{}.git", path.file_name().unwrap().to_str().unwrap());
            let bare = Bare::open_or_init(&sandbox.path(name), format).unwrap();
            let repository = sync(path, &bare);
            assert_eq!(objects(bare.path()), reachable(path));
            git(bare.path(), ["fsck", "--strict", "--full"]);
            assert!(bare.has_commit(repository.head.as_deref().unwrap()).unwrap());
        };
        check(&clone(&["--shared", path.to_str().unwrap()], "shared"), "sha1");
        let twice = clone(&["--shared", sandbox.path("shared").to_str().unwrap()], "a:b");
        write(&twice.join("c.txt"), "x");
        commit_all(&twice, "third");
        check(&twice, "sha1");
        check(&clone(&["--depth=1", &url], "shallow"), "sha1");
        let path = sandbox.directory("long");
        git(&path, ["init", "--quiet", "--object-format=sha256"]);
        write(&path.join("a.txt"), "x");
        commit_all(&path, "first");
        check(&path, "sha256");
    }
}

sealed_test! {
    fn another_file_system_is_told_so_that_the_caller_pushes(sandbox: &Sandbox) {
        let other = other_file_system(sandbox);
        let path = sandbox.repository("work");
        let repository = Repository::discover(&path).unwrap();
        let refs = repository.refs().unwrap();
        let linked = repository.link_objects(other.path(), &refs, None, &Cancel::default());
        assert!(matches!(linked, Err(GitError::LinkUnavailable { .. })), "{linked:?}");
    }
}

/// A directory on another file system than the sandbox.
fn other_file_system(sandbox: &Sandbox) -> tempfile::TempDir {
    let here = std::fs::metadata(sandbox.path("")).unwrap().dev();
    // One of them is on another file system, wherever the sandbox is.
    ["/dev/shm", env!("CARGO_TARGET_TMPDIR")]
        .into_iter()
        .filter_map(|place| tempfile::tempdir_in(place).ok())
        .find(|other| std::fs::metadata(other.path()).unwrap().dev() != here)
        .expect("a second file system to write to")
}

sealed_test! {
    fn cancelled_before_it_began(sandbox: &Sandbox) {
        let path = sandbox.repository("work");
        let repository = Repository::discover(&path).unwrap();
        let cancel = Cancel::default();
        cancel.raise();
        let bare = bare(sandbox, "sha1");
        let refs = repository.refs().unwrap();
        let linked = repository.link_objects(&bare.objects_dir(), &refs, None, &cancel);
        assert!(matches!(linked, Err(GitError::Cancelled)), "{linked:?}");
    }
}

sealed_test! {
    fn a_loose_file_below_a_packed_commit_is_found(sandbox: &Sandbox) {
        let path = sandbox.repository("work");
        let bare = bare(sandbox, "sha1");
        sync(&path, &bare);
        write(&path.join("b.txt"), "only loose\n");
        write(&path.join("c.txt"), "packed\n");
        commit_all(&path, "second");
        // Like after a fetch that left out known objects: everything new is packed except one blob.
        let blob = git(&path, ["rev-parse", "HEAD:b.txt"]);
        let loose = path.join(format!(".git/objects/{}/{}", &blob[..2], &blob[2..]));
        let content = std::fs::read(&loose).unwrap();
        git(&path, ["repack", "-adq"]);
        let listed: Vec<_> = objects(&path).into_iter().filter(|object| *object != blob).collect();
        let pack = path.join(".git/objects/pack");
        let input = sandbox.path("input");
        write(&input, listed.join("\n") + "\n");
        let output = git_command(&path)
            .args(["pack-objects", "-q", "../made"])
            .stdin(std::fs::File::open(&input).unwrap())
            .output()
            .unwrap();
        assert!(output.status.success());
        std::fs::remove_dir_all(&pack).unwrap();
        std::fs::create_dir(&pack).unwrap();
        let name = text(&output.stdout).trim().to_owned();
        for extension in ["pack", "idx"] {
            let made = sandbox.path(format!("made-{name}.{extension}"));
            std::fs::rename(made, pack.join(format!("pack-{name}.{extension}"))).unwrap();
        }
        write(&loose, content);
        git(&path, ["fsck", "--full"]);
        sync(&path, &bare);
        assert!(objects(bare.path()).contains(&blob));
        git(bare.path(), ["fsck", "--full"]);
    }
}
