//! The bundled example, whole: the four programs of `examples/shop` in two workspaces at once, on the same ports.
//!
//! The commands are the ones of its `holm.toml`, started one after the other as `depends_on` says.

use crate::support::{Island, Repository, eventually, is_gone, port_of, send};
use rustix::process::Signal;
use serde_json::Value;
use std::path::Path;

/// The example as a repository of the user.
fn shop(island: &Island) -> Repository<'_> {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/shop");
    let repository = Repository::empty(island, island.home().join("src/shop"));
    let mut directories = vec![example.clone()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path
                .strip_prefix(&example)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned();
            if path.is_dir() {
                directories.push(path);
            } else {
                repository.write(&name, std::fs::read(&path).unwrap());
                let mode = path.metadata().unwrap().permissions();
                std::fs::set_permissions(repository.path.join(name), mode).unwrap();
            }
        }
    }
    repository
}

#[test]
fn two_shops_on_the_same_ports_share_nothing() {
    let island = Island::new();
    let repository = shop(&island);
    let text = std::fs::read_to_string(repository.path.join("holm.toml")).unwrap();
    let config: toml::Table = toml::from_str(&text).unwrap();
    // Without its holm.toml only this test starts programs.
    std::fs::remove_file(repository.path.join("holm.toml")).unwrap();
    repository.commit("A shop");
    let probe = config["services"]["db"]["ready"]["log"].as_str().unwrap();
    let health = "curl -sf http://127.0.0.1:3000/api/health";
    for workspace in ["ada", "bob"] {
        repository.up(workspace);
        for service in ["db", "cache", "api", "web"] {
            let run = config["services"][service]["run"].as_str().unwrap();
            let script = format!("({run}) >~/{service}.log 2>&1 &");
            island.sh(workspace, &script).ok();
        }
        let ready = format!("grep -q '{probe}' ~/db.log");
        eventually("the database answers", || {
            island.sh(workspace, &ready).code == Some(0)
        });
        eventually("the shop answers", || {
            island.sh(workspace, health).out().contains(workspace)
        });
    }
    let check = |workspace: &str| island.inside(workspace, &["./check"]).ok().out();
    assert_eq!(check("ada"), "kettle:9 lantern:9 rope:9");
    assert_eq!(check("ada"), "kettle:8 lantern:8 rope:8");
    assert_eq!(check("bob"), "kettle:9 lantern:9 rope:9");
    // Its output is ignored, and its own files are unchanged.
    assert_eq!(island.sh("ada", "git status --porcelain").ok().out(), "");
}

#[test]
fn three_shops_as_services_through_stops_a_killed_daemon_and_a_reboot() {
    let island = Island::new();
    let repository = shop(&island);
    repository.commit("A shop");
    let shops = ["ada", "bob", "cleo"];
    let mut ids = Vec::new();
    for workspace in shops {
        let made = repository.holm(&["up", workspace, "--json"]).json();
        let services = made["services"].as_array().unwrap();
        assert_eq!(services.len(), 4, "{made}");
        assert!(
            services.iter().all(|service| service["state"] == "ready"),
            "{made}"
        );
        ids.push(made["id"].as_str().unwrap().to_owned());
    }
    let check = |workspace: &str| island.inside(workspace, &["./check"]).ok().out();
    for workspace in shops {
        assert_eq!(check(workspace), "kettle:9 lantern:9 rope:9");
    }
    each_answers_on_its_own_urls(&island, &shops);
    // A stopped shop comes back with its sales; the others did not notice.
    island.holm(&["stop", "bob"]).ok();
    assert_eq!(check("ada"), "kettle:8 lantern:8 rope:8");
    island.holm(&["start", "bob"]).ok();
    assert_eq!(check("bob"), "kettle:8 lantern:8 rope:8");
    // Neither does a shop notice that the daemon died.
    send(island.daemon_pid(), Signal::KILL);
    assert_eq!(check("cleo"), "kettle:8 lantern:8 rope:8");
    // All began with one database that was brought up to date once.
    let text = island.holm(&["logs", "ada", "api"]).ok().out();
    assert!(text.contains("the API is on port 8080"), "{text}");
    assert!(!text.contains("migrated"), "{text}");
    let layers = island.holm(&["df", "--json"]).json()["layers"].clone();
    assert_eq!(layers.as_array().unwrap().len(), 1, "{layers}");
    assert_eq!(layers[0]["used_by"], 3, "{layers}");
    let (project, key) = (&layers[0]["project_id"], &layers[0]["key"]);
    let log = island
        .data()
        .join("projects")
        .join(project.as_str().unwrap())
        .join("layers")
        .join(key.as_str().unwrap())
        .join("log");
    let text = std::fs::read_to_string(log).unwrap();
    assert!(text.contains("migrated 002-orders.sql"), "{text}");
    each_answers_on_its_own_urls(&island, &shops);
    // After a reboot nothing runs if the user wants it so, nothing is lost, and one command brings all of it back.
    island.make_dir("holm/config");
    island.write("holm/config/config.toml", "[daemon]\nresume = false\n");
    reboot(&island, &ids);
    for workspace in shops {
        let shown = island.holm(&["show", workspace, "--json"]).json();
        let found = (&shown["state"], &shown["reason"]);
        assert_eq!(found, (&"stopped".into(), &"reboot".into()), "{shown}");
        let services = shown["services"].as_array().unwrap();
        assert!(services.iter().all(|service| service["state"] == "stopped"));
    }
    island.holm(&["start", "ada", "bob", "cleo"]).ok();
    for workspace in shops {
        assert_eq!(check(workspace), "kettle:7 lantern:7 rope:7");
    }
    each_answers_on_its_own_urls(&island, &shops);
    // One of them is reset, and its page does not notice.
    island.holm(&["reset", "ada", "--volume", "pg"]).ok();
    assert_eq!(check("ada"), "kettle:9 lantern:9 rope:9");
    assert_eq!(check("bob"), "kettle:6 lantern:6 rope:6");
}

/// By name at the front door, and on its own port of the host.
#[track_caller]
fn each_answers_on_its_own_urls(island: &Island, shops: &[&str]) {
    for workspace in shops {
        let port = port_of(island, workspace, 3000).expect("the web port");
        let url = port["url"].as_str().unwrap().trim_end_matches('/');
        for url in [url, &format!("http://127.0.0.1:{}", port["host_port"])] {
            let health = format!("{url}/api/health");
            let arguments = ["-sSf", "--max-time", "60", &health];
            let said = island.run(&island.home(), "curl", &arguments).ok().out();
            assert!(said.contains(&format!("\"{workspace}\"")), "{url}: {said}");
        }
    }
}

/// What a reboot leaves: files, and a record of processes that was written in another boot.
fn reboot(island: &Island, ids: &[String]) {
    island.kill_daemon();
    let everything = island.inhabitants();
    for id in ids {
        send(island.keeper_of(id).expect("a keeper"), Signal::KILL);
    }
    eventually("all is gone", || everything.iter().all(|one| is_gone(*one)));
    for id in ids {
        let path = island.data().join("workspaces").join(id).join("last.json");
        let mut last: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        last["boot_id"] = "11111111-2222-4333-8444-555555555555".into();
        std::fs::write(path, last.to_string()).unwrap();
    }
}
