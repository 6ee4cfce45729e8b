//! A set-up that fails, one that is left out, and why one runs again.

use crate::layers::{configure, layers, repository, with_setup, workspaces_on_disk};
use crate::support::{Island, Ran};
use serde_json::Value;

#[test]
fn a_failed_setup_keeps_a_workspace_on_request_and_can_be_left_out() {
    let island = Island::new();
    let loud = "for i in $(seq 150); do echo line $i; done; mkdir node_modules; \
        echo half > node_modules/half; echo half > ~/half; exit 7";
    let repository = with_setup(&island, &[loud]);
    let path = repository.path.join("holm.toml");
    let seeded = "[volumes.pg]\npath = \"/data/pg\"\npolicy = \"fork\"\nseed = [\"true\"]\n";
    let configured = std::fs::read_to_string(path).unwrap();
    repository.write("holm.toml", format!("{configured}{seeded}"));
    repository.commit("a seed");
    let error = repository.holm(&["up", "a", "--json"]).error(1);
    let message = error["message"].as_str().unwrap();
    for number in [1, 75, 150] {
        assert!(
            message.contains(&format!("\n  line {number}\n"))
                || message.ends_with(&format!("line {number}")),
            "{message}"
        );
    }
    let hint = error["hint"].as_str().unwrap();
    assert!(
        hint.contains("--keep") && hint.contains("--no-setup"),
        "{hint}"
    );
    assert_eq!(workspaces_on_disk(&island), 0);
    // Kept: the error is the same, and the workspace has the files as the set-up left them.
    let error = repository.holm(&["up", "a", "--keep", "--json"]).error(1);
    assert_eq!(error["code"], "setup_failed");
    let message = error["message"].as_str().unwrap();
    let first = message.lines().next().unwrap();
    assert!(
        first.ends_with(
            "a was kept as `setup` left it; no seed ran, so these volumes are empty: pg"
        ),
        "{first}"
    );
    assert!(message.contains("\n  line 150"), "{message}");
    let hint = error["hint"].as_str().unwrap();
    assert!(hint.contains("look inside: `holm enter a`"), "{hint}");
    let shown = island.holm(&["show", "a", "--json"]).json();
    assert_eq!(shown["state"], "stopped");
    assert_eq!(shown["reason"], "setup_failed");
    let note = shown["notes"].to_string();
    assert!(note.contains("exit code 7"), "{note}");
    assert_eq!(workspaces_on_disk(&island), 1);
    let look = "cat deps.lock node_modules/half ~/half; git branch --show-current; git status -s";
    assert_eq!(island.sh("a", look).ok().out(), "one\nhalf\nhalf\nholm/a");
    // A set-up that changes tracked files fails after its commands; its files are whole, too.
    configure(
        &repository,
        &["mkdir -p node_modules; echo x > new; rm README.md"],
    );
    let error = repository.holm(&["up", "d", "--keep", "--json"]).error(1);
    assert!(
        error["message"].as_str().unwrap().contains("README.md"),
        "{error}"
    );
    let look = "cat new; git status -s";
    assert_eq!(island.sh("d", look).ok().out(), "x\n D README.md\n?? new");
    assert_eq!(workspaces_on_disk(&island), 2);
    // Left out.
    let made = repository.holm(&["up", "b", "--no-setup", "--json"]).json();
    let notes = made["notes"].to_string();
    assert!(notes.contains("`setup` did not run"), "{notes}");
    island.sh("b", "test ! -e node_modules").ok();
    repository
        .holm(&["up", "c", "--no-setup", "--keep"])
        .exits(2);
}

#[test]
fn why_a_setup_runs_again_is_one_line_and_a_path_entry_is_no_reason() {
    let island = Island::new();
    let repository = repository(&island);
    let notes = |made: &Value| made["notes"].to_string();
    let first = repository.holm(&["up", "a", "--json"]).json();
    assert!(!notes(&first).contains("ran again"), "{first}");
    let same = repository.holm(&["up", "b", "--json"]).json();
    assert!(!notes(&same).contains("ran again"), "{same}");
    // Another directory of programs on PATH is visible inside, and makes no other layer.
    let tools = island.home().join("tools/bin");
    std::fs::create_dir_all(&tools).unwrap();
    let mut command = island.holm_command(&repository.path, &["up", "c", "--json"]);
    command.env(
        "PATH",
        format!("{}:/usr/local/bin:/usr/bin:/bin", tools.display()),
    );
    let made = Ran::new(&mut command).json();
    assert!(!notes(&made).contains("ran again"), "{made}");
    let seen = format!("test -d {}", tools.display());
    island.sh("c", &seen).ok();
    assert_eq!(layers(&island).len(), 1);
    repository.write("deps.lock", "two\n");
    repository.commit("other dependencies");
    let other = repository.holm(&["up", "d", "--json"]).json();
    assert!(
        notes(&other).contains("`setup` ran again: deps.lock changed"),
        "{other}"
    );
}

#[test]
fn what_the_gateway_refused_is_in_the_error_of_a_setup() {
    let island = Island::new();
    let repository = with_setup(&island, &["true"]);
    let ask = "import socket; socket.create_connection(('npm.test', 443), 5)";
    let commands = serde_json::to_string(&[format!("python3 -c \"{ask}\"")]).unwrap();
    let text = format!(
        "[project]\nsetup = {commands}\n[egress]\nmode = \"allow\"\nallow = [\"web.test\"]\n"
    );
    repository.write("holm.toml", text);
    repository.commit("a private registry");
    let error = repository.holm(&["up", "a", "--json"]).error(1);
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains("the gateway refused npm.test"),
        "{message}"
    );
}
