//! Crates use each other in one direction.

use super::tidy::{code_of, crates, none, sources, top};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// Which crates of ours each may use, as the table in ARCHITECTURE.md says.
fn allowed_edges() -> BTreeMap<String, BTreeSet<String>> {
    let text = fs::read_to_string(top().join("ARCHITECTURE.md")).unwrap();
    let rows = text.lines().filter(|line| line.starts_with("| `holm"));
    let rows = rows.map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, name, _, used, _] = cells.as_slice() else {
            panic!("not a row of the table of crates: {line}");
        };
        let used = match *used {
            "all" => crates(),
            "–" => BTreeSet::new(),
            list => list.split(", ").map(|it| format!("holm-{it}")).collect(),
        };
        (name.trim_matches('`').to_owned(), used)
    });
    rows.collect()
}

#[test]
fn crates_use_each_other_only_as_the_architecture_says() {
    let allowed = allowed_edges();
    let listed: BTreeSet<String> = allowed.keys().cloned().collect();
    assert_eq!(listed, crates(), "the table of crates in ARCHITECTURE.md");
    let mut wrong = Vec::new();
    for (name, allowed) in allowed {
        let text = fs::read_to_string(top().join("crates").join(&name).join("Cargo.toml")).unwrap();
        let own = text.split("[dev-dependencies]").next().unwrap();
        for line in own.lines().filter(|line| line.starts_with("holm-")) {
            let used = line.split(['.', ' ', '=']).next().unwrap();
            if !allowed.contains(used) {
                wrong.push(format!("{name} uses {used}"));
            }
        }
    }
    none("edges that ARCHITECTURE.md does not list", wrong);
}

#[test]
fn only_the_wiring_names_the_kernel_driver() {
    let others = sources().into_iter().filter(|(name, text)| {
        name.starts_with("crates/holm/src/")
            && !name.starts_with("crates/holm/src/wiring/")
            && name != "crates/holm/src/main.rs"
            && code_of(text).contains("holm_linux")
    });
    none(
        "holm_linux outside of main.rs and wiring/",
        others.map(|(name, _)| name).collect(),
    );
}
