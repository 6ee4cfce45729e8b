//! A daemon whose state is in PostgreSQL, and `holm store`.

#[allow(dead_code, reason = "the tests of the store use the rest of it")]
#[path = "../../../holm-store/tests/it/cluster.rs"]
mod cluster;

use crate::support::{Island, eventually};
use cluster::Cluster;
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// The database of the cluster becomes the store of the island's daemon.
fn settings(island: &Island, url: &str) {
    let text = format!("[daemon]\nstore = \"{url}\"\n");
    for directory in ["holm", "holm/config"] {
        if !island.holm_home().join("..").join(directory).exists() {
            island.make_dir(directory);
        }
    }
    island.write("holm/config/config.toml", text);
}

fn show(island: &Island, label: &str) -> Value {
    island.holm(&["show", label, "--json"]).json()
}

fn health(island: &Island) -> (u16, Value) {
    let (status, body) = island.ask("GET", "/health", b"");
    (status, serde_json::from_slice(&body).unwrap())
}

#[test]
fn a_daemon_on_postgres_works_as_one_with_a_file() {
    let cluster = Cluster::start();
    let island = Island::new();
    settings(&island, &cluster.database("holm"));
    let repository = island.repository("shop");
    let id = repository.up("x");
    assert!(!island.data().join("holm.db").exists());
    island.sh("x", "echo work > file; sleep 1000 &").ok();
    let ran = island
        .holm(&["run", "x", "--", "sh", "-c", "echo said"])
        .ok();
    assert!(ran.out().contains("said"), "{ran:?}");
    repository.up("y");
    island.holm(&["rm", "y", "--force"]).ok();
    island.holm(&["restore", "y"]).ok();
    assert_eq!(health(&island).0, 200);
    let labels = "SELECT string_agg(label, ',' ORDER BY label) FROM holm.workspaces";
    assert_eq!(cluster.sql("holm", labels), "x,y");

    // Killed, the next daemon finds everything at once, whatever is left of the old copy.
    let keeper = island.keeper_of(&id);
    island.kill_daemon();
    fs::write(island.data().join("copy.db"), "not a database").unwrap();
    assert_eq!(show(&island, "x")["state"], "running");
    assert_eq!(island.keeper_of(&id), keeper);
    assert_eq!(island.sh("x", "cat file").ok().out(), "work");
    assert_eq!(
        island.holm(&["runs", "ls", "x", "--json"]).json()["runs"][0]["state"],
        "succeeded"
    );

    // Another daemon, with another data directory.
    let second = Island::new();
    settings(&second, &cluster.url("holm"));
    let refused = second.holm(&["ls", "--json"]).error(4);
    assert_eq!(refused["code"], "store_in_use", "{refused}");
    let named = format!("pid {}", island.daemon_pid());
    assert!(
        refused["message"].as_str().unwrap().contains(&named),
        "{refused}"
    );
    let url = cluster.url("holm");
    let copied = second.holm(&[
        "store",
        "copy",
        "--from",
        &url,
        "--to",
        "sqlite:/tmp/none",
        "--json",
    ]);
    assert_eq!(copied.error(4)["code"], "store_in_use");
}

#[test]
fn what_runs_goes_on_while_the_database_is_lost_and_all_is_recorded_afterwards() {
    let mut cluster = Cluster::start();
    let island = Island::new();
    settings(&island, &cluster.database("holm"));
    let repository = island.repository("shop");
    let id = repository.up("x");
    island.sh("x", "echo work > file").ok();
    let script = "while ! test -e ~/end; do sleep 0.05; done; echo over";
    let run = island
        .holm(&["run", "--detach", "x", "--", "sh", "-c", script])
        .ok()
        .out();
    eventually("it runs", || {
        island.holm(&["runs", "show", &run, "--json"]).json()["state"] == "running"
    });
    let keeper = island.keeper_of(&id);
    let daemon = island.daemon_pid();
    cluster.kill();

    // What is known is answered, and what runs can be used.
    assert_eq!(show(&island, "x")["state"], "running");
    assert_eq!(island.sh("x", "cat file").ok().out(), "work");
    island
        .sh(
            "x",
            "python3 -m http.server 3000 > /dev/null 2>&1 & touch ~/end",
        )
        .ok();
    eventually("the run ends", || {
        island.holm(&["runs", "show", &run, "--json"]).json()["state"] == "succeeded"
    });
    eventually("the port is forwarded", || {
        let ports = island.holm(&["ports", "x", "--json"]).json();
        ports["ports"]
            .as_array()
            .unwrap()
            .iter()
            .any(|port| port["port"] == 3000)
    });
    let mut answer = (200, Value::Null);
    eventually("the daemon is not well", || {
        answer = health(&island);
        answer.0 == 503
    });
    assert_eq!(answer.1["store"], "failing");
    assert!(
        !answer.1.to_string().contains("postgres://"),
        "{}",
        answer.1
    );

    // Changes are refused, by name and at once.
    let refused = |arguments: &[&str]| {
        let error = repository.holm(arguments).error(1);
        assert_eq!(error["code"], "store_unavailable", "{arguments:?}: {error}");
        error
    };
    let error = refused(&["up", "y", "--json"]);
    assert!(
        error["hint"].as_str().unwrap().contains("by itself"),
        "{error}"
    );
    refused(&["rename", "x", "z", "--json"]);
    refused(&["stop", "x", "--json"]);
    assert_eq!(island.keeper_of(&id), keeper);
    let (status, _) = island.ask("POST", &format!("/api/v1/workspaces/{id}/stop"), b"{}");
    assert_eq!(status, 503);

    cluster.restart();
    eventually("the daemon is well", || health(&island).0 == 200);
    assert_eq!(island.daemon_pid(), daemon);
    let states = || cluster.sql("holm", "SELECT state FROM holm.runs");
    eventually("the end of the run is stored", || states() == "succeeded");
    assert_eq!(
        cluster.sql("holm", "SELECT count(*) FROM holm.ports WHERE port = 3000"),
        "1"
    );
    assert_ne!(
        cluster.sql("holm", "SELECT count(*) FROM holm.audit WHERE status = 503"),
        "0"
    );
    repository.up("y");
    island.holm(&["stop", "x"]).ok();
    assert_eq!(island.states().len(), 2);
}

