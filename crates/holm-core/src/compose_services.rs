//! The services, ports and volumes of a workspace that a Compose file describes.
//!
//! Everything that is not an error and has no effect here is a warning. Names of the file become names of the
//! workspace: `My_Web` is `my-web`, and programs find it by both.

mod steps;
mod watches;

use crate::compose::{
    Build, Condition, Grant, Healthcheck, Material, MountKind, Service as FromFile, Stack,
};
use crate::config::{self, Image, Name, Place, Policy, Probe, Ready, Restart, Volume};
use crate::container::{Attachment, Container, Mount, OwnNetwork, Published, Source};
use crate::image_build::{ImageBuild, WrittenBuild};
use crate::image_reference::ImageReference;
use crate::service_network;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::time::Duration;

const VOLUMES: &str = "/volumes";

/// As Compose has them for a health check that says nothing else.
const INTERVAL_MS: u64 = 30_000;
const RETRIES: u64 = 3;

/// The network of services that name none.
const DEFAULT_NETWORK: &str = "default";

/// The parts of a workspace's configuration that come from the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Translated {
    pub services: BTreeMap<Name, config::Service>,
    pub ports: BTreeMap<Name, config::Port>,
    pub volumes: BTreeMap<Name, Volume>,
    /// Sentences.
    pub warnings: Vec<String>,
}

/// Translates the stack, or says everything that is wrong with it.
pub fn translate(stack: &Stack) -> Result<Translated, Vec<String>> {
    let mut work = Work {
        stack,
        names: BTreeMap::new(),
        done: Translated::default(),
        errors: Vec::new(),
        taken: BTreeSet::new(),
    };
    if stack.services.len() > service_network::MOST {
        let most = service_network::MOST;
        return Err(vec![format!("there are more than {most} services")]);
    }
    work.name_services();
    work.reserve_ports();
    for (number, (name, service)) in stack.services.iter().enumerate() {
        work.service(number, name, service);
    }
    if work.errors.is_empty() {
        Ok(work.done)
    } else {
        Err(work.errors)
    }
}

struct Work<'a> {
    stack: &'a Stack,
    /// Names of the file, with those of the workspace.
    names: BTreeMap<&'a str, Name>,
    done: Translated,
    errors: Vec<String>,
    /// Ports of the workspace that services publish.
    taken: BTreeSet<u16>,
}

/// A name of the file as one of the workspace.
pub fn name_of(text: &str) -> Result<Name, String> {
    let plain = text.to_ascii_lowercase().replace(['_', '.'], "-");
    let mut short = plain.trim_matches('-').to_owned();
    while short.contains("--") {
        short = short.replace("--", "-");
    }
    Name::parse(&short)
        .map_err(|error| format!("`{text}` cannot be a name in a workspace: {error}"))
}

/// Where the workspace itself shows a volume of the file.
pub fn place_of_volume(name: &str) -> Place {
    Place::Absolute(format!("{VOLUMES}/{name}"))
}

// === impl Work ===

impl<'a> Work<'a> {
    fn name_services(&mut self) {
        for name in self.stack.services.keys() {
            match name_of(name) {
                Ok(short) => match self.names.iter().find(|(_, other)| **other == short) {
                    Some((other, _)) => self.errors.push(format!(
                        "`services.{name}` and `services.{other}` would both be `{short}` in a workspace"
                    )),
                    None => drop(self.names.insert(name, short)),
                },
                Err(error) => self.errors.push(format!("`services.{name}`: {error}")),
            }
        }
    }

    /// Ports that the file names itself come before those that are chosen.
    fn reserve_ports(&mut self) {
        for (name, service) in &self.stack.services {
            for port in &service.ports {
                let Some(wanted) = port.published.as_deref().and_then(first_of_range) else {
                    continue;
                };
                if port.protocol != "udp" && !self.taken.insert(wanted) {
                    self.errors.push(format!(
                        "`services.{name}.ports` publishes port {wanted}, which another service publishes too"
                    ));
                }
            }
        }
    }

