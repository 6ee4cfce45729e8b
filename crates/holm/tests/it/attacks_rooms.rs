//! What a program of an image can do to the host, the workspace, other services and other workspaces. It runs with all
//! the programs of this machine that it needs, in the root of its image.

use crate::secrets::set;
use crate::services::service;
use crate::support::{Island, Repository, TestImage, eventually};
use serde_json::json;

/// Tries everything, and says what worked. `$VICTIM` is the pid of a service of the workspace.
const TRIES: &str = r#"#!/bin/sh
try() { what=$1; shift; if "$@" >/dev/null 2>&1; then echo "worked: $what"; else echo "refused: $what"; fi; }
until [ -s /data/victim ]; do sleep 0.05; done
read -r victim < /data/victim
try mount mount -t tmpfs none /tmp
try unshare unshare -U /bin/sh -c :
try signal kill -0 "$victim"
try environment cat /proc/$victim/environ
try root ls /proc/$victim/root/
try init cat /proc/1/environ
parent=$(cut -d ' ' -f 4 /proc/$$/stat)
try room-init cat /proc/$parent/environ
try memory cat /proc/$parent/maps
try host cat "$HOST_FILE"
try tree cat "$TREE/README.md"
try home ls "$(dirname "$TREE")"
try secret cat /run/holm/secrets/OTHER
try kernel sh -c 'echo 1 > /proc/sys/kernel/panic'
try users sh -c 'echo x >> /etc/passwd'
try hosts sh -c 'echo x >> /etc/hosts'
echo changed > /shared-file
[ -s /run/holm/secrets/OWN ] && [ -z "$HOLM_ROOT" ] && echo "has its own secret and no tree"
tr '\0' ' ' < /proc/$parent/cmdline; cat /proc/self/mountinfo
echo tried
exec sleep 1000
"#;

fn hostile() -> TestImage {
    let programs = ["mount", "unshare", "cut", "dirname", "tr", "kill"];
    let programs = programs.map(|name| format!("/usr/bin/{name}"));
    let image = TestImage::with_shell(json!({"Cmd": ["/try.sh"]}))
        .file("shared-file", "as in the layer", 0o644)
        .file("try.sh", TRIES, 0o755);
    programs
        .iter()
        .fold(image, |image, path| image.program(path))
}

fn with_victim<'a>(island: &'a Island, host_file: &str) -> Repository<'a> {
    let repository = island.repository("shop");
    let tree = repository.path.display();
    repository.write(
        "holm.toml",
        format!(
            "[services.hostile]\nimage = \"hostile\"\nvolumes = [\"data\"]\n\
             env = {{ HOST_FILE = \"{host_file}\", TREE = \"{tree}\" }}\n\
             ready = {{ log = \"tried\" }}\nrestart = \"no\"\n\
             [services.victim]\nrun = \"echo $$ > /data/victim; exec sleep 1000\"\n\
             [volumes.data]\npath = \"/data\"\n\
             [secrets.OTHER]\ninject = \"file\"\nto = [\"victim\"]\n\
             [secrets.OWN]\ninject = \"file\"\nto = [\"hostile\"]\n"
        ),
    );
    repository.commit("services");
    set(&repository, "OTHER", "value-of-the-victim");
    set(&repository, "OWN", "value-of-its-own");
    repository.holm(&["trust", "--yes"]).ok();
    repository
}

/// What its program said in a fresh workspace.
fn attacked(island: &Island, arguments: &[&str]) -> String {
    hostile().add(island, "hostile");
    let host_file = island.write("home/private", "of the user");
    let repository = with_victim(island, host_file.to_str().unwrap());
    let made = repository
        .holm(&[&["up", "x", "--json"], arguments].concat())
        .json();
    assert_eq!(service(&made, "hostile")["state"], "ready", "{made}");
    let said = island.holm(&["logs", "x", "hostile"]).ok().out();
    assert!(said.contains("tried"), "{said}");
    assert!(said.contains("has its own secret and no tree"), "{said}");
    said
}

