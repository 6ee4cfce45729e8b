//! The verdict on every key of the merged files, and the typed stack.

use super::dotenv::parse_raw;
use super::form::is_outside;
use super::keys;
use super::links;
use super::reader::{Origin, Reader};
use super::shape::{Shape, Verdict, find};
use super::tree::{Entry, Location, Node, Value};
use crate::shape::join;
use holm_core::compose::Stack;
use serde_json::{Map, Number, Value as Json};
use std::collections::BTreeMap;

/// Judges every key, checks the references, and builds the stack.
pub fn judge(reader: &mut Reader<'_, '_>, mut root: Node) -> Stack {
    if !matches!(root.value, Value::Table(_)) {
        // The error is reported already.
        return Stack::default();
    }
    prune(&mut root, &keys::FILE);
    links::select(reader, &mut root);
    table(reader, &mut root, &keys::FILE, "");
    if !reader.is_incomplete {
        links::check(reader, &root);
    }
    if let Some(Value::Table(services)) =
        root.get_mut("services").map(|services| &mut services.value)
    {
        for service in services {
            if let Some(build) = service.node.get_mut("build")
                && build.get("context").is_none()
            {
                build.set("context", Node::text(".", build.at));
            }
            environment(reader, &mut service.node);
            label_files(reader, &mut service.node);
        }
    }
    match serde_json::from_value(json(&root)) {
        Ok(stack) => stack,
        Err(error) => {
            // The shapes are as strict as the types, except for numbers that are out of range.
            reader.error(root.at, format!("a value is out of range: {error}"));
            Stack::default()
        }
    }
}

fn table(reader: &mut Reader<'_, '_>, node: &mut Node, shape: &'static Shape, at: &str) {
    match (shape, &mut node.value) {
        (Shape::Short { table: inner, .. }, _) => table(reader, node, inner, at),
        (Shape::Named(inner), Value::Table(entries)) => {
            for entry in entries {
                table(reader, &mut entry.node, inner, &join(at, &entry.key));
            }
        }
        (Shape::List { item, .. }, Value::List(items)) => {
            for node in items {
                table(reader, node, item, at);
            }
        }
        (Shape::Table(keys), Value::Table(_)) => {
            // A request is about a whole key of a service, or about a part together with what is beside it:
            // the same mount, but writable, is another request.
            let is_whole = std::ptr::eq(*keys, keys::SERVICE_KEYS) || at.is_empty();
            let beside = if is_whole { None } else { Some(json(node)) };
            let Value::Table(entries) = &mut node.value else {
                return;
            };
            entries.retain_mut(|entry| {
                let Some(key) = find(keys, &entry.key) else {
                    return true;
                };
                let place = join(at, &entry.key);
                if let Verdict::Trust(asks) = key.verdict
                    && let Some(words) = asks(&entry.node)
                {
                    let value = beside
                        .clone()
                        .unwrap_or_else(|| json(&entry.node))
                        .to_string();
                    let words = format!("`{place}` {words}: {}", key.note);
                    reader.request(entry.key_at, place.clone(), words, value);
                }
                let stays = stays(reader, entry, key.verdict, &place, key.note);
                table(reader, &mut entry.node, &key.shape, &place);
                stays
            });
        }
        _ => {}
    }
}

/// Whether the entry stays; a warning or an error says why not.
fn stays(
    reader: &mut Reader<'_, '_>,
    entry: &Entry,
    verdict: Verdict,
    at: &str,
    note: &str,
) -> bool {
    match verdict {
        Verdict::Done | Verdict::Trust(_) => true,
        Verdict::Ignored | Verdict::Unused => {
            reader.warn(entry.key_at, format!("`{at}` has no effect: {note}"));
            matches!(verdict, Verdict::Unused)
        }
        Verdict::Refused => {
            reader.error(entry.key_at, format!("`{at}` is not supported: {note}"));
            false
        }
    }
}

