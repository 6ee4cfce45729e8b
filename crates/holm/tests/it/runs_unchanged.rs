//! The changes of a run when holm asks git inside only if the writable layer changed: a run that
//! changes nothing starts no git, and every change is told exactly as git tells it, however it was
//! made.

use crate::support::{Island, Repository, eventually};
use serde_json::Value;

/// The number of the next process inside: each process and thread takes one.
fn next_pid(island: &Island) -> u64 {
    island.sh("x", "echo $$").ok().out().parse().unwrap()
}

/// Runs a script and returns its changes as `operation path`, sorted.
fn changes_of(island: &Island, script: &str) -> Vec<String> {
    island.holm(&["run", "x", "--", "sh", "-c", script]).ok();
    let list = island.holm(&["runs", "ls", "x", "--json"]).json();
    let id = list["runs"][0]["id"].as_str().unwrap().to_owned();
    let run = island.holm(&["runs", "show", &id, "--json"]).json();
    assert!(run["changes"].is_array(), "{run:#}");
    let changes = run["changes"].as_array().unwrap().iter();
    let text = |change: &Value, key: &str| change[key].as_str().unwrap().to_owned();
    let mut told: Vec<_> = changes
        .map(|change| format!("{} {}", text(change, "operation"), text(change, "path")))
        .collect();
    told.sort();
    told
}

/// A workspace whose tree is known to the daemon: the next look compares with it.
fn known(island: &Island, repository: &Repository) {
    repository.write("tracked.txt", "tracked and not changed\n");
    repository.write("dir/deep.txt", "deep\n");
    repository.write(".gitignore", "ignored\nbuild/\n");
    repository.commit("files");
    repository.up("x");
    island
        .sh("x", "echo one > untracked; touch -d @1000000000 untracked")
        .ok();
    nothing_changes(island);
}

/// Runs until a run that changes nothing starts no git, so the state is known.
fn nothing_changes(island: &Island) {
    eventually("the tree is known", || {
        let before = next_pid(island);
        assert_eq!(changes_of(island, "true"), Vec::<String>::new());
        next_pid(island) - before <= 4
    });
}

#[test]
fn a_run_that_changes_nothing_starts_no_git() {
    let island = Island::in_tmp();
    known(&island, &island.repository("shop"));
    let before = next_pid(&island);
    assert_eq!(changes_of(&island, "cat tracked.txt"), Vec::<String>::new());
    let after = next_pid(&island);
    // The first process of the run, the shell, `cat`, and the shell of this question.
    assert!(after - before <= 4, "{before} {after}");
    // `changes` and `diff` compare with the start, and record nothing.
    let before = next_pid(&island);
    let changes = island.holm(&["changes", "x", "--json"]).json();
    assert_eq!(changes["changes"].as_array().unwrap().len(), 1, "{changes}");
    let after = next_pid(&island);
    assert!(after - before <= 3, "{before} {after}");
    // The state is that of this spec and of this daemon.
    island.kill_daemon();
    assert_eq!(
        changes_of(&island, "echo two > untracked"),
        ["update untracked"]
    );
}

#[test]
fn every_change_of_a_known_tree_is_told() {
    let island = Island::in_tmp();
    known(&island, &island.repository("shop"));
    let check = |script: &str, expected: &[&str]| {
        nothing_changes(&island);
        assert_eq!(changes_of(&island, script), expected, "{script}");
    };
    // The same size, and the time that the file had.
    check(
        "printf 'two\n' > untracked; touch -d @1000000000 untracked",
        &["update untracked"],
    );
    check(
        "rm tracked.txt; echo 'tracked and not changed' > tracked.txt",
        &[],
    );
    check(
        "rm tracked.txt; echo other > tracked.txt",
        &["update tracked.txt"],
    );
    check("mv dir/deep.txt dir/moved.txt", &["rename dir/moved.txt"]);
    check("chmod +x untracked", &["update untracked"]);
    check("ln untracked twin", &["create twin"]);
    check(
        "printf 'six\n' > twin",
        &["update twin", "update untracked"],
    );
    check("rm twin", &["delete twin"]);
    check("mkdir -p build; echo x > build/x; echo y > ignored", &[]);
    check("echo z > build/x; echo z > ignored", &[]);
    check(
        "echo build/ > .gitignore",
        &["create ignored", "update .gitignore"],
    );
    check("git init -q nested; echo x > nested/x", &[]);
    check("rm -rf nested/.git", &["create nested/x"]);
    check("git add -A; git commit -qm all", &[]);
    check("rm -rf dir; mkdir dir", &["delete dir/moved.txt"]);
    check(
        "git checkout -q HEAD~ -- .",
        &[
            "create dir/deep.txt",
            "update .gitignore",
            "update tracked.txt",
        ],
    );
    // Settings of git outside of the tree.
    check(
        "mkdir -p ~/.config/git; echo ignored > ~/.config/git/ignore",
        &[],
    );
    check("echo fresh > fresh", &["create fresh"]);
    check("echo fresh > ~/.config/git/ignore", &["delete fresh"]);
    check("rm -rf ~/.config", &["create fresh"]);
    nothing_changes(&island);
    changes_of(&island, "git config core.excludesFile /tmp/rules");
    assert_eq!(
        changes_of(&island, "echo fresh > /tmp/rules"),
        ["delete fresh"]
    );
    assert_eq!(changes_of(&island, "rm /tmp/rules"), ["create fresh"]);
}

#[test]
fn changes_of_other_programs_during_a_run_are_told() {
    let island = Island::in_tmp();
    known(&island, &island.repository("shop"));
    // A program that was there before, and one that changes a file through memory, in a page that is
    // dirty already: no time of the file changes.
    let python = "import mmap, os, time\n\
        f = open('mapped', 'w+b'); f.write(b'a' * 4096); f.flush()\n\
        m = mmap.mmap(f.fileno(), 4096); m[0:1] = b'b'\n\
        open('/tmp/ready', 'w').close()\n\
        while not os.path.exists('/tmp/map'): time.sleep(0.01)\n\
        m[0:1] = b'c'\n\
        open('/tmp/mapped', 'w').close()\n\
        while not os.path.exists('/tmp/write'): time.sleep(0.01)\n\
        open('written', 'w').close()\n";
    let script = format!("setsid python3 -c \"{python}\" > /dev/null 2>&1 < /dev/null &");
    island.sh("x", &script).ok();
    eventually("it has begun", || {
        island.sh("x", "test -e /tmp/ready").code == Some(0)
    });
    // Longer ago than any `write` takes, so only the mapping is a reason to ask git.
    eventually("the change is old", || {
        let age = "echo $(($(date +%s) - $(stat -c %Z mapped)))";
        island.sh("x", age).ok().out().parse::<i64>().unwrap() > 3
    });
    changes_of(&island, "true");
    let wait =
        |go: &str, until: &str| format!("touch {go}; until [ -e {until} ]; do sleep 0.01; done");
    assert_eq!(
        changes_of(&island, &wait("/tmp/map", "/tmp/mapped")),
        ["update mapped"]
    );
    assert_eq!(
        changes_of(&island, &wait("/tmp/write", "written")),
        ["create written"]
    );
}
