//! The table of `docs/compose.md`, and the types of every key in it.

use super::Case;
use crate::compose::key_table;
use crate::compose::keys::FILE;
use crate::compose::shape::{Shape, Verdict};
use serde_json::{Map, Value, json};

#[test]
fn the_key_table_is_fresh() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/compose.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (begin, end) = ("<!-- keys -->\n", "<!-- /keys -->");
    let (before, rest) = text.split_once(begin).unwrap();
    let (_, after) = rest.split_once(end).unwrap();
    let fresh = [before, begin, &key_table(), end, after].concat();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &fresh).unwrap();
        return;
    }
    assert!(
        text == fresh,
        "docs/compose.md is stale: UPDATE_DOCS=1 cargo nextest run -p holm-config compose"
    );
}

/// A key that holm neither ignores nor refuses has a field: otherwise the stack would drop its value.
#[test]
fn every_key_has_a_field() {
    let mut file = sample(&FILE);
    // The reader replaces these by the files that they name.
    for (table, key) in [("", "include"), ("/services/x", "extends")] {
        let table = file.pointer_mut(table).and_then(Value::as_object_mut);
        table.unwrap().remove(key).unwrap();
    }
    let text = format!("=== @profiles\nx\n=== compose.yaml\n{file}\n");
    // The service has values that contradict each other, so the file has errors of other kinds.
    let errors = Case::new(&text).result().unwrap_err();
    assert!(errors.contains("`services.x` has both"), "{errors}");
    assert!(!errors.contains("a value is out of range"), "{errors}");
}

/// A value with every key that reaches the stack.
fn sample(shape: &'static Shape) -> Value {
    match shape {
        Shape::Choice(words) => json!(words[0]),
        Shape::Flag | Shape::External => json!(true),
        Shape::Integer | Shape::Number | Shape::Size => json!(1),
        Shape::Duration => json!("1s"),
        Shape::Command | Shape::Texts | Shape::Unique => json!(["x"]),
        Shape::Test => json!(["CMD", "x"]),
        Shape::Map | Shape::Hosts => json!({"x": "y"}),
        Shape::Named(inner) => json!({"x": sample(inner)}),
        Shape::List { item, .. } => json!([sample(item)]),
        Shape::Short { table, .. } => sample(table),
        Shape::Table(keys) => {
            let kept = keys
                .iter()
                .filter(|key| matches!(key.verdict, Verdict::Done | Verdict::Trust(_)));
            let entries = kept.map(|key| (key.name.to_owned(), sample(&key.shape)));
            Value::Object(entries.collect::<Map<String, Value>>())
        }
        Shape::Any | Shape::Text | Shape::Path | Shape::Source => json!("x"),
    }
}
