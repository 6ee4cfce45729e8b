//! What `setup` makes is made once and shared by all workspaces with the same inputs.

use crate::support::{Island, Repository, Running, eventually, send};
use rustix::process::Signal;
use serde_json::Value;
use std::path::PathBuf;
use std::process::Stdio;

/// Creates dependencies like an installer: many files, symlinks and programs, some of them in home,
/// with output.
const MAKE_DEPS: &str = r#"set -e
echo "installing $(cat deps.lock)"
rm -rf node_modules && mkdir -p node_modules/.bin "$HOME/.cache/deps"
for package in $(seq 1 20); do
  mkdir -p node_modules/p$package/lib
  for file in $(seq 1 10); do echo "$package $file" > node_modules/p$package/lib/f$file.js; done
done
printf '#!/bin/sh\necho ran %s\n' "$(cat deps.lock)" > node_modules/p1/run
chmod 755 node_modules/p1/run && ln -s ../p1/run node_modules/.bin/run
date +%N > node_modules/stamp
cat deps.lock > "$HOME/.cache/deps/lock"
touch -d 2001-02-03T04:05:06Z node_modules/p1/run
"#;

pub fn repository(island: &Island) -> Repository<'_> {
    with_setup(island, &["sh make-deps.sh"])
}

pub fn with_setup<'a>(island: &'a Island, commands: &[&str]) -> Repository<'a> {
    let repository = island.repository("shop");
    repository.write("make-deps.sh", MAKE_DEPS);
    repository.write("deps.lock", "one\n");
    repository.write(".gitignore", "node_modules/\n*.log\n");
    configure(&repository, commands);
    repository
}

pub fn configure(repository: &Repository<'_>, commands: &[&str]) {
    let commands = serde_json::to_string(commands).unwrap();
    let text = format!("[project]\nsetup = {commands}\nsetup_inputs = [\"deps.lock\"]\n");
    repository.write("holm.toml", text);
    repository.commit("configured");
}

/// The layers on the disk, as `df` sees them.
pub fn layers(island: &Island) -> Vec<Value> {
    let disk = island.holm(&["df", "--json"]).json();
    disk["layers"].as_array().unwrap().clone()
}

/// Everything in the layer directory, by name.
fn layer_files(island: &Island) -> Vec<String> {
    let projects = std::fs::read_dir(island.data().join("projects")).unwrap();
    let places = projects.map(|project| project.unwrap().path().join("layers"));
    let entries = places.flat_map(|place| std::fs::read_dir(place).into_iter().flatten());
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

pub fn workspaces_on_disk(island: &Island) -> usize {
    std::fs::read_dir(island.data().join("workspaces"))
        .unwrap()
        .count()
}

#[test]
fn what_setup_makes_is_there_at_once_and_is_made_once() {
    let island = Island::new();
    let repository = repository(&island);
    repository.up("a");
    assert_eq!(
        island.sh("a", "node_modules/.bin/run").ok().out(),
        "ran one"
    );
    assert_eq!(island.sh("a", "cat ~/.cache/deps/lock").ok().out(), "one");
    assert_eq!(
        island
            .sh("a", "stat -c '%Y %a' node_modules/p1/run")
            .ok()
            .out(),
        "981173106 755"
    );
    let stamp = island.sh("a", "cat node_modules/stamp").ok().out();
    // Neither the same commit nor another one with the same inputs runs it again.
    repository.up("b");
    repository.write("src.txt", "new\n");
    repository.commit("elsewhere");
    repository.up("c");
    for other in ["b", "c"] {
        assert_eq!(island.sh(other, "cat node_modules/stamp").ok().out(), stamp);
    }
    assert_eq!(island.sh("c", "cat src.txt").ok().out(), "new");
    let found = layers(&island);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0]["used_by"], 3);
    assert_eq!(workspaces_on_disk(&island), 3);
    // The temporary workspace is never shown, and its log has the output.
    let shown = island.holm(&["ls", "--json"]).json();
    assert_eq!(shown["workspaces"].as_array().unwrap().len(), 3);
    let log = island.run(&island.data(), "sh", &["-c", "cat projects/*/layers/*/log"]);
    assert_eq!(log.ok().out(), "$ sh make-deps.sh\ninstalling one");
}

