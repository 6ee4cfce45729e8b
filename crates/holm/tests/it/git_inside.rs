//! Git inside a workspace: a separate repository that shares the user's history read-only. Nothing
//! in it reaches the user's repository.

use crate::support::{Island, Repository};
use serde_json::Value;

/// Every file of the user's repository and checkout, by content, and every name.
fn fingerprint(repository: &Repository) -> String {
    let script = "find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum; \
                  find . -printf '%p %y %m %l\\n' | LC_ALL=C sort";
    let island = repository.island;
    island
        .run(&repository.path, "sh", &["-c", script])
        .ok()
        .out()
}

#[test]
fn nothing_done_inside_reaches_the_users_repository() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("a", "a\n");
    repository.commit("second");
    repository.git(&["branch", "other"]);
    repository.git(&["gc", "-q"]);
    repository.write("loose", "loose\n");
    repository.commit("loose");
    repository.up("x");
    let before = fingerprint(&repository);
    let script = "set -e
        echo changed > a; git commit -qam inside; git branch -q mine; git tag t
        echo more > b; git add b; git stash -q; git branch -q -D other main
        git remote add elsewhere https://example.org/x.git
        git config user.name Else
        git update-ref refs/remotes/origin/main HEAD
        git reflog expire --expire=now --all
        git repack -q -a -d; git gc -q --prune=now; git prune
        rm -rf README.md";
    island.sh("x", script).ok();
    assert_eq!(fingerprint(&repository), before);
    repository.git(&["fsck", "--full", "--strict"]);
    assert_eq!(repository.git(&["status", "--porcelain"]), "");
    // And it did happen.
    assert_eq!(
        island.sh("x", "git log -1 --format=%s,%an").ok().out(),
        "inside,Tess Ter"
    );
    // A sibling made afterwards has the user's state and nothing of the first.
    repository.up("y");
    let siblings = island.sh(
        "y",
        "git branch --format='%(refname:short)'; git tag; git stash list",
    );
    assert_eq!(siblings.ok().out(), "holm/y\nmain\nother");
    island
        .sh(
            "y",
            "git cat-file -e $(git rev-parse HEAD) && git fsck --full",
        )
        .ok();
}

#[test]
fn the_users_objects_are_shared_read_only() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("x");
    let alternates = island
        .sh("x", "cat .git/objects/info/alternates")
        .ok()
        .out();
    assert_eq!(alternates, "/run/holm/objects");
    // Nothing was copied: the workspace has no objects of its own.
    let own = "find .git/objects -type f ! -path '*/info/*' | wc -l";
    assert_eq!(island.sh("x", own).ok().out(), "0");
    let attempts = [
        "touch /run/holm/objects/x",
        "rm -rf /run/holm/objects/* 2>&1; test $(ls /run/holm/objects | wc -l) = 0",
        "for f in $(find /run/holm/objects -type f); do chmod u+w $f && exit 0; done; exit 1",
        "for f in $(find /run/holm/objects -type f); do echo x >> $f && exit 0; done; exit 1",
    ];
    for attempt in attempts {
        let ran = island.sh("x", attempt);
        assert_ne!(ran.code, Some(0), "{attempt}: {ran:?}");
    }
    repository.git(&["fsck", "--full", "--strict"]);
    // The same attempts succeed on the workspace's own files.
    island
        .sh(
            "x",
            "git commit -q --allow-empty -m own && touch .git/objects/x",
        )
        .ok();
    island
        .sh(
            "x",
            "for f in $(find .git/objects -type f); do chmod u+w $f && exit 0; done; exit 1",
        )
        .ok();
}

#[test]
fn one_workspaces_objects_are_not_in_another() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("secret.txt", "the words of the first\n");
    repository.holm(&["up", "first", "--dirty"]).ok();
    std::fs::remove_file(repository.path.join("secret.txt")).unwrap();
    repository.holm(&["up", "second", "--dirty"]).ok();
    repository.up("third");
    let made = island
        .sh("first", "echo made inside | git hash-object -w --stdin")
        .ok()
        .out();
    let brought = island.sh("first", "git hash-object secret.txt").ok().out();
    let all = "git cat-file --batch-all-objects --batch-check='%(objectname)'";
    let seen = island.sh("first", all).ok().out();
    assert!(seen.contains(&made) && seen.contains(&brought), "{seen}");
    for other in ["second", "third"] {
        let seen = island.sh(other, all).ok().out();
        assert!(
            !seen.contains(&made) && !seen.contains(&brought),
            "{other}: {seen}"
        );
        island
            .sh(other, &format!("git cat-file -e {brought}"))
            .exits(1);
    }
    // Neither the user's repository nor the daemon's common one has it.
    let seen = repository.git(&["cat-file", "--batch-all-objects", "--batch-check"]);
    assert!(!seen.contains(&brought), "{seen}");
}

