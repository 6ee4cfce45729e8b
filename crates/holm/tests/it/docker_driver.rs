//! `driver = "docker"`: the commands of holm with workspaces in containers of a real engine. One engine serves all of it,
//! because its start takes longer than each part.

#[path = "../../../holm-container/tests/engine/mod.rs"]
mod engine;

use crate::services::service;
use crate::support::{
    Island, Ran, Repository, Running, eventually, fetch, host_port, send, skipped,
};
use engine::{Engine, IMAGE, Kind};
use rustix::process::Signal;
use serde_json::Value;
use std::process::Stdio;

const SETTINGS: &str = "[project]\n\
    setup = [\"mkdir -p node_modules; echo built > node_modules/made; echo set up > ~/set-up\"]\n\
    protected_paths = [\"AGENTS.md\", \"ci\"]\n\
    [ports]\nweb = 3000\n\
    [env]\nCOLOUR = \"green\"\n\
    [services.web]\nrun = \"echo it is up; exec python3 -m http.server 3000 --bind 127.0.0.1\"\n\
    ready = { tcp = 3000 }\n\
    [volumes.db]\npath = \"/data/db\"\npolicy = \"fork\"\nseed = [\"echo seeded > /data/db/rows\"]\n\
    [volumes.own]\npath = \"/data/own\"\n\
    [secrets.KEY]\nfrom = { stored = true }\ninject = \"env\"\nto = [\"runs\"]\n\
    [secrets.FILE]\nfrom = { stored = true }\ninject = \"file\"\nto = [\"runs\"]\n\
    [egress]\nmode = \"allow\"\nallow = [\"203.0.113.1:8000\"]\n\
    [limits]\nmemory = \"512MiB\"\nprocesses = 200\n";

struct World<'a> {
    island: &'a Island,
    repository: Repository<'a>,
    engine: Engine,
}

impl World<'_> {
    fn sh(&self, label: &str, script: &str) -> Ran {
        self.island.sh(label, script)
    }

    fn show(&self, label: &str) -> Value {
        self.island.holm(&["show", label, "--json"]).json()
    }

    /// The containers that run, without the prefix that names the installation.
    fn containers(&self) -> Vec<String> {
        let listed = self.engine.client(&["ps", "--format", "{{.Names}}"]);
        let names = listed.lines().filter_map(|name| name.splitn(3, '-').nth(2));
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        names.sort();
        names
    }

    /// The full name of a container.
    fn container(&self, end: &str) -> String {
        let listed = self.engine.client(&["ps", "-a", "--format", "{{.Names}}"]);
        let found = listed.lines().find(|name| name.ends_with(end));
        found.expect("the container").to_owned()
    }
}

#[test]
fn workspaces_run_in_containers_of_docker() {
    let island = Island::new();
    let engine = match Engine::start(Kind::Docker, &island.make_dir("engine")) {
        Ok(engine) => engine,
        Err(why) => return skipped(&why),
    };
    island.make_dir("holm");
    island.make_dir("holm/config");
    let settings = format!(
        "[docker]\nhost = \"{}\"\nimage = \"{IMAGE}\"\n[home]\ncopy = [\"~/.profile\"]\n",
        engine.address()
    );
    island.write("holm/config/config.toml", settings);
    let repository = island.repository("shop");
    repository.write("holm.toml", SETTINGS);
    for (name, text) in [
        (".gitignore", "node_modules\n"),
        ("AGENTS.md", "be careful\n"),
        ("ci/build", "make\n"),
        ("index.html", "hello\n"),
    ] {
        repository.write(name, text);
    }
    repository.commit("files");
    let mut world = World {
        island: &island,
        repository,
        engine,
    };
    begins(&world);
    is_isolated(&world);
    leaves_by_the_gateway(&world);
    work_comes_back(&world);
    data(&world);
    moves(&world);
    trash(&world);
    refuses(&world);
    comes_back(&mut world);
    island.holm(&["daemon", "stop", "--all"]).ok();
    assert_eq!(world.containers(), ["store"]);
}

