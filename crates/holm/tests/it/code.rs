//! `holm up` in every kind of git repository: the tree inside is the commit, at the path of the
//! main work tree, as a complete repository.

use crate::support::{Island, Repository};
use serde_json::Value;
use std::path::Path;

/// A repository that is already there.
fn at<'a>(island: &'a Island, path: impl AsRef<Path>) -> Repository<'a> {
    Repository {
        island,
        path: path.as_ref().to_owned(),
    }
}

/// Creates a workspace and checks what is always true: the commit is checked out, at the announced
/// path, on the workspace's branch, complete, and without changes.
#[track_caller]
fn up(repository: &Repository, label: &str) -> Value {
    let workspace = repository.holm(&["up", label, "--json"]).json();
    let head = repository.git(&["rev-parse", "HEAD"]);
    assert_eq!(workspace["commit"], head, "{workspace}");
    let look = |script: &str| repository.island.sh(label, script).ok().out();
    assert_eq!(look("pwd"), workspace["root"].as_str().unwrap());
    assert_eq!(look("git rev-parse HEAD"), head);
    assert_eq!(
        look("git symbolic-ref HEAD"),
        format!("refs/heads/holm/{label}")
    );
    assert_eq!(look("git status --porcelain"), "");
    assert_eq!(look("git fsck --full --no-dangling --no-progress 2>&1"), "");
    workspace
}

fn notes(workspace: &Value) -> String {
    workspace["notes"].to_string()
}

#[test]
fn from_a_subdirectory_the_whole_repository_is_taken() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("src/deep/main.c", "int main;\n");
    repository.commit("code");
    let below = at(&island, repository.path.join("src/deep"));
    let workspace = up(&below, "x");
    assert_eq!(workspace["root"], repository.path.to_str().unwrap());
    assert_eq!(workspace["project"], "shop");
    let files = island.sh("x", "cat README.md src/deep/main.c").ok().out();
    assert_eq!(files, "# hello\nint main;");
}

#[test]
fn a_linked_worktree_is_the_same_project_at_the_main_trees_path() {
    let island = Island::new();
    let main = island.repository("shop");
    let first = up(&main, "from-main");
    main.git(&["worktree", "add", "-q", "-b", "feature", "../shop feature"]);
    let linked = at(&island, main.path.with_file_name("shop feature"));
    linked.write("feature.txt", "of the feature\n");
    linked.commit("feature");
    let second = up(&linked, "from-linked");
    assert_eq!(second["project_id"], first["project_id"]);
    assert_eq!(second["ref"], "feature");
    assert_eq!(second["root"], main.path.to_str().unwrap());
    assert_eq!(
        island.sh("from-linked", "cat feature.txt").ok().out(),
        "of the feature"
    );
    island.sh("from-main", "cat feature.txt").exits(1);
    // The other way round: a project that was first seen in its linked work tree.
    let other = island.repository("blog");
    other.git(&["worktree", "add", "-q", "-b", "draft", "../blog-draft"]);
    let draft = up(
        &at(&island, other.path.with_file_name("blog-draft")),
        "draft",
    );
    assert_eq!(draft["project"], "blog");
    assert_eq!(draft["root"], other.path.to_str().unwrap());
    assert_eq!(up(&other, "whole")["project_id"], draft["project_id"]);
}

#[test]
fn a_shallow_clone_stays_shallow() {
    let island = Island::new();
    let origin = island.repository("origin");
    for number in 0..3 {
        origin.write("n", format!("{number}\n"));
        origin.commit("more");
    }
    let url = format!("file://{}", origin.path.display());
    let clone = at(&island, island.home().join("src/clone"));
    island
        .run(
            &island.home(),
            "git",
            &[
                "clone",
                "-q",
                "--depth",
                "2",
                &url,
                clone.path.to_str().unwrap(),
            ],
        )
        .ok();
    up(&clone, "x");
    let inside = |script: &str| island.sh("x", script).ok().out();
    assert_eq!(inside("git rev-parse --is-shallow-repository"), "true");
    assert_eq!(inside("git rev-list --count HEAD"), "2");
    // Deeper later: a new workspace has the rest.
    clone.git(&["fetch", "-q", "--unshallow"]);
    up(&clone, "y");
    assert_eq!(island.sh("y", "git rev-list --count HEAD").ok().out(), "4");
    inside("git -c user.name=T -c user.email=t@example.org commit -q --allow-empty -m more");
    assert_eq!(inside("git rev-list --count HEAD"), "3");
}

