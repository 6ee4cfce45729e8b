//! The workspace's own git directory over a base, as the overlay will show it.

use crate::base::{build, git_inside};
use crate::link::{bare, sync};
use crate::sandbox::*;
use holm_core::spec::{Code, Remote};
use holm_git::{Bare, Repository, Seed, seed_git_dir};
use std::path::{Path, PathBuf};
use std::process::Command;

fn seed_of(repository: &Repository, bare: &Bare, label: &str) -> Seed {
    Seed {
        label: label.to_owned(),
        code: Code {
            commit: repository.head.clone(),
            ref_name: None,
            object_format: repository.object_format.clone(),
            user_name: repository.user_name.clone(),
            user_email: repository.user_email.clone(),
            remotes: repository.remotes.clone(),
            shallow: repository.shallow.clone(),
            excluded: Vec::new(),
            base: None,
        },
        packed_refs: bare.packed_refs(),
    }
}

/// The base with the upper directory laid over it.
fn workspace(sandbox: &Sandbox, bare: &Bare, seed: &Seed) -> PathBuf {
    let tree = sandbox.path(format!("workspace-{}", seed.label));
    let upper = sandbox.directory(format!("upper-{}", seed.label));
    let base = build(sandbox, bare, seed.code.commit.as_deref());
    seed_git_dir(&upper, seed).unwrap();
    for source in [base, upper] {
        let mut command = Command::new("cp");
        let copied = command
            .args(["-a", "--"])
            .arg(source.join("."))
            .arg(&tree)
            .status();
        assert!(copied.unwrap().success());
    }
    // Inside, this is where the objects are.
    let objects = format!("{}\n", bare.objects_dir().display());
    write(&tree.join(".git/objects/info/alternates"), objects);
    tree
}

fn inside<const N: usize>(tree: &Path, bare: &Bare, args: [&str; N]) -> String {
    let output = git_inside(tree, bare)
        .env("HOME", "/nonexistent")
        .args(args)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{args:?}: {}",
        text(&output.stderr)
    );
    text(&output.stdout).trim_end().to_owned()
}

sealed_test! {
    fn a_complete_repository_on_its_own_branch(sandbox: &Sandbox) {
        let path = sandbox.repository("work");
        git(&path, ["tag", "-a", "-m", "x", "v1"]);
        git(&path, ["branch", "topic"]);
        git(&path, ["remote", "add", "origin", "https://ada:token@example.org/x.git"]);
        git(&path, ["update-ref", "refs/remotes/origin/main", "HEAD"]);
        let bare = bare(sandbox, "sha1");
        let repository = sync(&path, &bare);
        let mut seed = seed_of(&repository, &bare, "fix-login");
        let odd = Remote {
            name: "o\"d\\d".to_owned(),
            url: "https://example.org/a#b;c \"d\" \\ \n e".to_owned(),
            fetch: vec!["+refs/heads/*:refs/remotes/odd/*".to_owned()],
        };
        seed.code.remotes.push(odd.clone());
        seed.code.user_name = Some("Ada \"#;\\ of\nTests ".to_owned());
        let tree = workspace(sandbox, &bare, &seed);
        assert_eq!(inside(&tree, &bare, ["status", "--porcelain"]), "");
        assert_eq!(inside(&tree, &bare, ["symbolic-ref", "HEAD"]), "refs/heads/holm/fix-login");
        assert_eq!(inside(&tree, &bare, ["rev-parse", "HEAD"]), head(&path));
        assert_eq!(
            inside(&tree, &bare, ["for-each-ref", "--format=%(refname)"]),
            "refs/heads/holm/fix-login\nrefs/heads/main\nrefs/heads/topic\nrefs/remotes/origin/main\nrefs/tags/v1"
        );
        assert_eq!(inside(&tree, &bare, ["describe"]), "v1");
        assert_eq!(inside(&tree, &bare, ["config", "remote.origin.url"]), "https://example.org/x.git");
        assert_eq!(inside(&tree, &bare, ["config", "remote.o\"d\\d.url"]), odd.url);
        assert_eq!(inside(&tree, &bare, ["config", "--bool", "commit.gpgsign"]), "false");
        let name = git_inside(&tree, &bare).args(["config", "-z", "user.name"]).output().unwrap();
        assert_eq!(text(&name.stdout).trim_end_matches('\0'), seed.code.user_name.unwrap());
        assert!(!text(&std::fs::read(tree.join(".git/config")).unwrap()).contains("token"));

        write(&tree.join("new.txt"), "x");
        inside(&tree, &bare, ["add", "--all"]);
        inside(&tree, &bare, ["commit", "--quiet", "-m", "inside"]);
        inside(&tree, &bare, ["checkout", "--quiet", "topic"]);
        inside(&tree, &bare, ["stash", "list"]);
        inside(&tree, &bare, ["gc", "--quiet"]);
        inside(&tree, &bare, ["fsck", "--full"]);
        assert_eq!(inside(&tree, &bare, ["log", "-1", "--format=%s", "holm/fix-login"]), "inside");
    }
}

