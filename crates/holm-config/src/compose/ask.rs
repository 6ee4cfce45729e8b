//! Which values of a key reach the host. Each function returns the end of a sentence whose subject is the key.

use super::form::{is_outside, is_remote};
use super::tree::{Node, Value};
use crate::shape::short;

pub fn always(_: &Node) -> Option<String> {
    Some("needs approval".to_owned())
}

/// The parts of the value ask, not the value.
pub fn in_parts(_: &Node) -> Option<String> {
    None
}

/// A flag that is on, or a text that is not empty.
pub fn set(node: &Node) -> Option<String> {
    match &node.value {
        Value::Null | Value::Flag(false) => None,
        Value::Text(text) if text.is_empty() => None,
        Value::Text(text) => Some(format!("says `{}`", short(text))),
        _ => Some("needs approval".to_owned()),
    }
}

pub fn not_empty(node: &Node) -> Option<String> {
    let names: Vec<String> = match &node.value {
        Value::Null => return None,
        Value::List(items) if items.is_empty() => return None,
        Value::Table(entries) if entries.is_empty() => return None,
        Value::List(items) => items
            .iter()
            .filter_map(|item| item.written().or_else(|| item.word("source")))
            .collect(),
        Value::Table(entries) => entries.iter().map(|entry| entry.key.clone()).collect(),
        _ => node.written().into_iter().collect(),
    };
    Some(format!("names {}", short(&names.join(", "))))
}

pub fn external(node: &Node) -> Option<String> {
    (node.value == Value::Flag(true)).then(|| "uses one that exists already".to_owned())
}

/// A path that leaves the project's root.
pub fn outside(node: &Node) -> Option<String> {
    let path = node.written().filter(|path| is_outside(path))?;
    let verb = if is_remote(&path) { "fetches" } else { "reads" };
    Some(format!("{verb} `{}`", short(&path)))
}

pub fn outside_files(node: &Node) -> Option<String> {
    node.items().iter().find_map(outside)
}

/// The source of a mount: a volume's name is no path.
pub fn mount(node: &Node) -> Option<String> {
    let path = node.written().filter(|path| is_outside(path))?;
    let is_socket = path.ends_with(".sock");
    let note = if is_socket {
        ", a socket that may control the host"
    } else {
        ""
    };
    Some(format!("mounts `{}` of the host{note}", short(&path)))
}

/// Settings of the kernel that are not those of a network namespace.
pub fn beyond_network(node: &Node) -> Option<String> {
    let Value::Table(entries) = &node.value else {
        return not_empty(node);
    };
    let names = entries.iter().map(|entry| entry.key.as_str());
    let names: Vec<&str> = names.filter(|name| !name.starts_with("net.")).collect();
    (!names.is_empty()).then(|| format!("names {}", short(&names.join(", "))))
}

pub fn host_namespace(node: &Node) -> Option<String> {
    let text = node.written()?;
    let is_host = text == "host" || text.starts_with("container:");
    is_host.then(|| format!("joins `{}`", short(&text)))
}

pub fn host_network(node: &Node) -> Option<String> {
    let text = node.written()?;
    let is_own =
        ["none", "bridge", "default", ""].contains(&text.as_str()) || text.starts_with("service:");
    (!is_own).then(|| format!("joins `{}`", short(&text)))
}

/// A build has no network unless a person approves one.
pub fn build_network(node: &Node) -> Option<String> {
    let text = node.written().filter(|text| !text.is_empty())?;
    (text != "none").then(|| format!("joins `{}`", short(&text)))
}

pub fn of_container(node: &Node) -> Option<String> {
    let names = node.items().iter().filter_map(Node::written);
    let outside: Vec<String> = names
        .filter(|name| name.starts_with("container:"))
        .collect();
    (!outside.is_empty()).then(|| format!("uses volumes of {}", short(&outside.join(", "))))
}

pub fn gpu(node: &Node) -> Option<String> {
    (!node.items().is_empty()).then(|| "asks for devices".to_owned())
}