#[test]
fn workspaces_share_a_layer_and_write_only_their_own_files() {
    let island = Island::new();
    let repository = repository(&island);
    repository.up("a");
    repository.up("b");
    let script = "echo changed > node_modules/p1/lib/f1.js; rm -r node_modules/p2;
        echo mine > ~/.cache/deps/lock; mv node_modules/p3 node_modules/renamed;
        mv node_modules modules && mv modules node_modules; rm -rf ~/.cache; mkdir ~/.cache";
    island.sh("a", script).ok();
    let look = "cat node_modules/p1/lib/f1.js node_modules/p2/lib/f1.js \
        node_modules/p3/lib/f1.js ~/.cache/deps/lock";
    assert_eq!(island.sh("b", look).ok().out(), "1 1\n2 1\n3 1\none");
    repository.up("c");
    assert_eq!(island.sh("c", look).ok().out(), "1 1\n2 1\n3 1\none");
    let own = "cat node_modules/p1/lib/f1.js node_modules/renamed/lib/f1.js; \
        ls -d node_modules/p2 node_modules/p3 ~/.cache/deps 2>/dev/null | wc -l";
    for _ in 0..2 {
        assert_eq!(island.sh("a", own).ok().out(), "changed\n3 1\n0");
        island.holm(&["restart", "a"]).ok();
    }
    // Nothing of it is work.
    for label in ["a", "b"] {
        let status = island.sh(label, "git status --porcelain").ok().out();
        assert_eq!(status, "", "{label}");
        let changes = repository.holm(&["changes", label, "--json"]).json();
        assert_eq!(changes["changes"].as_array().unwrap().len(), 0);
    }
    island.holm(&["rm", "a"]).ok();
}

#[test]
fn other_inputs_make_another_layer_and_gc_drops_what_nothing_uses() {
    let island = Island::new();
    let repository = repository(&island);
    repository.up("a");
    repository.write("deps.lock", "two\n");
    repository.commit("two");
    repository.up("b");
    assert_eq!(
        island.sh("a", "node_modules/.bin/run").ok().out(),
        "ran one"
    );
    assert_eq!(
        island.sh("b", "node_modules/.bin/run").ok().out(),
        "ran two"
    );
    // Other commands, and another thing that git ignores, too.
    configure(
        &repository,
        &["sh make-deps.sh", "echo more > node_modules/more"],
    );
    repository.up("c");
    assert_eq!(island.sh("c", "cat node_modules/more").ok().out(), "more");
    repository.write(".gitignore", "node_modules/\n*.log\n*.tmp\n");
    repository.commit("ignores");
    repository.up("d");
    assert_eq!(layers(&island).len(), 4);
    let gone = island.holm(&["gc", "--json"]).json();
    assert_eq!(gone["removed"].as_array().unwrap().len(), 0, "{gone}");
    // The trash keeps what it needs; without it the newest stays.
    island.holm(&["rm", "a", "b"]).ok();
    island.holm(&["gc"]).ok();
    assert_eq!(layers(&island).len(), 4);
    island.holm(&["restore", "a"]).ok();
    assert_eq!(
        island.sh("a", "node_modules/.bin/run").ok().out(),
        "ran one"
    );
    island.holm(&["rm", "a", "c", "d"]).ok();
    let gone = island.holm(&["gc", "--all", "--json"]).json();
    let gone = gone["removed"].as_array().unwrap().iter();
    assert_eq!(gone.filter(|gone| gone["kind"] == "layer").count(), 4);
    assert_eq!(layer_files(&island), Vec::<String>::new());
    repository.up("e");
    island.holm(&["rm", "e"]).ok();
    island.holm(&["gc"]).ok();
    assert_eq!(layers(&island).len(), 1);
}

#[test]
fn ten_at_once_make_it_once() {
    let island = Island::new();
    let repository = repository(&island);
    repository.holm(&["up", "-n", "10", "many"]).ok();
    let stamps: std::collections::HashSet<_> = (1..=10)
        .map(|number| {
            let label = format!("many-{number}");
            island.sh(&label, "cat node_modules/stamp").ok().out()
        })
        .collect();
    assert_eq!(stamps.len(), 1);
    assert_eq!(layers(&island).len(), 1);
    assert_eq!(workspaces_on_disk(&island), 10);
}

