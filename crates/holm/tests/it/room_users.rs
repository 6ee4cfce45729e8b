//! Services of images with several users: entrypoints that start as root and go on as another user, several users in one
//! image, images that start as a number. What root of a room tries against its neighbours and the user.

use crate::rooms::{postgres, postgres_programs, redis};
use crate::secrets::set;
use crate::services::service;
use crate::support::{Island, Repository, TestImage, eventually, ids};
use serde_json::json;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const NGINX: &str = "user www-data; pid /run/nginx.pid; error_log stderr; events {}
http { access_log off; server { listen 8080; root /site; } }
";

fn nginx() -> TestImage {
    TestImage::with_shell(json!({
        "Entrypoint": ["nginx", "-c", "/nginx.conf"], "Cmd": ["-g", "daemon off;"],
        "Env": ["PATH=/usr/sbin:/usr/bin:/bin"], "StopSignal": "SIGQUIT",
    }))
    .with_users()
    .program("/usr/sbin/nginx")
    .directory("run", 0o755)
    .file("nginx.conf", NGINX, 0o644)
    .file("site/index.html", "of nginx\n", 0o644)
    .directory("var/log/nginx", 0o755)
    .directory("var/lib/nginx", 0o755)
}

/// Starts as a number, owns a part of its files, and prints what it may do.
const APP: &str = r#"#!/bin/sh
id; echo "home $HOME"
touch /home/app/new && stat -c 'home of %u:%g, file of %u' /home/app/.
touch /etc/new 2>/dev/null || echo "no file in /etc"
touch /data/new && stat -c 'data of %u:%g' /data/seeded
cat /run/holm/secrets/KEY >/dev/null && echo "read its secret"
echo to stdout > /dev/stdout
gosu root id 2>/dev/null || echo "not root again"
echo serving; exec sleep 1000
"#;

fn app() -> TestImage {
    let start = json!({
        "Cmd": ["/app.sh"], "User": "1000:1000", "Env": ["PATH=/usr/local/bin:/usr/bin:/bin"],
    });
    TestImage::with_shell(start)
        .with_users()
        .file("app.sh", APP, 0o755)
        .owned_by(1000, 1000)
        .directory("home/app", 0o700)
        .directory("data", 0o700)
        .file("data/seeded", "of the image", 0o600)
}

const SERVICES: &str = "[ports]\nweb = 8080\n\
    [services.db]\nimage = \"postgres:15\"\nrun = \"postgres -c fsync=off\"\nvolumes = [\"pg\"]\n\
    ready = { command = \"pg_isready -h 127.0.0.1\" }\n\
    [services.cache]\nimage = \"redis:7\"\nready = { command = \"redis-cli ping\" }\n\
    [services.web]\nimage = \"nginx:1\"\nready = { tcp = 8080 }\n\
    [services.app]\nimage = \"app:1\"\nvolumes = [\"data\"]\nready = { log = \"serving\" }\n\
    [volumes.pg]\npath = \"/var/lib/postgresql/data\"\n[volumes.data]\npath = \"/data\"\n\
    [secrets.KEY]\ninject = \"file\"\nto = [\"app\"]\n";

fn with_services<'a>(island: &'a Island) -> Repository<'a> {
    postgres().add(island, "postgres:15");
    redis().add(island, "redis:7");
    nginx().add(island, "nginx:1");
    app().add(island, "app:1");
    let repository = island.repository("shop");
    repository.write("holm.toml", SERVICES);
    repository.commit("services");
    set(&repository, "KEY", "its-own-value");
    repository.holm(&["trust", "--yes"]).ok();
    repository
}

fn query(island: &Island, label: &str, text: &str) -> String {
    let client = postgres_programs().join("bin/psql");
    let client = client.to_str().unwrap();
    let query = [client, "-h", "127.0.0.1", "-U", "postgres", "-Atc", text];
    island.inside(label, &query).ok().out()
}

/// The first id of the user's range, where this process may know it.
fn first_of_range() -> Option<u32> {
    let (user, _) = ids()?;
    let known = std::fs::read_to_string("/etc/subuid").unwrap();
    let range = holm_core::sub_ids::find(&known, "holm-tester", user);
    Some(
        range
            .expect("a range of ids: `scripts/set-up test` makes it")
            .first,
    )
}

fn owner(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().uid()
}

fn place(island: &Island, made: &serde_json::Value) -> PathBuf {
    let id = made["id"].as_str().unwrap();
    island.data().join("workspaces").join(id)
}

