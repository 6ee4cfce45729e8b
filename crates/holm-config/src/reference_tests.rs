//! Tests that `docs/config.md` lists every key of the parser.

use super::project_shape::HOLM_TOML;
use super::shape::{Key, Need, Shape};
use super::user_shape::CONFIG_TOML;
use std::fmt::Write;
use std::path::Path;

fn collect(shape: &Shape, at: &str, lines: &mut String) {
    let (keys, below): (&[Key], Option<&Shape>) = match shape {
        Shape::Table(table) => (table.keys, None),
        Shape::Map { value, fixed, .. } => (fixed, Some(value)),
        // A number, or a table with the number and more.
        Shape::Either(_, second) => return collect(second, at, lines),
        _ => return,
    };
    for key in keys {
        let place = if at.is_empty() {
            key.name.to_owned()
        } else {
            format!("{at}.{}", key.name)
        };
        let needed = if key.need == Need::Required {
            " (needed)"
        } else {
            ""
        };
        // Writing to a string cannot fail.
        let _ = writeln!(lines, "| `{place}`{needed} | {} |", key.doc);
        collect(&key.shape, &place, lines);
    }
    if let Some(below) = below {
        collect(below, &format!("{at}.NAME"), lines);
    }
}

fn table(shape: &Shape) -> String {
    let mut lines = String::from("| key | meaning |\n| --- | --- |\n");
    collect(shape, "", &mut lines);
    lines
}

#[test]
fn the_documentation_lists_every_key() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/config.md");
    let text = std::fs::read_to_string(&path).expect("docs/config.md is there");
    for shape in [&HOLM_TOML, &CONFIG_TOML] {
        let table = table(shape);
        assert!(
            text.contains(&table),
            "docs/config.md must have this table:\n{table}"
        );
    }
}

#[test]
fn the_documentation_shows_the_defaults() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/config.md");
    let text = std::fs::read_to_string(&path).expect("docs/config.md is there");
    let defaults = include_str!("../assets/defaults.toml");
    let (_, settings) = defaults
        .split_once("\n\n")
        .expect("a remark, then settings");
    assert!(
        text.contains(settings),
        "docs/config.md must show:\n{settings}"
    );
}
