//! Volumes with a seed: built once for each set of inputs, frozen after a clean stop, and separate
//! in every workspace from then on. With PostgreSQL, Redis, SQLite and MariaDB, which holm does not
//! know.

use crate::support::{Island, Repository, eventually};
use serde_json::Value;

/// PostgreSQL as most projects have it: made by `initdb`, filled by a script.
const POSTGRES: &str = r#"
[services.db]
run = "exec postgres -D /data/pg -k /tmp -c listen_addresses=127.0.0.1"
ready = { command = "psql -h 127.0.0.1 -U shop -Atqc 'select 1' shop" }

[volumes.pg]
path = "/data/pg"
policy = "fork"
seed = ["initdb -D /data/pg -U shop --auth=trust --no-sync >/dev/null", "./seed.sh"]
seed_inputs = ["migrations/**", "seed.sh"]
"#;

/// Leaves the server running: stopping it cleanly is holm's.
const FILL: &str = r#"#!/bin/sh
set -e
echo seeded >> ~/.seeds
pg_ctl -D /data/pg -w -s -l /tmp/pg.log -o "-k /tmp -c listen_addresses=127.0.0.1" start
createdb -h /tmp -U shop shop
for file in migrations/*.sql; do psql -h /tmp -U shop -q -v ON_ERROR_STOP=1 -f $file shop; done
"#;

pub const ROWS: u32 = 1000;

/// A project whose workspaces begin with a filled database.
pub fn with_postgres(island: &Island) -> Repository<'_> {
    let repository = island.repository("shop");
    repository.write("holm.toml", POSTGRES);
    repository.write("seed.sh", FILL);
    make_executable(&repository, "seed.sh");
    let table = format!(
        "create table products (id int primary key, name text);\n\
         insert into products select n, 'product ' || n from generate_series(1, {ROWS}) n;\n"
    );
    repository.write("migrations/001.sql", table);
    repository.commit("a database");
    repository
}

pub fn make_executable(repository: &Repository<'_>, path: &str) {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(repository.path.join(path), mode).unwrap();
}

#[track_caller]
pub fn sql(island: &Island, workspace: &str, statement: &str) -> String {
    let argv = [
        "psql",
        "-h",
        "127.0.0.1",
        "-U",
        "shop",
        "-Atqc",
        statement,
        "shop",
    ];
    island.inside(workspace, &argv).ok().out()
}

pub fn layers(island: &Island) -> Vec<Value> {
    let disk = island.holm(&["df", "--json"]).json();
    disk["layers"].as_array().unwrap().clone()
}

#[test]
fn three_workspaces_migrate_one_database_differently_and_keep_it() {
    let island = Island::new();
    let repository = with_postgres(&island);
    repository.holm(&["up", "-n", "3", "w"]).ok();
    let all = ["w-1", "w-2", "w-3"];
    let seeded = layers(&island);
    assert_eq!(seeded.len(), 1, "one seed for all: {seeded:?}");
    assert_eq!(seeded[0]["used_by"], 3);
    assert!(seeded[0]["key"].as_str().unwrap().starts_with("volume-pg-"));
    for workspace in all {
        assert_eq!(
            sql(&island, workspace, "select count(*) from products"),
            ROWS.to_string()
        );
        // It was stopped cleanly, so there is nothing to recover, in any of them.
        let log = island.holm(&["logs", workspace, "db"]).ok().out();
        assert!(log.contains("database system was shut down at"), "{log}");
        assert!(!log.contains("not properly shut down"), "{log}");
    }
    sql(
        &island,
        "w-1",
        "alter table products add column price int default 7",
    );
    sql(
        &island,
        "w-2",
        "drop table products; create table users (name text)",
    );
    sql(&island, "w-3", "insert into products values (0, 'new')");
    let check = |when: &str| {
        let answers = [
            sql(&island, "w-1", "select count(*), max(price) from products"),
            sql(&island, "w-2", "select count(*) from users"),
            sql(&island, "w-3", "select count(*), min(id) from products"),
        ];
        assert_eq!(answers, ["1000|7", "0", "1001|0"], "{when}");
    };
    check("at once");
    for workspace in all {
        island.holm(&["stop", workspace]).ok();
        island.holm(&["start", workspace]).ok();
    }
    check("stop and start");
    for workspace in all {
        island.holm(&["restart", workspace]).ok();
    }
    check("restart");
    repository.up("fresh");
    assert_eq!(
        sql(&island, "fresh", "select count(*) from products"),
        ROWS.to_string()
    );
    assert_eq!(layers(&island).len(), 1, "nobody seeded again");
}

#[test]
fn nothing_acknowledged_is_lost_when_the_daemon_and_the_keeper_are_killed_attack_153() {
    let island = Island::new();
    let repository = with_postgres(&island);
    let id = repository.up("w");
    let writer = "for i in $(seq 1 100000); do
        psql -h 127.0.0.1 -U shop -qc \"insert into products values ($i + 5000, 'w')\" shop && echo $i > ~/done.new && mv ~/done.new ~/done
        done >/dev/null 2>&1 &";
    island.sh("w", writer).ok();
    let acknowledged = || -> u32 { island.sh("w", "cat ~/done").out().parse().unwrap_or(0) };
    eventually("it writes", || acknowledged() > 5);
    island.kill_daemon();
    let before = acknowledged();
    eventually("it writes on without a daemon", || acknowledged() > before);
    let keeper = island.keeper_of(&id).expect("a keeper");
    crate::support::send(keeper, rustix::process::Signal::KILL);
    eventually("the keeper's end", || island.keeper_of(&id).is_none());
    island.holm(&["start", "w"]).ok();
    let kept: u32 = sql(
        &island,
        "w",
        "select count(*) from products where id > 5000",
    )
    .parse()
    .unwrap();
    let done = acknowledged();
    assert!(
        kept == done || kept == done + 1,
        "{kept} rows, {done} acknowledged"
    );
    // What the others begin with did not change.
    repository.up("other");
    assert_eq!(
        sql(&island, "other", "select max(id) from products"),
        ROWS.to_string()
    );
}

#[test]
fn the_seed_runs_again_for_other_inputs_only_and_gc_drops_what_nobody_uses() {
    let island = Island::new();
    let repository = island.repository("shop");
    let toml = "[volumes.v]\npath = \"/data/v\"\npolicy = \"fork\"\n\
        seed = [\"cat inputs/* > /data/v/all; date +%N > /data/v/when; chmod 0700 /data/v\"]\n\
        seed_inputs = [\"inputs/**\"]\n";
    repository.write("holm.toml", toml);
    repository.write("inputs/a", "one\n");
    repository.write("other", "x\n");
    repository.commit("seeded");
    repository.up("a");
    let when = island.sh("a", "cat /data/v/when").ok().out();
    assert_eq!(
        island.sh("a", "stat -c %a /data/v").out(),
        "700",
        "the seed's mode"
    );
    // Another commit with the same inputs has the same base.
    repository.write("other", "y\n");
    repository.commit("another");
    repository.up("b");
    assert_eq!(island.sh("b", "cat /data/v/when").ok().out(), when);
    // Uncommitted inputs count with `--dirty`, and only there.
    repository.write("inputs/b", "two\n");
    repository.up("c");
    assert_eq!(island.sh("c", "cat /data/v/all").ok().out(), "one");
    repository.holm(&["up", "d", "--dirty"]).ok();
    assert_eq!(island.sh("d", "cat /data/v/all").ok().out(), "one\ntwo");
    assert_eq!(layers(&island).len(), 2);
    // Every kind of write stays in one workspace.
    let poison = "echo poison > /data/v/all; rm /data/v/when; mkdir /data/v/dir; ln /data/v/all /data/v/link";
    island.sh("a", poison).ok();
    assert_eq!(
        island.sh("b", "cat /data/v/all; ls /data/v").ok().out(),
        "one\nall\nwhen"
    );
    // In the trash it is still used.
    island.holm(&["rm", "--force", "d"]).ok();
    island.holm(&["gc"]).ok();
    assert_eq!(layers(&island).len(), 2);
    island.holm(&["restore", "d"]).ok();
    assert_eq!(island.sh("d", "cat /data/v/all").ok().out(), "one\ntwo");
    island.holm(&["rm", "--force", "a", "b", "c", "d"]).ok();
    island.holm(&["gc", "--all"]).ok();
    assert!(layers(&island).is_empty());
}

#[test]
fn a_seed_that_fails_leaves_nothing_and_shows_its_log() {
    let island = Island::new();
    let repository = island.repository("shop");
    let toml = "[volumes.v]\npath = \"/data/v\"\npolicy = \"fork\"\n\
        seed = [\"echo half > /data/v/x\", \"echo migration 7 is broken >&2; exit 9\"]\n";
    repository.write("holm.toml", toml);
    repository.commit("broken");
    let error = repository.holm(&["up", "a", "--json"]).error(1);
    assert_eq!(error["code"], "seed_failed");
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains("of `seed of v` ended with exit code 9"),
        "{message}"
    );
    assert!(message.contains("migration 7 is broken"), "{message}");
    let hint = error["hint"].as_str().unwrap();
    assert!(hint.contains("[volumes.v] seed"), "{hint}");
    let log = hint
        .split_whitespace()
        .find(|word| word.ends_with(".log;"))
        .expect("a log");
    let log = std::fs::read_to_string(log.trim_end_matches(';')).unwrap();
    assert!(
        log.contains("$ echo half") && log.contains("migration 7"),
        "{log}"
    );
    let all = island.holm(&["ls", "--json"]).json();
    assert_eq!(all["workspaces"].as_array().unwrap().len(), 0, "{all}");
    assert!(layers(&island).is_empty());
    let left = std::fs::read_dir(island.data().join("workspaces")).unwrap();
    assert_eq!(left.count(), 0);
    repository.write("holm.toml", toml.replace("exit 9", "exit 0"));
    repository.commit("mended");
    repository.up("a");
    assert_eq!(island.sh("a", "cat /data/v/x").out(), "half");
}

#[test]
fn a_seed_has_what_was_set_up_and_nothing_of_the_user() {
    let island = Island::new();
    let repository = island.repository("shop");
    let toml = "[project]\nsetup = [\"mkdir deps && echo installed > deps/x\"]\ninclude = [\".env\"]\n\
        [volumes.v]\npath = \"/data/v\"\npolicy = \"fork\"\n\
        seed = [\"cat deps/x > /data/v/x; cat .env > /data/v/env || true; ls / > /data/v/places\"]\n\
        [volumes.w]\npath = \"/data/w\"\n";
    repository.write("holm.toml", toml);
    repository.write(".gitignore", "deps\n.env\n");
    repository.commit("set up");
    repository.write(".env", "secret\n");
    repository.holm(&["trust", "--yes"]).ok();
    repository.up("a");
    assert_eq!(
        island.sh("a", "cat /data/v/x .env").out(),
        "installed\nsecret"
    );
    assert_eq!(
        island.sh("a", "cat /data/v/env").out(),
        "",
        "a secret in what all share"
    );
}

#[test]
fn redis_sqlite_and_mariadb_begin_with_their_seed_and_go_their_own_ways() {
    let island = Island::new();
    let repository = island.repository("shop");
    repository.write("holm.toml", OTHERS);
    repository.commit("three databases");
    repository.up("a");
    repository.up("b");
    let ask = [
        ("redis-cli get colour", "redis-cli set colour red", "red"),
        (
            "sqlite3 /data/lite/shop.db 'select name from t'",
            "sqlite3 /data/lite/shop.db \"update t set name = 'red'\"",
            "red",
        ),
        (
            "mariadb --no-defaults -h 127.0.0.1 -u root shop -Nse 'select name from t'",
            "mariadb --no-defaults -h 127.0.0.1 -u root shop -e \"update t set name = 'red'\"",
            "red",
        ),
    ];
    for (read, write, changed) in ask {
        assert_eq!(island.sh("a", read).ok().out(), "green");
        island.sh("a", write).ok();
        assert_eq!(island.sh("a", read).ok().out(), changed);
        assert_eq!(island.sh("b", read).ok().out(), "green", "{read}");
    }
    island.sh("a", "redis-cli save").ok();
    island.holm(&["restart", "a"]).ok();
    for (read, _, changed) in ask {
        assert_eq!(island.sh("a", read).ok().out(), changed, "{read}");
        assert_eq!(island.sh("b", read).ok().out(), "green", "{read}");
    }
}

const OTHERS: &str = r#"
[services.cache]
run = "exec redis-server --bind 127.0.0.1 --port 6379 --dir /data/redis"
ready = { tcp = 6379 }

[services.old]
run = "exec /usr/sbin/mariadbd --no-defaults --datadir=/data/maria --socket=/tmp/maria.sock --bind-address=127.0.0.1 --port=3306 --skip-grant-tables --skip-networking=0"
ready = { command = "mariadb --no-defaults -h 127.0.0.1 -u root -Nse 'select 1'", timeout = "120s" }

[volumes.redis]
path = "/data/redis"
policy = "fork"
seed = ["cd /data/redis && (redis-server --port 6379 --daemonize yes --dir /data/redis --save '60 1' >/dev/null) && until redis-cli set colour green >/dev/null 2>&1; do sleep 0.05; done"]

[volumes.lite]
path = "/data/lite"
policy = "fork"
seed = ["sqlite3 /data/lite/shop.db \"pragma journal_mode=wal; create table t (name text); insert into t values ('green')\""]

[volumes.maria]
path = "/data/maria"
policy = "fork"
seed = ["""
set -e
PATH=$PATH:/usr/sbin
mariadb-install-db --no-defaults --datadir=/data/maria --auth-root-authentication-method=normal --skip-test-db >/dev/null
mariadbd --no-defaults --datadir=/data/maria --socket=/tmp/maria.sock --skip-networking --skip-grant-tables >/tmp/maria.log 2>&1 &
until mariadb --no-defaults -S /tmp/maria.sock -u root -e 'select 1' >/dev/null 2>&1; do sleep 0.2; done
mariadb --no-defaults -S /tmp/maria.sock -u root -e "create database shop; create table shop.t (name text); insert into shop.t values ('green')"
"""]
"#;
