//! The daemon: start, stop, crash, and access to it.

use crate::support::{Island, Ran, Running, eventually, is_root, send};
use rustix::process::Signal;
use serde_json::Value;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

#[test]
fn it_is_started_stopped_and_asked() {
    let island = Island::new();
    for command in [["daemon", "status"], ["daemon", "stop"]] {
        let refused = island.holm(&[&command[..], &["--json"]].concat()).error(5);
        assert_eq!(refused["code"], "daemon_unreachable");
        assert!(
            refused["hint"]
                .as_str()
                .unwrap()
                .contains("holm daemon start")
        );
    }
    assert!(!island.holm_home().exists(), "asking starts nothing");
    let started = island.holm(&["daemon", "start", "--json"]).json();
    let status = island.holm(&["daemon", "status", "--json"]).json();
    assert_eq!(started["pid"], status["pid"]);
    assert_eq!(status["data_dir"], island.data().to_str().unwrap());
    assert_eq!(
        (&status["workspaces"], &status["running"]),
        (&0.into(), &0.into())
    );
    let text = island.holm(&["daemon", "status"]).ok().out();
    assert!(text.contains(&status["pid"].to_string()), "{text}");
    let again = island.holm(&["daemon", "start", "--json"]).json();
    assert_eq!(again["pid"], status["pid"]);
    // It has no parent of ours and holds nothing of the process that started it.
    let pid = island.daemon_pid();
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<_> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    assert_eq!(fields[3], pid.to_string(), "a session of its own");
    assert_eq!(
        std::fs::read_link(format!("/proc/{pid}/cwd"))
            .unwrap()
            .to_str(),
        Some("/")
    );
    island.holm(&["daemon", "stop"]).ok();
    eventually("it is gone", || {
        std::fs::read_to_string(format!("/proc/{pid}/stat")).is_err()
            || std::fs::read_to_string(format!("/proc/{pid}/stat"))
                .unwrap()
                .contains(") Z")
    });
    island.holm(&["daemon", "status"]).exits(5);
}

#[test]
fn in_the_foreground_it_says_when_it_is_ready_and_ends_by_signals() {
    let island = Island::new();
    let repository = island.repository("shop");
    for signal in [Signal::TERM, Signal::INT] {
        let mut command = island.holm_command(&island.home(), &["daemon", "run"]);
        let mut daemon = Running::new(&mut command);
        daemon.says("ready");
        repository.holm(&["up", "x"]).ok();
        assert_eq!(island.daemon_pid(), daemon.pid());
        daemon.signal(signal);
        assert_eq!(daemon.code(), Some(0), "{signal:?}");
        island.holm(&["daemon", "status"]).exits(5);
    }
    // Workspaces went on all the time.
    island.holm(&["exec", "x", "--no-start", "--", "true"]).ok();
}

#[test]
fn the_unit_for_systemd_is_shown_and_written() {
    let island = Island::new();
    let unit = island.holm(&["daemon", "install", "--print"]).ok().out();
    let program = crate::support::program().display().to_string();
    assert!(
        unit.contains(&format!("\"{program}\" daemon run")),
        "{unit}"
    );
    assert!(unit.contains("KillMode=process"), "{unit}");
    assert!(
        unit.contains(island.holm_home().to_str().unwrap()),
        "{unit}"
    );
    let path = island.home().join(".config/systemd/user/holm.service");
    assert!(!path.exists());
    island.holm(&["daemon", "install"]).ok();
    let written = std::fs::read_to_string(&path).unwrap();
    assert_eq!(written.trim_end(), unit);
    assert!(!island.holm_home().exists(), "nothing was started");
}

#[test]
fn after_a_kill_everything_is_found_again() {
    let island = Island::new();
    let repository = island.repository("shop");
    for label in ["one", "two", "three"] {
        repository.up(label);
    }
    island.holm(&["stop", "three"]).ok();
    island
        .sh("one", "echo work > file; sleep 1000 & echo $! > ~/pid")
        .ok();
    let known = || -> Vec<(Value, Value, Value)> {
        let listed = island.holm(&["ls", "--json"]).json();
        let mut known: Vec<_> = listed["workspaces"].as_array().unwrap().clone();
        known.sort_by_key(|one| one["id"].to_string());
        known
            .iter()
            .map(|one| {
                (
                    one["id"].clone(),
                    one["label"].clone(),
                    one["state"].clone(),
                )
            })
            .collect()
    };
    let before = known();
    for _ in 0..3 {
        let pid = island.daemon_pid();
        send(pid, Signal::KILL);
        assert_eq!(known(), before);
        assert_ne!(island.daemon_pid(), pid);
    }
    let script = "cat file; kill -0 $(cat ~/pid) && echo alive";
    assert_eq!(island.sh("one", script).ok().out(), "work\nalive");
    repository.up("four");
}

