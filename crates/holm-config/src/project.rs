//! Parses a `holm.toml`.
//!
//! The command line (to show and to ask) and the daemon (to obey) read the same text with the same
//! code. First every shape is checked, then references between parts, then the values are built;
//! building skips what was reported.

use super::errors::{ConfigErrors, Findings};
use super::node::{Node, read};
use super::project_shape::HOLM_TOML;
use super::service_build::{build_command, image_build};
use super::{devcontainer, references, shape, variables};
use holm_core::check::DEFAULT_TIMEOUT;
use holm_core::compose::ComposeFiles;
use holm_core::compose_services::place_of_volume;
use holm_core::config::{
    Address, Agent, Cache, Check, ComposeRemarks, Destination, Egress, HostHeader, Image, Inject,
    Limits, Name, Pattern, Place, Policy, Port, Probe, Project, ProjectConfig, ProtectedPath,
    Ready, Receiver, Root, SETUP_RECEIVER, Secret, SecretSource, Service, Shared, Variable, Volume,
    parse_duration, parse_size,
};
use holm_core::image_build::Dockerfile;
use holm_core::image_reference::ImageReference;
use holm_core::{Fault, ProjectName};
use std::collections::BTreeMap;
use std::num::NonZeroU16;

/// Parses `text`; errors name `origin` (`holm.toml`).
pub fn parse(text: &str, origin: &str) -> Result<ProjectConfig, ConfigErrors> {
    read(text, origin, |root, findings: &mut Findings| {
        shape::check(&HOLM_TOML, root, "", findings);
        references::check(root, findings);
        let mut config = build(root);
        variables::resolve(root, &mut config, findings);
        config
    })
}

/// Parses `text`, and adds what the Compose files say that it names.
pub fn parse_with(text: &str, origin: &str, files: &ComposeFiles) -> Result<ProjectConfig, Fault> {
    let mut config = parse(text, origin)?;
    devcontainer::add(&mut config, files)?;
    let services = config.services.values_mut();
    let images = services.filter_map(|service| service.image.as_mut());
    for build in images.filter_map(|image| image.build.as_mut()) {
        if let Dockerfile::File(path) = &build.dockerfile {
            build.digest = files.dockerfiles.get(path).cloned();
        }
    }
    Ok(config)
}

/// The Dockerfiles that are part of what a person approves, by their path below the root.
pub fn dockerfiles(config: &ProjectConfig) -> Vec<String> {
    let builds = config.image_builds();
    let files = builds.filter_map(|(_, build)| match &build.dockerfile {
        Dockerfile::File(path) => Some(path.clone()),
        Dockerfile::Inline(_) => None,
    });
    files.collect()
}

fn build(root: &Node<'_>) -> ProjectConfig {
    ProjectConfig {
        project: root
            .get("project")
            .map(|node| project(&node))
            .unwrap_or_default(),
        ports: entries(root, "ports", Name::parse, |_, node| declared_port(node)),
        env: BTreeMap::new(),
        services: entries(root, "services", Name::parse, |name, node| {
            service(root, name, node)
        }),
        volumes: entries(root, "volumes", Name::parse, volume),
        shared: entries(root, "shared", Name::parse, |_, node| shared(node)),
        caches: entries(root, "caches", Name::parse, |_, node| cache(node)),
        secrets: entries(root, "secrets", Variable::parse, |_, node| secret(node)),
        egress: root
            .get("egress")
            .map(|node| egress(&node))
            .unwrap_or_default(),
        limits: root
            .get("limits")
            .map(|node| limits(&node))
            .unwrap_or_default(),
        agents: entries(root, "agents", Name::parse, |_, node| agent(node)),
        checks: entries(root, "checks", Name::parse, |_, node| check(node)),
        review_required: root
            .get("review")
            .is_some_and(|node| node.is_set("required")),
        check_runs: root.get("review").is_some_and(|node| node.is_set("check")),
        compose: ComposeRemarks::default(),
        dev_container: None,
    }
}

