//! Wrong input is reported clearly, with a code, a hint and the exit code of its kind, and nothing
//! partial is left behind.

use crate::support::{Island, Ran, Repository, noise};
use serde_json::Value;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Nothing of a workspace exists: no record, no directory, no process, and labels are free.
#[track_caller]
fn is_untouched(island: &Island) {
    let listed = island.holm(&["ls", "--json"]).json();
    assert_eq!(listed["workspaces"], serde_json::json!([]));
    for place in ["workspaces", "trash", "incoming"] {
        let left: Vec<_> = std::fs::read_dir(island.data().join(place))
            .into_iter()
            .flatten()
            .map(|entry| entry.unwrap().path())
            .collect();
        assert_eq!(left, Vec::<std::path::PathBuf>::new());
    }
}

fn text(value: &Value) -> &str {
    value.as_str().expect("text")
}

#[test]
fn places_that_are_no_checkouts() {
    let island = Island::new();
    let plain = island.make_dir("home/plain");
    let refused = Ran::new(&mut island.holm_command(&plain, &["up", "x", "--json"])).error(2);
    assert_eq!(refused["code"], "not_a_repository");
    assert!(text(&refused["message"]).contains("plain"), "{refused}");
    assert!(text(&refused["hint"]).contains("git init"), "{refused}");
    let bare = island.make_dir("home/bare.git");
    island.run(&bare, "git", &["init", "-q", "--bare"]).ok();
    let refused = Ran::new(&mut island.holm_command(&bare, &["up", "x", "--json"])).error(2);
    assert_eq!(refused["code"], "not_a_repository");
    let repository = island.repository("shop");
    let refused = repository.holm_in(".git", &["up", "x", "--json"]).error(2);
    assert_eq!(refused["code"], "not_a_repository");
    // A directory that was removed under the shell.
    let gone = island.make_dir("home/gone");
    let mut command = island.command("sh", &gone);
    command.args(["-c", "rmdir ../gone && exec \"$0\" up x --json"]);
    command.arg(crate::support::program());
    let refused = Ran::new(&mut command);
    assert!(matches!(refused.code, Some(2 | 3)), "{refused:?}");
    // A damaged repository is git's own word.
    std::fs::write(repository.path.join(".git/HEAD"), "garbage").unwrap();
    let refused = repository.holm(&["up", "x", "--json"]);
    assert!(matches!(refused.code, Some(1 | 2)), "{refused:?}");
    is_untouched(&island);
}

#[test]
fn names_that_do_not_exist() {
    let island = Island::new();
    let repository = island.repository("shop");
    for wrong in [
        "nowhere",
        "main~99",
        "--",
        "refs/heads/x",
        "deadbeef",
        "a b",
        "HEAD:README.md",
    ] {
        let from = format!("--from={wrong}");
        let refused = repository.holm(&["up", "x", &from, "--json"]).error(3);
        assert_eq!(refused["code"], "ref_not_found", "{wrong}");
        assert!(text(&refused["message"]).contains(wrong), "{refused}");
    }
    is_untouched(&island);
    repository.up("fix-login");
    let commands: [&[&str]; 8] = [
        &["show", "fix-logn"],
        &["start", "fix-logn"],
        &["stop", "fix-logn"],
        &["restart", "fix-logn"],
        &["rm", "fix-logn"],
        &["rename", "fix-logn", "y"],
        &["exec", "fix-logn", "--", "true"],
        &["exec", "w000000000000", "--", "true"],
    ];
    for command in commands {
        let arguments = [&["--json"], command].concat();
        let refused = island.holm(&arguments).error(3);
        assert_eq!(refused["code"], "workspace_not_found", "{command:?}");
        if command[1] == "fix-logn" {
            assert!(text(&refused["hint"]).contains("`fix-login`"), "{refused}");
        }
    }
    let refused = island.holm(&["project", "rm", "shopp", "--json"]).error(3);
    assert_eq!(refused["code"], "project_not_found");
    let refused = repository.holm(&["up", "y", "--include", "nothing", "--json"]);
    assert_eq!(refused.error(3)["code"], "path_not_found");
    let refused = repository.holm(&["up", "y", "--include", "/etc/passwd", "--json"]);
    assert_eq!(refused.error(2)["code"], "usage");
    let listed = island.holm(&["ls", "--json"]).json();
    assert_eq!(listed["workspaces"].as_array().unwrap().len(), 1);
}

