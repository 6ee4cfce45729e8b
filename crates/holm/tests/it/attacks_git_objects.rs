//! Git's objects and refs as the attack (attacks 42, 43, 46) and work that is cut off while it comes
//! back (161).

use crate::support::{Island, Repository};
use std::time::{Duration, Instant};

#[test]
fn attack_42_objects_are_not_shared_for_writing() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.git(&["gc", "-q"]);
    repository.write("loose", "loose\n");
    repository.commit("loose");
    repository.up("x");
    let spoil = "for file in $(find /run/holm/objects .git/objects -type f ! -path '*/info/*'); do
                     chmod u+w $file; printf spoilt > $file; done 2>/dev/null; true";
    island.sh("x", spoil).ok();
    repository.git(&["fsck", "--full", "--strict"]);
    repository.up("y");
    island.sh("y", "git fsck --full").ok();
    // The spoilt workspace has no work of its own, so every request still works.
    repository.holm(&["fetch", "x"]).ok();
    // It can spoil its own objects; those are not taken over.
    island
        .sh("x", "echo 1 > a; git add a; git commit -qm a")
        .ok();
    island.sh("x", spoil).ok();
    repository.holm(&["fetch", "x"]).exits(1);
    repository.git(&["fsck", "--full", "--strict"]);
    // Counterpart: a local clone shares its files with the source.
    let clone = island.home().join("clone");
    let source = repository.path.to_str().unwrap();
    repository.git(&["clone", "-q", "--local", source, clone.to_str().unwrap()]);
    let spoil =
        "for file in $(find .git/objects -type f); do chmod u+w $file; printf spoilt > $file; done";
    island.run(&clone, "sh", &["-c", spoil]).ok();
    let fsck = island.run(&repository.path, "git", &["fsck", "--full"]);
    assert_ne!(fsck.code, Some(0));
}

#[test]
fn attack_43_pruning_inside_reaches_neither_host_nor_siblings() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.git(&["branch", "other"]);
    let linked = island.home().join("linked");
    repository.git(&[
        "worktree",
        "add",
        "-q",
        "-b",
        "linked",
        linked.to_str().unwrap(),
    ]);
    repository.up("x");
    repository.up("y");
    island
        .sh(
            "y",
            "git commit -q --allow-empty -m kept; echo 1 > a; git stash -qu",
        )
        .ok();
    island.sh("x", "git commit -q --allow-empty -m inside").ok();
    repository.holm(&["fetch", "x"]).ok();
    let all = "git for-each-ref; git worktree list; git count-objects -v";
    let host = || island.run(&repository.path, "sh", &["-c", all]).ok().out();
    let sibling = || island.sh("y", all).ok().out();
    let before = (host(), sibling());
    let prune = "git worktree prune; git worktree remove --force ../linked
        git branch -D other linked main; for ref in $(git for-each-ref --format='%(refname)'); do git update-ref -d $ref; done
        git reflog expire --expire=now --all; git gc -q --prune=now; true";
    island.sh("x", prune).ok();
    assert_eq!((host(), sibling()), before);
    repository.git(&["fsck", "--full"]);
    assert_eq!(
        repository.git(&["log", "-1", "--format=%s", "holm/x"]),
        "inside"
    );
    // Counterpart: a linked work tree shares all of it.
    island.run(&linked, "sh", &["-c", prune]).ok();
    assert_ne!(host(), before.0);
}