    fn service(&mut self, number: usize, name: &'a str, service: &'a FromFile) {
        let Some(short) = self.names.get(name).cloned() else {
            return;
        };
        match instances(service) {
            Some(0) => {
                self.warn(name, "scale", "is 0, so the service does not run");
                return;
            }
            Some(1) | None => {}
            Some(_) => self.warn(name, "scale", "is more than 1; one instance runs"),
        }
        let Some((reference, build)) = self.image(name, service) else {
            return;
        };
        let (depends_on, begins_after) = self.dependencies(service);
        let published = self.published(&short, name, service);
        let mounts = self.mounts(name, service);
        let container = Container {
            name: name.to_owned(),
            entrypoint: service.entrypoint.clone(),
            command: service.command.clone(),
            environment: given(&service.environment),
            user: service.user.clone(),
            groups: service.group_add.clone(),
            directory: service.working_dir.clone(),
            hostname: service.hostname.clone(),
            watches: self.watches(name, service, &mounts),
            mounts,
            read_only: service.read_only,
            stop_signal: service.stop_signal.clone(),
            stop_grace_ms: service.stop_grace_period,
            network: self.network(number, service, published),
            is_job: self.is_job(name),
            begins_after,
            post_start: self.hooks(name, "post_start", &service.post_start),
            pre_stop: self.hooks(name, "pre_stop", &service.pre_stop),
        };
        let (on_assign, rebuild_when) = watches::on_assign(service, &container.watches);
        let translated = config::Service {
            run: String::new(),
            image: Some(Image {
                reference,
                build,
                tree: None,
                volumes: Vec::new(),
                container: Some(container),
            }),
            ready: service.healthcheck.as_ref().and_then(ready),
            depends_on,
            restart: restart(service),
            on_assign,
            build: None,
            rebuild_when,
            env: BTreeMap::new(),
        };
        let translated = self.after_steps(&short, translated, &service.pre_start);
        self.done.services.insert(short, translated);
    }

    /// The name of the image, and what it is built from. What has `build` is built, whatever `image` says.
    fn image(
        &mut self,
        name: &str,
        service: &FromFile,
    ) -> Option<(ImageReference, Option<ImageBuild>)> {
        if let Some(build) = &service.build {
            let build = self.build(name, build)?;
            return Some((ImageReference::unbuilt()?, Some(build)));
        }
        let Some(image) = &service.image else {
            self.errors
                .push(format!("`services.{name}` needs `image` or `build`"));
            return None;
        };
        match image.parse::<ImageReference>() {
            Ok(image) => Some((image, None)),
            Err(error) => {
                self.errors
                    .push(format!("`services.{name}.image`: {error}"));
                None
            }
        }
    }

    fn build(&mut self, name: &str, build: &Build) -> Option<ImageBuild> {
        let refused = [
            ("additional_contexts", !build.additional_contexts.is_empty()),
            ("entitlements", !build.entitlements.is_empty()),
            ("privileged", build.privileged),
            ("secrets", !build.secrets.is_empty()),
            ("ssh", !build.ssh.is_empty()),
        ];
        for (key, _) in refused.iter().filter(|(_, is_set)| *is_set) {
            let what = "a build of holm sees only files of the commit, and has no rights besides";
            self.errors
                .push(format!("`services.{name}.build.{key}`: {what}"));
        }
        let unused = [
            ("extra_hosts", !build.extra_hosts.is_empty()),
            ("labels", !build.labels.is_empty()),
            ("no_cache", build.no_cache),
            ("platforms", !build.platforms.is_empty()),
            ("pull", build.pull),
            ("shm_size", build.shm_size.is_some()),
            ("tags", !build.tags.is_empty()),
            ("ulimits", !build.ulimits.is_empty()),
        ];
        for (key, _) in unused.iter().filter(|(_, is_set)| *is_set) {
            self.warn(name, &format!("build.{key}"), "has no effect");
        }
        for (argument, _) in build.args.iter().filter(|(_, value)| value.is_none()) {
            let words = format!("names `{argument}`, which has no value");
            self.warn(name, "build.args", &words);
        }
        let args = build.args.iter();
        let written = WrittenBuild {
            context: Some(build.context.clone()),
            dockerfile: build.dockerfile.clone(),
            inline: build.dockerfile_inline.clone(),
            args: args
                .filter_map(|(name, value)| Some((name.clone(), value.clone()?)))
                .collect(),
            target: build.target.clone(),
            network: build.network.clone(),
        };
        let found = written.build("");
        let found = found.map_err(|why| self.errors.push(format!("`services.{name}.build` {why}")));
        found.ok()
    }

    /// The services that must be ready, and those that must only run.
    fn dependencies(&self, service: &FromFile) -> (Vec<Name>, Vec<String>) {
        let (mut ready, mut running) = (Vec::new(), Vec::new());
        for (other, dependency) in &service.depends_on {
            let Some(short) = self.names.get(other.as_str()) else {
                continue;
            };
            let needed = &self.stack.services[other];
            let is_checked = needed.healthcheck.is_some();
            if instances(needed) == Some(0) {
                // It has no instance to wait for.
            } else if dependency.condition == Condition::Started && is_checked {
                running.push(short.to_string());
            } else {
                ready.push(short.clone());
            }
        }
        (ready, running)
    }

    /// Whether a service waits for the end of this one.
    fn is_job(&self, name: &str) -> bool {
        let mut services = self.stack.services.values();
        services.any(|other| {
            let dependency = other.depends_on.get(name);
            dependency.is_some_and(|dependency| dependency.condition == Condition::Completed)
        })
    }