#[test]
fn labels_that_are_none() {
    let island = Island::new();
    let repository = island.repository("shop");
    let long = "a".repeat(41);
    let wrong = [
        "Fix",
        "a_b",
        "-a",
        "a-",
        "a--b",
        "holm",
        "",
        " ",
        "ä",
        "a/b",
        "../x",
        "a.b",
        &long,
        "w23456789abcd",
        "a\nb",
        "a\u{1b}[2J",
    ];
    for label in wrong {
        let refused = repository.holm(&["up", "--json", "--", label]).error(2);
        assert_eq!(refused["code"], "invalid_label", "{label:?}");
    }
    is_untouched(&island);
    repository.up("x");
    for label in wrong {
        let refused = island
            .holm(&["rename", "--json", "--", "x", label])
            .error(2);
        assert_eq!(refused["code"], "invalid_label", "{label:?}");
    }
    // Typed text never reaches the terminal unescaped.
    let refused = repository.holm(&["up", "a\u{1b}[2J"]).exits(2);
    assert!(!refused.stderr.contains('\u{1b}'), "{refused:?}");
}

#[test]
fn arguments_that_make_no_sense() {
    let island = Island::new();
    let wrong: [&[&str]; 9] = [
        &["shwo"],
        &["up", "--nonsense"],
        &["up", "-n", "2", "a", "b"],
        &["exec", "x"],
        &["exec"],
        &["rename", "x"],
        &["up", "-n", "many"],
        &["up", "--dirty", "--from", "main"],
        &["daemon"],
    ];
    for arguments in wrong {
        let refused = island.holm(&[&["--json"], arguments].concat()).error(2);
        assert_eq!(refused["code"], "usage", "{arguments:?}");
        let refused = island.holm(arguments).exits(2);
        assert_eq!(refused.out(), "", "{arguments:?}");
        assert!(!refused.stderr.is_empty(), "{arguments:?}");
    }
    // Bytes that are no text are refused where only text can be meant.
    for verb in ["up", "show", "rm"] {
        let mut command = island.holm_command(&island.home(), &["--json", verb]);
        command.arg(std::ffi::OsStr::from_bytes(b"\xff\xfe"));
        assert_eq!(Ran::new(&mut command).error(2)["code"], "usage");
    }
    // None of this started a daemon.
    assert!(!island.holm_home().exists());
}

#[test]
fn a_git_that_is_missing_or_too_old() {
    let island = Island::new();
    let repository = island.repository("shop");
    let fake = |name: &str, script: &str| {
        let directory = island.make_dir(name);
        let program = island.write(directory.join("git"), format!("#!/bin/sh\n{script}\n"));
        std::fs::set_permissions(program, PermissionsExt::from_mode(0o755)).unwrap();
        directory
    };
    let old = "echo git version 2.20.1";
    let mute = fake("mute", old);
    // Like an old version: it fails at unknown options, or takes them for names.
    let failing = fake(
        "failing",
        &format!("case \"$*\" in *version*) {old};; *) exit 129;; esac"),
    );
    let able = format!("case \"$*\" in *version*) {old};; *) exec /usr/bin/git \"$@\";; esac");
    let able = fake("able", &able);
    let empty = island.make_dir("empty");
    for (path, word) in [
        (&mute, "2.20"),
        (&failing, "2.20"),
        (&able, "2.20"),
        (&empty, "git"),
    ] {
        let with = |arguments: &[&str]| {
            let mut command = island.holm_command(&repository.path, arguments);
            Ran::new(command.env("PATH", path))
        };
        let refused = with(&["up", "x", "--json"]).error(1);
        assert_eq!(refused["code"], "git_too_old", "{refused}");
        assert!(text(&refused["message"]).contains(word), "{refused}");
        assert!(
            text(&refused["hint"]).contains("2.31 or newer"),
            "{refused}"
        );
        let doctor = with(&["doctor", "--json"]).exits(1);
        let doctor: Value = serde_json::from_slice(&doctor.stdout).unwrap();
        let checks = doctor["checks"].as_array().unwrap();
        let git = checks.iter().find(|check| check["name"] == "git").unwrap();
        assert_eq!(git["status"], "missing");
        island.holm(&["daemon", "stop"]);
    }
    repository.up("x");
}

