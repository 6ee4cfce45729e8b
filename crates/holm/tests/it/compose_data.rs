//! Data of Compose files: what a new volume begins with, and databases that each workspace forks.

use crate::rooms::{postgres, postgres_programs};
use crate::services::service;
use crate::support::{Island, Repository, TestImage, eventually};
use serde_json::json;

const SHOP: &str = r#"
services:
  db:
    image: postgres:15
    command: postgres -c fsync=off -c listen_addresses=*
    ports: ["5432:5432"]
    stop_signal: SIGINT
    volumes: ["pgdata:/var/lib/postgresql/data", "./init.sql:/init.sql:ro"]
volumes: {pgdata: {}}
"#;

fn with<'a>(island: &'a Island, compose: &str, toml: &str) -> Repository<'a> {
    let repository = island.repository("shop");
    repository.write("compose.yaml", compose);
    let head = "[project]\ncompose = \"compose.yaml\"\n";
    repository.write("holm.toml", format!("{head}{toml}"));
    repository.write("init.sql", "create table t as select 42 as answer;\n");
    repository.commit("a stack");
    repository
}

#[test]
fn a_database_makes_its_data_once_and_each_workspace_forks_it() {
    let island = Island::new();
    postgres().add(&island, "postgres:15");
    let repository = with(&island, SHOP, "[volumes.pgdata]\npolicy = \"fork\"\n");
    let query = |label: &str, text: &str| {
        let client = postgres_programs().join("bin/psql");
        let client = client.to_str().unwrap();
        let query = [client, "-h", "127.0.0.1", "-U", "postgres", "-Atc", text];
        let mut answer = String::new();
        // Its port is open before it accepts clients.
        eventually("it answers", || {
            let asked = island.inside(label, &query);
            answer = asked.out();
            asked.code == Some(0)
        });
        answer
    };
    let made = |label: &str| {
        let log = island.holm(&["logs", label, "db"]).ok().out();
        log.matches("made the data").count()
    };
    for label in ["a", "b"] {
        let up = repository.holm(&["up", label, "--json"]).json();
        assert_eq!(service(&up, "db")["state"], "ready", "{up:#}");
        assert_eq!(query(label, "select answer from t"), "42");
        query(label, &format!("alter table t rename to {label}"));
        assert_eq!(made(label), 0, "it begins with the data");
    }
    let layers = || {
        let projects = std::fs::read_dir(island.data().join("projects")).unwrap();
        let layers = projects.map(|project| project.unwrap().path().join("layers"));
        let found = layers.flat_map(|path| std::fs::read_dir(path).unwrap());
        let names = found.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let seeds: Vec<_> = names
            .filter(|name| name.starts_with("volume-pgdata-"))
            .collect();
        seeds.len()
    };
    assert_eq!(layers(), 1);
    assert_eq!(query("a", "select answer from a"), "42");
    // A reset begins with the seed again.
    island
        .holm(&["reset", "a", "--volume", "pgdata", "--force"])
        .ok();
    assert_eq!(query("a", "select answer from t"), "42");
    // Other files of the first start make another seed.
    repository.write("init.sql", "create table t as select 43 as answer;\n");
    repository.commit("another answer");
    repository.holm(&["up", "c"]).ok();
    assert_eq!(query("c", "select answer from t"), "43");
    assert_eq!(layers(), 2);
}

#[test]
fn a_first_start_that_fails_is_told_and_leaves_nothing() {
    let island = Island::new();
    let image = || TestImage::with_shell(json!({}));
    image().add(&island, "plain:1");
    let fails = |command: &str, more: &str| {
        let compose = format!(
            "services:\n  db:\n    image: plain:1\n    command: [/bin/sh, -c, \"{command}\"]\n    volumes: [\"data:/data\"]\n{more}volumes: {{data: {{}}}}\n"
        );
        let island = &island;
        let repository = with(island, &compose, "[volumes.data]\npolicy = \"fork\"\n");
        let error = repository.holm(&["up", "x", "--json"]).error(1);
        assert_eq!(error["code"], "seed_failed", "{error}");
        assert_eq!(
            island.holm(&["ls", "--json"]).json()["workspaces"],
            json!([])
        );
        std::fs::remove_dir_all(&repository.path).unwrap();
        error["message"].as_str().unwrap().to_owned()
    };
    let published = "    ports: [\"5432:5432\"]\n";
    let told = fails("echo no space for data; exit 3", published);
    assert!(
        told.contains("exited with 3") && told.contains("no space for data"),
        "{told}"
    );
    let told = fails("exec sleep 1000", "");
    assert!(told.contains("no health check and no port"), "{told}");
}

#[test]
fn a_new_volume_begins_with_what_the_image_has_there() {
    let island = Island::new();
    TestImage::with_shell(json!({}))
        .directory("site", 0o750)
        .file("site/index.html", "of the image\n", 0o644)
        .file("site/below/page", "a page\n", 0o600)
        .link("site/home", "below/page")
        .add(&island, "site:1");
    let service = |name: &str, more: &str| {
        format!(
            "  {name}:\n    image: site:1\n    command: [/bin/sh, -c, 'cat /site/home; touch /site/written; echo looked; exec sleep 1000']\n    volumes: [{more}]\n"
        )
    };
    let compose = [
        "services:\n".to_owned(),
        service("web", "\"site:/site\""),
        service("other", "\"site:/site\""),
        service(
            "empty",
            "{type: volume, source: empty, target: /site, volume: {nocopy: true}}",
        ),
        service("anonymous", "/site"),
        "volumes: {site: {}, empty: {}}\n".to_owned(),
    ];
    let repository = with(&island, &compose.concat(), "");
    repository.holm(&["up", "x"]).ok();
    let logs = |name: &str| {
        let mut logs = String::new();
        eventually("it has looked", || {
            logs = island.holm(&["logs", "x", name]).ok().out();
            logs.contains("looked")
        });
        logs
    };
    for name in ["web", "other", "anonymous"] {
        assert!(logs(name).contains("a page"), "{name}: {}", logs(name));
    }
    assert!(!logs("empty").contains("a page"));
    let seen = "stat -c %a /volumes/site; cat /volumes/site/index.html; ls -A /volumes/site /volumes/empty";
    let seen = island.sh("x", seen).ok().out();
    assert_eq!(
        seen,
        "750\nof the image\n/volumes/empty:\nwritten\n\n/volumes/site:\nbelow\nhome\nindex.html\nwritten"
    );
    // What is removed stays removed.
    island.sh("x", "rm /volumes/site/index.html").ok();
    island.holm(&["restart", "x"]).ok();
    island.sh("x", "test -e /volumes/site/index.html").exits(1);
}
