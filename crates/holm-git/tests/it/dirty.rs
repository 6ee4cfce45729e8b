//! The uncommitted state, exactly, without a trace in the user's repository.

use crate::sandbox::*;
use holm_git::{Cancel, Dirty, Repository};
use std::path::Path;

/// What the workspace would see: a clone of the commit that got the pack.
fn received(sandbox: &Sandbox, repository: &Repository, dirty: &Dirty) -> std::path::PathBuf {
    let clone = sandbox.path(format!("clone-{}", dirty.worktree_tree));
    let format = format!("--object-format={}", repository.object_format);
    git(
        &sandbox.path(""),
        ["init", "--quiet", &format, clone.to_str().unwrap()],
    );
    if let Some(head) = &repository.head {
        git(
            &clone,
            [
                "fetch",
                "--quiet",
                repository.git_dir.to_str().unwrap(),
                head,
            ],
        );
    }
    let mut command = git_command(&clone);
    let pack = std::fs::File::open(&dirty.pack).unwrap();
    let status = command
        .args(["index-pack", "--stdin", "--strict"])
        .stdin(pack)
        .output()
        .unwrap();
    assert!(status.status.success(), "{}", text(&status.stderr));
    clone
}

fn listed(repository: &Path, tree: &str) -> Vec<String> {
    let listed = git(repository, ["ls-tree", "-r", "-z", tree]);
    listed.split_terminator('\0').map(str::to_owned).collect()
}

sealed_test! {
    fn all_kinds_of_changes_and_nothing_ignored(sandbox: &Sandbox) {
        let path = sandbox.repository("dirty");
        write(&path.join("gone.txt"), "x");
        write(&path.join("gone-staged.txt"), "x");
        write(&path.join(".gitignore"), "*.log\n");
        commit_all(&path, "second");
        write(&path.join("a.txt"), "staged\n");
        git(&path, ["add", "a.txt"]);
        write(&path.join("a.txt"), "unstaged\n");
        write(&path.join("new staged.txt"), "only in the index until now\n");
        git(&path, ["add", "new staged.txt"]);
        write(&path.join("untracked/größe"), "untracked\n");
        write(&path.join("secret.log"), "ignored\n");
        std::fs::remove_file(path.join("gone.txt")).unwrap();
        git(&path, ["rm", "--quiet", "gone-staged.txt"]);
        make_executable(&path.join("größe 日本.txt"));
        std::fs::remove_file(path.join("link")).unwrap();
        std::os::unix::fs::symlink("elsewhere", path.join("link")).unwrap();

        let before = contents(&path);
        let status = git(&path, ["--no-optional-locks", "status", "--porcelain"]);
        let repository = Repository::discover(&path).unwrap();
        let out = sandbox.directory("out");
        let dirty = repository.dirty_state(&out, &Cancel::default()).unwrap();
        assert_eq!(contents(&path), before, "the user's repository changed");
        assert_eq!(git(&path, ["--no-optional-locks", "status", "--porcelain"]), status);
        let left: Vec<_> = std::fs::read_dir(&out).unwrap().map(|e| e.unwrap().path()).collect();
        assert_eq!(left, std::slice::from_ref(&dirty.pack));

        let clone = received(sandbox, &repository, &dirty);
        let head = repository.head.as_deref().unwrap();
        git(&clone, ["checkout", "--quiet", head]);
        git(&clone, ["read-tree", "-m", "-u", &dirty.worktree_tree]);
        git(&clone, ["read-tree", &dirty.index_tree]);
        assert_eq!(git(&clone, ["status", "--porcelain"]), status);
        assert_eq!(std::fs::read_to_string(clone.join("a.txt")).unwrap(), "unstaged\n");
        assert_eq!(git(&clone, ["show", ":a.txt"]), "staged");
        assert!(!clone.join("secret.log").exists());
        assert!(!clone.join("gone.txt").exists());
        assert_eq!(std::fs::read_link(clone.join("link")).unwrap(), Path::new("elsewhere"));

        // Only what the commit does not have: 4 new blobs + the link, and their trees.
        let objects = git(&clone, ["cat-file", "--batch-all-objects", "--batch-check", "--unordered"]);
        let pack_objects = objects.lines().count();
        assert!(pack_objects < 40, "{objects}");
        let index = git(&clone, ["rev-list", "--objects", "--no-object-names", head]);
        let packed = packed_objects(&clone, &dirty.pack);
        assert!(!packed.is_empty());
        for object in index.lines() {
            assert!(!packed.iter().any(|p| p == object), "{object} is in the commit already");
        }
    }
}