#[test]
fn settings_with_errors_are_shown_all_at_once() {
    let island = Island::new();
    let repository = island.repository("shop");
    let toml = "[project]\nnmae = \"x\"\nisolation = \"none\"\n\n[ports]\nweb = 99999\n\n[limits]\nmemory = \"lots\"\n";
    repository.write("holm.toml", toml);
    repository.commit("wrong");
    let refused = repository.holm(&["up", "x", "--json"]).error(2);
    assert_eq!(refused["code"], "invalid_config");
    for place in [
        "holm.toml:2:1",
        "holm.toml:3:13",
        "holm.toml:6:7",
        "holm.toml:9:10",
    ] {
        assert!(
            text(&refused["message"]).contains(place),
            "{place}: {refused}"
        );
    }
    is_untouched(&island);
    // The commit counts, so a corrected but uncommitted file changes nothing; and a wrong
    // uncommitted one does not matter.
    repository.write("holm.toml", "");
    repository.holm(&["up", "x"]).exits(2);
    repository.commit("right");
    repository.write("holm.toml", "[nonsense");
    repository.up("x");
    let refused = repository.holm(&["up", "y", "--dirty", "--json"]).error(2);
    assert!(
        text(&refused["message"]).contains("holm.toml:1:"),
        "{refused}"
    );
    // The user's own settings, in the same way.
    island.make_dir("holm/config");
    island.write(
        "holm/config/config.toml",
        "[daemon]\nport = \"x\"\ntrash_days = -1\n",
    );
    let refused = repository.holm(&["up", "z", "--json"]).error(2);
    assert_eq!(refused["code"], "invalid_config");
    for place in ["config.toml:2:8", "config.toml:3:14"] {
        assert!(
            text(&refused["message"]).contains(place),
            "{place}: {refused}"
        );
    }
}

#[test]
fn surroundings_that_make_no_sense() {
    let island = Island::new();
    let repository = island.repository("shop");
    let with = |name: &str, value: &str| {
        let mut command = island.holm_command(&repository.path, &["up", "x", "--json"]);
        Ran::new(command.env(name, value))
    };
    for port in ["abc", "0", "65536", "-1", "80 "] {
        let refused = with("HOLM_PORT", port).error(2);
        assert!(text(&refused["message"]).contains("HOLM_PORT"), "{refused}");
    }
    let refused = with("HOLM_HOME", "relative").error(2);
    assert!(text(&refused["message"]).contains("HOLM_HOME"), "{refused}");
    let mut homeless = island.holm_command(&repository.path, &["up", "x", "--json"]);
    let refused = Ran::new(homeless.env_remove("HOME"));
    assert!(matches!(refused.code, Some(2 | 3)), "{refused:?}");
    assert!(refused.stderr.contains("HOME"), "{refused:?}");
    let mut homeless = island.holm_command(&repository.path, &["up", "x", "--json"]);
    let refused = Ran::new(homeless.env_remove("HOME").env_remove("HOLM_HOME"));
    assert_eq!(refused.error(2)["code"], "usage");
    is_untouched(&island);
}

#[test]
fn a_data_directory_that_cannot_be_written() {
    let island = Island::new();
    let repository = island.repository("shop");
    island.make_dir("holm");
    let closed = island.make_dir("holm/data");
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o500)).unwrap();
    let refused = repository.holm(&["up", "x", "--json"]).error(1);
    assert_eq!(refused["code"], "read_only");
    assert!(
        text(&refused["message"]).contains(closed.to_str().unwrap()),
        "{refused}"
    );
    assert_eq!(std::fs::read_dir(&closed).unwrap().count(), 0);
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o700)).unwrap();
    repository.up("x");
    island.holm(&["daemon", "stop", "--all"]).ok();
    // A whole file system that is read-only, with state on it.
    let script = "mount --bind \"$HOLM_HOME/data\" \"$HOLM_HOME/data\" &&
        mount -o remount,ro,bind \"$HOLM_HOME/data\" && holm up y --json";
    let refused = island.elsewhere(&repository.path, script).error(1);
    assert_eq!(refused["code"], "read_only");
    island.sh("x", "true").ok();
    // A file where a directory should be.
    let island = Island::new();
    island.write("holm", "a file");
    let repository = island.repository("shop");
    let refused = repository.holm(&["up", "x", "--json"]).error(1);
    assert_eq!(refused["code"], "read_only");
}

