//! An upgrade: this release finds and keeps everything that the release before made.
//!
//! - `make upgrade-test` builds the release before and names it in `HOLM_TEST_OLD`: workspaces that it
//!   started run on while this release takes over.
//! - Without that variable, as in CI, the program under test upgrades itself from another file. CI gets
//!   the difference between the releases from `release_before.tar.xz`, the home of a user of the release
//!   before, with its workspaces stopped. `scripts/upgrade record` writes that file.

use crate::support::{Island, Ran, Repository, eventually, fetch, host_port, program};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const TOML: &str = "\
[ports]
web = 3000
[services.web]
run = \"echo said by web; exec python3 -m http.server 3000\"
[volumes.data]
path = \"/data/own\"
[secrets.TOKEN]
to = [\"runs\"]
";

/// Where `scripts/upgrade record` puts the home, and where the test reads it.
const RECORDED: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/it/support/release_before.tar.xz"
);

/// The program of the release before, in the island.
fn old_program(island: &Island) -> PathBuf {
    let old = island.make_dir("old").join("holm");
    match std::env::var_os("HOLM_TEST_OLD") {
        Some(built) => {
            std::fs::copy(built, &old).unwrap();
        }
        None => std::fs::hard_link(program(), &old).unwrap(),
    }
    old
}

/// holm of the release before.
struct Old<'a> {
    program: PathBuf,
    repository: Repository<'a>,
}

impl Old<'_> {
    fn holm(&self, arguments: &[&str]) -> Ran {
        let island = self.repository.island;
        let mut command = island.command(&self.program, &self.repository.path);
        Ran::new(command.args(arguments))
    }

    fn sh(&self, workspace: &str, script: &str) -> Ran {
        self.holm(&["exec", workspace, "--", "sh", "-c", script])
    }
}

/// Has the release before make a running workspace `x` with something of everything, a stopped one
/// `y`, and one in the trash `z`.
fn make(island: &Island) -> Old<'_> {
    let repository = island.repository("shop");
    repository.write("holm.toml", TOML);
    repository.commit("configured");
    let old = Old {
        program: old_program(island),
        repository,
    };
    old.holm(&["trust", "--yes"]).ok();
    let value = island.write("value", "hidden-and-long");
    let mut set = island.command(&old.program, &old.repository.path);
    set.args(["secret", "set", "TOKEN"]);
    Ran::new(set.stdin(std::fs::File::open(value).unwrap())).ok();

    old.holm(&["up", "x"]).ok();
    let work = "echo work > file && git add file && git commit -qm inside && echo more > dirty && \
        echo note > ~/note && echo kept > /data/own/x";
    old.sh("x", work).ok();
    old.holm(&["snapshot", "x", "before"]).ok();
    old.sh("x", "echo changed > dirty; sleep 100000 & echo $! > ~/pid")
        .ok();
    old.holm(&["run", "x", "--", "echo", "ran"]).ok();
    let echo = "echo begun; while read line; do echo heard $line; done";
    let session = [
        "session", "new", "x", "--name", "echo", "--", "sh", "-c", echo,
    ];
    old.holm(&session).ok();
    old.holm(&["session", "wait", "echo", "--for", "^begun$"])
        .ok();
    for (label, end) in [("y", "stop"), ("z", "rm")] {
        old.holm(&["up", label]).ok();
        old.sh(label, &format!("echo {label} > file")).ok();
        let force = if end == "rm" { &["--force"][..] } else { &[] };
        old.holm(&[&[end, label], force].concat()).ok();
    }
    old
}

fn show(island: &Island, workspace: &str) -> Value {
    island.holm(&["show", workspace, "--json"]).json()
}

/// The ids and the states of all workspaces.
fn listed(holm: impl Fn(&[&str]) -> Ran) -> Vec<(Value, Value)> {
    let list = holm(&["ls", "--json"]).json()["workspaces"].clone();
    let all = list.as_array().unwrap().iter();
    all.map(|one| (one["id"].clone(), one["state"].clone()))
        .collect()
}

/// What a workspace has stored is there, whether it ran during the upgrade or not.
fn nothing_is_lost(island: &Island) {
    let stored = "cat file dirty ~/note /data/own/x; git log --format=%s";
    let expected = "work\nchanged\nnote\nkept\ninside\nconfigured\nfirst";
    assert_eq!(island.sh("x", stored).ok().out(), expected);
    assert_eq!(island.sh("y", "cat file").ok().out(), "y");

    let logs = island.holm(&["logs", "x", "web"]).ok().out();
    assert!(logs.contains("said by web"), "{logs}");
    let runs = island.holm(&["runs", "ls", "x", "--json"]).json();
    assert_eq!(runs["runs"][0]["state"], "succeeded", "{runs}");
    // A run has its secret, whose value holm would mask in the output.
    let compare = "test \"$TOKEN\" = hidden-and-long && echo same";
    let ran = island.holm(&["run", "x", "--", "sh", "-c", compare]);
    assert_eq!(ran.ok().out(), "same");
    island.holm(&["secret", "audit", "--verify"]).ok();
    let diff = island.holm(&["diff", "x"]).ok().out();
    assert!(diff.contains("+changed"), "{diff}");

    island.holm(&["fork", "x", "again", "--at", "before"]).ok();
    let frozen = island.sh("again", "cat dirty /data/own/x").ok().out();
    assert_eq!(frozen, "more\nkept");
    island.holm(&["restore", "z"]).ok();
    assert_eq!(island.sh("z", "cat file").ok().out(), "z");
}