sealed_test! {
    fn excluded_files_are_not_shown_and_their_likes_are(sandbox: &Sandbox) {
        let path = sandbox.repository("work");
        let bare = bare(sandbox, "sha1");
        let repository = sync(&path, &bare);
        let mut seed = seed_of(&repository, &bare, "a");
        let hidden = ["AGENTS.md", "config/.env*", "!x", "#y", "trail ", "[ab]", "back\\slash", "größe"];
        seed.code.excluded = hidden.map(str::to_owned).to_vec();
        let tree = workspace(sandbox, &bare, &seed);
        for name in hidden {
            write(&tree.join(name), "x");
        }
        assert_eq!(inside(&tree, &bare, ["status", "--porcelain"]), "");
        for name in ["docs/AGENTS.md", "config/.env.local", "a", "b", "trail"] {
            write(&tree.join(name), "x");
        }
        let shown = inside(&tree, &bare, ["status", "--porcelain", "--untracked-files=all"]);
        assert_eq!(shown.lines().count(), 5, "{shown}");
    }
}

sealed_test! {
    fn branches_in_the_way_are_set_aside(sandbox: &Sandbox) {
        let check = |branch: &str, name: &str| {
            let path = sandbox.repository(name);
            git(&path, ["branch", branch]);
            let bare = Bare::open_or_init(&sandbox.path(format!("{name}.git")), "sha1").unwrap();
            let repository = sync(&path, &bare);
            let tree = workspace(sandbox, &bare, &seed_of(&repository, &bare, name));
            assert_eq!(inside(&tree, &bare, ["status", "--porcelain"]), "");
            let listed = inside(&tree, &bare, ["for-each-ref", "--format=%(refname)"]);
            let aside = format!("refs/holm/aside/heads/{branch}");
            let own = format!("refs/heads/holm/{name}");
            assert_eq!(listed, format!("{own}\nrefs/heads/main\n{aside}"));
            inside(&tree, &bare, ["commit", "--quiet", "--allow-empty", "-m", "x"]);
            inside(&tree, &bare, ["pack-refs", "--all"]);
        };
        check("holm", "one");
        check("holm/two", "two");
        check("holm/three/more", "three");
    }
}

sealed_test! {
    fn shallow_empty_and_sha256(sandbox: &Sandbox) {
        let path = sandbox.repository("deep");
        commit_all(&path, "second");
        let url = format!("file://{}", path.display());
        git(&sandbox.path(""), ["clone", "--quiet", "--depth=1", &url, "shallow"]);
        let bare = bare(sandbox, "sha1");
        let repository = sync(&sandbox.path("shallow"), &bare);
        let tree = workspace(sandbox, &bare, &seed_of(&repository, &bare, "shallow"));
        assert_eq!(inside(&tree, &bare, ["status", "--porcelain"]), "");
        assert_eq!(inside(&tree, &bare, ["rev-list", "--count", "HEAD"]), "1");
        inside(&tree, &bare, ["fsck", "--full"]);

        let path = sandbox.directory("empty");
        git(&path, ["init", "--quiet", "--object-format=sha256"]);
        let bare = Bare::open_or_init(&sandbox.path("empty.git"), "sha256").unwrap();
        let repository = sync(&path, &bare);
        let tree = workspace(sandbox, &bare, &seed_of(&repository, &bare, "empty"));
        assert_eq!(inside(&tree, &bare, ["status", "--porcelain"]), "");
        write(&tree.join("a"), "x");
        inside(&tree, &bare, ["add", "a"]);
        inside(&tree, &bare, ["commit", "--quiet", "-m", "first"]);
        assert_eq!(inside(&tree, &bare, ["rev-parse", "HEAD"]).len(), 64);
    }
}