/// A commit inside whose tree has entries of any name; prints it.
fn commit_of_names(island: &Island, workspace: &str, names: &[&str]) -> String {
    let entries: Vec<String> = names
        .iter()
        .map(|name| format!("100644 blob $blob\\t{name}\\n"))
        .collect();
    let script = format!(
        "set -e; blob=$(echo evil | git hash-object -w --stdin)
         tree=$(printf \"{}\" | git mktree); tree=$(printf \"040000 tree $tree\\tsub\\n\" | git mktree)
         commit=$(git commit-tree $tree -p HEAD -m evil); git update-ref HEAD $commit; echo $commit",
        entries.concat()
    );
    island.sh(workspace, &script).ok().out()
}

#[test]
fn attack_46_names_that_some_file_system_takes_for_git() {
    let island = Island::new();
    let repository = island.repository("shop");
    for (number, name) in [".git", ".GIT", ".gIt", "git~1", ".g\u{200c}it", "..", "."]
        .iter()
        .enumerate()
    {
        let label = format!("x{number}");
        repository.up(&label);
        let commit = commit_of_names(&island, &label, &[name]);
        for verb in ["fetch", "merge"] {
            let error = repository.holm(&[verb, &label, "--json"]).error(1);
            assert_eq!(error["code"], "git_failed", "{name:?} {error}");
        }
        assert_eq!(
            repository.git(&["for-each-ref", "refs/holm", "refs/heads/holm"]),
            ""
        );
        // Counterpart: git without checks takes the same commit over.
        if number == 1 {
            let pack = format!("echo {commit} | git pack-objects --revs --stdout -q");
            let pack = island.sh(&label, &pack).ok().stdout;
            let file = island.write("evil.pack", pack);
            let script = format!(
                "git unpack-objects -q < {} && git cat-file -e {commit}",
                file.display()
            );
            island.run(&repository.path, "sh", &["-c", &script]).ok();
        }
    }
    assert_eq!(repository.git(&["status", "--porcelain"]), "");
}

/// Files that tools execute need consent, for `apply` and `merge` alike.
#[test]
fn attack_46_files_that_tools_execute_and_links_that_leave_need_a_yes() {
    let island = Island::new();
    let repository = island.repository("shop");
    let secret = island.write("home/secret", "secret");
    let link = format!("ln -s {} out", secret.display());
    for (number, (script, named)) in [
        (
            "mkdir .vscode; echo {} > .vscode/tasks.json",
            ".vscode/tasks.json",
        ),
        ("echo true > .envrc", ".envrc"),
        ("echo {} > .mcp.json", ".mcp.json"),
        (
            "mkdir .claude; echo {} > .claude/settings.json",
            ".claude/settings.json",
        ),
        (
            "mkdir -p .github/workflows; echo x > .github/workflows/ci.yml",
            "ci.yml",
        ),
        (
            "mkdir .husky; echo x > .husky/post-merge",
            ".husky/post-merge",
        ),
        ("echo '* -text' > .gitattributes", ".gitattributes"),
        (link.as_str(), "out"),
        ("mkdir a; ln -s ../../../x a/up", "a/up"),
    ]
    .iter()
    .enumerate()
    {
        let label = format!("x{number}");
        repository.up(&label);
        island
            .sh(&label, &format!("{script}; git add -A; git commit -qm x"))
            .ok();
        for verb in ["apply", "merge"] {
            let error = repository.holm(&[verb, &label, "--json"]).error(4);
            assert_eq!(error["code"], "needs_yes", "{error}");
            assert!(
                error["message"].as_str().unwrap().contains(named),
                "{error}"
            );
            assert_eq!(repository.git(&["status", "--porcelain"]), "");
            assert_eq!(repository.git(&["log", "-1", "--format=%s"]), "first");
        }
    }
    // With a yes it comes, and is named.
    let applied = repository.holm(&["apply", "x1", "--yes", "--json"]).json();
    assert_eq!(applied["flagged"][0]["path"], ".envrc");
    assert!(repository.path.join(".envrc").exists());
    repository.git(&["clean", "-qfd"]);
    repository.holm(&["merge", "x1", "--yes"]).ok();
    assert!(repository.path.join(".envrc").exists());
    // Counterpart: an ordinary change needs none.
    repository.up("plain");
    island.sh("plain", "echo 1 > plain").ok();
    repository.holm(&["apply", "plain"]).ok();
}

/// Attack 191, as people see it: every file is named with its reason.
#[test]
fn attack_191_apply_says_of_each_file_who_runs_it() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("x");
    let files = [
        ("agent", "CLAUDE.md"),
        ("agent", "AGENTS.md"),
        ("agent", ".mcp.json"),
        ("build", ".cargo/config.toml"),
        ("build", "build.rs"),
        ("container", ".devcontainer.json"),
        ("editor", ".exrc"),
        ("editor", "shop.code-workspace"),
        ("git", ".lfsconfig"),
        ("hook", "lefthook.toml"),
        ("package", ".npmrc"),
        ("package", ".yarnrc.yml"),
        ("ci", ".woodpecker.yml"),
    ];
    let names: Vec<_> = files.iter().map(|(_, name)| *name).collect();
    let script = format!(
        "mkdir .cargo; for name in {}; do echo x > $name; done",
        names.join(" ")
    );
    island
        .sh(
            "x",
            &format!("{script}; echo x > plain.rs; git add -A; git commit -qm x"),
        )
        .ok();
    for verb in ["apply", "merge"] {
        let error = repository.holm(&[verb, "x", "--json"]).error(4);
        assert_eq!(error["code"], "needs_yes", "{error}");
        let message = error["message"].as_str().unwrap();
        for name in &names {
            let line = message
                .lines()
                .find(|line| line.trim_start().starts_with(&format!("{name}: ")));
            assert!(
                line.is_some_and(|line| line.len() > name.len() + 10),
                "{name} in {message}"
            );
        }
        assert!(!message.contains("plain.rs"), "{message}");
    }
    let applied = repository
        .holm(&["apply", "x", "--yes", "--json"])
        .ok()
        .json();
    let flagged = applied["flagged"].as_array().unwrap();
    assert_eq!(flagged.len(), files.len(), "{applied}");
    for (kind, name) in files {
        let found = flagged.iter().find(|one| one["path"] == name).unwrap();
        assert_eq!(found["kinds"][0], kind, "{found}");
    }
}

