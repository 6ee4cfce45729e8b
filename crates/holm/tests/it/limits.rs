//! Limits: kept by control groups where root prepared some, refused where there are none, and
//! always told as they are. Disk is measured, and more than the machine has is not promised.
//!
//! Preparing control groups takes root. The suite is run by root in CI; others see the rest.

use crate::support::{Island, Place, Running, eventually, keeper_below, skipped};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;

/// Every directory of control groups with this name.
pub fn groups(id: &str) -> Vec<PathBuf> {
    let mut find = Command::new("find");
    find.args(["/sys/fs/cgroup", "-type", "d", "-name", id]);
    let found = find.output().unwrap().stdout;
    String::from_utf8(found)
        .unwrap()
        .lines()
        .map(PathBuf::from)
        .collect()
}

/// The keeper of a workspace: the holder of its lock.
fn keeper(place: &Place, id: &str) -> i32 {
    keeper_below(&place.holm_home().join("data"), id).expect("a keeper")
}

const ALL: &str = "[limits]\nmemory = \"128MiB\"\ncpus = 1.5\nprocesses = 100\ndisk = \"200MiB\"\n";

#[test]
fn limits_are_kept_by_control_groups_that_root_prepared() {
    let Some(place) = Place::new() else { return };
    let repository = place.configured(ALL);
    let made = place.holm(&repository, &["up", "x", "--json"]).json();
    let expect = json!({ "memory": "cgroup", "cpus": "cgroup", "processes": "cgroup",
                         "disk": "measured" });
    assert_eq!(made["isolation"]["limits"], expect, "{made}");
    assert_eq!(made["isolation"]["degraded"], json!([]), "{made}");
    let version = made["isolation"]["cgroup"].as_str().unwrap();
    assert!(matches!(version, "v1" | "v2"), "{version}");

    // Everything inside is in the groups, and the keeper is not.
    let id = made["id"].as_str().unwrap();
    place.sh("x", "sleep 1000 & (setsid sleep 1000 &)").ok();
    let made_groups = groups(id);
    assert!(!made_groups.is_empty());
    let keeper = keeper(&place, id);
    for group in &made_groups {
        let members = std::fs::read_to_string(group.join("inside/cgroup.procs")).unwrap();
        assert_eq!(members.lines().count(), 3, "init and two others: {members}");
        assert!(!members.lines().any(|pid| pid == keeper.to_string()));
        let above = std::fs::read_to_string(group.join("cgroup.procs")).unwrap();
        assert_eq!(above, "", "nobody is beside the limits");
    }
    // So is the mover.
    place.sh("x", "mv README.md other").ok();
    let members = std::fs::read_to_string(made_groups[0].join("inside/cgroup.procs")).unwrap();
    let is_mover = |pid: &str| {
        std::fs::read_to_string(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| line.contains("__mover"))
    };
    assert_eq!(members.lines().filter(|pid| is_mover(pid)).count(), 1);
    // Inside, nothing above is named.
    let seen = place.sh("x", "cat /proc/self/cgroup").ok().out();
    assert!(seen.lines().all(|line| line.ends_with(":/")), "{seen}");
    let here = place.holm(&repository, &["exec", "x", "--", "holm", "here", "--json"]);
    assert_eq!(here.json()["isolation"]["limits"], expect);

    for command in ["stop", "start", "restart"] {
        place.holm(&repository, &[command, "x"]).ok();
        assert_eq!(groups(id).is_empty(), command == "stop", "{command}");
    }
    place.holm(&repository, &["rm", "x", "--force"]).ok();
    assert_eq!(groups(id), Vec::<PathBuf>::new());

    // The trial of `doctor` sees the same, and leaves nothing.
    let doctor = place.holm(&repository, &["doctor", "--json"]).json();
    let check = control_groups(&doctor);
    assert!(
        doctor["daemon"].is_number(),
        "the daemon is asked: {doctor}"
    );
    assert_eq!(check["status"], "ok", "{check}");
    let detail = check["detail"].as_str().unwrap();
    assert_eq!(detail, format!("{version} limits memory, cpus, processes"));
}

fn control_groups(doctor: &Value) -> Value {
    let checks = doctor["checks"].as_array().unwrap();
    let check = checks
        .iter()
        .find(|check| check["name"] == "control groups");
    check.unwrap().clone()
}

