//! Services that run from images: real programs in the root of an image, in the workspace's network.

use crate::secrets::set;
use crate::services::service;
use crate::support::{Island, Registry, Repository, TestImage, eventually, send};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// As the entrypoints of well-known images: what root would do is left out for another user.
const ENTRYPOINT: &str = r#"#!/bin/sh
set -e
if [ "$1" = redis-server ] && [ "$(id -u)" = 0 ]; then chown redis . && exec gosu redis "$0" "$@"; fi
echo "as $(id -un):$(id -gn) home $HOME in $(pwd) with $COLOUR and $FROM_IMAGE"
exec "$@"
"#;

pub fn redis() -> TestImage {
    TestImage::with_shell(json!({
        "Entrypoint": ["/usr/local/bin/entrypoint.sh"], "Cmd": ["redis-server", "--save", ""],
        "Env": ["FROM_IMAGE=yes", "COLOUR=grey", "PATH=/usr/local/bin:/usr/bin:/bin"],
        "WorkingDir": "/data", "Volumes": {"/data": {}}, "ExposedPorts": {"6379/tcp": {}},
    }))
    .with_users()
    .file("usr/local/bin/entrypoint.sh", ENTRYPOINT, 0o755)
    .program("/usr/bin/redis-server")
    .layer()
    .program("/usr/bin/redis-cli")
}

fn with_config<'a>(island: &'a Island, text: &str) -> Repository<'a> {
    let repository = island.repository("shop");
    repository.write("holm.toml", text);
    repository.commit("services");
    repository
}

const REDIS: &str = "[ports]\ncache = 6379\n\
    [services.cache]\nimage = \"redis:7\"\nready = { command = \"redis-cli ping\" }\n\
    env = { COLOUR = \"green\" }\n\
    [services.low]\nimage = \"redis:7\"\nrun = \"redis-server --port 80 --save ''\"\n\
    ready = { tcp = 80 }\n";

#[test]
fn redis_runs_from_an_image_in_two_workspaces_at_once() {
    // Every program is the same user, as on a machine that gives the user no ranges of ids.
    let island = Island::without("sub_ids");
    redis().add(&island, "redis:7");
    let repository = with_config(&island, REDIS);
    for label in ["a", "b"] {
        let made = repository.holm(&["up", label, "--json"]).json();
        assert_eq!(service(&made, "cache")["state"], "ready", "{made}");
        island
            .inside(label, &["redis-cli", "set", "who", label])
            .ok();
        // A low port, but not one of the resolver's.
        let low = island.inside(label, &["redis-cli", "-p", "80", "ping"]);
        assert_eq!(low.ok().out(), "PONG");
        let bind = "import socket; socket.socket().bind(('127.0.0.1', 53))";
        island.python(label, bind).exits(1);
    }
    for label in ["a", "b"] {
        let who = island
            .inside(label, &["redis-cli", "get", "who"])
            .ok()
            .out();
        assert_eq!(who, label);
        let logs = island.holm(&["logs", label, "cache"]).ok().out();
        let told = "as root:root home /root in /data with green and yes";
        assert!(logs.contains(told), "{logs}");
        let shown = island.holm(&["show", label, "--json"]).ok().json();
        let cache = &service(&shown["numbers"], "cache");
        assert!(cache["processes"].as_u64() >= Some(1), "{shown}");
        let review = island.holm(&["review", label, "--json"]).ok().json();
        let processes = review["evidence"]["processes"].as_array().unwrap();
        let mut of_cache = processes.iter().filter(|one| one["service"] == "cache");
        assert!(of_cache.next().is_some(), "{review:#}");
    }
}

/// As the entrypoint of the well-known image: it makes the data on the first start.
const POSTGRES_ENTRYPOINT: &str = r#"#!/bin/sh
set -e
if [ "$(id -u)" = 0 ]; then
    mkdir -p "$PGDATA"; chown postgres "$PGDATA"; exec gosu postgres "$0" "$@"
fi
if [ "$1" = postgres ] && [ ! -s "$PGDATA/PG_VERSION" ]; then
    initdb --username=postgres --no-sync --auth=trust >/dev/null; echo "made the data as $(id -un)"
    echo "host all all all trust" >> "$PGDATA/pg_hba.conf"
    if [ -e /init.sql ]; then postgres --single -D "$PGDATA" postgres < /init.sql >/dev/null; fi