#[test]
fn an_empty_repository_gets_its_first_commit_inside() {
    let island = Island::new();
    let repository = Repository::empty(&island, island.home().join("src/new"));
    let workspace = repository.holm(&["up", "x", "--json"]).json();
    assert_eq!(workspace["commit"], Value::Null);
    assert_eq!(workspace["state"], "running");
    let inside = |script: &str| island.sh("x", script).ok().out();
    assert_eq!(inside("git status --porcelain; ls -A"), ".git");
    inside("echo 1 > one && git add one && git commit -q -m first");
    assert_eq!(inside("git log --format=%s,%an HEAD"), "first,Tess Ter");
    assert_eq!(inside("git branch --show-current"), "holm/x");
    // The user's first commit is what the next workspace starts from; the first one is as it was.
    repository.write("mine", "mine\n");
    repository.commit("mine");
    up(&repository, "y");
    assert_eq!(island.sh("y", "cat mine; ls").ok().out(), "mine\nmine");
    assert_eq!(inside("ls"), "one");
}

#[test]
fn a_detached_head_is_a_commit_without_a_name() {
    let island = Island::new();
    let repository = island.repository("shop");
    let first = repository.git(&["rev-parse", "HEAD"]);
    repository.write("later", "");
    repository.commit("later");
    repository.git(&["checkout", "-q", "--detach", &first]);
    let workspace = up(&repository, "x");
    assert_eq!(workspace["ref"], Value::Null);
    assert_eq!(workspace["commit"], first);
    island.sh("x", "cat later").exits(1);
    // A commit that no ref has is brought all the same.
    repository.write("unnamed", "only here\n");
    repository.commit("unnamed");
    up(&repository, "y");
    assert_eq!(island.sh("y", "cat unnamed").ok().out(), "only here");
}

#[test]
fn submodules_are_empty_inside_and_that_is_said() {
    let island = Island::new();
    let library = island.repository("library");
    let repository = island.repository("shop");
    repository.git(&[
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        library.path.to_str().unwrap(),
        "lib/a b",
    ]);
    repository.commit("with a submodule");
    assert!(repository.path.join("lib/a b/README.md").exists());
    let workspace = up(&repository, "x");
    assert!(notes(&workspace).contains("lib/a b"), "{workspace}");
    assert!(notes(&workspace).contains("--include"), "{workspace}");
    assert_eq!(island.sh("x", "ls -A 'lib/a b'").ok().out(), "");
    // The command in the note works: the files are there, and git inside has no complaints.
    let with = ["up", "y", "--include", "lib/a b", "--json"];
    let workspace = repository.holm(&with).json();
    assert!(!notes(&workspace).contains("submodules"), "{workspace}");
    let inside = island.sh("y", "cat 'lib/a b/README.md'; git status --porcelain");
    assert_eq!(inside.ok().out(), "# hello");
}

#[test]
fn bare_repositories_with_worktrees_and_separate_git_directories() {
    let island = Island::new();
    let source = island.repository("source");
    let home = island.make_dir("home/src/shop");
    let bare = home.join(".bare");
    let arguments = [
        "clone",
        "-q",
        "--bare",
        source.path.to_str().unwrap(),
        bare.to_str().unwrap(),
    ];
    island.run(&home, "git", &arguments).ok();
    for name in ["one", "two"] {
        let path = home.join(name);
        let add = [
            "-C",
            ".bare",
            "worktree",
            "add",
            "-q",
            "-b",
            name,
            path.to_str().unwrap(),
        ];
        island.run(&home, "git", &add).ok();
    }
    let one = up(&at(&island, home.join("one")), "one");
    let two = up(&at(&island, home.join("two")), "two");
    assert_eq!(one["project_id"], two["project_id"]);
    assert_eq!(two["ref"], "two");

    let apart = island.make_dir("home/src/apart");
    let repository = at(&island, apart);
    repository.git(&[
        "init",
        "-q",
        "-b",
        "main",
        "--separate-git-dir=../elsewhere",
    ]);
    repository.git(&["config", "user.name", "Tess Ter"]);
    repository.git(&["config", "user.email", "tess@example.org"]);
    repository.write("a", "a\n");
    repository.commit("a");
    let workspace = up(&repository, "apart");
    assert_eq!(workspace["root"], repository.path.to_str().unwrap());
    island.sh("apart", "test -d .git").ok();
}