    fn published(&mut self, short: &Name, name: &str, service: &FromFile) -> Vec<Published> {
        let mut published: Vec<Published> = Vec::new();
        for port in &service.ports {
            if port.protocol == "udp" {
                self.warn(
                    name,
                    "ports",
                    &format!("{}/udp is not published", port.target),
                );
                continue;
            }
            let wanted = port.published.as_deref().and_then(first_of_range);
            let number = wanted.unwrap_or_else(|| self.free_port(port.target));
            let Some(outside) = NonZeroU16::new(number) else {
                continue;
            };
            published.push(Published {
                port: number,
                target: port.target,
            });
            let first = (published.len() == 1).then(|| short.clone());
            let named = first.or_else(|| Name::parse(&format!("{short}-{number}")).ok());
            if let Some(named) = named {
                let port = config::Port {
                    port: outside,
                    host: None,
                };
                self.done.ports.insert(named, port);
            }
        }
        published
    }

    /// The port itself, or the next one that no service publishes.
    fn free_port(&mut self, target: u16) -> u16 {
        let next = (target..=u16::MAX).find(|port| !self.taken.contains(port));
        let port = next.unwrap_or(target);
        self.taken.insert(port);
        port
    }

    fn network(&self, number: usize, service: &FromFile, published: Vec<Published>) -> Attachment {
        match service.network_mode.as_deref() {
            Some("none") => return Attachment::Nothing,
            Some("host") => return Attachment::Workspace,
            Some(mode) => {
                let other = mode.strip_prefix("service:");
                if let Some(short) = other.and_then(|other| self.names.get(other)) {
                    return Attachment::Of(short.to_string());
                }
            }
            None => {}
        }
        let mut networks: BTreeMap<String, Vec<String>> = service
            .networks
            .iter()
            .map(|(name, attachment)| (name.clone(), attachment.aliases.clone()))
            .collect();
        if networks.is_empty() {
            networks.insert(DEFAULT_NETWORK.to_owned(), Vec::new());
        }
        if let Some(name) = &service.container_name {
            for aliases in networks.values_mut() {
                aliases.push(name.clone());
            }
        }
        let is_internal = |name: &String| {
            let network = self.stack.networks.get(name);
            network.is_some_and(|network| network.internal)
        };
        let links = service.links.iter().filter_map(|link| {
            let (other, alias) = link.split_once(':').unwrap_or((link, link));
            Some((alias.to_owned(), self.names.get(other)?.to_string()))
        });
        let hosts = service.extra_hosts.iter().flat_map(|(name, addresses)| {
            let addresses = addresses.iter();
            addresses.map(|address| (name.clone(), address.clone()))
        });
        Attachment::Own(OwnNetwork {
            address: service_network::address(number),
            is_internal: networks.keys().all(is_internal),
            networks,
            published,
            links: links.collect(),
            hosts: hosts.collect(),
        })
    }

    fn mounts(&mut self, name: &str, service: &'a FromFile) -> Vec<Mount> {
        let mut mounts = Vec::new();
        for from in &service.volumes_from {
            let (other, mode) = from.split_once(':').unwrap_or((from, "rw"));
            let Some((other, from)) = self.stack.services.get_key_value(other) else {
                continue;
            };
            if other != name {
                let theirs = self.volumes(other, from).into_iter();
                mounts.extend(theirs.map(|mount| Mount {
                    read_only: mount.read_only || mode == "ro",
                    ..mount
                }));
            }
        }
        mounts.extend(self.volumes(name, service));
        for text in &service.tmpfs {
            let (target, options) = text.split_once(':').unwrap_or((text, ""));
            let size = options
                .split(',')
                .find_map(|option| option.strip_prefix("size="));
            mounts.push(Mount {
                source: Source::Memory {
                    size: size.and_then(|size| size.parse().ok()),
                },
                target: PathBuf::from(target),
                read_only: false,
            });
        }
        let materials = [
            ("configs", &service.configs, &self.stack.configs, "/"),
            (
                "secrets",
                &service.secrets,
                &self.stack.secrets,
                "/run/secrets/",
            ),
        ];
        for (key, grants, declared, place) in materials {
            for grant in grants {
                match material(grant, declared.get(&grant.source), place) {
                    Ok(mount) => mounts.push(mount),
                    Err(why) => self.warn(name, key, &why),
                }
            }
        }
        mounts.retain(|mount| mount.target.is_absolute());
        // A mount below another one comes later.
        mounts.sort_by_key(|mount| mount.target.components().count());
        mounts
    }

