//! The page of the dashboard in Chromium, against the real daemon: the flows of `ui/e2e`, and the page's own tests.

use crate::support::{Door, Island, Repository, ids};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const HOLM_TOML: &str = r#"
[ports]
web = 3000

[services.web]
run = "python3 -u -m http.server 3000 --bind 127.0.0.1"
ready = { http = "/", port = "web" }

[checks.readme]
run = "test -s README.md"

[agents.listener]
command = ["sh", "-c", "cat > /tmp/got"]
"#;

fn ui() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ui")
}

const VOLUME: &str = r#"
[volumes.store]
path = "/data/store"
policy = "isolated"
"#;

/// A project with one service that is quick to start.
fn project<'a>(island: &'a Island, more: &str) -> Repository<'a> {
    let repository = island.repository("shop");
    repository.write("holm.toml", format!("{HOLM_TOML}{more}"));
    repository.write("README.md", "A shop\n");
    repository.commit("a project for the page");
    repository
}

/// A program that runs holm as the user, in a sealed environment, for a test that runs as another user.
fn holm_of(island: &Island, directory: &Path) -> PathBuf {
    let command = island.holm_command(directory, &[]);
    let mut line = match ids() {
        Some((uid, gid)) => {
            format!("exec setpriv --reuid {uid} --regid {gid} --clear-groups env -i")
        }
        None => "exec env -i".to_owned(),
    };
    for (name, value) in command.get_envs() {
        let value = value.unwrap_or_default().to_str().unwrap();
        line += &format!(" {}='{value}'", name.to_str().unwrap());
    }
    line += &format!(" '{}' \"$@\"", command.get_program().to_str().unwrap());
    let script = island.home().join("as-the-user");
    std::fs::write(&script, format!("#!/bin/sh\n{line}\n")).unwrap();
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    script
}

/// Runs flows one after the other in the same daemon.
fn run(flows: &[&str]) {
    run_with("", flows);
}

/// The same with more in `holm.toml`.
fn run_with(more: &str, flows: &[&str]) {
    let island = Island::new();
    let repository = project(&island, more);
    let door = Door::of(&island);
    repository.holm(&["project", "add"]).ok();
    for flow in flows {
        let ended = Command::new("node")
            .arg(ui().join("e2e").join(format!("{flow}.mjs")))
            .env("BASE", format!("http://holm.localhost:{}", door.port))
            .env("HOLM", holm_of(&island, &repository.path))
            .env("PROJECT", &repository.path)
            .output();
        succeeded(flow, ended.unwrap());
    }
}

#[track_caller]
fn succeeded(
    what: &str,
    Output {
        status,
        stdout,
        stderr,
    }: Output,
) {
    let [stdout, stderr] = [stdout, stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    assert!(status.success(), "{what}: {status}\n{stdout}\n{stderr}");
}

#[test]
fn a_person_signs_in_and_changes_settings_in_chromium() {
    run(&["signin", "settings"]);
}

#[test]
fn a_person_works_by_keyboard_in_chromium() {
    run(&["new", "inbox", "review"]);
}

#[test]
fn a_person_trusts_what_a_project_asks_for_in_chromium() {
    run(&["trust"]);
}

#[test]
fn a_person_compares_siblings_in_chromium() {
    run(&["compare"]);
}

#[test]
fn a_workspace_and_a_lost_daemon_in_chromium() {
    run_with(VOLUME, &["workspace", "live"]);
}

#[test]
fn attacks_94_to_96_104_and_110_other_pages_reach_nothing_in_chromium() {
    run(&["foreign"]);
}

#[test]
fn large_work_does_not_freeze_the_page_in_chromium() {
    run(&["large"]);
}

#[test]
fn attack_106_hostile_texts_are_drawn_as_data_in_chromium() {
    run(&["hostile"]);
}

#[test]
fn every_page_is_accessible_in_chromium() {
    run(&["review", "axe"]);
}

#[test]
fn the_page_has_types_and_tests_of_its_own() {
    for script in ["check", "test"] {
        let mut command = Command::new("npm");
        command.args(["run", "--silent", script]).current_dir(ui());
        succeeded(script, command.output().unwrap());
    }
}