/// The branch of `x` arrives in the user's repository.
fn can_be_fetched(repository: &Repository<'_>) {
    repository.holm(&["fetch", "x"]).ok();
    let subject = repository.git(&["log", "-1", "--format=%s", "holm/x"]);
    assert_eq!(subject, "inside");
}

#[test]
fn workspaces_that_run_during_an_upgrade_run_on_and_obey() {
    let island = Island::new();
    let old = make(&island);
    let before = listed(|arguments| old.holm(arguments));
    assert_eq!(before.len(), 2, "{before:?}");
    let id = show(&island, "x")["id"].as_str().unwrap().to_owned();
    let port = host_port(&island, "x", 3000);
    let (keeper, init) = (island.keeper_of(&id), island.init_of(&id));
    assert!(keeper.is_some() && init.is_some());
    old.holm(&["daemon", "stop"]).ok();

    // The first command of the new release starts its daemon.
    assert_eq!(listed(|arguments| island.holm(arguments)), before);
    assert_eq!((island.keeper_of(&id), island.init_of(&id)), (keeper, init));
    if has_same_wire(&island) {
        island.sh("x", "kill -0 $(cat ~/pid)").ok();
        island
            .holm(&["session", "send", "echo", "word", "--enter"])
            .ok();
        island
            .holm(&["session", "wait", "echo", "--for", "^heard word$"])
            .ok();
        let services = show(&island, "x")["services"].clone();
        assert_eq!(services[0]["state"], "ready", "{services}");
        island.holm(&["service", "x", "restart", "web"]).ok();
    } else {
        island.holm(&["restart", "x"]).ok();
    }
    eventually("its web server answers at the same port", || {
        fetch("127.0.0.1", port).is_ok_and(|answer| answer.contains("README.md"))
    });
    can_be_fetched(&old.repository);
    nothing_is_lost(&island);

    // A keeper of the new release takes over, with everything.
    for verb in ["stop", "start", "restart"] {
        island.holm(&[verb, "x"]).ok();
    }
    assert_ne!(island.keeper_of(&id), keeper);
    assert_eq!(host_port(&island, "x", 3000), port);
    island.holm(&["rm", "again", "--force"]).ok();
    island.holm(&["rm", "z", "--force"]).ok();
    island.holm(&["restore", "z"]).ok();
    assert_eq!(island.sh("z", "cat file").ok().out(), "z");
}

/// Whether the daemon can talk to the keeper of `x`. If it cannot, it names the command that helps.
fn has_same_wire(island: &Island) -> bool {
    let tried = island.holm(&["exec", "x", "--json", "--", "true"]);
    if tried.code == Some(0) {
        return true;
    }
    let refused = tried.error(1);
    let hint = refused["hint"].as_str().unwrap();
    assert!(hint.contains("holm restart"), "{refused}");
    false
}

/// The path of the island that was recorded, which is the same length as that of every island in `/tmp`.
const PLACE: &str = "/tmp/holm-it-before";

#[test]
fn the_home_of_a_user_of_the_release_before_is_read_and_migrated() {
    if std::env::var_os("HOLM_TEST_RECORD").is_some() {
        return record();
    }
    let island = Island::in_tmp();
    let place = island.home().parent().unwrap().to_owned();
    let unpack = ["--xattrs", "--xattrs-include=user.*", "-xJf", RECORDED];
    island.run(&place, "tar", &unpack).ok();
    relocate(&place, Path::new(PLACE), &place);
    // Then as now: nothing in its trash is too old.
    let recorded: i64 = std::fs::read_to_string(place.join("recorded"))
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs() as i64;
    island.write("clock", format!("{}\n", recorded - now));

    let repository = Repository {
        island: &island,
        path: island.home().join("src/shop"),
    };
    let states: Vec<_> = listed(|arguments| island.holm(arguments))
        .into_iter()
        .map(|(_, state)| state)
        .collect();
    assert_eq!(states, ["stopped", "stopped"]);
    can_be_fetched(&repository);
    nothing_is_lost(&island);
}

/// Replaces the path of an island by another one of the same length in every file below a directory.
fn relocate(directory: &Path, from: &Path, to: &Path) {
    let words = [from, to].map(|path| path.to_str().unwrap().as_bytes());
    let length = words[0].len();
    assert_eq!(length, words[1].len(), "{to:?}");
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let kind = path.symlink_metadata().unwrap().file_type();
        if kind.is_dir() {
            relocate(&path, from, to);
        } else if kind.is_symlink() {
            let target = std::fs::read_link(&path).unwrap();
            let below = target.strip_prefix(from);
            assert!(below.is_err(), "a link with the path: {path:?}");
        } else if kind.is_file() {
            let mut bytes = std::fs::read(&path).unwrap();
            for at in 0..bytes.len().saturating_sub(length) {
                if bytes[at..].starts_with(words[0]) {
                    bytes[at..at + length].copy_from_slice(words[1]);
                }
            }
            std::fs::write(&path, bytes).unwrap();
        }
    }
}

/// Writes the home of the release before.
fn record() {
    let island = Island::in_tmp();
    let old = make(&island);
    old.holm(&["daemon", "stop", "--all"]).ok();
    let place = island.home().parent().unwrap().to_owned();
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    island.write("recorded", format!("{now}\n"));
    std::fs::remove_dir_all(place.join("holm/data/program")).unwrap();
    std::fs::remove_dir_all(place.join("old")).unwrap();
    relocate(&place, &place, Path::new(PLACE));
    let mut tar = Command::new("tar");
    tar.current_dir(&place)
        .args(["--sort=name", "--exclude=*/work/work"])
        .args(["--xattrs", "--xattrs-include=user.*", "-cJf", RECORDED])
        .args(["home", "holm", "recorded"]);
    Ran::new(&mut tar).ok();
}