/// The server stands still in the middle: everything that was begun is finished or undone.
#[test]
fn a_creation_that_the_database_interrupts_leaves_nothing() {
    let mut cluster = Cluster::start();
    let island = Island::new();
    settings(&island, &cluster.database("holm"));
    let repository = island.repository("shop");
    repository.up("x");
    for round in 0..4 {
        let label = format!("y{round}");
        let mut making = crate::support::Running::new(
            &mut island.holm_command(&repository.path, &["up", &label, "--json"]),
        );
        let killed = std::time::Instant::now();
        while killed.elapsed().as_millis() < 5 * round {
            std::thread::yield_now();
        }
        cluster.kill();
        let made = making.code() == Some(0);
        cluster.restart();
        eventually("the daemon is well", || health(&island).0 == 200);
        eventually("the creation is finished or undone", || {
            let live = island.states().contains_key(&label);
            let rows = format!(
                "SELECT count(*) FROM holm.workspaces WHERE label = '{label}' AND removed_at IS NULL"
            );
            let stored = cluster.sql("holm", &rows) == "1";
            live == stored && (live || !made)
        });
    }
    let directories = || {
        fs::read_dir(island.data().join("workspaces"))
            .unwrap()
            .count()
    };
    eventually("no files are left of those that failed", || {
        directories() == island.states().len()
    });
    crate::support::send(island.daemon_pid(), Signal::TERM);
}

#[test]
fn a_backup_is_restored_and_a_state_moves_between_both_stores() {
    let cluster = Cluster::start();
    let island = Island::new();
    let repository = island.repository("shop");
    let value = "only-in-the-vault-7391";
    crate::secrets::set(&repository, "KEPT", value);
    let id = repository.up("x");
    island.sh("x", "echo work > file").ok();
    let file = island.home().join("backup.db").display().to_string();
    // While the daemon works.
    let made = island.holm(&["store", "backup", &file, "--json"]).json();
    let workspaces = made["tables"].as_array().unwrap().iter();
    let mut workspaces = workspaces.filter(|table| table["table"] == "workspaces");
    assert_eq!(workspaces.next().unwrap()["rows"], 1);
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    let bytes = fs::read(&file).unwrap();
    assert!(
        !bytes
            .windows(value.len())
            .any(|window| window == value.as_bytes())
    );
    let later = repository.up("later");

    let refused = island
        .holm(&["store", "restore", &file, "--force", "--json"])
        .error(4);
    assert_eq!(refused["code"], "another_daemon");
    island.holm(&["daemon", "stop"]).ok();
    let refused = island.holm(&["store", "restore", &file, "--json"]).error(4);
    assert_eq!(refused["code"], "store_not_empty");
    let restored = island
        .holm(&["store", "restore", &file, "--force", "--json"])
        .json();
    let kept = restored["kept"].as_str().unwrap().to_owned();
    assert_eq!(show(&island, "x")["id"], id.as_str());
    assert_eq!(island.sh("x", "cat file").ok().out(), "work");
    assert_eq!(island.states().len(), 1);
    // The later one is unknown now, and its files stay.
    let gc = island.holm(&["gc"]).ok();
    assert!(gc.stderr.contains(&later), "{gc:?}");
    assert!(island.data().join("workspaces").join(&later).exists());

    // What was there before comes back, in PostgreSQL.
    island.holm(&["daemon", "stop"]).ok();
    let url = cluster.database("holm");
    settings(&island, &url);
    island.holm(&["store", "restore", &kept]).ok();
    assert_eq!(island.states().len(), 2);
    assert_eq!(show(&island, "later")["id"], later.as_str());
    assert_eq!(show(&island, "x")["state"], "running");
    island.holm(&["store", "backup", &file]).ok();
    island.holm(&["daemon", "stop"]).ok();

    // And back into a file.
    let target = island.home().join("moved.db");
    let to = format!("sqlite:{}", target.display());
    island
        .holm(&["store", "copy", "--from", &url, "--to", &to])
        .ok();
    // Both in the data directory, which has one lock.
    let file = |name: &str| format!("sqlite:{}", island.data().join(name).display());
    let (from, other) = (file("holm.db"), file("other.db"));
    island
        .holm(&["store", "copy", "--from", &from, "--to", &other])
        .ok();
    fs::rename(&target, island.data().join("holm.db")).unwrap();
    island.write("holm/config/config.toml", "");
    assert_eq!(island.states().len(), 2);
    let wrong = [
        "store",
        "copy",
        "--from",
        "postgres://me:hidden-word@db/holm",
        "--to",
        &to,
    ];
    let refused = island.holm(&wrong);
    assert!(!refused.stderr.contains("hidden-word"), "{refused:?}");
    refused.exits(2);
}