#[test]
fn a_setup_that_fails_says_why_and_leaves_nothing_but_its_log() {
    let island = Island::new();
    let repository = with_setup(
        &island,
        &[
            "sh make-deps.sh",
            "echo some words; echo 'no such package' >&2; exit 7",
        ],
    );
    let error = repository.holm(&["up", "a", "--json"]).error(1);
    assert_eq!(error["code"], "setup_failed");
    let message = error["message"].as_str().unwrap();
    for words in ["exit code 7", "some words\n", "no such package"] {
        assert!(message.contains(words), "{message}");
    }
    let hint = error["hint"].as_str().unwrap();
    let log = hint
        .split_once("whole output: `less ")
        .unwrap()
        .1
        .trim_end_matches('`');
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("installing one\n$ echo some words;"), "{log}");
    assert_eq!(workspaces_on_disk(&island), 0);
    let left = layer_files(&island);
    assert!(
        left.len() == 1 && left[0].starts_with("failed-"),
        "{left:?}"
    );
    // All waiting requests get the same error, and it is tried once.
    let failed = repository.holm(&["up", "-n", "3", "many"]).exits(1);
    assert_eq!(
        failed.stderr.matches("exit code 7").count(),
        3,
        "{failed:?}"
    );
    configure(&repository, &["sh make-deps.sh"]);
    repository.up("a");
}

#[test]
fn a_tracked_file_that_setup_changes_is_an_error() {
    let island = Island::new();
    let change = "sh make-deps.sh && echo x >> README.md && rm deps.lock && touch holm.toml";
    let repository = with_setup(&island, &[change]);
    let error = repository.holm(&["up", "a", "--json"]).error(1);
    assert_eq!(error["code"], "setup_failed");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("\n  README.md\n  deps.lock"), "{message}");
    assert!(!message.contains("holm.toml"), "{message}");
    assert_eq!(layer_files(&island), Vec::<String>::new());
    assert_eq!(workspaces_on_disk(&island), 0);
    // A directory that is removed and made again hides what the base has in it.
    repository.write("lib/a", "1");
    configure(&repository, &["rm -r lib && mkdir lib && echo 1 > lib/b"]);
    let error = repository.holm(&["up", "a", "--json"]).error(1);
    assert!(
        error["message"].as_str().unwrap().ends_with("\n  lib/a"),
        "{error}"
    );
    // New files that are not ignored are left out and listed.
    configure(
        &repository,
        &["sh make-deps.sh; echo new > made.txt; echo x > x.log; mkdir d"],
    );
    let made = repository.holm(&["up", "a", "--json"]).json();
    let notes = made["notes"].to_string();
    assert!(
        notes.contains("`setup` made made.txt, which git does not ignore"),
        "{notes}"
    );
    assert_eq!(island.sh("a", "ls made.txt; cat x.log").out(), "x");
    assert_eq!(island.sh("a", "git status --porcelain").ok().out(), "");
}

#[test]
fn a_later_commit_that_tracks_a_path_of_the_layer_shows_its_own() {
    let island = Island::new();
    let repository = repository(&island);
    repository.up("a");
    repository.write("node_modules/p1/lib/f1.js", "tracked\n");
    repository.git(&["add", "-f", "node_modules/p1/lib/f1.js"]);
    repository.git(&["commit", "-qm", "tracked"]);
    repository.up("b");
    assert_eq!(layers(&island).len(), 1);
    let look = "cat node_modules/p1/lib/f1.js node_modules/p1/lib/f2.js; git status --porcelain";
    assert_eq!(island.sh("b", look).ok().out(), "tracked\n1 2");
    assert_eq!(island.sh("a", look).ok().out(), "1 1\n1 2");
}

#[test]
fn an_uncommitted_state_has_inputs_of_its_own() {
    let island = Island::new();
    let repository = repository(&island);
    repository.up("a");
    // Not an input: the layer is the same.
    repository.write("README.md", "edited\n");
    repository.holm(&["up", "b", "--dirty"]).ok();
    assert_eq!(layers(&island).len(), 1);
    repository.write("deps.lock", "three\n");
    repository.write("new.txt", "new\n");
    repository.holm(&["up", "c", "--dirty"]).ok();
    assert_eq!(layers(&island).len(), 2);
    let look = "node_modules/.bin/run; cat README.md new.txt; git status --porcelain";
    assert_eq!(
        island.sh("c", look).ok().out(),
        "ran three\nedited\nnew\n M README.md\n M deps.lock\n?? new.txt"
    );
    // The same state again.
    repository.holm(&["up", "d", "--dirty"]).ok();
    assert_eq!(layers(&island).len(), 2);
    // A layer of an uncommitted state is for that state alone.
    repository.commit("three");
    repository.up("e");
    assert_eq!(layers(&island).len(), 3);
    assert_eq!(island.sh("e", "git status --porcelain").ok().out(), "");
}