/// The entries of a table with user-chosen names.
pub fn entries<K: Ord, E, T>(
    node: &Node<'_>,
    key: &str,
    parse: impl Fn(&str) -> Result<K, E>,
    build: impl Fn(&str, &Node<'_>) -> Option<T>,
) -> BTreeMap<K, T> {
    let entries = node.get(key).map(|node| node.entries()).unwrap_or_default();
    let built = entries.iter().filter_map(|(name, node)| {
        let key = parse(name).ok()?;
        Some((key, build(name, node)?))
    });
    built.collect()
}

fn project(node: &Node<'_>) -> Project {
    Project {
        name: node.parsed("name", ProjectName::parse),
        root: node.parsed("root", Root::parse),
        setup: node.texts("setup").unwrap_or_default(),
        setup_inputs: node.list("setup_inputs", Pattern::parse),
        setup_files: node
            .list("setup_files", Place::parse_given)
            .unwrap_or_default(),
        include: node.list("include", Pattern::parse).unwrap_or_default(),
        protected_paths: node
            .list("protected_paths", ProtectedPath::parse)
            .unwrap_or_default(),
        isolation: node.word("isolation").unwrap_or_default(),
        driver: node.word("driver").unwrap_or_default(),
        nested: node.is_set("nested"),
        compose: match node.string("compose") {
            Some(file) => vec![file],
            None => node.texts("compose").unwrap_or_default(),
        },
        devcontainer: node.string("devcontainer"),
    }
}

fn declared_port(node: &Node<'_>) -> Option<Port> {
    let number = references::port_number(node)?;
    Some(Port {
        port: NonZeroU16::new(u16::try_from(number).ok()?)?,
        host: node.parsed("host", HostHeader::parse),
    })
}

fn port(node: &Node<'_>) -> Option<NonZeroU16> {
    NonZeroU16::new(u16::try_from(node.integer()?).ok()?)
}

fn service(root: &Node<'_>, name: &str, node: &Node<'_>) -> Option<Service> {
    Some(Service {
        run: node.string("run").unwrap_or_default(),
        image: image(root, node),
        ready: node
            .get("ready")
            .and_then(|ready_node| ready(root, name, &ready_node)),
        depends_on: node.list("depends_on", Name::parse).unwrap_or_default(),
        restart: node.word("restart").unwrap_or_default(),
        on_assign: node.word("on_assign").unwrap_or_default(),
        build: build_command(root, node),
        rebuild_when: node
            .list("rebuild_when", Pattern::parse)
            .unwrap_or_default(),
        env: entries(node, "env", Variable::parse, |_, value| {
            value.text().map(str::to_owned)
        }),
    })
}

fn image(root: &Node<'_>, node: &Node<'_>) -> Option<Image> {
    let build = image_build(root, node).and_then(Result::ok);
    let reference = match &build {
        Some(_) => ImageReference::unbuilt(),
        None => node.parsed("image", str::parse),
    };
    Some(Image {
        reference: reference?,
        build,
        tree: node.parsed("tree", Root::parse_in_image),
        volumes: node.list("volumes", Name::parse).unwrap_or_default(),
        container: None,
    })
}

fn ready(root: &Node<'_>, service: &str, node: &Node<'_>) -> Option<Ready> {
    let probe = if let Some(path) = node.string("http") {
        let port = references::ready_port(root, service, node.get("port").as_ref())?;
        Probe::Http { path, port }
    } else if let Some(tcp) = node.get("tcp") {
        let port = references::ready_port(root, service, Some(&tcp))?;
        Probe::Tcp { port }
    } else if let Some(text) = node.string("log") {
        Probe::Log { text }
    } else {
        Probe::Command {
            command: node.string("command")?,
        }
    };
    let timeout = node
        .parsed("timeout", parse_duration)
        .unwrap_or(Ready::DEFAULT_TIMEOUT);
    Some(Ready { probe, timeout })
}

fn volume(name: &str, node: &Node<'_>) -> Option<Volume> {
    let path = match node.get("path") {
        Some(_) => node.parsed("path", Place::parse_mount)?,
        // Of a Compose file.
        None => place_of_volume(name),
    };
    Some(Volume {
        path,
        policy: node.word("policy").unwrap_or(Policy::Isolated),
        seed: node.texts("seed").unwrap_or_default(),
        first_start: None,
        seed_inputs: node.list("seed_inputs", Pattern::parse).unwrap_or_default(),
        single: node.is_set("single"),
    })
}

fn shared(node: &Node<'_>) -> Option<Shared> {
    let address = node.parsed("address", Address::parse)?;
    let port = match node.get("port") {
        Some(node) => port(&node)?,
        None => address.port,
    };
    Some(Shared { address, port })
}

fn cache(node: &Node<'_>) -> Option<Cache> {
    Some(Cache {
        path: node.parsed("path", Place::parse)?,
        policy: node.word("policy").unwrap_or(Policy::Fork),
    })
}

fn secret(node: &Node<'_>) -> Option<Secret> {
    let from = match node.get("from") {
        Some(node) => secret_source(&node)?,
        None => SecretSource::Stored,
    };
    let receiver = |text: &str| match text {
        "runs" => Ok(Receiver::Runs),
        "sessions" => Ok(Receiver::Sessions),
        SETUP_RECEIVER => Ok(Receiver::Setup),
        name => Name::parse(name).map(Receiver::Service),
    };
    Some(Secret {
        from,
        inject: node.word("inject").unwrap_or(Inject::Env),
        to: node.list("to", receiver)?,
        hosts: node.list("hosts", Destination::parse).unwrap_or_default(),
        ttl: node.parsed("ttl", parse_duration),
    })
}

fn secret_source(node: &Node<'_>) -> Option<SecretSource> {
    if node.get("stored").is_some() {
        return Some(SecretSource::Stored);
    }
    if let Some(variable) = node.parsed("env", Variable::parse) {
        return Some(SecretSource::Env(variable));
    }
    if let Some(file) = node.parsed("file", Place::parse) {
        return Some(SecretSource::File(file));
    }
    node.texts("command").map(SecretSource::Command)
}

/// Also for the user's settings, like [`limits`].
pub fn egress(node: &Node<'_>) -> Egress {
    Egress {
        mode: node.word("mode"),
        allow: node.list("allow", Destination::parse).unwrap_or_default(),
    }
}

pub fn limits(node: &Node<'_>) -> Limits {
    let processes = node.get("processes").and_then(|node| node.integer());
    Limits {
        memory: node.parsed("memory", parse_size),
        cpus: node.get("cpus").and_then(|node| node.number()),
        processes: processes.and_then(|number| u64::try_from(number).ok()),
        disk: node.parsed("disk", parse_size),
    }
}

fn agent(node: &Node<'_>) -> Option<Agent> {
    Some(Agent {
        command: node.texts("command")?,
        timeout: node.parsed("timeout", parse_duration),
    })
}

fn check(node: &Node<'_>) -> Option<Check> {
    Some(Check {
        run: node.string("run")?,
        timeout: node
            .parsed("timeout", parse_duration)
            .unwrap_or(DEFAULT_TIMEOUT),
        when: node.list("when", Pattern::parse).unwrap_or_default(),
        volumes: node.word("volumes").unwrap_or_default(),
    })
}

#[cfg(test)]
#[path = "project_tests.rs"]
mod tests;
