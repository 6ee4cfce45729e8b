//! Profiles, and names in one part of the files that another part has to declare.

use super::reader::Reader;
use super::tree::{Entry, Location, Node, Value};
use crate::shape::{did_you_mean, short};
use std::collections::{BTreeMap, BTreeSet};

/// Removes the services that no active profile selects.
pub fn select(reader: &mut Reader<'_, '_>, root: &mut Node) {
    let profiles = reader.input().profiles;
    let Some(Value::Table(services)) = root.get_mut("services").map(|services| &mut services.value)
    else {
        return;
    };
    let is_active = |service: &Entry| {
        let wanted = service.node.items_of("profiles");
        let mut wanted = wanted.iter().filter_map(Node::written).peekable();
        wanted.peek().is_none()
            || wanted.any(|profile| profiles.contains(&"*") || profiles.contains(&profile.as_str()))
    };
    services.retain(|service| {
        let is_active = is_active(service);
        if !is_active {
            reader.inactive.push(service.key.clone());
        }
        is_active
    });
}

/// Reports names that are not declared, services without a program, and circles.
pub fn check(reader: &mut Reader<'_, '_>, root: &Node) {
    let names = |name: &str| {
        root.entries_of(name)
            .iter()
            .map(|entry| entry.key.clone())
            .collect()
    };
    let declared = Declared {
        services: names("services"),
        networks: names("networks"),
        volumes: names("volumes"),
        secrets: names("secrets"),
        configs: names("configs"),
    };
    let services = root.entries_of("services");
    for service in services {
        check_service(reader, service, &declared);
    }
    circles(reader, services);
    check_sources(reader, root, "secrets", &["file", "environment"]);
    check_sources(reader, root, "configs", &["file", "environment", "content"]);
}

/// The names of each section.
struct Declared {
    services: Vec<String>,
    networks: Vec<String>,
    volumes: Vec<String>,
    secrets: Vec<String>,
    configs: Vec<String>,
}

fn check_service(reader: &mut Reader<'_, '_>, service: &Entry, declared: &Declared) {
    let node = &service.node;
    let at = format!("services.{}", service.key);
    for (name, place) in wanted_services(node) {
        need(
            reader,
            &declared.services,
            &format!("`{at}` needs service"),
            &name,
            place,
        );
    }
    for entry in node.entries_of("networks") {
        if entry.key != "default" {
            need(
                reader,
                &declared.networks,
                &format!("`{at}` needs network"),
                &entry.key,
                entry.key_at,
            );
        }
    }
    for mount in node.items_of("volumes") {
        check_mount(reader, mount, &declared.volumes, &at);
    }
    let kinds = [
        ("secrets", "secret", &declared.secrets),
        ("configs", "config", &declared.configs),
    ];
    for (key, noun, known) in kinds {
        for grant in node.items_of(key) {
            let source = grant.word("source").unwrap_or_default();
            let what = format!("`{at}` needs {noun}");
            need(reader, known, &what, &source, grant.at);
        }
    }
    for port in node.items_of("ports") {
        check_port(reader, port, &at);
    }
    if !["image", "build", "provider"]
        .iter()
        .any(|key| node.get(key).is_some())
    {
        reader.error(service.key_at, format!("`{at}` needs `image` or `build`"));
    }
    if let Some(provider) = node.get("provider").filter(|it| it.get("type").is_none()) {
        reader.error(provider.at, format!("`{at}.provider` needs `type`"));
    }
    let mode = node
        .get("network_mode")
        .filter(|_| node.get("networks").is_some());
    if let Some(mode) = mode {
        reader.error(
            mode.at,
            format!("`{at}` has both `network_mode` and `networks`"),
        );
    }
}

/// A secret or config has exactly one source.
fn check_sources(reader: &mut Reader<'_, '_>, root: &Node, kind: &str, sources: &[&str]) {
    for entry in root.entries_of(kind) {
        let given = sources
            .iter()
            .filter(|key| entry.node.get(key).is_some())
            .count();
        if given != 1 {
            let what = format!(
                "`{kind}.{}` needs exactly one of `{}`",
                entry.key,
                sources.join("`, `")
            );
            reader.error(entry.key_at, what);
        }
    }
}