fn begins(world: &World<'_>) {
    let (island, repository) = (world.island, &world.repository);
    repository.holm(&["trust", "--yes"]).ok();
    for name in ["KEY", "FILE"] {
        let mut set = island.holm_command(&repository.path, &["secret", "set", name]);
        let mut set = Running::new(set.stdin(Stdio::piped()));
        set.write("geheim");
        set.close_stdin();
        assert_eq!(set.code(), Some(0));
    }
    // What the user types needs no approval, and nobody asks an engine before.
    assert_eq!(world.containers(), [""; 0]);
    let made = repository
        .holm(&["up", "a", "--driver", "docker", "--json"])
        .json();
    assert_eq!(made["driver"], "docker");
    let without = "`[home] copy` does not reach a container";
    let notes = made["notes"].to_string();
    assert!(notes.contains(without), "{notes}");
    assert_eq!(service(&made, "web")["state"], "ready", "{made}");
    let id = made["id"].as_str().unwrap();
    assert_eq!(
        world.containers(),
        ["store".to_owned(), id.to_owned(), format!("{id}-keeper")]
    );
    let seen = world.sh(
        "a",
        "pwd; id -u; cat index.html node_modules/made ~/set-up /data/db/rows; echo $COLOUR $KEY; git log --format=%s; git status --short",
    );
    let root = repository.path.display();
    assert_eq!(
        seen.ok().out(),
        format!("{root}\n1000\nhello\nbuilt\nset up\nseeded\ngreen\nfiles\nfirst")
    );
    let logs = island.holm(&["logs", "a", "web"]).ok().out();
    assert!(logs.contains("it is up"), "{logs}");
    let page = fetch("127.0.0.1", host_port(island, "a", 3000)).unwrap();
    assert!(
        page.contains("Directory listing") || page.contains("hello"),
        "{page}"
    );
    island.holm(&["checkout", "a", "--ports", "web"]).ok();
    assert!(fetch("127.0.0.1", 3000).is_ok());
    island.holm(&["checkout", "--none"]).ok();
    let top = island.holm(&["show", "a", "--json"]).json();
    assert!(
        top["numbers"]["processes"]
            .as_u64()
            .is_some_and(|count| count > 1),
        "{top}"
    );
    // A program inside asks its keeper, and by it the daemon.
    let ports: Value = island.inside("a", &["holm", "ports", ".", "--json"]).json();
    assert_eq!(ports["ports"][0]["name"], "web");
    let session = island
        .holm(&[
            "session",
            "new",
            "a",
            "--json",
            "--",
            "sh",
            "-c",
            "echo in a session; sleep 1000",
        ])
        .json();
    let session = session["id"].as_str().unwrap().to_owned();
    eventually("the session says it", || {
        island
            .holm(&["session", "read", &session])
            .ok()
            .out()
            .contains("in a session")
    });
    island.holm(&["session", "kill", &session]).ok();
}

fn is_isolated(world: &World<'_>) {
    let isolation = &world.show("a")["isolation"];
    for part in ["mount", "pid", "net", "ipc", "seccomp", "no_new_privs"] {
        assert_eq!(isolation[part], true, "{part}: {isolation}");
    }
    // This engine maps no users, and holm does not claim it.
    assert_eq!(isolation["user"], false);
    assert!(
        isolation["degraded"]
            .as_array()
            .unwrap()
            .contains(&"user".into())
    );
    assert_eq!(isolation["limits"]["memory"], "cgroup");
    let inspected = world.engine.client(&[
        "inspect",
        "-f",
        "{{.HostConfig.Privileged}} {{.HostConfig.CapDrop}} {{.HostConfig.CapAdd}} {{.HostConfig.ReadonlyRootfs}} {{.HostConfig.Memory}} {{.HostConfig.PidsLimit}}",
        &world.container(world.show("a")["id"].as_str().unwrap()),
    ]);
    assert_eq!(inspected, "false [ALL] [] true 536870912 200");
    let status = world
        .sh(
            "a",
            "grep -E 'CapEff|CapBnd|NoNewPrivs|Seccomp_filters' /proc/self/status",
        )
        .ok()
        .out();
    let values: Vec<&str> = status.split_whitespace().skip(1).step_by(2).collect();
    assert_eq!(
        values,
        ["0000000000000000", "0000000000000000", "1", "2"],
        "{status}"
    );
    // Neither a protected path nor the system can be changed.
    for script in [
        "echo > AGENTS.md",
        "rm AGENTS.md",
        "mv ci other",
        "touch ci/more",
        "touch /usr/x",
        "echo > /run/holm/id",
        "echo > /run/holm/objects/x",
        "unshare -U true",
    ] {
        assert_ne!(world.sh("a", script).code, Some(0), "{script}");
    }
    let seen = world.sh(
        "a",
        "ls /holm /proc/1/root 2>&1; ls -d /proc/[0-9]* | wc -l",
    );
    assert!(
        !seen.out().contains("workspaces"),
        "the volume is not there"
    );
}

