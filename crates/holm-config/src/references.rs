//! Checks references between parts of `holm.toml`: names that must exist, ports and paths that must
//! not collide, dependencies that must not be cyclic.
//!
//! Called by [`super::project`] after the shapes were checked. Works on the document, because an
//! error needs its position.

use super::errors::Findings;
use super::node::Node;
use super::service_build::{has_compose, image_build};
use super::shape::{did_you_mean, short};
use holm_core::config::{Destination, HostPattern, Policy, SETUP_RECEIVER, Word};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;

/// Names with a special meaning in `secrets.*.to`.
const OTHER_RECEIVERS: [&str; 3] = ["runs", "sessions", SETUP_RECEIVER];

pub fn check(root: &Node<'_>, findings: &mut Findings) {
    check_ports(root, findings);
    check_volumes(root, findings);
    check_services(root, findings);
    check_cycles(root, findings);
    check_secrets(root, findings);
}

/// The port of a service's `ready`: a number, a name of `[ports]`, or by default the port with the
/// service's name or the only one.
pub fn ready_port(root: &Node<'_>, service: &str, value: Option<&Node<'_>>) -> Option<NonZeroU16> {
    let ports = section(root, "ports");
    let number = match value {
        Some(value) => match value.text() {
            Some(name) => port_named(&ports, name),
            None => value.integer(),
        },
        None => port_named(&ports, service).or_else(|| match ports.as_slice() {
            [(_, only)] => port_number(only),
            _ => None,
        }),
    };
    NonZeroU16::new(u16::try_from(number?).ok()?)
}

fn section<'a>(root: &Node<'a>, key: &str) -> Vec<(&'a str, Node<'a>)> {
    root.get(key).map(|node| node.entries()).unwrap_or_default()
}