fn check_mount(reader: &mut Reader<'_, '_>, mount: &Node, volumes: &[String], at: &str) {
    let kind = mount.word("type").unwrap_or_default();
    let source = mount.get("source");
    let target = mount.word("target").unwrap_or_default();
    if !target.starts_with('/') {
        let what = format!(
            "`{at}.volumes` needs an absolute `target`, not `{}`",
            short(&target)
        );
        reader.error(mount.at, what);
    }
    let subpath = mount.word("subpath").unwrap_or_default();
    if subpath.starts_with('/') || subpath.split('/').any(|part| part == "..") {
        let what = format!(
            "`{at}.volumes.subpath` leaves the volume: `{}`",
            short(&subpath)
        );
        reader.error(mount.at, what);
    }
    match (kind.as_str(), source) {
        ("volume", Some(source)) => {
            let name = source.written().unwrap_or_default();
            need(
                reader,
                volumes,
                &format!("`{at}` needs volume"),
                &name,
                source.at,
            );
        }
        ("bind" | "image", None) => reader.error(
            mount.at,
            format!("`{at}.volumes` needs `source` for a {kind}"),
        ),
        ("", _) => reader.error(mount.at, format!("`{at}.volumes` needs `type`")),
        _ => {}
    }
}

fn check_port(reader: &mut Reader<'_, '_>, port: &Node, at: &str) {
    let is_port = |text: String| holm_core::compose::port_range(&text).is_some();
    if !port
        .word("target")
        .is_some_and(|text| text.parse::<u16>().is_ok_and(|port| port != 0))
    {
        reader.error(
            port.at,
            format!("`{at}.ports` needs `target`, a port from 1 to 65535"),
        );
    }
    let published = port.word("published").filter(|text| !text.is_empty());
    if !published.is_none_or(is_port) {
        reader.error(
            port.at,
            format!("`{at}.ports` needs a port or a range of them as `published`"),
        );
    }
}

/// The services that a service names, with the places.
fn wanted_services(node: &Node) -> Vec<(String, Location)> {
    let mut wanted = Vec::new();
    for entry in node.entries_of("depends_on") {
        if entry.node.flag("required") != Some(false) {
            wanted.push((entry.key.clone(), entry.key_at));
        }
    }
    for key in ["network_mode", "ipc", "pid"] {
        let mode = node
            .get(key)
            .and_then(|mode| Some((mode.written()?, mode.at)));
        if let Some((mode, at)) = mode {
            wanted.extend(
                mode.strip_prefix("service:")
                    .map(|name| (name.to_owned(), at)),
            );
        }
    }
    for key in ["links", "volumes_from"] {
        for item in node.items_of(key) {
            let text = item.written().unwrap_or_default();
            let name = text.split(':').next().unwrap_or_default();
            if name != "container" {
                wanted.push((name.to_owned(), item.at));
            }
        }
    }
    wanted
}

fn need(reader: &mut Reader<'_, '_>, known: &[String], what: &str, name: &str, at: Location) {
    if known.iter().any(|known| known == name) {
        return;
    }
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let near = did_you_mean(name, &known);
    let inactive = reader.inactive.iter().any(|inactive| inactive == name);
    let why = if inactive {
        ", which no active profile selects"
    } else {
        ", which no file declares"
    };
    reader.error(at, format!("{what} `{}`{why}{near}", short(name)));
}

/// Services that wait for each other can never start.
fn circles(reader: &mut Reader<'_, '_>, services: &[Entry]) {
    let waits: BTreeMap<&str, Vec<(String, Location)>> = services
        .iter()
        .map(|service| (service.key.as_str(), wanted_services(&service.node)))
        .collect();
    let mut free: BTreeSet<&str> = BTreeSet::new();
    loop {
        let before = free.len();
        for (name, wanted) in &waits {
            let is_free = |(other, _): &(String, Location)| {
                free.contains(other.as_str()) || !waits.contains_key(other.as_str())
            };
            if wanted.iter().all(is_free) {
                free.insert(name);
            }
        }
        if free.len() == before {
            break;
        }
    }
    // Every stuck service waits for a stuck one, so following these waits ends in a circle.
    let stuck: BTreeSet<&str> = waits
        .keys()
        .copied()
        .filter(|name| !free.contains(name))
        .collect();
    let Some(first) = stuck.iter().next() else {
        return;
    };
    let mut path = vec![*first];
    while let Some(next) = waits[path[path.len() - 1]]
        .iter()
        .find_map(|(name, _)| stuck.get(name.as_str()))
    {
        if let Some(start) = path.iter().position(|name| name == next) {
            let circle: Vec<&str> = path[start..].iter().chain([next]).copied().collect();
            let at = services
                .iter()
                .find(|service| service.key == *next)
                .map(|service| service.key_at);
            let what = format!(
                "services wait for each other: {}",
                short(&circle.join(" → "))
            );
            reader.error(at.unwrap_or_default(), what);
            return;
        }
        path.push(next);
    }
}