#[test]
fn setup_gets_nothing_of_the_users_own() {
    let island = Island::new();
    let repository = with_setup(
        &island,
        &[
            "sh make-deps.sh",
            "ls -A . ~ > node_modules/seen; env > node_modules/environment",
        ],
    );
    island.write("home/.secretrc", "SECRET\n");
    island.make_dir("holm");
    island.make_dir("holm/config");
    island.write(
        "holm/config/config.toml",
        "[home]\ncopy = [\"~/.secretrc\"]\n",
    );
    repository.write(".gitignore", "node_modules/\n.env\n");
    repository.write(".env", "SECRET\n");
    repository.commit("ignored");
    repository.holm(&["up", "a", "--include", ".env"]).ok();
    island.sh("a", "grep SECRET .env ~/.secretrc").ok();
    let seen = island.sh("a", "cat node_modules/seen node_modules/environment");
    let seen = seen.ok().out();
    assert!(
        seen.contains("make-deps.sh") && !seen.contains("secretrc"),
        "{seen}"
    );
    assert!(
        !seen.contains("SECRET") && !seen.contains(".env\n"),
        "{seen}"
    );
}

/// A repository whose setup blocks forever, after it printed a line.
fn stuck(island: &Island, seconds: u32) -> Repository<'_> {
    with_setup(
        island,
        &[
            "sh make-deps.sh",
            &format!("echo now waiting; exec sleep {seconds}"),
        ],
    )
}

fn log_of_builder(island: &Island) -> Option<PathBuf> {
    let workspaces = std::fs::read_dir(island.data().join("workspaces")).ok()?;
    let logs = workspaces
        .flatten()
        .map(|entry| entry.path().join("setup.log"));
    let mut logs = logs
        .filter(|log| std::fs::read_to_string(log).is_ok_and(|text| text.contains("now waiting")));
    logs.next()
}