#[test]
fn attack_202_a_program_of_an_image_reaches_neither_host_nor_neighbours() {
    let island = Island::without("sub_ids");
    let said = attacked(&island, &[]);
    assert!(!said.contains("worked:"), "{said}");
    assert_eq!(said.matches("refused:").count(), 15, "{said}");
    // Neither the name of its init nor its mounts tell where things are on the host.
    let place = island.holm_home().display().to_string();
    assert!(!said.contains(&place), "{said}");
    // The layer is shared with the next workspace, the change is not.
    let layers = island.data().join("images/layers");
    let changed = island.run(
        &layers,
        "grep",
        &["-rl", "changed", "--include=shared-file", "."],
    );
    assert_eq!(changed.out(), "");
    let shown = island.holm(&["show", "x", "--json"]).json();
    assert_eq!(shown["isolation"]["degraded"], json!([]), "{shown}");

    // Its init is only a process to it: killing it ends the service, and nothing else.
    let pid = service(&shown, "hostile")["pid"].as_u64().unwrap();
    let victim = service(&shown, "victim")["pid"].clone();
    let init = island.holm(&[
        "exec",
        "x",
        "--",
        "cut",
        "-d",
        " ",
        "-f",
        "4",
        &format!("/proc/{pid}/stat"),
    ]);
    let init = init.ok().out();
    // The workspace's programs cannot signal programs of a room, nor its init.
    island.sh("x", &format!("kill -KILL {pid} {init}")).exits(1);
    let state = |name: &str| service(&island.holm(&["show", "x", "--json"]).json(), name);
    assert_eq!(state("hostile")["pid"], pid, "it still runs");
    assert_eq!(state("victim")["pid"], victim);
}

#[test]
fn attack_202_without_landlock_and_filter_the_same_program_reaches_its_neighbours() {
    let island = Island::without("landlock,seccomp,namespace_limit,sub_ids");
    let said = attacked(&island, &["--allow-degraded=landlock"]);
    for what in ["signal", "environment", "root", "unshare"] {
        assert!(said.contains(&format!("worked: {what}")), "{what}: {said}");
    }
    // These hold by mounts alone.
    for what in [
        "host",
        "tree",
        "home",
        "kernel",
        "users",
        "hosts",
        "room-init",
        "init",
    ] {
        assert!(said.contains(&format!("refused: {what}")), "{what}: {said}");
    }
    // When a room's init dies, its service ends with everything in the room, and starts again if it may.
    let shown = island.holm(&["show", "x", "--json"]).json();
    let pid = service(&shown, "hostile")["pid"].as_u64().unwrap();
    let kill = format!("kill -KILL $(cut -d ' ' -f 4 /proc/{pid}/stat)");
    island.sh("x", &kill).ok();
    eventually("the room has ended", || {
        let shown = island.holm(&["show", "x", "--json"]).json();
        service(&shown, "hostile")["state"] == "exited"
    });
    island.sh("x", &format!("test ! -e /proc/{pid}")).ok();
    // A program of the workspace looks as if it belonged to the service. The keeper takes only the room's word for that.
    let pretend = "HOLM_SERVICE=hostile setsid sleep 1000 >/dev/null 2>&1 & echo $!";
    let bystander = island.sh("x", pretend).ok().out();
    island.holm(&["service", "x", "start", "hostile"]).ok();
    eventually("it runs again", || {
        let shown = island.holm(&["show", "x", "--json"]).json();
        service(&shown, "hostile")["state"] == "ready"
    });
    island.sh("x", &format!("kill -0 {bystander}")).ok();
    let stopped = island.holm(&["service", "x", "stop", "hostile"]);
    stopped.ok();
    eventually("it stops", || {
        let shown = island.holm(&["show", "x", "--json"]).json();
        service(&shown, "hostile")["state"] == "stopped"
    });
    island.sh("x", &format!("kill -0 {bystander}")).ok();
}