#[test]
fn stop_all_ends_every_process_and_keeps_every_file() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("one");
    repository.up("two");
    island
        .sh("one", "echo work > file; sleep 1000 & sleep 2000 &")
        .ok();
    island
        .sh(
            "two",
            "trap '' TERM; (while :; do sleep 0.05; done) >/dev/null 2>&1 &",
        )
        .ok();
    island.holm(&["daemon", "stop", "--all"]).ok();
    // No process with this data directory is left: keepers have it in their arguments, inits are
    // their children.
    let place = island.data().display().to_string();
    let uses = || -> Vec<String> {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        processes
            .filter(|process| {
                let maps = std::fs::read_to_string(process.path().join("maps"));
                maps.is_ok_and(|maps| maps.contains(&place))
            })
            .map(|process| process.file_name().into_string().unwrap())
            .collect()
    };
    eventually("no process is left", || uses().is_empty());
    let listed = island.holm(&["ls", "--json"]).json();
    for workspace in listed["workspaces"].as_array().unwrap() {
        assert_eq!(workspace["state"], "stopped");
    }
    assert_eq!(island.sh("one", "cat file").ok().out(), "work");
    assert!(!uses().is_empty(), "the same look finds what runs");
}

#[test]
fn paths_longer_than_a_socket_address() {
    let island = Island::new();
    let repository = island.repository("shop");
    let deep = format!(
        "{}/{}/{}",
        "a".repeat(100),
        "b".repeat(100),
        "c".repeat(100)
    );
    let home = island.holm_home().join(deep);
    let holm = |arguments: &[&str]| {
        let mut command = island.holm_command(&repository.path, arguments);
        Ran::new(command.env("HOLM_HOME", &home))
    };
    holm(&["up", "x"]).ok();
    assert_eq!(
        holm(&["exec", "x", "--", "echo", "deep"]).ok().out(),
        "deep"
    );
    assert!(home.join("run/daemon.sock").exists());
    holm(&["restart", "x"]).ok();
    holm(&["rm", "x"]).ok();
    holm(&["daemon", "stop", "--all"]).ok();
}

#[test]
fn files_are_where_the_xdg_variables_say() {
    let island = Island::new();
    let repository = island.repository("shop");
    let run = island.make_dir("run");
    std::fs::set_permissions(&run, PermissionsExt::from_mode(0o700)).unwrap();
    let holm = |arguments: &[&str]| {
        let mut command = island.holm_command(&repository.path, arguments);
        command.env_remove("HOLM_HOME").env("XDG_RUNTIME_DIR", &run);
        Ran::new(&mut command)
    };
    holm(&["up", "x"]).ok();
    assert!(run.join("holm/daemon.sock").exists());
    assert!(island.home().join(".local/share/holm/holm.db").exists());
    holm(&["exec", "x", "--", "true"]).ok();
    // The home inside is not the one with these files.
    holm(&[
        "exec",
        "x",
        "--",
        "test",
        "!",
        "-e",
        island.home().join(".local/share/holm").to_str().unwrap(),
    ])
    .ok();
    holm(&["daemon", "stop", "--all"]).ok();
}

#[test]
fn only_its_user_and_root_may_talk_to_it() {
    let island = Island::new();
    island.repository("shop").up("x");
    let run = island.holm_home().join("run");
    for (path, mode) in [
        (run.clone(), 0o700),
        (island.data(), 0o700),
        (run.join("daemon.sock"), 0o600),
    ] {
        assert_eq!(path.metadata().unwrap().mode() & 0o777, mode, "{path:?}");
    }
    // Only root can become another user.
    if !is_root() {
        return;
    }
    // Even with open permissions, the daemon checks its peers.
    let mut path = run.join("daemon.sock");
    let socket = path.clone();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o777)).unwrap();
    while path.pop() && path.starts_with(std::env::temp_dir()) && path != std::env::temp_dir() {
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    }
    let ask = "import socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
connection.sendall(b'GET /api/v1/daemon HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n')
print(connection.recv(100).decode()[:15])";
    let as_user = |uid: &str| {
        let mut command = std::process::Command::new("setpriv");
        let ids = [
            format!("--reuid={uid}"),
            format!("--regid={uid}"),
            "--clear-groups".to_owned(),
        ];
        command
            .args(ids)
            .args(["/usr/bin/python3", "-c", ask])
            .arg(&socket);
        Ran::new(&mut command)
    };
    let refused = as_user("65534");
    assert!(!refused.out().contains("HTTP"), "{refused:?}");
    let owner = island.data().metadata().unwrap().uid().to_string();
    assert_eq!(as_user(&owner).ok().out(), "HTTP/1.1 200 OK");
    assert_eq!(as_user("0").ok().out(), "HTTP/1.1 200 OK");
}