#[test]
fn nothing_that_comes_back_steers_the_terminal() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("x");
    let script = "printf 'x' > \"$(printf 'evil\\033[2J')\"; printf 'a\\033]0;title\\007\\n' > text; touch .envrc";
    island.sh("x", script).ok();
    let texts = [
        repository.holm(&["changes", "x"]).ok(),
        repository.holm(&["fetch", "x"]).ok(),
        repository.holm(&["apply", "x"]).exits(4),
    ];
    for ran in &texts {
        assert!(
            !ran.stdout.contains(&0x1b) && !ran.stderr.contains('\u{1b}'),
            "{ran:#?}"
        );
    }
    // A patch for a program is exact; on a terminal it is harmless.
    let exact = repository.holm(&["diff", "x"]).ok().stdout;
    assert!(exact.contains(&0x1b));
}

/// Ends `holm` with its arguments after `delay`, at any point.
fn cut(repository: &Repository, arguments: &[&str], delay: Duration) {
    let mut command = repository.island.holm_command(&repository.path, arguments);
    let begun = Instant::now();
    let mut child = command
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    while begun.elapsed() < delay && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    // It may be done by now.
    let _ = child.kill();
    child.wait().unwrap();
}

#[test]
fn attack_161_a_fetch_that_is_killed_leaves_refs_old_or_new() {
    let island = Island::new();
    let repository = island.repository("shop");
    let id = repository.up("x");
    repository.holm(&["fetch", "x"]).ok();
    let branch = "refs/heads/holm/x".to_owned();
    let names = [format!("refs/holm/{id}"), branch];
    // git continues when only the client is killed, so an earlier one may end later.
    let mut known = vec![repository.git(&["rev-parse", "holm/x"])];
    for round in 0..10 {
        let script = "head -c 300000 /dev/urandom > big; git add big; git commit -qm big; git rev-parse HEAD";
        known.push(island.sh("x", script).ok().out());
        cut(
            &repository,
            &["fetch", "x"],
            Duration::from_millis(40 * round),
        );
        for name in &names {
            let now = repository.git(&["rev-parse", name]);
            assert!(known.contains(&now), "{name} is {now}");
        }
        repository.git(&["fsck", "--connectivity-only"]);
    }
    // A fetch that is overtaken tries again; it waits for the others.
    crate::support::eventually("git is done", || !is_at_work_in(&repository.path));
    repository.holm(&["fetch", "x"]).ok();
    let head = island.sh("x", "git rev-parse HEAD").ok().out();
    for name in &names {
        assert_eq!(repository.git(&["rev-parse", name]), head);
    }
    assert_eq!(
        repository.git(&["for-each-ref", "--format=%(refname)", "refs/heads"]),
        "refs/heads/holm/x\nrefs/heads/main"
    );
}

#[test]
fn attack_161_an_apply_that_is_killed_leaves_the_checkout_old_or_new() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("x");
    let script = "for n in $(seq 300); do echo $n > f$n; done; echo more >> README.md; git add -A; git write-tree";
    let new = island.sh("x", script).ok().out();
    let old = repository.git(&["rev-parse", "HEAD^{tree}"]);
    let state = || {
        let script = "cp .git/index /tmp/index-$$; export GIT_INDEX_FILE=/tmp/index-$$; git add -A; git write-tree; rm /tmp/index-$$";
        island
            .run(&repository.path, "sh", &["-c", script])
            .ok()
            .out()
    };
    for round in 0..14 {
        cut(
            &repository,
            &["apply", "x"],
            Duration::from_millis(60 * round),
        );
        // git continues once it has begun; the checkout counts when it is done.
        crate::support::eventually("git is done", || !is_at_work_in(&repository.path));
        let now = state();
        assert!(now == old || now == new, "round {round}: {now} is neither");
        repository.git(&["reset", "-q", "--hard"]);
        repository.git(&["clean", "-qfd"]);
    }
    repository.holm(&["apply", "x"]).ok();
    assert_eq!(state(), new);
}

/// Whether a process is at work in a directory.
pub fn is_at_work_in(directory: &std::path::Path) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|process| std::fs::read_link(process.path().join("cwd")).ok())
        .any(|place| place.starts_with(directory))
}