#[test]
fn called_by_a_hook_of_git() {
    let island = Island::new();
    let repository = island.repository("shop");
    // Git gives hooks variables that would misdirect every git of ours.
    let program = island.holm_command(&repository.path, &[]);
    let program = program.get_program().to_str().unwrap();
    let hook = format!("#!/bin/sh\nexec {program} up from-hook --dirty\n");
    repository.write(".git/hooks/pre-commit", hook);
    island
        .run(&repository.path, "chmod", &["+x", ".git/hooks/pre-commit"])
        .ok();
    repository.write("staged", "staged\n");
    repository.write("not-staged", "not staged\n");
    repository.git(&["add", "staged"]);
    repository.git(&["commit", "-q", "-m", "with a hook"]);
    let status = island.sh("from-hook", "git status --porcelain").ok();
    assert_eq!(status.out(), "A  staged\n?? not-staged");
    assert_eq!(repository.git(&["status", "--porcelain"]), "?? not-staged");
}

#[test]
fn names_with_spaces_and_beyond_ascii() {
    let island = Island::new();
    let repository = island.repository("mein größtes 猫 'projekt' $HOME");
    let odd = [
        "ein name.txt",
        "größe/ä ö.txt",
        "猫",
        "-dash",
        "tab\there",
        "new\nline",
        "quo\"te\\",
    ];
    for name in odd {
        repository.write(name, name);
    }
    repository.git(&["checkout", "-q", "-b", "grün/äpfel"]);
    repository.commit("odd");
    let workspace = up(&repository, "x");
    assert_eq!(workspace["ref"], "grün/äpfel");
    assert_eq!(workspace["root"], repository.path.to_str().unwrap());
    for name in odd {
        let path = format!("./{name}");
        assert_eq!(island.inside("x", &["cat", &path]).ok().out(), name);
    }
    let branches = island
        .sh("x", "git branch --format='%(refname:short)'")
        .ok();
    assert_eq!(branches.out(), "grün/äpfel\nholm/x\nmain");
    let again = repository
        .holm(&["up", "y", "--from", "grün/äpfel", "--json"])
        .json();
    assert_eq!(again["commit"], workspace["commit"]);
    // Bytes that are no text.
    let script = "printf raw > \"$(printf 'b\\377d')\" && git add -A && git commit -qm raw";
    island.run(&repository.path, "sh", &["-c", script]).ok();
    up(&repository, "z");
    assert_eq!(
        island.sh("z", "cat \"$(printf 'b\\377d')\"").ok().out(),
        "raw"
    );
}

#[test]
fn a_sha256_repository() {
    let island = Island::new();
    let path = island.make_dir(island.home().join("src/long"));
    let repository = at(&island, path);
    repository.git(&["init", "-q", "-b", "main", "--object-format=sha256"]);
    repository.git(&["config", "user.name", "Tess Ter"]);
    repository.git(&["config", "user.email", "tess@example.org"]);
    repository.write("a", "a\n");
    repository.commit("a");
    assert_eq!(repository.head().len(), 64);
    up(&repository, "x");
    let commit = island.sh(
        "x",
        "git commit -q --allow-empty -m b && git rev-parse HEAD",
    );
    assert_eq!(commit.ok().out().len(), 64);
    repository.write("a", "changed\n");
    repository.write("new", "new\n");
    let dirty = repository.holm(&["up", "y", "--dirty", "--json"]).json();
    assert_eq!(dirty["commit"].as_str().unwrap().len(), 64);
    assert_eq!(island.sh("y", "cat a new").ok().out(), "changed\nnew");
    assert_eq!(
        island.sh("y", "git status --porcelain").ok().out(),
        " M a\n?? new"
    );
}