fn leaves_by_the_gateway(world: &World<'_>) {
    let server = |port: &str| {
        let words = [
            "python3",
            "-u",
            "-m",
            "http.server",
            port,
            "--bind",
            "203.0.113.1",
        ];
        let mut server = Running::new(world.engine.beside(&words).stdout(Stdio::piped()));
        assert!(server.line().contains("Serving"));
        server
    };
    let (mut allowed, mut refused) = (server("8000"), server("9000"));
    let ask = |port: u16| {
        let script = format!(
            "import urllib.request as u\nprint(u.urlopen('http://203.0.113.1:{port}/', timeout=20).status)"
        );
        world.island.python("a", &script)
    };
    assert_eq!(ask(8000).ok().out(), "200");
    assert_ne!(ask(9000).code, Some(0));
    let record = world.island.holm(&["egress", "a", "--json"]).ok().out();
    assert!(
        record.contains("\"refuse\"") && record.contains("9000"),
        "{record}"
    );
    // Without the rules of the keeper the engine's network would lead there, and from there to every port inside.
    let keeper = world.container("-keeper");
    let address =
        world
            .engine
            .client(&["inspect", "-f", "{{.NetworkSettings.IPAddress}}", &keeper]);
    let dial = |host: &str, port: &str| {
        let script = format!("import socket; socket.create_connection(('{host}', {port}), 2)");
        let mut dial = Running::new(
            world
                .engine
                .beside(&["python3", "-c", &script])
                .stderr(Stdio::null()),
        );
        dial.code()
    };
    world
        .island
        .holm(&[
            "session",
            "new",
            "a",
            "--",
            "python3",
            "-m",
            "http.server",
            "3001",
            "--bind",
            "0.0.0.0",
        ])
        .ok();
    eventually("it listens on all addresses", || {
        fetch("127.0.0.1", host_port(world.island, "a", 3001)).is_ok()
    });
    assert_eq!(dial("203.0.113.1", "9000"), Some(0), "it listens");
    assert_ne!(
        dial(&address, "3001"),
        Some(0),
        "nothing comes in by the engine's network"
    );
    for server in [&mut allowed, &mut refused] {
        server.signal(Signal::TERM);
        server.code();
    }
}

fn work_comes_back(world: &World<'_>) {
    let (island, repository) = (world.island, &world.repository);
    let run = repository.holm(&[
        "run",
        "a",
        "--json",
        "--",
        "sh",
        "-c",
        "test \"$KEY$(cat /run/holm/secrets/FILE)\" = geheimgeheim && echo changed > index.html && echo new > new",
    ]);
    let said = run.ok().out();
    assert!(said.contains("\"new\""), "{said}");
    let turns = island.holm(&["turns", "a", "--json"]).json();
    assert_eq!(turns["turns"][0]["files"], 2, "{turns}");
    let changes = repository.holm(&["changes", "a", "--json"]).json();
    assert_eq!(changes["changes"].as_array().unwrap().len(), 2, "{changes}");
    repository.holm(&["apply", "a"]).ok();
    assert_eq!(
        repository.git(&["status", "--short"]),
        " M index.html\n?? new"
    );
    repository.git(&["checkout", "-q", "."]);
    repository.git(&["clean", "-fdq"]);
    repository
        .holm(&["fetch", "a", "--commit", "from inside"])
        .ok();
    assert_eq!(
        repository.git(&["log", "-1", "--format=%s", "holm/a"]),
        "from inside"
    );
}

fn data(world: &World<'_>) {
    let (island, repository) = (world.island, &world.repository);
    world
        .sh("a", "echo first > /data/own/row; echo kept > here")
        .ok();
    island.holm(&["snapshot", "a", "one"]).ok();
    world
        .sh(
            "a",
            "echo second > /data/own/row; rm here; echo more > /data/db/rows",
        )
        .ok();
    repository.holm(&["fork", "a", "b", "--at", "one"]).ok();
    let read = "cat /data/own/row here /data/db/rows; git branch --show-current";
    assert_eq!(
        world.sh("b", read).ok().out(),
        "first\nkept\nseeded\nholm/b"
    );
    island.holm(&["reset", "a", "--volume", "db"]).ok();
    assert_eq!(
        world.sh("a", "cat /data/own/row /data/db/rows").ok().out(),
        "second\nseeded"
    );
    island.holm(&["reset", "a", "--at", "one", "--force"]).ok();
    assert_eq!(world.sh("a", "cat here").ok().out(), "kept");
    let dirty = "from the checkout\n";
    repository.write("uncommitted", dirty);
    repository.write("local", "brought\n");
    repository
        .holm(&[
            "up",
            "d",
            "--dirty",
            "--include",
            "local",
            "--driver",
            "docker",
        ])
        .ok();
    assert_eq!(
        world.sh("d", "cat uncommitted local").ok().out(),
        "from the checkout\nbrought"
    );
    repository.git(&["clean", "-fdq"]);
    island.holm(&["rm", "d", "--force"]).ok();
}