fi
exec "$@"
"#;

/// A server that refuses to run as root, looks up its user, forks, shares memory, and listens on a path below `/run`.
pub fn postgres() -> TestImage {
    let programs = postgres_programs();
    let version = programs.file_name().unwrap().to_str().unwrap().to_owned();
    let (bin, lib) = (programs.join("bin"), programs.join("lib"));
    let path = format!("PATH={}:/usr/local/bin:/usr/bin:/bin", bin.display());
    let image = TestImage::with_shell(json!({
        "Entrypoint": ["/entrypoint.sh"], "Cmd": ["postgres"], "StopSignal": "SIGINT",
        "Env": [path, "PGDATA=/var/lib/postgresql/data"],
    }))
    .with_users()
    .file("entrypoint.sh", POSTGRES_ENTRYPOINT, 0o755)
    .program("/usr/bin/mkdir")
    .owned_by(999, 999)
    .directory("run/postgresql", 0o3775)
    .directory("var/lib/postgresql", 0o755)
    .directory("var/lib/postgresql/data", 0o700)
    .owned_by(0, 0)
    .link("var/run", "/run")
    .tree(&Path::new("/usr/share/postgresql").join(version));
    let libraries = ["dict_snowball.so", "plpgsql.so"];
    let libraries = libraries.iter().map(|name| lib.join(name));
    let programs = ["initdb", "postgres", "pg_isready"];
    let programs = programs.iter().map(|name| bin.join(name));
    let needed = libraries.chain(programs);
    needed.fold(image, |image, path| image.program(path.to_str().unwrap()))
}

/// `/usr/lib/postgresql/15`.
pub fn postgres_programs() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").unwrap();
    versions.map(|entry| entry.unwrap().path()).max().unwrap()
}

#[test]
fn postgres_makes_its_data_in_a_volume_that_each_workspace_forks() {
    let island = Island::new();
    postgres().add(&island, "postgres:15");
    let repository = with_config(
        &island,
        "[services.db]\nimage = \"postgres:15\"\nrun = \"postgres -c fsync=off\"\nvolumes = [\"pg\"]\n\
         ready = { command = \"pg_isready -h 127.0.0.1\" }\n[volumes.pg]\npath = \"/var/lib/postgresql/data\"\n",
    );
    // The server of a fork recovers first, and refuses clients until then, though its port is open.
    let made = repository.holm(&["up", "x", "--json"]).json();
    assert_eq!(service(&made, "db")["state"], "ready", "{made}");
    assert!(logs(&island, "db").contains("made the data as postgres"));
    let query = |label: &str, text: &str| {
        let client = postgres_programs().join("bin/psql");
        let client = client.to_str().unwrap();
        let query = [client, "-h", "127.0.0.1", "-U", "postgres", "-Atc", text];
        island.inside(label, &query).ok().out()
    };
    query("x", "create table t as select 42 as answer");
    // A fork has a copy of the data, and the servers of both run at once.
    repository.holm(&["fork", "x", "y"]).ok();
    query("y", "update t set answer = 43");
    assert_eq!(query("x", "select answer from t"), "42");
    assert_eq!(query("y", "select answer from t"), "43");
    // The image's stop signal is the server's fast shutdown.
    island.holm(&["stop", "x"]).ok();
    let said = logs(&island, "db");
    assert!(
        said.contains("fast shutdown") && said.contains("is shut down"),
        "{said}"
    );
}

/// Prints what it sees, leaves a program behind, and waits for the stop signal.
const SERVE: &str = r#"#!/bin/sh
trap 'echo heard the signal; exit 7' INT
cat "$HOLM_ROOT/greeting"; cat /data/mark /own/mark /run/holm/secrets/KEY; ls /run/holm/secrets
touch /data/mark /own/mark
echo data >> /data/mark; echo own >> /own/mark
(trap '' INT TERM; exec sleep 1000) &
(kill -STOP "$(exec sh -c 'echo $PPID')"; echo continued) &
until read -r stopped < /proc/$!/stat; case "$stopped" in *") T"*) true ;; *) false ;; esac; do :; done
echo serving
wait
"#;

