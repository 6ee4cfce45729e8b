//! Data-driven tests of a changed `holm.toml`.

use super::*;
use holm_core::config::Word;
use holm_core::spec::{Dirty, Seed};
use std::path::PathBuf;

/// A stored workspace with a volume and a cache.
fn workspace() -> WorkspaceSpec {
    let volumes = serde_json::to_value([
        volume("pg", "fork", Some("seed")),
        volume("own", "isolated", None),
    ]);
    let caches = serde_json::to_value([cache("npm", "fork", Some("key"))]);
    serde_json::from_value(serde_json::json!({
        "id": "w", "project_id": "p", "label": "x", "root": "/src/shop", "home": "/home/me",
        "code": { "commit": null, "ref_name": null, "object_format": "sha1", "user_name": null,
            "user_email": null, "remotes": [], "shallow": [], "excluded": [] },
        "protected_paths": [], "nested": false,
        "environment": { "path": "/usr/bin", "lang": null, "tz": null },
        "toolchains": [], "home_copies": [],
        "limits": { "memory_bytes": null, "cpus": null, "processes": null, "disk_bytes": null, "required": [] },
        "allow_degraded": [], "brought": { "include_tar": null, "dirty": null },
        "volumes": volumes.unwrap(), "caches": caches.unwrap(),
    }))
    .unwrap()
}

fn volume(name: &str, policy: &str, seed: Option<&str>) -> Volume {
    Volume {
        name: name.to_owned(),
        path: format!("/data/{name}").into(),
        policy: Policy::parse_word(policy).unwrap(),
        single: false,
        seed: seed.map(|command| Seed {
            service: None,
            key: format!("key of {command}"),
            commands: vec![command.to_owned()],
            borrowed: false,
        }),
        generation: 0,
        snapshot: None,
    }
}

fn cache(name: &str, policy: &str, snapshot: Option<&str>) -> Cache {
    Cache {
        name: name.to_owned(),
        path: format!("/home/me/.{name}").into(),
        policy: Policy::parse_word(policy).unwrap(),
        snapshot: snapshot.map(str::to_owned),
    }
}

fn keys(untaken: &[Untaken]) -> Vec<&str> {
    untaken.iter().map(|(key, _)| key.as_str()).collect()
}

#[test]
fn new_volumes_come_and_none_is_given_up() {
    let mut before = workspace();
    before.volumes[0].generation = 3;
    let declared = [volume("new", "isolated", None)];
    let first = data(&before, &declared, &[]);
    assert_eq!(first.volumes, declared);
    assert_eq!(
        first.retired_volumes, before.volumes,
        "they only are not mounted"
    );
    assert!(first.untaken.is_empty());
    // Declared again, it continues with its data.
    (before.volumes, before.retired_volumes) = (first.volumes, first.retired_volumes);
    let again = data(&before, &[volume("pg", "fork", Some("seed"))], &[]);
    assert_eq!(again.volumes[0].generation, 3);
    let retired: Vec<_> = again.retired_volumes.iter().map(|one| &*one.name).collect();
    assert_eq!(retired, ["new", "own"]);
}

#[test]
fn data_that_is_there_keeps_its_policy_and_its_beginning() {
    let before = workspace();
    let mut moved = volume("pg", "fork", Some("other"));
    moved.path = PathBuf::from("/data/elsewhere");
    moved.single = true;
    let now = data(
        &before,
        &[moved, volume("own", "shared", None)],
        &[cache("npm", "isolated", None)],
    );
    let expect = ["volumes.pg.seed", "volumes.own.policy", "caches.npm.policy"];
    assert_eq!(keys(&now.untaken), expect);
    assert_eq!(now.volumes[0].path, PathBuf::from("/data/elsewhere"));
    assert!(now.volumes[0].single);
    assert_eq!(now.volumes[0].seed, before.volumes[0].seed);
    assert_eq!(now.volumes[1], before.volumes[1]);
    assert_eq!(now.caches, before.caches);
    // Another commit has other inputs; the volume keeps its own.
    let mut same = volume("pg", "fork", Some("seed"));
    same.seed.as_mut().unwrap().key = "of other inputs".to_owned();
    let now = data(&before, &[same], &[]);
    assert_eq!(
        (now.untaken, &now.volumes[0]),
        (Vec::new(), &before.volumes[0])
    );
}

#[test]
fn a_seed_is_not_run_on_a_tree_that_it_is_not_named_after() {
    let mut before = workspace();
    before.brought.dirty = Some(Dirty {
        pack: PathBuf::new(),
        worktree_tree: String::new(),
        index_tree: String::new(),
        intended: Vec::new(),
    });
    let declared = [
        volume("new", "fork", Some("x")),
        volume("plain", "fork", None),
    ];
    let now = data(&before, &declared, &[]);
    assert_eq!(keys(&now.untaken), ["volumes.new"]);
    assert_eq!(now.volumes, [volume("plain", "fork", None)]);
}

#[test]
fn every_key_that_only_a_new_workspace_has_is_named() {
    let parse = |text: &str| holm_config::project::parse(text, "holm.toml").unwrap();
    let mut before = workspace();
    let start = "[volumes.pg]\npath = \"/data/pg\"\npolicy = \"fork\"\nseed = [\"x\"]\nseed_inputs = [\"a\"]\n";
    before.declared = Some(declared::declared(&parse(start)));
    assert_eq!(untaken(&before, &parse(start)), []);
    let check = |project: &str, volume: &str, expect: &[&str]| {
        let config = parse(&format!("[project]\n{project}\n{volume}"));
        assert_eq!(keys(&untaken(&before, &config)), expect, "{project}");
    };
    check("name = \"x\"", start, &["project.name"]);
    check("root = \"/x\"", start, &["project.root"]);
    check("driver = \"docker\"", start, &["project.driver"]);
    check("include = [\".env\"]", start, &["project.include"]);
    check("setup = [\"npm ci\"]", start, &["project.setup"]);
    check(
        "",
        &start.replace("\"a\"", "\"b\""),
        &["volumes.pg.seed_inputs"],
    );
    // Other keys are compared elsewhere; none is missing in both.
    check(
        "nested = true\nisolation = \"project\"\nprotected_paths = [\"x\"]",
        start,
        &[],
    );
}

#[test]
fn what_takes_effect_when_is_told() {
    let before = workspace();
    let mut after = before.clone();
    after.volumes.push(volume("new", "isolated", None));
    after.caches.clear();
    after.protected_paths.push("infra".to_owned());
    let untaken = vec![("project.root".to_owned(), "/a → /b".to_owned())];
    let report = differences(&before, &after, untaken);
    assert_eq!(
        report.at_next_start,
        ["project.protected_paths", "volumes", "caches"]
    );
    assert_eq!(report.needs_new_workspace, ["project.root"]);
    let expect = [
        "project.protected_paths: + infra",
        "volumes: + new = isolated at /data/new",
        "caches: − npm = fork at /home/me/.npm",
        "project.root: /a → /b (only a new workspace)",
    ];
    assert_eq!(report.changes, expect);
}
