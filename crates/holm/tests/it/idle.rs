//! `stop_after` and `remove_after`: the real daemon stops and removes idle workspaces.

use crate::support::{Island, Running, eventually};
use serde_json::Value;

fn shown(island: &Island, workspace: &str) -> Value {
    island.holm(&["show", workspace, "--json"]).json()
}

#[test]
fn what_nobody_uses_is_stopped_and_what_is_used_is_not() {
    let island = Island::new();
    let repository = island.repository("shop");
    let home = island.home();
    repository.up("busy");
    let script = "echo ready; read line; exit 7";
    let mut command = island.holm_command(&home, &["exec", "busy", "--", "sh", "-c", script]);
    let mut busy = Running::new(&mut command);
    busy.says("ready");
    repository.up("seated");
    let session = ["session", "new", "seated", "--", "sleep", "1000"];
    let session = island.holm(&session).ok().out();
    repository.up("idle");
    // Background processes are not use: they live until `stop`.
    island
        .sh("idle", "sleep 1000 >/dev/null 2>&1 & echo x > work")
        .ok();
    // A daemon that runs already takes the settings over.
    island.make_dir("holm/config");
    island.write("holm/config/config.toml", "stop_after = \"1s\"\n");
    eventually("what is idle is stopped", || {
        shown(&island, "idle")["state"] == "stopped"
    });
    let note = shown(&island, "idle")["notes"].to_string();
    assert!(note.contains("stop_after"), "{note}");
    assert_eq!(shown(&island, "busy")["state"], "running");
    assert_eq!(
        shown(&island, "seated")["state"],
        "running",
        "a live session is use"
    );
    island.holm(&["session", "kill", &session]).ok();
    eventually("without it, it is stopped", || {
        shown(&island, "seated")["state"] == "stopped"
    });
    busy.write("\n");
    assert_eq!(busy.code(), Some(7), "its command was left alone");
    eventually("then it is stopped, too", || {
        shown(&island, "busy")["state"] == "stopped"
    });
    // The next use starts it again. A late check may find it stopped again.
    eventually("it is as it was", || {
        assert_eq!(island.sh("idle", "cat work").ok().out(), "x");
        shown(&island, "idle").get("notes").is_none()
    });
}

#[test]
fn what_is_removed_by_time_can_be_restored_and_settings_that_are_wrong_do_nothing() {
    let island = Island::new();
    let repository = island.repository("shop");
    let id = repository.up("idle");
    island.sh("idle", "echo kept > ~/note").ok();
    island.make_dir("holm/config");
    island.write(
        "holm/config/config.toml",
        "[daemon]\nremove_after = \"1s\"\n",
    );
    let live = || {
        let list = island.holm(&["ls", "--json"]).json();
        list["workspaces"].as_array().unwrap().len()
    };
    eventually("it goes to the trash", || live() == 0);
    island.write("holm/config/config.toml", "remove_after = \"soon\"\n");
    // Commands that need the settings report the error; others work.
    let refused = island.holm(&["ls", "--trash", "--json"]).error(2);
    assert_eq!(refused["code"], "invalid_config");
    island.write("holm/config/config.toml", "");
    island.holm(&["restore", "idle"]).ok();
    assert_eq!(island.sh(&id, "cat ~/note").ok().out(), "kept");
    assert_eq!(live(), 1);
}
