//! Dev Containers: the root of people's and agents' programs is that of an image.

use crate::services::service;
use crate::support::{Island, Ran, Repository, TestImage, eventually, program, send};
use serde_json::json;

/// A shell, git, and the libraries of holm's own program, which is static only in a release.
fn tools() -> TestImage {
    let programs = [
        "/usr/bin/bash",
        "/usr/bin/env",
        "/usr/bin/cut",
        "/usr/bin/git",
        "/usr/bin/grep",
        "/usr/bin/mkdir",
        "/usr/bin/rm",
    ];
    let start = json!({
        "Env": ["PATH=/usr/local/bin:/usr/bin:/bin", "FROM_IMAGE=yes"],
        "Entrypoint": ["/bin/false"],
    });
    let image = TestImage::with_shell(start)
        .file(
            "etc/passwd",
            "root:x:0:0::/root:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh\n",
            0o644,
        )
        .file("etc/group", "root:x:0:\nnode:x:1000:\n", 0o644)
        .directory("root", 0o700)
        .directory("home/node", 0o755)
        .file("only-here", "the image\n", 0o644);
    let image = programs.into_iter().fold(image, TestImage::program);
    image.libraries(program().to_str().unwrap())
}

pub const FILE: &str = ".devcontainer/devcontainer.json";
pub const HOLM: &str = "[project]\ndevcontainer = \".devcontainer/devcontainer.json\"\n";

pub fn project<'a>(island: &'a Island, devcontainer: &str, holm_toml: &str) -> Repository<'a> {
    tools().add(island, "tools:1");
    let repository = island.repository("shop");
    repository.write(FILE, devcontainer);
    repository.write("holm.toml", format!("{HOLM}{holm_toml}"));
    repository.write("sub/file", "in the tree\n");
    repository.commit("a container");
    repository
}

/// The port of the host that leads to port 3000.
fn outside(island: &Island, label: &str) -> u64 {
    let ports = island.holm(&["ports", label, "--json"]).json();
    let mut ports = ports["ports"].as_array().unwrap().iter();
    let port = ports.find(|port| port["port"] == 3000).unwrap();
    port["host_port"].as_u64().unwrap()
}

/// What a command says inside.
pub fn said(island: &Island, label: &str, script: &str) -> String {
    island.sh(label, script).ok().out()
}

#[test]
fn programs_of_people_run_in_the_container_and_git_of_holm_outside() {
    let island = Island::new();
    let repository = project(
        &island,
        r#"{
            // Comments are fine.
            "image": "tools:1",
            "remoteUser": "node",
            "containerEnv": {"IN_CONTAINER": "${containerWorkspaceFolder}"},
            "remoteEnv": {"PATH": "${containerEnv:PATH}:/opt/bin", "FROM_IMAGE": null, "MINE": "${devcontainerId}"},
            "onCreateCommand": "echo created >> .git/created",
            "postCreateCommand": {"a": "echo a >> /post", "b": ["/bin/sh", "-c", "echo b >> /post"]},
            "postStartCommand": "echo started >> /started",
            "forwardPorts": [3000],
        }"#,
        "[services.web]\nrun = \"echo $IN_CONTAINER > /web; echo serving; exec sleep 1000\"\n",
    );
    let mut ids = Vec::new();
    for label in ["a", "b"] {
        let made = repository.holm(&["up", label, "--json"]).json();
        assert_eq!(service(&made, "devcontainer")["state"], "ready", "{made:#}");
        assert_eq!(service(&made, "web")["state"], "ready", "{made:#}");
        ids.push(made["id"].as_str().unwrap().to_owned());
    }
    for (label, id) in ["a", "b"].into_iter().zip(&ids) {
        let script = "cat /only-here; pwd; echo $HOME $IN_CONTAINER ${FROM_IMAGE-gone} $MINE; id -un; cat /web sub/file";
        let expected = format!(
            "the image\n/workspaces/shop\n/home/node /workspaces/shop gone {id}\nnode\n/workspaces/shop\nin the tree"
        );
        assert_eq!(said(&island, label, script), expected);
        let path = said(&island, label, "echo $PATH; command -v holm");
        assert_eq!(
            path,
            "/run/holm/bin:/usr/local/bin:/usr/bin:/bin:/opt/bin\n/run/holm/bin/holm"
        );
        // It knows the workspace that it is in.
        let here = island.inside(label, &["holm", "here", "--json"]).json();
        assert_eq!(here["id"], id.as_str(), "{here:#}");
        // git inside and git of holm see one tree.
        said(
            &island,
            label,
            "echo changed > sub/file; git -C /workspaces/shop status --short",
        );
        let changes = island.holm(&["changes", label, "--json"]).json();
        assert_eq!(changes["changes"][0]["path"], "sub/file", "{changes:#}");
        said(
            &island,
            label,
            "git -c user.name=x -c user.email=x@example.org commit -qam inside && git log --oneline",
        );
        // The commands of a container run once, those of a start each time.
        eventually("the last command has run", || {
            said(&island, label, "cat /started 2>/dev/null || true") == "started"
        });
        // Commands of one key run at the same time.
        let seen = said(&island, label, "cat .git/created /post");
        let both = ["created\na\nb", "created\nb\na"];
        assert!(both.contains(&seen.as_str()), "{seen}");
        island.holm(&["restart", label]).ok();
        eventually("the container has started again", || {
            said(&island, label, "cat /started") == "started\nstarted"
        });
        assert_eq!(said(&island, label, "cat .git/created"), "created");
        assert_eq!(said(&island, label, "git log -1 --format=%s"), "inside");
    }
    // Runs and sessions are there, too.
    let run = island
        .holm(&["run", "a", "--json", "--", "cat", "/only-here"])
        .ok();
    assert!(run.out().contains("the image"), "{}", run.out());
    let made = island
        .holm(&[
            "session",
            "new",
            "a",
            "--json",
            "--",
            "sh",
            "-c",
            "cat /only-here; pwd; exec sleep 1000",
        ])
        .json();
    let session = made["id"].as_str().unwrap().to_owned();
    eventually("the session says where it is", || {
        let read = island.holm(&["session", "read", &session]).ok().out();
        read.contains("the image") && read.contains("/workspaces/shop")
    });
    island.holm(&["session", "kill", &session]).ok();
    // What a time limit and a cancelled run leave behind is ended.
    island
        .holm(&["exec", "a", "--timeout", "1s", "--", "sleep", "1000"])
        .exits(124);
    let timed = island.holm(&[
        "run",
        "a",
        "--timeout",
        "1s",
        "--",
        "sh",
        "-c",
        "sleep 1234 & sleep 1235",
    ]);
    timed.exits(124);
    let left = said(
        &island,
        "a",
        "cat /proc/[0-9]*/cmdline 2>/dev/null | grep -c 'sleep.123[45]' || true",
    );
    assert_eq!(left, "0");
    assert!(outside(&island, "a") != outside(&island, "b"));
}