#[test]
fn the_users_branches_tags_and_remotes_are_there() {
    let island = Island::new();
    let origin = island.repository("origin");
    let repository = Repository {
        island: &island,
        path: island.home().join("src/shop"),
    };
    let arguments = [
        "clone",
        "-q",
        origin.path.to_str().unwrap(),
        repository.path.to_str().unwrap(),
    ];
    island.run(&island.home(), "git", &arguments).ok();
    repository.git(&["config", "user.name", "Zoë \"Q\" \\ Ünal"]);
    repository.git(&["config", "user.email", "zoe@example.org"]);
    repository.git(&["branch", "topic/one"]);
    repository.git(&["tag", "v1"]);
    repository.git(&["tag", "-a", "v2", "-m", "two"]);
    repository.git(&[
        "remote",
        "add",
        "token",
        "https://me:hunter2@example.org/x.git",
    ]);
    repository.git(&[
        "remote",
        "add",
        "ssh",
        "ssh://git:hunter2@example.org/x.git",
    ]);
    repository.git(&["remote", "add", "scp", "git@example.org:team/x.git"]);
    repository.git(&[
        "config",
        "remote.token.pushurl",
        "https://me:hunter2@example.org/y.git",
    ]);
    repository.git(&["config", "http.extraHeader", "Authorization: hunter2"]);
    repository.git(&["config", "credential.helper", "!echo password=hunter2"]);
    repository.git(&[
        "config",
        "url.https://me:hunter2@example.org/.insteadOf",
        "short:",
    ]);
    repository.git(&["config", "commit.gpgsign", "true"]);
    repository.git(&["config", "tag.gpgsign", "true"]);
    repository.git(&["config", "gpg.program", "/bin/false"]);
    repository.git(&["config", "core.hooksPath", "/home/hooks"]);
    repository.up("x");
    let inside = |script: &str| island.sh("x", script).ok().out();
    assert_eq!(
        inside("git for-each-ref --format='%(refname)'"),
        "refs/heads/holm/x\nrefs/heads/main\nrefs/heads/topic/one\nrefs/remotes/origin/main\n\
         refs/tags/v1\nrefs/tags/v2"
    );
    assert_eq!(
        inside("git rev-parse v2^{commit}"),
        repository.git(&["rev-parse", "HEAD"])
    );
    assert_eq!(inside("git remote"), "origin\nscp\nssh\ntoken");
    assert_eq!(
        inside("git remote get-url token"),
        "https://example.org/x.git"
    );
    assert_eq!(
        inside("git remote get-url ssh"),
        "ssh://git@example.org/x.git"
    );
    assert_eq!(
        inside("git remote get-url scp"),
        "git@example.org:team/x.git"
    );
    assert_eq!(
        inside("grep -rl hunter2 .git /run/holm ~ 2>/dev/null; true"),
        ""
    );
    assert_eq!(inside("git config user.name"), "Zoë \"Q\" \\ Ünal");
    assert_eq!(inside("git config user.email"), "zoe@example.org");
    // Signing would fail: there is no key inside.
    inside("git commit -q --allow-empty -m plain && git tag -a signed -m no");
    assert_eq!(
        inside("git cat-file commit HEAD | grep -c gpgsig; true"),
        "0"
    );
    assert_eq!(
        inside("git config --get-regexp 'credential|hooks|extraheader|insteadof'; true"),
        ""
    );
}

#[test]
fn hooks_of_the_user_stay_outside_and_the_workspaces_own_run() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write(".git/hooks/pre-commit", "#!/bin/sh\nexit 1\n");
    island
        .run(&repository.path, "chmod", &["+x", ".git/hooks/pre-commit"])
        .ok();
    repository.up("x");
    island
        .sh("x", "git commit -q --allow-empty -m 'no hook inside'")
        .ok();
    let own = "mkdir -p .git/hooks && printf '#!/bin/sh\\nexit 1\\n' > .git/hooks/pre-commit && \
               chmod +x .git/hooks/pre-commit";
    island.sh("x", own).ok();
    island
        .sh("x", "git commit -q --allow-empty -m refused")
        .exits(1);
    repository.up("y");
    island
        .sh("y", "git commit -q --allow-empty -m 'another workspace'")
        .ok();
}

#[test]
fn from_a_branch_a_tag_a_commit_or_what_git_understands() {
    let island = Island::new();
    let repository = island.repository("shop");
    let first = repository.git(&["rev-parse", "HEAD"]);
    repository.git(&["tag", "-a", "v1", "-m", "one"]);
    repository.git(&["checkout", "-q", "-b", "topic"]);
    repository.write("topic", "topic\n");
    repository.commit("topic");
    let topic = repository.head();
    repository.git(&["checkout", "-q", "main"]);
    repository.write("main", "main\n");
    repository.commit("main");
    let main = repository.head();
    let check = |label: &str, from: &str, commit: &str, name: Value| {
        let workspace = repository
            .holm(&["up", label, "--from", from, "--json"])
            .json();
        assert_eq!(workspace["commit"], commit, "{from}");
        assert_eq!(workspace["ref"], name, "{from}");
        let inside = island
            .sh(label, "git rev-parse HEAD; git status --porcelain")
            .ok();
        assert_eq!(inside.out(), commit, "{from}");
    };
    check("branch", "topic", &topic, "topic".into());
    check("current", "main", &main, "main".into());
    check("tag", "v1", &first, "v1".into());
    check("full", &topic, &topic, Value::Null);
    check("short", &topic[..8], &topic, Value::Null);
    check("earlier", "HEAD~1", &first, Value::Null);
    check("message", "topic^{/first}", &first, Value::Null);
    for unknown in [
        "nothing",
        "HEAD~99",
        "topik",
        "--upload-pack=x",
        "a..b",
        "",
        "v1:README.md",
    ] {
        let from = format!("--from={unknown}");
        let ran = repository.holm(&["up", "unknown", &from, "--json"]);
        assert!(ran.stdout.is_empty());
        let error = ran.error(3);
        assert_eq!(error["code"], "ref_not_found", "{unknown}: {error}");
    }
    let error = repository
        .holm(&["up", "u", "--from", "topik", "--json"])
        .error(3);
    assert!(error["hint"].as_str().unwrap().contains("topic"), "{error}");
    assert_eq!(
        island.holm(&["ls", "--json"]).json()["workspaces"]
            .as_array()
            .unwrap()
            .len(),
        7
    );
}