    fn volumes(&mut self, name: &str, service: &FromFile) -> Vec<Mount> {
        let mut mounts = Vec::new();
        for mount in &service.volumes {
            let source = match (mount.kind, &mount.source) {
                (MountKind::Bind, Some(path)) => {
                    bound(path, mount.create_host_path.unwrap_or(true))
                }
                (MountKind::Volume, Some(volume)) => {
                    let Some(volume) = self.volume(volume) else {
                        continue;
                    };
                    Source::Volume {
                        name: volume.to_string(),
                        subpath: mount.subpath.as_ref().map(PathBuf::from),
                        no_copy: mount.nocopy,
                    }
                }
                (MountKind::Volume, None) => Source::Image,
                (MountKind::Tmpfs, _) => Source::Memory { size: mount.size },
                (MountKind::Bind, None) | (MountKind::Image, _) => {
                    let what = format!(
                        "has a mount at {} of a kind that holm does not have",
                        mount.target
                    );
                    self.warn(name, "volumes", &what);
                    continue;
                }
            };
            mounts.push(Mount {
                source,
                target: PathBuf::from(&mount.target),
                read_only: mount.read_only,
            });
        }
        mounts
    }

    /// Declares a named volume.
    fn volume(&mut self, name: &str) -> Option<Name> {
        let short = match name_of(name) {
            Ok(short) => short,
            Err(error) => {
                self.errors.push(error);
                return None;
            }
        };
        let volume = Volume {
            path: place_of_volume(short.as_str()),
            policy: Policy::Isolated,
            seed: Vec::new(),
            first_start: None,
            seed_inputs: Vec::new(),
            single: false,
        };
        self.done.volumes.entry(short.clone()).or_insert(volume);
        Some(short)
    }

    fn warn(&mut self, service: &str, key: &str, words: &str) {
        let warning = format!("`services.{service}.{key}` {words}");
        self.done.warnings.push(warning);
    }
}

/// How many instances the file asks for.
fn instances(service: &FromFile) -> Option<u64> {
    let replicas = service.deploy.as_ref().and_then(|deploy| deploy.replicas);
    service.scale.or(replicas)
}

/// A path of the file: below the root of the tree, or of the host.
fn bound(path: &str, create: bool) -> Source {
    let is_outside = path.starts_with(['/', '~']) || path == ".." || path.starts_with("../");
    if is_outside {
        Source::Host(PathBuf::from(path))
    } else {
        Source::Tree {
            path: PathBuf::from(if path == "." { "" } else { path }),
            create,
        }
    }
}

fn material(grant: &Grant, declared: Option<&Material>, place: &str) -> Result<Mount, String> {
    let name = grant.target.as_deref().unwrap_or(&grant.source);
    let target = if name.starts_with('/') {
        PathBuf::from(name)
    } else {
        Path::new(place).join(name)
    };
    let source = match declared {
        Some(Material {
            file: Some(file), ..
        }) => bound(file, false),
        Some(Material {
            content: Some(content),
            ..
        }) => Source::Text(content.clone()),
        _ => {
            return Err(format!(
                "`{}` is not given: its value is in no file; declare it in `[secrets]` of holm.toml",
                grant.source
            ));
        }
    };
    Ok(Mount {
        source,
        target,
        read_only: true,
    })
}

/// Variables with a value.
fn given(variables: &BTreeMap<String, Option<String>>) -> Vec<(String, String)> {
    variables
        .iter()
        .filter_map(|(name, value)| Some((name.clone(), value.clone()?)))
        .collect()
}

/// The first port of `8080` or `8080-8090`.
fn first_of_range(text: &str) -> Option<u16> {
    text.split('-').next()?.parse().ok()
}

fn ready(check: &Healthcheck) -> Option<Ready> {
    if check.disable {
        return None;
    }
    let (kind, words) = check.test.split_first()?;
    let argv = match kind.as_str() {
        "CMD" => words.to_vec(),
        "CMD-SHELL" => vec!["/bin/sh".to_owned(), "-c".to_owned(), words.join(" ")],
        _ => return None,
    };
    let interval = check.interval.unwrap_or(INTERVAL_MS);
    let each = interval.saturating_add(check.timeout.unwrap_or(INTERVAL_MS));
    let tries = each.saturating_mul(check.retries.unwrap_or(RETRIES));
    let limit = Duration::from_millis(tries.saturating_add(check.start_period.unwrap_or(0)));
    Some(Ready {
        probe: Probe::Program { argv },
        timeout: limit.max(Ready::DEFAULT_TIMEOUT),
    })
}

fn restart(service: &FromFile) -> Restart {
    let policy = service.deploy.as_ref();
    let policy = policy.and_then(|deploy| deploy.restart_policy.as_ref());
    let policy = policy.and_then(|policy| policy.condition.as_deref());
    match policy.or(service.restart.as_deref()) {
        Some("always" | "unless-stopped" | "any") => Restart::Always,
        Some(text) if text.starts_with("on-failure") => Restart::OnFailure,
        _ => Restart::No,
    }
}