#[test]
fn a_command_that_fails_is_told_and_runs_again_at_the_next_start() {
    let island = Island::new();
    let repository = project(
        &island,
        r#"{"image": "tools:1", "waitFor": "postCreateCommand",
            "onCreateCommand": "echo once >> /once",
            "postCreateCommand": "echo trying; [ -e sub/repaired ]",
            "postStartCommand": "touch /started"}"#,
        "",
    );
    let made = repository.holm(&["up", "a", "--json"]).json();
    let told = service(&made, "devcontainer")["reason"].clone();
    assert!(told.to_string().contains("postCreateCommand"), "{made:#}");
    let logs = island.holm(&["logs", "a", "devcontainer"]).ok().out();
    assert!(logs.contains("[postCreateCommand: echo trying;"), "{logs}");
    // The container can be looked at, and later commands did not run.
    let script = "cat /once; ls /started 2>/dev/null; touch sub/repaired";
    assert_eq!(said(&island, "a", script), "once");
    island.holm(&["restart", "a"]).ok();
    eventually("the rest has run", || {
        said(&island, "a", "ls /started 2>/dev/null || true") == "/started"
    });
    assert_eq!(said(&island, "a", "cat /once"), "once");
    let shown = island.holm(&["show", "a"]).ok().out();
    let container = "tools:1, /workspaces/shop (.devcontainer/devcontainer.json)";
    assert!(shown.contains(container), "{shown}");
    // A container that a person stopped starts no command.
    island.holm(&["service", "a", "stop", "devcontainer"]).ok();
    let refused = island.inside("a", &["true"]);
    assert_eq!(refused.code, Some(126), "{refused:?}");
    island.holm(&["service", "a", "start", "devcontainer"]).ok();
    said(&island, "a", "true");
}