fn packed_objects(repository: &Path, pack: &Path) -> Vec<String> {
    let index = pack.with_extension("idx");
    git(
        repository,
        [
            "index-pack",
            "-o",
            index.to_str().unwrap(),
            pack.to_str().unwrap(),
        ],
    );
    let output = git_command(repository)
        .arg("show-index")
        .stdin(std::fs::File::open(&index).unwrap())
        .output()
        .unwrap();
    let listed = text(&output.stdout);
    listed
        .lines()
        .map(|line| line.split(' ').nth(1).unwrap().to_owned())
        .collect()
}

sealed_test! {
    fn a_change_in_the_same_tick_as_the_index_is_seen(sandbox: &Sandbox) {
        let path = sandbox.repository("racy");
        // Same size, same inode, same time as the index: only the content tells.
        git(&path, ["config", "core.trustctime", "false"]);
        write(&path.join("a.txt"), "two\n");
        let file = std::fs::File::open(path.join("a.txt")).unwrap();
        let time = std::time::SystemTime::now() - std::time::Duration::from_secs(100);
        file.set_modified(time).unwrap();
        git(&path, ["add", "a.txt"]);
        let index = std::fs::File::open(path.join(".git/index")).unwrap();
        index.set_modified(time).unwrap();
        write(&path.join("a.txt"), "six\n");
        file.set_modified(time).unwrap();
        let repository = Repository::discover(&path).unwrap();
        let dirty = repository.dirty_state(&sandbox.directory("out"), &Cancel::default()).unwrap();
        let clone = received(sandbox, &repository, &dirty);
        assert_eq!(git(&clone, ["show", &format!("{}:a.txt", dirty.worktree_tree)]), "six");
    }
}

sealed_test! {
    fn a_clean_checkout_is_an_empty_pack(sandbox: &Sandbox) {
        let path = sandbox.repository("clean");
        let repository = Repository::discover(&path).unwrap();
        let dirty = repository.dirty_state(&sandbox.directory("out"), &Cancel::default()).unwrap();
        let tree = git(&path, ["rev-parse", "HEAD^{tree}"]);
        assert_eq!((&dirty.worktree_tree, &dirty.index_tree), (&tree, &tree));
        received(sandbox, &repository, &dirty);
    }
}

sealed_test! {
    fn without_commits(sandbox: &Sandbox) {
        let path = sandbox.directory("empty");
        git(&path, ["init", "--quiet", "--object-format=sha256"]);
        write(&path.join("new.txt"), "x\n");
        let repository = Repository::discover(&path).unwrap();
        let dirty = repository.dirty_state(&sandbox.directory("out"), &Cancel::default()).unwrap();
        assert_eq!(contents(&path.join(".git/objects")).len(), 0);
        let clone = received(sandbox, &repository, &dirty);
        assert_eq!(listed(&clone, &dirty.worktree_tree).len(), 1);
        assert_eq!(listed(&clone, &dirty.index_tree).len(), 0);
    }
}

sealed_test! {
    fn with_conflicts_the_index_is_the_checkout(sandbox: &Sandbox) {
        let path = sandbox.repository("conflict");
        git(&path, ["checkout", "--quiet", "-b", "other"]);
        write(&path.join("a.txt"), "theirs\n");
        commit_all(&path, "theirs");
        git(&path, ["checkout", "--quiet", "main"]);
        write(&path.join("a.txt"), "ours\n");
        commit_all(&path, "ours");
        assert!(!try_git(&path, ["merge", "other"]).status.success());
        let before = contents(&path);
        let repository = Repository::discover(&path).unwrap();
        let dirty = repository.dirty_state(&sandbox.directory("out"), &Cancel::default()).unwrap();
        assert_eq!(contents(&path), before);
        assert_eq!(dirty.worktree_tree, dirty.index_tree);
        let clone = received(sandbox, &repository, &dirty);
        let file = git(&clone, ["show", &format!("{}:a.txt", dirty.worktree_tree)]);
        assert!(file.contains("<<<<<<<") && file.contains("theirs"), "{file}");
    }
}

sealed_test! {
    fn in_a_linked_worktree(sandbox: &Sandbox) {
        let path = sandbox.repository("main");
        git(&path, ["worktree", "add", "--quiet", "--detach", "../linked"]);
        write(&path.join("only-main.txt"), "x");
        write(&sandbox.path("linked/only-linked.txt"), "x");
        let repository = Repository::discover(&sandbox.path("linked/bin")).unwrap();
        let dirty = repository.dirty_state(&sandbox.directory("out"), &Cancel::default()).unwrap();
        let clone = received(sandbox, &repository, &dirty);
        let files = listed(&clone, &dirty.worktree_tree).join("\n");
        assert!(files.contains("only-linked.txt"), "{files}");
        assert!(!files.contains("only-main.txt"), "{files}");
    }
}