/// The bytes of all files below a directory.
fn taken(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).unwrap().flatten();
    let sizes = entries.map(|entry| match entry.metadata().unwrap() {
        metadata if metadata.is_dir() => taken(&entry.path()),
        metadata => metadata.len(),
    });
    sizes.sum()
}

/// On a small disk of the user; then with enough space.
fn on_a_small_disk(repository: &Repository<'_>, size: &str) -> Ran {
    let script = format!(
        r#"mkdir -p "$HOLM_HOME" && mount -t tmpfs -o size={size} small "$HOLM_HOME" || exit 99
        holm up x --json; code=$?
        ls -A "$HOLM_HOME/data/workspaces" "$HOLM_HOME/data/incoming" "$HOLM_HOME/data/projects/"*/bases 2>/dev/null | grep -v : | sort | uniq >&3
        mount -o remount,size=400m "$HOLM_HOME" || exit 98
        holm up x --json >/dev/null 2>&3 || exit 97
        holm exec x -- cat README.md >&3 2>&3
        holm daemon stop --all >&3 2>&3 || exit 96
        exit $code"#
    );
    let island = repository.island;
    let told = island.write("told", "");
    let script = format!("exec 3>{}\n{script}", told.display());
    let ran = island.elsewhere(&repository.path, &script);
    let told = std::fs::read_to_string(told).unwrap();
    assert!(
        told.ends_with("# hello\n✓ daemon stopped; all workspaces are stopped\n"),
        "{told} {ran:?}"
    );
    let left = told.split("# hello").next().unwrap();
    assert_eq!(left.trim(), "", "left behind");
    ran
}

#[test]
fn a_disk_that_is_full_when_the_daemon_starts() {
    let island = Island::new();
    let repository = island.repository("shop");
    for size in ["64k", "20m"] {
        let refused = on_a_small_disk(&repository, size).error(1);
        assert_eq!(refused["code"], "disk_full", "{size}: {refused}");
    }
}

#[test]
fn a_disk_that_gets_full_while_a_workspace_is_made() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("large", noise(12_000_000));
    repository.commit("large");
    island.holm(&["daemon", "start"]).ok();
    island.holm(&["daemon", "stop"]).ok();
    let program = taken(&island.data().join("program")) >> 20;
    std::fs::remove_dir_all(island.holm_home()).unwrap();
    // Room for copies of the programs and the state; then also for the objects, but not for the base.
    for more in [4, 20] {
        let size = format!("{}m", program + more);
        let refused = on_a_small_disk(&repository, &size).error(1);
        assert_eq!(refused["code"], "disk_full", "{size}: {refused}");
    }
}

#[test]
fn a_project_whose_objects_are_damaged() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("x");
    let project = text(&island.holm(&["show", "x", "--json"]).json()["project_id"]).to_owned();
    island.holm(&["daemon", "stop", "--all"]).ok();
    let kept = island
        .data()
        .join("projects")
        .join(project)
        .join("repo.git");
    assert!(kept.join("HEAD").exists());
    repository.write("more", "more");
    repository.commit("more");
    std::fs::write(kept.join("HEAD"), "garbage\n").unwrap();
    let damaged = repository.holm(&["up", "y", "--json"]);
    // Either it reports the damage, or it repairs it; never a partial workspace.
    if damaged.code != Some(0) {
        let refused = damaged.error(1);
        assert!(
            matches!(text(&refused["code"]), "corrupt_state" | "git_failed"),
            "{refused}"
        );
        assert!(
            text(&refused["message"]).contains(kept.to_str().unwrap()),
            "{refused}"
        );
        let listed = island.holm(&["ls", "--json"]).json();
        assert_eq!(
            listed["workspaces"].as_array().unwrap().len(),
            1,
            "{listed}"
        );
    }
    std::fs::remove_dir_all(&kept).unwrap();
    let missing = repository.holm(&["up", "z", "--json"]);
    assert!(matches!(missing.code, Some(0 | 1)), "{missing:?}");
    assert!(Path::new(&repository.path).exists());
}
