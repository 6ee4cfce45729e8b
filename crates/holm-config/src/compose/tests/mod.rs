//! Conformance cases of the Compose specification, and hostile files.
//!
//! Each case is a file `NAME.files` with the input and a file `NAME.out` with the result;
//! `UPDATE_DOCS=1 cargo nextest run -p holm-config compose` rewrites the results, and a person reads the difference.

mod develop;
mod documents;
mod hostile;
mod names;
mod peer;
mod seeds;

use super::{Input, Unread, read};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A case: its files, and the parts `@files`, `@environment` and `@profiles` with one entry on each line.
pub struct Case<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Case<'a> {
    pub fn new(text: &'a str) -> Self {
        let parts = text.split("=== ").skip(1);
        let parts = parts.map(|part| part.split_once('\n').unwrap_or((part, "")));
        Case(
            parts
                .map(|(path, content)| (path.trim(), content))
                .collect(),
        )
    }

    pub fn lines(&self, part: &str) -> Vec<&'a str> {
        self.0
            .get(part)
            .map(|text| text.lines().collect())
            .unwrap_or_default()
    }

    pub fn files(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.0
            .iter()
            .map(|(path, text)| (*path, *text))
            .filter(|(path, _)| !path.starts_with('@'))
    }

    pub fn environment(&self) -> BTreeMap<String, String> {
        let pairs = self.lines("@environment");
        let pairs = pairs.iter().filter_map(|line| line.split_once('='));
        pairs
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }

    pub fn main(&self) -> Vec<&'a str> {
        match self.lines("@files") {
            files if files.is_empty() => vec!["compose.yaml"],
            files => files,
        }
    }

    /// The stack, warnings and requests as JSON, or the errors as text.
    pub fn result(&self) -> Result<Value, String> {
        let input = Input {
            root: "/home/me/shop",
            files: &self.main(),
            environment: &self.environment(),
            profiles: &self.lines("@profiles"),
        };
        let mut read_file = |path: &str| {
            let text = self.0.get(path).map(|text| (*text).to_owned());
            text.ok_or(Unread::Missing)
        };
        let reading = read(&input, &mut read_file).map_err(|errors| errors.to_string())?;
        let remarks = reading
            .warnings
            .iter()
            .map(|it| format!("{}:{}:{}: {}", it.file, it.line, it.column, it.words));
        let requests = reading.requests.iter().map(|it| {
            format!(
                "{}:{}:{}: {} = {}",
                it.at.file, it.at.line, it.at.column, it.at.words, it.value
            )
        });
        let mut result = json!({
            "stack": reading.stack,
            "warnings": remarks.collect::<Vec<_>>(),
            "requests": requests.collect::<Vec<_>>(),
            "inactive": reading.inactive,
        });
        prune(&mut result);
        Ok(result)
    }
}

/// Removes what is empty, so that a case shows only what it is about.
fn prune(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, value) in map.iter_mut() {
                // A variable or a volume without anything is still there.
                let is_map = [
                    "environment",
                    "args",
                    "networks",
                    "volumes",
                    "depends_on",
                    "labels",
                    "services",
                ]
                .contains(&key.as_str());
                match value.as_object_mut().filter(|_| is_map) {
                    Some(entries) => entries.values_mut().for_each(prune),
                    None => prune(value),
                }
            }
            map.retain(|_, value| match value {
                Value::Null | Value::Bool(false) => false,
                Value::Array(items) => !items.is_empty(),
                Value::Object(map) => !map.is_empty(),
                _ => true,
            });
        }
        Value::Array(items) => items.iter_mut().for_each(prune),
        _ => {}
    }
}

pub fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/compose/tests/cases")
}

#[test]
fn conformance() {
    let mut names: Vec<PathBuf> = std::fs::read_dir(cases())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    names.retain(|path| path.extension().is_some_and(|it| it == "files"));
    names.sort();
    assert!(names.len() >= 20, "{names:?}");
    let mut wrong = Vec::new();
    for path in names {
        let text = std::fs::read_to_string(&path).unwrap();
        let written = match Case::new(&text).result() {
            Ok(result) => serde_json::to_string_pretty(&result).unwrap() + "\n",
            Err(errors) => errors + "\n",
        };
        let file = path.with_extension("out");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&file, &written).unwrap();
        }
        let expected = std::fs::read_to_string(&file).unwrap_or_default();
        if written != expected {
            wrong.push(format!("{}:\n{written}", path.display()));
        }
    }
    assert!(
        wrong.is_empty(),
        "UPDATE_DOCS=1 rewrites them\n{}",
        wrong.join("\n")
    );
}