/// Adds the variables of the service's files, and the values of names without one. Files outside of the
/// root stay listed.
fn environment(reader: &mut Reader<'_, '_>, service: &mut Node) {
    let project = reader.variables.clone();
    let mut variables: BTreeMap<String, Option<String>> = BTreeMap::new();
    let files = service.remove("env_file");
    let mut outside = Vec::new();
    for file in files.iter().flat_map(Node::items) {
        let path = file.word("path").unwrap_or_default();
        if is_outside(&path) {
            outside.push(file.clone());
            continue;
        }
        let is_optional = file.flag("required") == Some(false);
        let origin = if is_optional {
            Origin::Optional
        } else {
            Origin::Named(file.at)
        };
        let pairs = match file.get("format") {
            Some(_) => reader
                .open(&path, origin)
                .map(|(_, text)| parse_raw(&text))
                .unwrap_or_default(),
            None => reader.pairs(&path, origin, &project),
        };
        variables.extend(pairs);
    }
    let written = service.remove("environment");
    for entry in written.iter().flat_map(Node::entries) {
        let value = match &entry.node.value {
            Value::Null => reader.lookup(&entry.key, entry.key_at, &project),
            _ => entry.node.written(),
        };
        variables.insert(entry.key.clone(), value);
    }
    service.set("environment", map(variables, service.at));
    service.set("env_file", Node::new(Value::List(outside), service.at));
}

/// Adds the labels of the service's files. Files outside of the root stay listed.
fn label_files(reader: &mut Reader<'_, '_>, service: &mut Node) {
    let Some(files) = service.remove("label_file") else {
        return;
    };
    let mut labels: BTreeMap<String, Option<String>> = BTreeMap::new();
    let mut outside = Vec::new();
    for file in files.items() {
        let path = file.written().unwrap_or_default();
        if is_outside(&path) {
            outside.push(file.clone());
        } else {
            labels.extend(reader.pairs(&path, Origin::Named(file.at), &BTreeMap::new()));
        }
    }
    let written = service.remove("labels");
    let written = written.iter().flat_map(Node::entries);
    labels.extend(written.map(|entry| (entry.key.clone(), entry.node.written())));
    service.set("labels", map(labels, service.at));
    service.set("label_file", Node::new(Value::List(outside), service.at));
}

fn map(values: BTreeMap<String, Option<String>>, at: Location) -> Node {
    let entries = values.into_iter().map(|(key, value)| Entry {
        key,
        key_at: at,
        node: Node::new(value.map_or(Value::Null, Value::Text), at),
    });
    Node::new(Value::Table(entries.collect()), at)
}

fn json(node: &Node) -> Json {
    match &node.value {
        Value::Null => Json::Null,
        Value::Flag(flag) => Json::Bool(*flag),
        Value::Number(text) => {
            number(text).map_or_else(|| Json::String(text.clone()), Json::Number)
        }
        Value::Text(text) => Json::String(text.clone()),
        Value::List(items) => Json::Array(items.iter().map(json).collect()),
        Value::Table(entries) => {
            let pairs = entries
                .iter()
                .map(|entry| (entry.key.clone(), json(&entry.node)));
            Json::Object(pairs.collect::<Map<String, Json>>())
        }
    }
}

fn number(text: &str) -> Option<Number> {
    let whole = text.parse::<i64>().ok().map(Number::from);
    whole.or_else(|| Number::from_f64(text.parse().ok()?))
}

/// Removes keys without a value, which mean the same as no key. In a map they are names without a value.
fn prune(node: &mut Node, shape: &'static Shape) {
    match (shape, &mut node.value) {
        (Shape::Short { table, .. }, _) => prune(node, table),
        (Shape::Named(inner), Value::Table(entries)) => {
            entries
                .iter_mut()
                .for_each(|entry| prune(&mut entry.node, inner));
        }
        (Shape::List { item, .. }, Value::List(items)) => {
            items.iter_mut().for_each(|node| prune(node, item))
        }
        (Shape::Table(keys), Value::Table(entries)) => {
            entries.retain(|entry| entry.node.value != Value::Null);
            for entry in entries {
                if let Some(key) = find(keys, &entry.key) {
                    prune(&mut entry.node, &key.shape);
                }
            }
        }
        _ => {}
    }
}