const SERVED: &str = "[services.app]\nimage = \"IMAGE\"\ntree = \"/code\"\nvolumes = [\"data\"]\n\
    ready = { log = \"serving\" }\nrestart = \"no\"\n\
    [services.other]\nrun = \"exec sleep 1000\"\n\
    [volumes.data]\npath = \"/data\"\n[volumes.unseen]\npath = \"/unseen\"\n\
    [secrets.KEY]\ninject = \"file\"\nto = [\"app\"]\n\
    [secrets.OTHER]\ninject = \"file\"\nto = [\"other\"]\n";

fn app() -> TestImage {
    TestImage::with_shell(
        json!({"Cmd": ["/serve.sh"], "StopSignal": "SIGINT", "Volumes": {"/own": {}}}),
    )
    .file("serve.sh", SERVE, 0o755)
}

fn logs(island: &Island, service: &str) -> String {
    island.holm(&["logs", "x", service]).ok().out()
}

#[test]
fn a_room_shows_what_its_service_names_and_its_files_stay() {
    let island = Island::new();
    // `up` pulls an image that is not here.
    let registry = Registry::start();
    registry.push("app", "1", &app().build());
    crate::images::listed(&island, registry.port);
    let image = format!("127.0.0.1:{}/app:1", registry.port);
    let repository = with_config(&island, &SERVED.replace("IMAGE", &image));
    repository.write("greeting", "hello from the tree\n");
    repository.commit("greeting");
    for (name, value) in [("KEY", "its-own-value"), ("OTHER", "of-the-other")] {
        set(&repository, name, value);
    }
    repository.holm(&["trust", "--yes"]).ok();
    let made = repository.holm(&["up", "x", "--json"]).json();
    assert_eq!(service(&made, "app")["state"], "ready", "{made}");
    let listed = island.holm(&["image", "ls", "--json"]).json();
    assert_eq!(listed["images"][0]["used_by"][0]["label"], "x", "{listed}");
    let refused = island.holm(&["image", "rm", &image, "--json"]).error(4);
    assert_eq!(refused["code"], "image_in_use");
    let first = logs(&island, "app");
    assert!(first.contains("hello from the tree"), "{first}");
    assert!(
        !first.contains("OTHER") && !first.contains("unseen"),
        "{first}"
    );
    // The masked value was printed, so the file could be read.
    assert!(
        first.contains("KEY") && !first.contains("its-own-value"),
        "{first}"
    );
    assert_eq!(island.sh("x", "cat /data/mark").ok().out(), "data");

    // A copy at one instant stops programs of rooms, too; they go on afterwards.
    repository.holm(&["snapshot", "x", "before"]).ok();
    let leader = service(&made, "app")["pid"].to_string();
    let state = format!("grep State /proc/{leader}/status");
    assert!(!island.sh("x", &state).ok().out().contains('T'));
    // A program that another one stopped stays stopped.
    let stopped = "grep -l 'State:.*T' /proc/[0-9]*/status | wc -l";
    assert_eq!(island.sh("x", stopped).ok().out(), "1");

    // The image's stop signal ends it, and everything that it left behind is killed.
    let id = made["id"].as_str().unwrap().to_owned();
    let before = island.inhabitants().len();
    island.holm(&["service", "x", "stop", "app"]).ok();
    eventually("it stops", || {
        service(&island.holm(&["show", "x", "--json"]).json(), "app")["state"] == "stopped"
    });
    let said = logs(&island, "app");
    assert!(
        said.contains("heard the signal") && !said.contains("continued"),
        "{said}"
    );
    eventually("its room is gone", || {
        island.inhabitants().len() + 3 <= before
    });
    // What it wrote outside of volumes stays with the workspace, also when that is stopped.
    island.holm(&["restart", "x"]).ok();
    let second = logs(&island, "app");
    let second = second.rsplit("heard the signal").next().unwrap();
    assert!(
        second.contains("data\n") && second.contains("own\n"),
        "{second}"
    );

    // A reset volume is shown by the next room.
    repository
        .holm(&["reset", "x", "--volume", "data", "--force"])
        .ok();
    eventually("it starts again", || {
        island.sh("x", "cat /data/mark").out() == "data"
    });

    // When the keeper dies, nothing of the room is left; a daemon does not matter.
    island.kill_daemon();
    let keeper = island.keeper_of(&id).unwrap();
    assert!(island.inhabitants().len() > 4);
    send(keeper, Signal::KILL);
    eventually("everything is gone", || island.inhabitants().is_empty());
    let again = island.holm(&["start", "x", "--json"]).json();
    assert_eq!(service(&again, "app")["state"], "ready", "{again}");
}