#[test]
fn services_start_as_root_and_go_on_as_their_users() {
    let island = Island::new();
    let repository = with_services(&island);
    let made = repository.holm(&["up", "x", "--json"]).json();
    for name in ["db", "cache", "web", "app"] {
        let said = island.holm(&["logs", "x", name]).out();
        assert_eq!(service(&made, name)["state"], "ready", "{name}: {said}");
    }
    assert_eq!(made["isolation"]["degraded"], json!([]), "{made}");
    let logs = |name: &str| island.holm(&["logs", "x", name]).ok().out();
    assert!(logs("db").contains("made the data as postgres"));
    assert!(
        logs("cache").contains("as redis:redis"),
        "{}",
        logs("cache")
    );
    let said = logs("app");
    for told in [
        "uid=1000(app) gid=1000(app)",
        "home /home/app",
        "home of 1000:1000, file of 1000",
        "no file in /etc",
        "data of 1000:1000",
        "read its secret",
        "to stdout",
        "not root again",
    ] {
        assert!(said.contains(told), "{told}: {said}");
    }
    island.sh("x", "curl -sf http://127.0.0.1:8080/").ok();
    // Each server has the user that it asked for.
    if let Some(first) = first_of_range() {
        let uids = "grep -h ^Uid: /proc/[0-9]*/status | cut -f 2 | sort -nu";
        let uids = island.sh("x", uids).ok().out();
        for id in [33, 998, 999, 1000] {
            let outside = (first + id - 1).to_string();
            assert!(uids.lines().any(|line| line == outside), "{id}: {uids}");
        }
        let volumes = place(&island, &made).join("volumes");
        assert_eq!(owner(&volumes.join("pg/0/own")), first + 998);
        assert_eq!(owner(&volumes.join("data/0/own")), first + 999);
    }
    // Data of others is measured, copied, forked, reset and deleted as that of the user.
    query(&island, "x", "create table t as select 42 as answer");
    repository.holm(&["snapshot", "x", "before"]).ok();
    query(&island, "x", "drop table t");
    repository.holm(&["fork", "x", "y", "--at", "before"]).ok();
    assert_eq!(query(&island, "y", "select answer from t"), "42");
    repository
        .holm(&["reset", "x", "--volume", "pg", "--force"])
        .ok();
    eventually("it starts again", || {
        let client = postgres_programs().join("bin/psql");
        let line = format!(
            "{} -h 127.0.0.1 -U postgres -Atc 'select 1'",
            client.display()
        );
        island.sh("x", &line).out() == "1"
    });
    island.holm(&["restart", "x"]).ok();
    let again = island.holm(&["show", "x", "--json"]).json();
    assert_eq!(service(&again, "app")["state"], "ready", "{again}");
    let pg = again["volumes"].as_array().unwrap().iter();
    let pg = pg.clone().find(|volume| volume["name"] == "pg").unwrap();
    assert!(pg["bytes"].as_u64() > Some(10 << 20), "{again}");
    let sizes = island.holm(&["df", "--json"]).ok().out();
    assert!(!sizes.contains("not counted"), "{sizes}");
    for label in ["x", "y"] {
        island.holm(&["rm", label, "--force"]).ok();
    }
    island.holm(&["gc", "--all"]).ok();
    for name in ["postgres:15", "redis:7", "nginx:1", "app:1"] {
        island.holm(&["image", "rm", name]).ok();
    }
    eventually("everything is gone", || {
        island.holm(&["gc", "--all"]).ok();
        let left = ["trash", "reap", "workspaces", "owned"].map(|name| island.data().join(name));
        let left = left
            .iter()
            .filter_map(|place| std::fs::read_dir(place).ok());
        left.flatten().next().is_none()
    });
}