#[test]
fn set_up_and_checks_run_in_the_container() {
    let island = Island::new();
    let repository = project(
        &island,
        r#"{"image": "tools:1", "mounts": ["source=cache,target=/cache"], "onCreateCommand": "cat made > /saw"}"#,
        "setup = [\"cat /only-here > made\"]\n[volumes.data]\npath = \"/data\"\npolicy = \"fork\"\n\
         seed = [\"echo seeded > /data/seeded\"]\n[checks.look]\nrun = \"cat /only-here made\"\n",
    );
    repository.write(".gitignore", "made\n");
    repository.commit("what set-up makes is ignored");
    repository.holm(&["up", "a"]).ok();
    let seen = said(&island, "a", "cat made /saw /data/seeded");
    assert_eq!(seen, "the image\nthe image\nseeded");
    said(&island, "a", "echo kept > /cache/kept");
    let checked = island.holm(&["check", "a", "--json"]).json();
    assert_eq!(checked["checks"][0]["state"], "passed", "{checked:#}");
    // Another image makes other layers.
    repository.write(FILE, r#"{"image": "tools:2"}"#);
    let other = tools().layer().file("only-here", "the second\n", 0o644);
    other.add(&island, "tools:2");
    repository.commit("another image");
    repository.holm(&["up", "b"]).ok();
    assert_eq!(said(&island, "b", "cat made"), "the second");
}

#[test]
fn secrets_reach_their_receivers_in_the_container_and_no_other_program() {
    let island = Island::new();
    let repository = project(
        &island,
        r#"{"image": "tools:1", "postCreateCommand": "cat /run/holm/secrets/* > /stolen; env > /env"}"#,
        "[secrets.KEY]\nfrom = { env = \"KEY\" }\ninject = \"file\"\nto = [\"runs\"]\n\
         [secrets.WORD]\nfrom = { env = \"WORD\" }\nto = [\"runs\"]\n",
    );
    let holm = |arguments: &[&str]| {
        let mut command = island.holm_command(&repository.path, arguments);
        Ran::new(command.env("KEY", "canary-key").env("WORD", "canary-word"))
    };
    holm(&["trust", "--yes"]).ok();
    holm(&["up", "a"]).ok();
    let script = "cat /run/holm/secrets/KEY; echo $WORD";
    let run = island.holm(&[
        "run",
        "a",
        "--",
        "sh",
        "-c",
        &format!("({script}) > /tmp/got"),
    ]);
    run.ok();
    assert_eq!(said(&island, "a", "cat /tmp/got"), "canary-keycanary-word");
    let seen = island.sh(
        "a",
        &format!("{script}; cat /stolen /env /proc/[0-9]*/environ"),
    );
    assert!(!seen.out().contains("canary"), "{seen:?}");
}

#[test]
fn a_container_goes_through_the_life_of_its_workspace() {
    let island = Island::new();
    let repository = project(
        &island,
        r#"{"image": "tools:1", "onCreateCommand": "echo created >> /created",
            "mounts": ["source=cache,target=/cache"]}"#,
        "",
    );
    let id = repository.up("a");
    let script = "echo mine > /cache/x; echo dirty > sub/new; echo installed > /installed";
    said(&island, "a", script);
    // The daemon and the keeper die.
    island.kill_daemon();
    assert_eq!(said(&island, "a", "cat /installed"), "installed");
    send(
        island.keeper_of(&id).unwrap(),
        rustix::process::Signal::KILL,
    );
    eventually("it is back", || {
        let seen = island.sh("a", "cat /installed /created sub/new");
        seen.out() == "installed\ncreated\ndirty"
    });
    // A fork has the tree and the volumes, and a container of its own, which is made again.
    island.holm(&["snapshot", "a", "s"]).ok();
    island.holm(&["fork", "a", "f"]).ok();
    let script = "cat /created sub/new /cache/x; ls /installed 2>/dev/null || true";
    assert_eq!(said(&island, "f", script), "created\ndirty\nmine");
    said(&island, "f", "echo other > /cache/x");
    assert_eq!(said(&island, "a", "cat /cache/x"), "mine");
    island.holm(&["rm", "f", "--force"]).ok();
    island.holm(&["restore", "f"]).ok();
    assert_eq!(said(&island, "f", "cat /cache/x"), "other");
    // For another tree the commands run again, in the same container.
    island.holm(&["reset", "a", "--at", "s", "--force"]).ok();
    let seen = said(&island, "a", "cat /created /installed sub/new");
    assert_eq!(seen, "created\ncreated\ninstalled\ndirty");
    // Another commit.
    repository.write("sub/file", "second\n");
    repository.commit("second");
    repository.holm(&["assign", "a", "HEAD", "--stash"]).ok();
    let seen = said(&island, "a", "cat sub/file; git status --short");
    assert_eq!(seen, "second");
}

/// Its services have networks of their own.
const COMPOSE: &str = r#"
services:
  app:
    image: tools:1
    volumes: ["..:/code:cached"]
    environment: {FROM_COMPOSE: "yes"}
    depends_on: [other]
  other: {image: tools:1, entrypoint: [/bin/sh, -c, "exec sleep 1000"]}
  unused: {image: missing.test/unused}
"#;

#[test]
fn a_service_of_a_compose_file_is_the_container() {
    let island = Island::new();
    let repository = project(
        &island,
        r#"{"dockerComposeFile": "compose.yaml", "service": "app", "runServices": ["app"],
            "overrideCommand": true, "workspaceFolder": "/code", "remoteUser": "node",
            "forwardPorts": [3000], "waitFor": "postCreateCommand",
            "postCreateCommand": "echo $FROM_COMPOSE > /made"}"#,
        "",
    );
    repository.write(".devcontainer/compose.yaml", COMPOSE);
    repository.commit("a stack");
    for label in ["a", "b"] {
        let made = repository.holm(&["up", label, "--json"]).json();
        assert_eq!(service(&made, "app")["state"], "ready", "{made:#}");
        assert_eq!(service(&made, "other")["state"], "ready", "{made:#}");
        assert_eq!(made["container"]["service"], "app", "{made:#}");
        let script = "cat /made sub/file; pwd; id -un; git status --short;                       grep -c other /etc/hosts; holm here >/dev/null && echo here";
        let seen = said(&island, label, script);
        assert_eq!(seen, "yes\nin the tree\n/code\nnode\n1\nhere");
    }
    assert!(outside(&island, "a") != outside(&island, "b"));
}