#[test]
fn without_control_groups_what_holm_toml_wrote_is_refused_and_a_default_is_told() {
    let island = Island::new();
    let repository = island.repository("shop");
    let doctor = island.holm(&["doctor", "--json"]).json();
    let check = control_groups(&doctor);
    if check["status"] == "ok" {
        return skipped("the user of the tests has control groups, and it tests their absence");
    }
    assert!(check["fix"].is_string(), "{check}");
    assert!(check["detail"].to_string().contains("none"), "{check}");

    repository.write("holm.toml", "[limits]\ncpus = 1.0\nprocesses = 500\n");
    repository.commit("limits");
    let refused = repository.holm(&["up", "x", "--json"]).error(4);
    assert_eq!(refused["code"], "limit_unavailable");
    assert!(refused["message"].to_string().contains("limits.cpus"));
    let hint = refused["hint"].to_string();
    assert!(hint.contains("--allow-degraded=cpus"), "{hint}");
    assert!(hint.contains("root"), "the way to get it: {hint}");
    assert_eq!(
        island.holm(&["ls", "--json"]).json()["workspaces"],
        json!([])
    );

    let made = repository
        .holm(&["up", "x", "--allow-degraded=cpus", "--json"])
        .json();
    let check_degraded = |shown: &Value, names: Value| {
        let isolation = &shown["isolation"];
        assert_eq!(isolation["degraded"], names, "{shown}");
        assert!(isolation["cgroup"].is_null());
        assert!(isolation["limits"]["cpus"].is_null());
        assert_eq!(isolation["limits"]["processes"], "rlimit");
    };
    check_degraded(&made, json!(["cpus"]));
    island.holm(&["restart", "x"]).ok();
    check_degraded(
        &island.holm(&["show", "x", "--json"]).json(),
        json!(["cpus"]),
    );

    // A default of the user's is not worth a refusal, but it is not hidden either.
    island.make_dir("holm/config");
    island.write(
        "holm/config/config.toml",
        "[limits]\nmemory = \"1GiB\"\ncpus = 2.0\n",
    );
    repository.write("holm.toml", "");
    repository.commit("none");
    let made = repository.holm(&["up", "y", "--json"]).json();
    assert_eq!(made["limits"]["memory"], 1 << 30);
    check_degraded(&made, json!([]));
    assert!(made["isolation"]["limits"]["memory"].is_null());
}

#[test]
fn more_disk_than_the_limit_stops_the_workspace_and_it_starts_when_there_is_room() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("holm.toml", "[limits]\ndisk = \"8MiB\"\n");
    repository.commit("limits");
    let made = repository.holm(&["up", "x", "--json"]).json();
    assert_eq!(made["isolation"]["limits"]["disk"], "measured");
    repository.up("sibling");
    // Under the limit nothing happens; a hole is not disk.
    island
        .sh("x", "head -c 2M /dev/zero > small; truncate -s 1G hole")
        .ok();

    // In a directory with mode 000, so that only a real measurement finds it.
    let script = "mkdir -p ~/closed; head -c 16M /dev/zero > ~/closed/large; chmod 0 ~/closed; \
                  exec sleep 1000";
    let told = island.sh("x", script);
    assert!(told.code.is_some_and(|code| code > 128), "{told:?}");
    assert!(told.stderr.contains("more disk than its limit"), "{told:?}");
    let show = || island.holm(&["show", "x", "--json"]).json();
    eventually("it is stopped", || show()["state"] == "stopped");
    assert_eq!(show()["reason"], "disk_limit");
    assert_eq!(island.sh("sibling", "echo well").ok().out(), "well");

    // Neither `start` nor `exec` continues while the disk is full, and they say where to free
    // space.
    let refused = island.holm(&["start", "x", "--json"]).error(4);
    assert_eq!(refused["code"], "disk_limit");
    let home = island.data().join("workspaces");
    let home = home.join(made["id"].as_str().unwrap()).join("home");
    let hint = refused["hint"].to_string();
    assert!(hint.contains(home.to_str().unwrap()), "{hint}");
    island.sh("x", "true").exits(4);
    island
        .run(&home, "sh", &["-c", "chmod 700 closed && rm -r closed"])
        .ok();
    island.holm(&["start", "x"]).ok();
    assert_eq!(
        island.sh("x", "stat -c %s small hole").ok().out(),
        "2097152\n1073741824"
    );
    assert!(show()["reason"].is_null());
}

#[test]
fn a_frozen_workspace_can_be_stopped_and_does_not_outlive_its_keeper_attack_160() {
    let Some(place) = Place::new() else { return };
    let repository = place.repository();
    let made = place.holm(&repository, &["up", "x", "--json"]).json();
    let id = made["id"].as_str().unwrap();
    let freeze = || {
        for group in groups(id) {
            let (v1, v2) = (group.join("freezer.state"), group.join("cgroup.freeze"));
            if v1.exists() {
                std::fs::write(&v1, "FROZEN").unwrap();
                eventually("it is frozen", || {
                    std::fs::read_to_string(&v1).unwrap().trim() == "FROZEN"
                });
            } else if v2.exists() {
                std::fs::write(v2, "1").unwrap();
            }
        }
    };
    let init = || {
        let group = groups(id).into_iter().next().unwrap();
        let members = std::fs::read_to_string(group.join("inside/cgroup.procs")).unwrap();
        members.lines().next().unwrap().to_owned()
    };
    // In the tests' own pid namespace no process reaps zombies.
    let is_alive = |pid: &str| {
        std::fs::read_to_string(format!("/proc/{pid}/status"))
            .is_ok_and(|status| !status.contains("State:\tZ"))
    };

    let first = init();
    freeze();
    place.holm(&repository, &["stop", "x"]).ok();
    assert!(!is_alive(&first), "nothing of it is left");
    assert_eq!(groups(id), Vec::<PathBuf>::new());

    // The keeper is killed: frozen processes cannot die by themselves, so the next observation
    // thaws them.
    place.holm(&repository, &["start", "x"]).ok();
    let second = init();
    freeze();
    crate::support::send(keeper(&place, id), Signal::KILL);
    eventually("it is told", || place.show("x")["state"] == "failed");
    assert_eq!(place.show("x")["reason"], "its keeper was killed");
    eventually("nothing of it stays alive", || !is_alive(&second));
    place.holm(&repository, &["start", "x"]).ok();
    assert_eq!(place.sh("x", "echo again").ok().out(), "again");
    place.holm(&repository, &["rm", "x", "--force"]).ok();
    assert_eq!(groups(id), Vec::<PathBuf>::new());
}

