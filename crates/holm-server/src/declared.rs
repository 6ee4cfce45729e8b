//! The services, secrets, checks and agents of `holm.toml` in their stored form. Called by
//! [`super::compose`].

use super::trust::Judged;
use holm_core::check::Check;
use holm_core::config::{self, Name, ProjectConfig, Receiver, Variable};
use holm_core::image_reference::{ImageDigest, ImageReference};
use holm_core::spec::{
    Agent, Declared, Probe, Ready, Secret, SecretSource, Service, ServiceImage, WorkspaceSpec,
};
use std::collections::BTreeMap;

/// The manifest of each image by its name.
pub type Manifests = BTreeMap<ImageReference, ImageDigest>;

/// Settings that only a new workspace takes over.
pub fn declared(config: &ProjectConfig) -> Declared {
    let project = &config.project;
    let seeds = config.volumes.iter().map(|(name, volume)| {
        let inputs = volume.seed_inputs.iter().map(ToString::to_string);
        (name.to_string(), inputs.collect())
    });
    Declared {
        seed_inputs: seeds.collect(),
        name: project.name.as_ref().map(ToString::to_string),
        root: project.root.as_ref().map(ToString::to_string),
        driver: project.driver.as_str().to_owned(),
        include: project.include.iter().map(ToString::to_string).collect(),
    }
}

/// `manifests` has the manifest of each image that a service names.
pub fn services(config: &ProjectConfig, manifests: &Manifests) -> Vec<Service> {
    let services = config.services.iter().map(|(name, service)| Service {
        name: name.to_string(),
        run: service.run.clone(),
        image: service
            .image
            .as_ref()
            .and_then(|image| service_image(image, manifests)),
        ready: service
            .ready
            .as_ref()
            .map(ready)
            .or_else(|| answers(config, name, service)),
        depends_on: service.depends_on.iter().map(Name::to_string).collect(),
        restart: service.restart,
        on_assign: service.on_assign,
        build: service.build.clone(),
        rebuild_when: service
            .rebuild_when
            .iter()
            .map(|pattern| pattern.to_string())
            .collect(),
        env: variables(&{
            let mut env = config.env.clone();
            env.extend(service.env.clone());
            env
        }),
        port: config.service_port(name).map(|port| port.get()),
    });
    services.collect()
}

fn service_image(image: &config::Image, manifests: &Manifests) -> Option<ServiceImage> {
    Some(ServiceImage {
        reference: image.reference.clone(),
        manifest: manifests.get(&image.reference)?.clone(),
        tree: image.tree.as_ref().map(|tree| tree.as_path().to_owned()),
        volumes: image.volumes.iter().map(Name::to_string).collect(),
        build: image.build.clone(),
        container: image.container.clone(),
    })
}

pub fn variables(declared: &BTreeMap<Variable, String>) -> Vec<(String, String)> {
    let variables = declared.iter();
    variables
        .map(|(name, value)| (name.to_string(), value.clone()))
        .collect()
}

/// What the commands of a layer find besides files: variables, and the image of the Dev Container that they run in.
pub fn surroundings(config: &ProjectConfig) -> Vec<(String, String)> {
    let container = config.dev_container.as_ref();
    let mut services = config.services.iter();
    let service = container.and_then(|it| services.find(|(name, _)| name.as_str() == it.service));
    let image = service.and_then(|(_, service)| service.image.as_ref());
    with_image(variables(&config.env), image.map(|image| &image.reference))
}

/// The same of a workspace.
pub fn stored_surroundings(spec: &WorkspaceSpec) -> Vec<(String, String)> {
    let container = spec.dev_container.as_ref();
    let mut services = spec.services.iter();
    let service = container.and_then(|it| services.find(|service| service.name == it.service));
    let image = service.and_then(|service| service.image.as_ref());
    with_image(spec.env.clone(), image.map(|image| &image.reference))
}

fn with_image(
    mut variables: Vec<(String, String)>,
    image: Option<&ImageReference>,
) -> Vec<(String, String)> {
    // No variable has such a name.
    let named = image.map(|image| ("image of the container".to_owned(), image.to_string()));
    variables.extend(named);
    variables
}

/// Without values, which are in the vault.
pub fn secrets(config: &ProjectConfig) -> Vec<Secret> {
    let secrets = config.secrets.iter().map(|(name, secret)| Secret {
        name: name.to_string(),
        source: SecretSource::from(&secret.from),
        inject: secret.inject,
        to: receivers(config, &secret.to),
        ttl_ms: secret
            .ttl
            .map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)),
        hosts: secret.hosts.iter().map(ToString::to_string).collect(),
    });
    secrets.collect()
}

/// Services, `runs`, `sessions`; the name of a port stands for the services that serve it.
fn receivers(config: &ProjectConfig, to: &[Receiver]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for receiver in to {
        match receiver {
            Receiver::Service(name) if !config.services.contains_key(name) => {
                let meant = config.ports.get(name).map(|port| port.port);
                let serving = config
                    .services
                    .keys()
                    .filter(|service| meant.is_some() && config.service_port(service) == meant);
                names.extend(serving.map(Name::to_string));
            }
            _ => names.push(receiver.as_str().to_owned()),
        }
    }
    names.sort();
    names.dedup();
    names
}

pub fn checks(config: &ProjectConfig) -> Vec<Check> {
    let checks = config.checks.iter().map(|(name, check)| Check {
        name: name.to_string(),
        run: check.run.clone(),
        timeout_ms: u64::try_from(check.timeout.as_millis()).unwrap_or(u64::MAX),
        when: check.when.iter().map(ToString::to_string).collect(),
        volumes: check.volumes,
    });
    checks.collect()
}

/// The agents. They were approved, or removed before.
pub fn agents(judged: &Judged) -> Vec<Agent> {
    let agents = judged.config.agents.iter().map(|(name, agent)| Agent {
        name: name.to_string(),
        command: agent.command.clone(),
        timeout_ms: agent
            .timeout
            .map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        approved: judged.gives_to(name),
    });
    agents.collect()
}

fn ready(ready: &config::Ready) -> Ready {
    Ready {
        probe: match &ready.probe {
            config::Probe::Http { path, port } => Probe::Http {
                path: path.clone(),
                port: port.get(),
            },
            config::Probe::Tcp { port } => Probe::Tcp { port: port.get() },
            config::Probe::Log { text } => Probe::Log { text: text.clone() },
            config::Probe::Command { command } => Probe::Command {
                command: command.clone(),
            },
            config::Probe::Program { argv } => Probe::Program { argv: argv.clone() },
            config::Probe::Lifecycle => Probe::Lifecycle,
        },
        timeout_ms: u64::try_from(ready.timeout.as_millis()).unwrap_or(u64::MAX),
    }
}

/// The check of a service that declares none: the port with its name accepts connections. A service of a Compose file
/// is ready as soon as it runs, as it is there.
fn answers(config: &ProjectConfig, name: &Name, service: &config::Service) -> Option<Ready> {
    let image = service.image.as_ref();
    if image.is_some_and(|image| image.container.is_some()) {
        return None;
    }
    let port = config.ports.get(name)?.port.get();
    let timeout = config::Ready::DEFAULT_TIMEOUT;
    Some(Ready {
        probe: Probe::Tcp { port },
        timeout_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
    })
}