#[test]
fn lfs_pointers_stay_pointers_and_up_says_so() {
    let island = Island::new();
    let repository = island.repository("shop");
    let pointer = format!(
        "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 12345\n",
        "0".repeat(64)
    );
    repository.write("big.bin", &pointer);
    repository.commit("a pointer, as git-lfs commits it");
    repository.write(
        ".gitattributes",
        "*.bin filter=lfs diff=lfs merge=lfs -text\n",
    );
    repository.commit("attributes");
    let workspace = up(&repository, "x");
    assert!(notes(&workspace).contains("Git LFS"), "{workspace}");
    assert_eq!(
        island.sh("x", "cat big.bin").ok().stdout,
        pointer.as_bytes()
    );
    let plain = island.repository("plain");
    assert!(!notes(&up(&plain, "p")).contains("LFS"));
    // With the content in the checkout and the filter set up, the pointer is still what arrives,
    // and `--include` brings the content.
    let clean = format!("printf '{}'", pointer.replace('\n', "\\n"));
    repository.git(&["config", "filter.lfs.clean", &clean]);
    repository.git(&["config", "filter.lfs.required", "true"]);
    repository.write("big.bin", "the real content");
    repository.git(&["add", "big.bin"]);
    assert_eq!(repository.git(&["status", "--porcelain"]), "");
    up(&repository, "y");
    assert_eq!(
        island.sh("y", "cat big.bin").ok().stdout,
        pointer.as_bytes()
    );
    repository
        .holm(&["up", "z", "--include", "big.bin", "--json"])
        .ok();
    assert_eq!(island.sh("z", "cat big.bin").ok().out(), "the real content");
}

#[test]
fn however_objects_and_refs_are_stored() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("a", "a\n");
    repository.commit("loose");
    assert_eq!(
        repository.git(&["count-objects"]).split(' ').next(),
        Some("6")
    );
    up(&repository, "loose");
    repository.git(&["tag", "-a", "v1", "-m", "one"]);
    repository.git(&["gc", "-q", "--prune=now"]);
    repository.git(&["pack-refs", "--all"]);
    assert!(!repository.path.join(".git/refs/heads/main").exists());
    up(&repository, "packed");
    assert_eq!(island.sh("packed", "git cat-file -t v1").ok().out(), "tag");
    repository.write("b", "b\n");
    repository.commit("both");
    up(&repository, "both");
    // A clone that borrows all its objects.
    let clone = at(&island, island.home().join("src/borrower"));
    let arguments = ["clone", "-q", "--shared", repository.path.to_str().unwrap()];
    let arguments = [&arguments[..], &[clone.path.to_str().unwrap()]].concat();
    island.run(&island.home(), "git", &arguments).ok();
    assert!(clone.path.join(".git/objects/info/alternates").exists());
    up(&clone, "borrowed");
    assert_eq!(
        island.sh("borrowed", "git log --format=%s").ok().out(),
        "both\nloose\nfirst"
    );
    // The lender goes: what a workspace has been given stays.
    std::fs::rename(&repository.path, repository.path.with_file_name("away")).unwrap();
    assert_eq!(
        island.sh("borrowed", "cat b && git show HEAD:a").ok().out(),
        "b\na"
    );
}

#[test]
fn branches_named_like_holms_own() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.git(&["branch", "holm"]);
    let first = up(&repository, "x");
    assert_eq!(first["ref"], "main");
    let kept = "git for-each-ref --format='%(refname)' refs/holm/aside";
    assert_eq!(
        island.sh("x", kept).ok().out(),
        "refs/holm/aside/heads/holm"
    );
    repository.git(&["branch", "-D", "-q", "holm"]);
    // Refs from earlier workspaces: the same name, and one below it.
    repository.git(&["branch", "holm/y"]);
    repository.write("later", "");
    repository.commit("later");
    let later = repository.head();
    up(&repository, "y");
    assert_eq!(island.sh("y", "git rev-parse holm/y").ok().out(), later);
    assert_eq!(
        island.sh("y", kept).ok().out(),
        "refs/holm/aside/heads/holm/y"
    );
    repository.git(&["branch", "holm/z/deep"]);
    up(&repository, "z");
    assert_eq!(
        island.sh("z", kept).ok().out(),
        "refs/holm/aside/heads/holm/z/deep"
    );
}

#[test]
fn two_thousand_refs() {
    let island = Island::new();
    let repository = island.repository("shop");
    let head = repository.git(&["rev-parse", "HEAD"]);
    let lines: String = (0..2000)
        .map(|number| format!("create refs/heads/team/branch-{number:04} {head}\n"))
        .collect();
    let list = island.write("refs", lines);
    let script = format!("git update-ref --stdin < '{}'", list.display());
    island.run(&repository.path, "sh", &["-c", &script]).ok();
    up(&repository, "x");
    let count = island.sh("x", "git branch --list 'team/*' | wc -l").ok();
    assert_eq!(count.out(), "2000");
}