fn port_named(ports: &[(&str, Node<'_>)], name: &str) -> Option<i64> {
    let port = ports.iter().find(|(port, _)| *port == name)?;
    port_number(&port.1)
}

/// The number of an entry of `[ports]`: the entry itself, or its `port`.
pub fn port_number(node: &Node<'_>) -> Option<i64> {
    node.integer().or_else(|| node.get("port")?.integer())
}

fn check_ports(root: &Node<'_>, findings: &mut Findings) {
    let mut taken: BTreeMap<i64, String> = BTreeMap::new();
    let mut take = |port: i64, owner: String, node: &Node<'_>| match taken.get(&port) {
        Some(other) => findings.add(
            node.span.clone(),
            format!("port {port} of `{owner}` is taken by `{other}`"),
        ),
        None => {
            taken.insert(port, owner);
        }
    };
    for (name, node) in section(root, "ports") {
        if let Some(port) = port_number(&node) {
            take(port, format!("ports.{}", short(name)), &node);
        }
    }
    for (name, node) in section(root, "shared") {
        let owner = format!("shared.{}", short(name));
        if let Some(port) = node.get("port") {
            if let Some(number) = port.integer() {
                take(number, owner, &port);
            }
        } else if let Some(address) = node.get("address")
            && let Some(parsed) = node.parsed("address", holm_core::config::Address::parse)
        {
            take(i64::from(parsed.port.get()), owner, &address);
        }
    }
}

fn check_volumes(root: &Node<'_>, findings: &mut Findings) {
    let mut taken: BTreeMap<&str, &str> = BTreeMap::new();
    for (name, node) in section(root, "volumes") {
        let Some(path) = node.get("path") else {
            if !has_compose(root) {
                let what = format!("`volumes.{}` needs `path`", short(name));
                findings.add(node.key_span.clone(), what);
            }
            continue;
        };
        let Some(text) = path.text() else { continue };
        if let Some(other) = taken.insert(text, name) {
            let (text, other) = (short(text), short(other));
            let what = format!("`{text}` is the path of the volume `{other}` too");
            findings.add(path.span.clone(), what);
        }
    }
    for (name, node) in section(root, "volumes") {
        let policy = node.get("policy");
        let policy = policy.as_ref().and_then(|policy| policy.text());
        let policy = policy.unwrap_or(Policy::Isolated.as_str());
        let is_other = Policy::parse_word(policy).is_some_and(|policy| policy != Policy::Shared);
        let Some(single) = node.get("single") else {
            continue;
        };
        // A lock that is never checked would be a broken promise.
        if is_other && single.flag() == Some(true) {
            let name = short(name);
            let what = format!(
                "`volumes.{name}.single` belongs to the policy `shared`, and this one is `{policy}`"
            );
            findings.add(single.key_span.clone(), what);
        }
    }
}

fn check_services(root: &Node<'_>, findings: &mut Findings) {
    let services = section(root, "services");
    let ports = section(root, "ports");
    let service_names: Vec<_> = services.iter().map(|(name, _)| *name).collect();
    let volumes = section(root, "volumes");
    let volume_names: Vec<_> = volumes.iter().map(|(name, _)| *name).collect();
    let port_names: Vec<_> = ports.iter().map(|(name, _)| *name).collect();
    for (name, service) in &services {
        if OTHER_RECEIVERS.contains(name) {
            let what = format!("a service cannot be called `{name}`: `secrets.*.to` uses the word");
            findings.add(service.key_span.clone(), what);
        }
        check_image(root, name, &volume_names, findings);
        // A Compose file may have the service, or those that it depends on.
        if !has_compose(root) {
            let programs = ["run", "image", "build"];
            if programs.iter().all(|key| service.get(key).is_none()) {
                let what = format!("`services.{}` needs `run`, `image` or `build`", short(name));
                findings.add(service.key_span.clone(), what);
            }
            let dependencies = service.get("depends_on");
            for item in dependencies.iter().flat_map(|list| list.items()) {
                must_exist(&item, "service", &service_names, findings);
            }
        }
        let Some(ready) = service.get("ready") else {
            continue;
        };
        for key in ["tcp", "port"] {
            if let Some(value) = ready.get(key) {
                must_exist(&value, "port", &port_names, findings);
            }
        }
        let (http, port) = (ready.get("http"), ready.get("port"));
        match (http, port) {
            (None, Some(port)) => {
                let what = format!("`services.{}.ready.port` belongs to `http`", short(name));
                findings.add(port.key_span.clone(), what);
            }
            (Some(http), None) if ready_port(root, name, None).is_none() => {
                let what = format!("`services.{}.ready` needs `port`", short(name));
                findings.add(http.key_span.clone(), what);
            }
            _ => {}
        }
    }
}

/// `tree` and `volumes` belong to an image.
fn check_image(root: &Node<'_>, name: &str, volumes: &[&str], findings: &mut Findings) {
    let services = root.get("services");
    let Some(service) = services.and_then(|services| services.get(name)) else {
        return;
    };
    let service = &service;
    let named = service.get("volumes");
    for item in named.iter().flat_map(|list| list.items()) {
        must_exist(&item, "volume", volumes, findings);
    }
    let name = short(name);
    if let Some(build) = image_build(root, service) {
        if let (Err(why), Some(node)) = (build, service.get("build")) {
            findings.add(node.span.clone(), format!("`services.{name}.build` {why}"));
        }
        if let Some(image) = service.get("image") {
            let what = format!("`services.{name}` has both `image` and an image to `build`");
            findings.add(image.key_span.clone(), what);
        }
        return;
    }
    if service.get("image").is_some() {
        return;
    }
    for key in ["tree", "volumes"] {
        if let Some(value) = service.get(key) {
            let what = format!("`services.{name}.{key}` needs `image`");
            findings.add(value.key_span.clone(), what);
        }
    }
}

/// Reports a text that is not one of `known`. Other types are checked elsewhere.
fn must_exist(node: &Node<'_>, noun: &str, known: &[&str], findings: &mut Findings) {
    let Some(name) = node.text() else { return };
    if known.contains(&name) {
        return;
    }
    let advice = did_you_mean(name, known);
    let what = format!("there is no {noun} `{}`{advice}", short(name));
    findings.add(node.span.clone(), what);
}

/// Reports each cycle of `depends_on` once, at the service that closes it.
fn check_cycles(root: &Node<'_>, findings: &mut Findings) {
    let services = section(root, "services");
    let edges: BTreeMap<&str, Vec<(&str, Node<'_>)>> = services
        .iter()
        .map(|(name, service)| {
            let items = service.get("depends_on").map(|list| list.items());
            let items = items.unwrap_or_default().into_iter();
            let named = items.filter_map(|item| item.text().map(|text| (text, item.clone())));
            (*name, named.collect())
        })
        .collect();
    let mut done: BTreeSet<&str> = BTreeSet::new();
    for start in edges.keys() {
        // A depth-first walk with its own stack, because the file determines its depth.
        let mut walk: Vec<(&str, usize)> = vec![(start, 0)];
        while let Some((name, next)) = walk.last_mut() {
            let edge = edges.get(name).and_then(|edges| edges.get(*next));
            let Some((target, node)) = edge.filter(|_| !done.contains(name)) else {
                done.insert(name);
                walk.pop();
                continue;
            };
            *next += 1;
            if let Some(at) = walk.iter().position(|(name, _)| name == target) {
                let mut circle: Vec<_> = walk[at..].iter().map(|(name, _)| short(name)).collect();
                circle.push(short(target));
                let what = format!("services wait for each other: {}", circle.join(" → "));
                findings.add(node.span.clone(), what);
            } else if edges.contains_key(target) && !done.contains(target) {
                walk.push((target, 0));
            }
        }
    }
}

fn check_secrets(root: &Node<'_>, findings: &mut Findings) {
    let mut known: Vec<&str> = OTHER_RECEIVERS.to_vec();
    for part in ["services", "ports"] {
        known.extend(section(root, part).iter().map(|(name, _)| *name));
    }
    for (name, secret) in section(root, "secrets") {
        for item in secret.get("to").iter().flat_map(|list| list.items()) {
            must_exist(
                &item,
                "service (or `runs`, `sessions`, `setup`)",
                &known,
                findings,
            );
        }
        let placeholder = secret
            .get("inject")
            .filter(|node| node.text() == Some("placeholder"));
        let hosts = secret
            .get("hosts")
            .map(|list| list.items().len())
            .unwrap_or(0);
        if placeholder.is_some() {
            for item in secret.get("hosts").iter().flat_map(|list| list.items()) {
                let text = item.text().unwrap_or_default();
                let is_name =
                    |destination: &Destination| matches!(destination.host, HostPattern::Name(_));
                if Destination::parse(text).is_ok_and(|destination| !is_name(&destination)) {
                    let what = format!(
                        "`{}`: a placeholder is used at exact names, such as `api.example.org`",
                        short(text)
                    );
                    findings.add(item.span.clone(), what);
                }
            }
        }
        if let Some(inject) = placeholder
            && hosts == 0
        {
            let name = short(name);
            let what = format!("`secrets.{name}` is a placeholder and needs `hosts` to be used at");
            findings.add(inject.span.clone(), what);
        }
    }
}