fn moves(world: &World<'_>) {
    let (repository, before) = (&world.repository, world.repository.head());
    repository.git(&["checkout", "-q", "-b", "other"]);
    repository.write("other", "of the branch\n");
    repository.commit("other");
    repository.git(&["checkout", "-q", "main"]);
    assert_eq!(repository.head(), before);
    repository.holm(&["assign", "b", "other", "--stash"]).ok();
    assert_eq!(
        world
            .sh("b", "cat other; git log -1 --format=%s")
            .ok()
            .out(),
        "of the branch\nother"
    );
}

fn trash(world: &World<'_>) {
    let island = world.island;
    island.holm(&["stop", "b"]).ok();
    let logs = island.holm(&["logs", "b"]).ok().out();
    assert!(logs.contains("it is up"), "without a process of it: {logs}");
    island.holm(&["rm", "b", "--force"]).ok();
    island.holm(&["restore", "b"]).ok();
    assert_eq!(world.sh("b", "cat other").ok().out(), "of the branch");
    island.holm(&["rm", "b", "--force"]).ok();
    island.holm(&["gc", "--all"]).ok();
    island.holm(&["restore", "b"]).exits(3);
    let files = world.engine.client(&[
        "exec",
        &world.container("-store"),
        "ls",
        "/holm/data/workspaces",
    ]);
    assert_eq!(files.lines().count(), 1, "{files}");
}

fn refuses(world: &World<'_>) {
    let repository = &world.repository;
    for (settings, what) in [
        ("[project]\nnested = true\n", "nested"),
        (
            "[shared.redis]\naddress = \"127.0.0.1:6379\"\nport = 6379\n",
            "[shared]",
        ),
        (
            "[project]\nprotected_paths = [\"not-there\"]\n",
            "not-there",
        ),
    ] {
        repository.write("holm.toml", settings);
        repository.holm(&["trust", "--yes", "--dirty"]).ok();
        let refused = repository
            .holm(&["up", "x", "--dirty", "--driver", "docker", "--json"])
            .error(4);
        let message = refused["message"].as_str().unwrap();
        assert!(message.contains(what), "{refused}");
        repository.holm(&["show", "x"]).exits(3);
    }
    repository.git(&["checkout", "-q", "."]);
    let refused = repository
        .holm(&["up", "x", "--driver", "kubernetes", "--json"])
        .error(4);
    assert_eq!(refused["code"], "driver_unavailable");
}

#[test]
fn a_label_of_another_driver_is_refused() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.up("a");
    repository.holm(&["up", "a", "--driver", "linux"]).ok();
    let refused = repository.holm(&["up", "a", "--driver", "docker", "--json"]);
    assert_eq!(refused.error(4)["code"], "already_exists");
}

/// Nothing that is killed takes work along.
fn comes_back(world: &mut World<'_>) {
    let island = world.island;
    let marked = "sleep 1000 & echo $! > ~/pid";
    world.sh("a", marked).ok();
    // Another process may have the same number after a new start.
    let is_same = "grep -q sleep /proc/$(cat ~/pid)/cmdline";
    send(island.daemon_pid(), Signal::KILL);
    world.sh("a", is_same).ok();
    let id = world.show("a")["id"].as_str().unwrap().to_owned();
    for end in [format!("{id}-keeper"), id.clone()] {
        world.sh("a", "echo written > survives").ok();
        world.engine.client(&["kill", &world.container(&end)]);
        eventually("holm starts it again", || {
            island
                .holm(&["exec", "a", "--no-start", "--", "cat", "survives"])
                .code
                == Some(0)
        });
        // A command may still have reached the workspace that was just killed.
        eventually("its processes are gone", || {
            world.sh("a", is_same).code != Some(0)
        });
    }
    // The store has the files only; the next question starts it again.
    world.engine.client(&["kill", &world.container("-store")]);
    assert_eq!(world.sh("a", "cat survives").ok().out(), "written");
    world.engine.restart();
    assert_eq!(world.sh("a", "cat survives").ok().out(), "written");
}