#[test]
fn ctrl_c_in_the_middle_of_setup_leaves_nothing() {
    let island = Island::new();
    let repository = stuck(&island, 271828);
    let mut command = island.holm_command(&repository.path, &["up", "a"]);
    let mut up = Running::new(command.stderr(Stdio::null()));
    eventually("the set-up runs", || log_of_builder(&island).is_some());
    assert_eq!(
        island.holm(&["ls", "--json"]).json()["workspaces"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    up.signal(Signal::INT);
    assert_eq!(up.code(), Some(130));
    assert_eq!(workspaces_on_disk(&island), 0);
    assert_eq!(layer_files(&island), Vec::<String>::new());
    assert_eq!(
        island.holm(&["ls", "--json"]).json()["workspaces"]
            .as_array()
            .unwrap()
            .len(),
        0
    );
}

#[test]
fn a_daemon_that_dies_in_the_middle_of_setup_is_recovered_from() {
    let island = Island::new();
    let repository = stuck(&island, 314159);
    let mut command = island.holm_command(&repository.path, &["up", "a"]);
    let mut up = Running::new(command.stderr(Stdio::null()));
    eventually("the set-up runs", || log_of_builder(&island).is_some());
    send(island.daemon_pid(), Signal::KILL);
    assert_ne!(up.code(), Some(0));
    island.holm(&["daemon", "start"]).ok();
    assert_eq!(workspaces_on_disk(&island), 0);
    assert_eq!(layer_files(&island), Vec::<String>::new());
    let left = island.run(&island.home(), "pgrep", &["-fxc", "sleep 314159"]);
    assert_eq!(left.out(), "0", "{left:?}");
    configure(&repository, &["sh make-deps.sh"]);
    repository.up("a");
}

#[test]
fn a_real_installer_runs_once() {
    let island = Island::new();
    let repository = island.repository("shop");
    // Its own package, packed, so that nothing is downloaded.
    repository.write(
        "dep/package.json",
        r#"{"name": "dep", "version": "1.0.0", "main": "index.js", "bin": {"dep": "index.js"}}"#,
    );
    repository.write(
        "dep/index.js",
        "#!/usr/bin/env node\nmodule.exports = 41;\n",
    );
    repository.write(
        "package.json",
        r#"{"name": "shop", "version": "1.0.0", "dependencies": {"dep": "file:dep-1.0.0.tgz"}}"#,
    );
    repository.write(".gitignore", "node_modules\n");
    repository.write("holm.toml", "[project]\nsetup = [\"npm ci --offline\"]\n");
    island.run(&repository.path, "npm", &["pack", "./dep"]).ok();
    let lock = ["install", "--offline", "--package-lock-only"];
    island.run(&repository.path, "npm", &lock).ok();
    repository.commit("a package");
    repository.holm(&["up", "-n", "2", "x"]).ok();
    for label in ["x-1", "x-2"] {
        let script = "node -p \"require('dep') + 1\"; test -x node_modules/.bin/dep && git status --porcelain";
        assert_eq!(island.sh(label, script).ok().out(), "42");
    }
    assert_eq!(layers(&island).len(), 1);
    // The lock file is an input without being written down as one.
    repository.write(
        "package.json",
        r#"{"name": "shop", "version": "1.0.1", "dependencies": {"dep": "file:dep-1.0.0.tgz"}}"#,
    );
    island.run(&repository.path, "npm", &lock).ok();
    repository.commit("another version");
    repository.up("y");
    assert_eq!(layers(&island).len(), 2);
}

/// A repository with a setup and a seed, and a branch `evil` whose scripts plant files in both; all
/// inputs of both are equal.
fn with_evil_branch(island: &Island) -> Repository<'_> {
    let repository = island.repository("shop");
    let config = "[project]\nsetup = [\"sh make.sh\"]\nsetup_inputs = [\"deps.lock\"]\n\
        [volumes.data]\npath = \"/data\"\npolicy = \"fork\"\nseed = [\"sh seed.sh\"]\nseed_inputs = [\"deps.lock\"]\n";
    repository.write("holm.toml", config);
    repository.write("deps.lock", "one\n");
    repository.write(".gitignore", "made\n");
    repository.write("make.sh", "echo good > made; echo good > ~/made\n");
    repository.write("seed.sh", "echo good > /data/made\n");
    repository.commit("good");
    repository.git(&["checkout", "-q", "-b", "evil"]);
    repository.write("make.sh", "echo evil > made; echo evil > ~/made\n");
    repository.write("seed.sh", "echo evil > /data/made\n");
    repository.commit("evil");
    repository.git(&["checkout", "-q", "main"]);
    repository
}

const MADE: &str = "cat made ~/made /data/made | sort -u";

#[test]
fn attack_193_what_a_hostile_branch_makes_is_for_itself() {
    let island = Island::new();
    let repository = with_evil_branch(&island);
    repository.holm(&["up", "evil", "--from", "evil"]).ok();
    assert_eq!(island.sh("evil", MADE).ok().out(), "evil");
    repository.up("good");
    assert_eq!(island.sh("good", MADE).ok().out(), "good");
    // One of each for either.
    assert_eq!(layers(&island).len(), 4);
    // An uncommitted state is for itself too.
    repository.write("make.sh", "echo dirty > made; echo dirty > ~/made\n");
    repository.write("seed.sh", "echo dirty > /data/made\n");
    repository.write("deps.lock", "two\n");
    repository.holm(&["up", "dirty", "--dirty"]).ok();
    assert_eq!(island.sh("dirty", MADE).ok().out(), "dirty");
    repository.git(&["checkout", "-q", "--", "make.sh", "seed.sh"]);
    repository.commit("two");
    repository.up("two");
    assert_eq!(island.sh("two", MADE).ok().out(), "good");
    assert_eq!(layers(&island).len(), 8);
    // What the default branch built is used by every workspace with the same inputs, and not built
    // again.
    repository.git(&["checkout", "-q", "-b", "other", "evil"]);
    repository.write("README.md", "other\n");
    repository.commit("other");
    repository.git(&["checkout", "-q", "main"]);
    repository.holm(&["up", "other", "--from", "other"]).ok();
    assert_eq!(island.sh("other", MADE).ok().out(), "good");
    // A branch that is checked out is the user's own, and so is a merged one.
    repository.git(&["checkout", "-q", "evil"]);
    repository.up("mine");
    assert_eq!(layers(&island).len(), 8);
}

#[test]
fn attack_193_without_the_check_main_begins_with_what_the_branch_made() {
    let island = Island::without("layer_origin");
    let repository = with_evil_branch(&island);
    repository.holm(&["up", "evil", "--from", "evil"]).ok();
    repository.up("good");
    assert_eq!(island.sh("good", MADE).ok().out(), "evil");
    assert_eq!(layers(&island).len(), 2);
}