/// Without ranges of ids holm says what cannot work. What works then is in `rooms`.
#[test]
fn with_one_user_holm_says_what_cannot_work() {
    let island = Island::without("sub_ids");
    app().add(&island, "app:1");
    let repository = island.repository("shop");
    let text = "[services.app]\nimage = \"app:1\"\nrun = \"sh -c 'id -u; echo serving; exec sleep 1000'\"\n\
        ready = { log = \"serving\" }\n";
    repository.write("holm.toml", text);
    repository.commit("services");
    let made = repository.holm(&["up", "x", "--json"]).json();
    let notes = made["notes"].to_string();
    assert!(
        notes.contains("all programs of app have one user"),
        "{made}"
    );
    let shown = island.holm(&["show", "x", "--json"]).ok().out();
    assert!(
        shown.contains("all programs of app have one user"),
        "{shown}"
    );
    let said = island.holm(&["logs", "x", "app"]).ok().out();
    assert!(!said.contains("1000\n"), "{said}");
    // `doctor` looks at the machine, which has ranges.
    let doctor = island.holm(&["doctor", "--json"]);
    if ids().is_some() {
        assert!(doctor.out().contains("65536 from"), "{}", doctor.out());
    }
}

/// A seed is built by programs of other users, and each workspace forks it.
#[test]
fn a_seed_keeps_the_users_of_its_files() {
    let island = Island::new();
    postgres().add(&island, "postgres:15");
    let repository = island.repository("shop");
    repository.write(
        "compose.yaml",
        "services:\n  db:\n    image: postgres:15\n    command: [postgres, -c, fsync=off, -c, \"listen_addresses=*\"]\n    ports: [\"5432:5432\"]\n\
         \x20   volumes: [\"pgdata:/var/lib/postgresql/data\"]\n\
         \x20   healthcheck: {test: [CMD, pg_isready, -h, 127.0.0.1], interval: 1s}\nvolumes: {pgdata: {}}\n",
    );
    repository.write(
        "holm.toml",
        "[project]\ncompose = \"compose.yaml\"\n[volumes.pgdata]\npolicy = \"fork\"\n",
    );
    repository.commit("a database");
    for label in ["x", "y"] {
        let made = repository.holm(&["up", label, "--json"]).json();
        assert_eq!(service(&made, "db")["state"], "ready", "{made}");
        query(&island, label, "create table t (who text)");
        let said = island.holm(&["logs", label, "db"]).ok().out();
        assert!(!said.contains("made the data"), "{said}");
        if let Some(first) = first_of_range() {
            let own = place(&island, &made).join("volumes/pgdata/0/own");
            assert_eq!(owner(&own), first + 998);
        }
    }
}

/// Root of a room tries everything, and says what worked.
const TRIES: &str = r#"#!/bin/sh
try() { what=$1; shift; if "$@" >/dev/null 2>&1; then echo "worked: $what"; else echo "refused: $what"; fi; }
as() { user=$1; shift; setpriv --reuid=$user --regid=$user --clear-groups -- "$@"; }
until [ -s /data/victim ]; do sleep 0.05; done
read -r victim < /data/victim
parent=$(cut -d ' ' -f 4 /proc/$$/stat)
id
try mount mount -t tmpfs none /tmp
try remount mount -o remount,rw /proc
try unmount umount /proc
try users unshare -U /bin/sh -c :
try mounts unshare -m /bin/sh -c :
try device mknod /data/disk b 8 0
try root chroot / /bin/sh -c :
try signal kill -0 "$victim"
try init kill -0 1
try environment cat /proc/$victim/environ
try files ls /proc/$victim/root/
try memory cat /proc/1/maps
try secret cat /run/holm/secrets/OTHER
try kernel sh -c 'echo 1 > /proc/sys/kernel/panic'
try hosts sh -c 'echo x >> /etc/hosts'
try protected sh -c 'echo x >> /code/AGENTS.md'
try absent touch /code/.env
try own chown 1000 /code/file
stat -c 'file of %u:%g' /code/file
try group chgrp 1000 /code/file
chmod 777 /code
try create as 1000 touch /code/of-another
cp /usr/bin/id /data/id; chown 0 /data/id; chmod 4755 /data/id
try id-again sh -c 'test "$(setpriv --reuid=1000 --clear-groups -- /data/id -u)" = 0'
try outside as 70000 id
echo tree > /code/of-root && echo "root writes the tree"
chown 1000 /data/given && echo "root gives files of its volume"
as 1000 touch /data/by-another 2>/dev/null || echo "another user needs permission"
as 33 kill -0 $$ 2>/dev/null || echo "another user signals nothing"
echo tried; exec sleep 1000
"#;

fn hostile() -> TestImage {
    let programs = [
        "mount", "umount", "unshare", "mknod", "cut", "chgrp", "chmod", "kill", "cp",
    ];
    let programs = programs.map(|name| format!("/usr/bin/{name}"));
    let image = TestImage::with_shell(json!({"Cmd": ["/try.sh"]}))
        .with_users()
        .program("/usr/sbin/chroot")
        .directory("data", 0o755)
        .file("data/given", "", 0o644)
        .file("try.sh", TRIES, 0o755);
    programs
        .iter()
        .fold(image, |image, path| image.program(path))
}