#[test]
fn a_killed_keeper_leaves_no_group_behind_whatever_comes_next() {
    let Some(place) = Place::new() else { return };
    let repository = place.repository();
    let all = [
        &["daemon", "stop", "--all"][..],
        &["stop", "x"],
        &["rm", "x", "--force"],
    ];
    for next in all {
        let made = place.holm(&repository, &["up", "x", "--json"]).json();
        let id = made["id"].as_str().unwrap();
        crate::support::send(keeper(&place, id), Signal::KILL);
        eventually("it is told", || place.show("x")["state"] == "failed");
        place.holm(&repository, next).ok();
        assert_eq!(groups(id), Vec::<PathBuf>::new(), "{next:?}");
    }
}

#[test]
fn memory_is_not_promised_twice() {
    let Some(place) = Place::new() else { return };
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap();
    let total: u64 = meminfo.split_whitespace().nth(1).unwrap().parse().unwrap();
    let most = total / 1024 * 6 / 10;
    let repository = place.configured(&format!("[limits]\nmemory = \"{most}MiB\"\n"));
    let up = |arguments: &[&str]| place.holm(&repository, &[&["up", "--json"], arguments].concat());
    up(&["first"]).ok();
    let refused = up(&["second"]).error(4);
    assert_eq!(refused["code"], "overcommitted");
    assert!(
        refused["message"]
            .to_string()
            .contains("of memory together")
    );
    assert!(refused["hint"].to_string().contains("--force"));
    let list = || place.holm(&repository, &["ls", "--json"]).json()["workspaces"].clone();
    assert_eq!(list().as_array().unwrap().len(), 1, "nothing is left of it");
    // An existing one is not counted again.
    assert_eq!(up(&["first"]).json()["created"], false);
    up(&["second", "--force"]).ok();
    // A stopped workspace counts nothing.
    up(&["third"]).exits(4);
    for stopped in ["first", "second"] {
        place.holm(&repository, &["stop", stopped]).ok();
    }
    up(&["third"]).ok();
    // Of several at once as many as there is room for.
    place.holm(&repository, &["stop", "third"]).ok();
    up(&["-n", "3", "many"]).exits(1);
    let running = list();
    let running = running.as_array().unwrap().iter();
    assert_eq!(running.filter(|one| one["state"] == "running").count(), 1);
}

#[test]
fn disk_that_is_not_there_is_not_promised() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("holm.toml", "[limits]\ndisk = \"1000TiB\"\n");
    repository.commit("limits");
    repository.holm(&["trust", "--yes"]).ok();
    let refused = repository.holm(&["up", "x", "--json"]).error(4);
    assert_eq!(refused["code"], "overcommitted");
    assert!(
        refused["message"].to_string().contains("are free"),
        "{refused}"
    );
    let made = repository.holm(&["up", "x", "--force", "--json"]).json();
    assert_eq!(made["limits"]["disk"], 1000_u64 << 40);
    // A default of the user's promises nothing.
    repository.write("holm.toml", "");
    repository.commit("none");
    island.make_dir("holm/config");
    island.write("holm/config/config.toml", "[limits]\ndisk = \"1000TiB\"\n");
    repository.up("y");
}

#[test]
fn who_waits_for_a_command_that_is_stopped_for_disk_is_told_on_a_pipe_too() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("holm.toml", "[limits]\ndisk = \"8MiB\"\n");
    repository.commit("limits");
    repository.up("x");
    let script = "trap '' TERM; echo ready; read line; head -c 16M /dev/zero > /tmp/large; \
                  while :; do sleep 1; done";
    let mut waiting = Running::new(
        &mut island.holm_command(&island.home(), &["exec", "x", "--", "sh", "-c", script]),
    );
    waiting.says("ready");
    waiting.write("go\n");
    // Deaf to SIGTERM, so it is killed with the workspace.
    assert_eq!(waiting.code(), Some(137));
}
