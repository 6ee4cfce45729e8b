//! Which service makes the seed of a forked volume, and what decides its content.

use crate::project::parse_with;
use holm_core::compose::ComposeFiles;
use holm_core::config::{Name, ProjectConfig};
use holm_core::first_start::described;

fn config(compose: &str, toml: &str) -> Result<ProjectConfig, String> {
    let files = ComposeFiles {
        files: [("compose.yaml".to_owned(), compose.to_owned())].into(),
        ..ComposeFiles::default()
    };
    let text = format!("[project]\ncompose = \"compose.yaml\"\n{toml}");
    parse_with(&text, "holm.toml", &files).map_err(|fault| fault.message().to_string())
}

const FORK: &str = "[volumes.data]\npolicy = \"fork\"\n";

#[track_caller]
fn check(services: &str, toml: &str, expect: Option<&str>) {
    let compose = format!("services: {{{services}}}\nvolumes: {{data: {{}}, log: {{}}}}\n");
    let config = config(&compose, toml).unwrap();
    let volume = &config.volumes[&Name::parse("data").unwrap()];
    let found = volume.first_start.as_ref().map(Name::as_str);
    assert_eq!(found, expect, "{services}");
}

#[test]
fn the_service_that_fills_a_volume() {
    let db = "db: {image: x, volumes: [\"data:/d\"]}";
    check(db, FORK, Some("db"));
    check(db, "", None);
    check(
        db,
        "[volumes.data]\npolicy = \"fork\"\nseed = [\"true\"]\n",
        None,
    );
    let ahead = "backup: {image: x, volumes: [\"data:/d\"], depends_on: [db]}";
    check(&format!("{ahead}, {db}"), FORK, Some("db"));
    let reads = "a: {image: x, volumes: [\"data:/d:ro\"]}";
    check(&format!("{reads}, {db}"), FORK, Some("db"));
    check(reads, FORK, None);
    let part =
        "db: {image: x, volumes: [{type: volume, source: data, target: /d, volume: {subpath: a}}]}";
    check(part, FORK, None);
}

#[test]
fn files_of_the_tree_that_the_service_sees_are_inputs() {
    let compose = "services: {db: {image: x, volumes: [\"data:/d\", \"./db/init.sql:/i.sql\"]}}\nvolumes: {data: {}}\n";
    let found = config(compose, FORK).unwrap();
    let volume = &found.volumes[&Name::parse("data").unwrap()];
    let inputs: Vec<String> = volume.seed_inputs.iter().map(ToString::to_string).collect();
    assert_eq!(inputs, ["db/init.sql", "db/init.sql/**"]);
}

#[test]
fn neighbours_do_not_change_a_seed_and_settings_do() {
    let of = |services: &str| {
        let compose = format!("services: {{{services}}}\n");
        let config = config(&compose, "").unwrap();
        described(&config.services[&Name::parse("db").unwrap()])
    };
    let alone = of("db: {image: x, environment: {A: \"1\"}}");
    assert_eq!(
        alone,
        of(
            "a: {image: y}, db: {image: x, environment: {A: \"1\"}, ports: [5432], depends_on: [a]}"
        )
    );
    assert_ne!(alone, of("db: {image: x, environment: {A: \"2\"}}"));
    assert_ne!(alone, of("db: {image: z, environment: {A: \"1\"}}"));
}

#[test]
fn two_forked_volumes_of_one_first_start_would_not_fit_together() {
    let compose = "services: {db: {image: x, volumes: [\"data:/d\", \"log:/l\"]}}\nvolumes: {data: {}, log: {}}\n";
    let both = format!("{FORK}[volumes.log]\npolicy = \"fork\"\n");
    let error = config(compose, &both).unwrap_err();
    assert!(
        error.contains("`volumes.data` and `volumes.log`") && error.contains("`db`"),
        "{error}"
    );
    config(compose, &format!("{both}seed = [\"true\"]\n")).unwrap();
}