/// An image whose files attack the process that builds the root of its room.
fn hostile(start: Value) -> TestImage {
    TestImage::with_shell(start)
}

#[test]
fn attack_202_a_hostile_image_is_refused_or_contained() {
    // Then holm mounts its own lists of users, too.
    let island = Island::without("sub_ids");
    let secret = island.write("home/secret", "of the user\n");
    let secret = secret.to_str().unwrap();
    let cat = |path: &str| json!({"Cmd": ["/bin/sh", "-c", format!("cat {path}; echo done; exec sleep 1000")]});
    // Links where holm mounts and reads files.
    hostile(cat("/etc/passwd /etc/group /etc/hosts"))
        .link("etc/passwd", "/etc/shadow")
        .link("etc/group", secret)
        .link("etc/hosts", "../../../../etc/shadow")
        .link("etc/resolv.conf", secret)
        .add(&island, "links");
    hostile(cat(secret)).link("proc", "/").add(&island, "proc");
    hostile(cat(secret)).link("etc", secret).add(&island, "etc");
    hostile(cat("/tmp"))
        .layer()
        .file("tmp", "a file", 0o644)
        .add(&island, "tmp");
    let mut chain = hostile(json!({"Cmd": ["/bin/sh"], "WorkingDir": "/0"}));
    for number in 0..10_000 {
        chain = chain.link(&number.to_string(), &(number + 1).to_string());
    }
    chain.link("10000", secret).add(&island, "chain");
    // A root that its owner may not enter, and more layers than one option of a mount can name.
    let mut closed = hostile(cat("/layer11")).directory(".", 0);
    for number in 0..12 {
        closed = closed
            .layer()
            .file(&format!("layer{number}"), number.to_string(), 0o644);
    }
    closed.add(&island, "closed");
    hostile(json!({})).add(&island, "nothing");

    let names = ["links", "proc", "etc", "tmp", "chain", "closed"];
    let services = names.map(|name| {
        format!("[services.{name}]\nimage = \"{name}\"\nready = {{ log = \"done\" }}\nrestart = \"no\"\n")
    });
    let repository = with_config(&island, &services.concat());
    let made = repository.holm(&["up", "x", "--no-wait", "--json"]).json();
    assert_eq!(made["state"], "running");
    let state = |name: &str| {
        let shown = island.holm(&["show", "x", "--json"]).json();
        service(&shown, name)["state"].as_str().unwrap().to_owned()
    };
    for name in names {
        eventually("each is settled", || state(name) != "starting");
    }
    for (name, ends) in [
        ("links", "ready"),
        ("proc", "exited"),
        ("etc", "exited"),
        ("tmp", "ready"),
        ("chain", "exited"),
        ("closed", "ready"),
    ] {
        let said = logs(&island, name);
        assert_eq!(state(name), ends, "{name}: {said}");
        assert!(!said.contains("of the user"), "{name}: {said}");
    }
    let links = logs(&island, "links");
    assert!(
        links.contains("root:x:") && links.contains("127.0.0.1"),
        "{links}"
    );
    assert!(!links.contains("daemon"), "{links}");
    assert!(logs(&island, "proc").contains("cannot mount /proc into the image"));
    assert!(logs(&island, "closed").contains("11"));
    assert_eq!(std::fs::read_to_string(secret).unwrap(), "of the user\n");

    repository.write("holm.toml", "[services.x]\nimage = \"nothing\"\n");
    repository.commit("an image without a command");
    let error = repository.holm(&["up", "y", "--json"]).error(1);
    assert!(
        error["message"].to_string().contains("names no program"),
        "{error}"
    );
    // A pull follows the rules of the project.
    let closed =
        "[services.x]\nimage = \"registry.example.org/absent:1\"\n[egress]\nmode = \"none\"\n";
    repository.write("holm.toml", closed);
    repository.commit("an image that is not here");
    let error = repository.holm(&["up", "y", "--json"]).error(4);
    assert_eq!(error["code"], "refused", "{error}");
    assert!(
        error["message"]
            .to_string()
            .contains("registry.example.org"),
        "{error}"
    );
}
