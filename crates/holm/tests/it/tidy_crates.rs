//! Crates and modules use each other in one direction.

use super::tidy::{code_of, crates, is_test, none, sources, top};
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

/// Each module knows only the ones below it, so that it can be read, tested and moved with them alone.
#[test]
fn modules_do_not_use_each_other_in_circles() {
    let sources = sources();
    let circles = crates().into_iter().filter_map(|name| {
        let circle = circle(&uses_of_modules(&sources, &name));
        (!circle.is_empty()).then(|| format!("{name}: {circle:?}"))
    });
    none("modules that use each other in circles", circles.collect());
}

/// Which top-level modules of a crate each of them names.
fn uses_of_modules(sources: &[(String, String)], name: &str) -> BTreeMap<String, BTreeSet<String>> {
    let directory = format!("crates/{name}/src/");
    let mut uses = BTreeMap::<String, BTreeSet<String>>::new();
    for (file, text) in sources.iter().filter(|(file, _)| !is_test(file)) {
        let Some(path) = file.strip_prefix(&directory) else {
            continue;
        };
        let path = path.trim_end_matches(".rs").trim_end_matches("/mod");
        let own: Vec<&str> = path.split('/').collect();
        // The root puts the modules together.
        if own != ["lib"] && own != ["main"] {
            let named = named_modules(&code_of(text), &own);
            uses.entry(own[0].to_owned()).or_default().extend(named);
        }
    }
    let modules: BTreeSet<String> = uses.keys().cloned().collect();
    for (module, used) in &mut uses {
        used.retain(|used| used != module && modules.contains(used));
    }
    uses
}

/// The first names below the crate of all paths that begin with `crate::` or `super::`. `own` is where the code is.
fn named_modules(code: &str, own: &[&str]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for start in ["crate::", "super::"] {
        for (at, _) in code.match_indices(start) {
            let is_inner = |before: char| before.is_alphanumeric() || "_:".contains(before);
            if code[..at].ends_with(is_inner) {
                continue;
            }
            let mut below = match start {
                "crate::" => &own[..0],
                _ => &own[..own.len() - 1],
            };
            let mut rest = &code[at + start.len()..];
            while let Some(above) = rest.strip_prefix("super::") {
                below = &below[..below.len().saturating_sub(1)];
                rest = above;
            }
            match below.first() {
                Some(module) => drop(found.insert((*module).to_owned())),
                None => found.extend(first_names(rest)),
            }
        }
    }
    found
}

/// `a` of `a::b`, `a` and `c` of `{a::{b}, c}`.
fn first_names(path: &str) -> Vec<String> {
    let is_of_name = |letter: char| letter.is_alphanumeric() || letter == '_';
    let name = |text: &str| text.chars().take_while(|c| is_of_name(*c)).collect();
    let Some(group) = path.strip_prefix('{') else {
        return vec![name(path)];
    };
    let mut names = Vec::new();
    let (mut depth, mut begin) = (0, 0);
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' | ',' if depth == 0 => {
                names.push(name(group[begin..at].trim_start()));
                begin = at + 1;
                if letter == '}' {
                    break;
                }
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
    names
}

/// What is left when modules that use no other are taken away, again and again, and those that no other uses too.
fn circle(uses: &BTreeMap<String, BTreeSet<String>>) -> BTreeMap<String, BTreeSet<String>> {
    let mut left = uses.clone();
    loop {
        let used: BTreeSet<String> = left.values().flatten().cloned().collect();
        let before = left.len();
        left.retain(|module, uses| !uses.is_empty() && used.contains(module));
        let modules: BTreeSet<String> = left.keys().cloned().collect();
        for uses in left.values_mut() {
            uses.retain(|used| modules.contains(used));
        }
        if left.len() == before && left.values().all(|uses| !uses.is_empty()) {
            return left;
        }
    }
}

#[test]
fn circles_are_found() {
    let named = |code: &str, own: &[&str]| -> Vec<String> {
        named_modules(code, own)
            .into_iter()
            .filter(|it| !it.is_empty())
            .collect()
    };
    assert_eq!(
        named("use crate::{b::{x, y}, c, D};", &["a"]),
        ["D", "b", "c"]
    );
    assert_eq!(
        named("use super::b; my_super::no; super::super::c::d()", &["a"]),
        ["b", "c"]
    );
    assert_eq!(named("use super::b;", &["a", "deep"]), ["a"]);
    assert_eq!(named("use super::super::{b};", &["a", "deep"]), ["b"]);
    let uses = |pairs: &[(&str, &str)]| {
        let mut uses = BTreeMap::<String, BTreeSet<String>>::new();
        for (module, used) in pairs {
            uses.entry(used.to_string()).or_default();
            uses.entry(module.to_string())
                .or_default()
                .insert(used.to_string());
        }
        circle(&uses).into_keys().collect::<Vec<_>>()
    };
    assert!(uses(&[("a", "b"), ("b", "c"), ("a", "c")]).is_empty());
    assert_eq!(
        uses(&[("a", "b"), ("b", "c"), ("c", "b"), ("c", "d")]),
        ["b", "c"]
    );
}