fn attacked<'a>(island: &'a Island, arguments: &[&str]) -> (Repository<'a>, String) {
    hostile().add(island, "hostile");
    let repository = island.repository("shop");
    repository.write("file", "of the commit\n");
    repository.write("AGENTS.md", "original\n");
    repository.write(
        "holm.toml",
        "[project]\nprotected_paths = [\"AGENTS.md\", \".env\"]\n\
         [services.hostile]\nimage = \"hostile\"\ntree = \"/code\"\nvolumes = [\"data\"]\n\
         ready = { log = \"tried\" }\nrestart = \"no\"\n\
         [services.victim]\nrun = \"until [ -e /data/given ]; do sleep 0.05; done; echo $$ > /data/victim; exec sleep 1000\"\n\
         [volumes.data]\npath = \"/data\"\n\
         [secrets.OTHER]\ninject = \"file\"\nto = [\"victim\"]\n",
    );
    repository.commit("services");
    set(&repository, "OTHER", "value-of-the-victim");
    repository.holm(&["trust", "--yes"]).ok();
    let made = repository
        .holm(&[&["up", "x", "--json"], arguments].concat())
        .json();
    let said = island.holm(&["logs", "x", "hostile"]).ok().out();
    assert_eq!(
        service(&made, "hostile")["state"],
        "ready",
        "{made}\n{said}"
    );
    assert!(said.contains("uid=0(root) gid=0(root)"), "{said}");
    (repository, said)
}

#[test]
fn attack_206_root_of_a_room_is_root_of_nothing_else() {
    let island = Island::new();
    let (repository, said) = attacked(&island, &[]);
    assert!(!said.contains("worked:"), "{said}");
    assert_eq!(said.matches("refused:").count(), 22, "{said}");
    for told in [
        "root writes the tree",
        "root gives files of its volume",
        "another user needs permission",
        "another user signals nothing",
    ] {
        assert!(said.contains(told), "{told}: {said}");
    }
    // Whatever its users did: what is in the tree is the user's, and comes out as that.
    let shown = island.holm(&["show", "x", "--json"]).json();
    let upper = place(&island, &shown).join("upper");
    if let Some((user, _)) = ids() {
        for name in ["file", "of-root"] {
            let path = upper.join(name);
            if path.exists() {
                assert_eq!(owner(&path), user, "{name}");
            }
        }
    }
    island.holm(&["changes", "x"]).ok();
    repository.holm(&["apply", "x", "--yes"]).ok();
    assert_eq!(
        std::fs::read_to_string(repository.path.join("of-root")).unwrap(),
        "tree\n"
    );
    island.holm(&["rm", "x", "--force"]).ok();
    island.holm(&["gc", "--all"]).ok();
}

#[test]
fn attack_206_in_a_tree_of_all_users_root_gives_files_away() {
    let island = Island::without("own_tree");
    let (_, said) = attacked(&island, &[]);
    for what in ["own", "group", "create"] {
        assert!(
            said.contains(&format!("worked: {what}\n")),
            "{what}: {said}"
        );
    }
    if let Some((user, _)) = ids() {
        let shown = island.holm(&["show", "x", "--json"]).json();
        let upper = place(&island, &shown).join("upper");
        assert_ne!(owner(&upper.join("of-another")), user);
    }
}

#[test]
fn attack_206_without_landlock_and_filter_root_of_a_room_signals_its_neighbours() {
    let island = Island::without("landlock,seccomp,namespace_limit,protection");
    let (_, said) = attacked(&island, &["--allow-degraded=landlock"]);
    for what in ["users", "signal", "init", "protected", "absent"] {
        assert!(
            said.contains(&format!("worked: {what}\n")),
            "{what}: {said}"
        );
    }
    // These hold by the room's own user namespace, which owns no mounts, no devices and no other process.
    for what in [
        "mount",
        "remount",
        "unmount",
        "device",
        "environment",
        "files",
        "memory",
        "secret",
        "kernel",
        "hosts",
        "own",
        "create",
        "id-again",
        "outside",
    ] {
        assert!(
            said.contains(&format!("refused: {what}\n")),
            "{what}: {said}"
        );
    }
}
