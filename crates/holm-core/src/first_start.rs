//! Seeds of volumes that the first start of a service makes: a database of a Compose file makes its data when it starts
//! with an empty volume. holm lets that happen once, in a workspace of its own, and each workspace forks the result.

use crate::config::{self, Name, Pattern, Policy, ProjectConfig, Restart};
use crate::container::{Attachment, Container, Source};
use crate::image_reference::ImageDigest;
use crate::spec::{Service, Volume, WorkspaceSpec};
use std::collections::BTreeMap;

/// A database may have much to write before it ends, and is not killed meanwhile.
pub const CLEAN_STOP_MS: u64 = 120_000;

/// How many digits of an image's manifest are in the key of the seed that it made.
const DIGITS: usize = 8;

/// Says which service makes the seed of each forked volume without one, and which files decide what it makes. An error is
/// a sentence.
pub fn plan(config: &mut ProjectConfig) -> Result<(), String> {
    let services = &config.services;
    let mut filled: BTreeMap<Name, Name> = BTreeMap::new();
    for (name, volume) in &mut config.volumes {
        if volume.policy != Policy::Fork || !volume.seed.is_empty() {
            continue;
        }
        let Some((service, container)) = filler(services, name) else {
            continue;
        };
        volume.first_start = Some(service.clone());
        if let Some(other) = filled.insert(service.clone(), name.clone()) {
            return Err(format!(
                "`volumes.{other}` and `volumes.{name}` are forked, and the first start of `{service}` fills both; \
                 holm makes each seed apart, so give one of them a `seed`"
            ));
        }
        let mounts = container.mounts.iter();
        let paths = mounts.filter_map(|mount| match &mount.source {
            Source::Tree { path, .. } => path.to_str(),
            _ => None,
        });
        let inputs = paths.flat_map(|path| match path {
            "" => vec!["**".to_owned()],
            path => vec![path.to_owned(), format!("{path}/**")],
        });
        let inputs = inputs.filter_map(|text| Pattern::parse(&text).ok());
        volume.seed_inputs.extend(inputs);
    }
    Ok(())
}

/// The service that fills a volume: of those that write to all of it, one that waits for no other.
fn filler<'a>(
    services: &'a BTreeMap<Name, config::Service>,
    volume: &Name,
) -> Option<(&'a Name, &'a Container)> {
    let found = services.iter().filter_map(|(name, service)| {
        let container = service.image.as_ref()?.container.as_ref()?;
        let is_it = |source: &Source| match source {
            Source::Volume { name, subpath, .. } => name == volume.as_str() && subpath.is_none(),
            _ => false,
        };
        let mut mounts = container.mounts.iter();
        let writes = mounts.any(|mount| is_it(&mount.source) && !mount.read_only);
        (writes && !container.is_job).then_some((name, container))
    });
    let found: Vec<_> = found.collect();
    let waits = |name: &Name| {
        let others = services
            .get(name)
            .map_or(&[][..], |service| &service.depends_on);
        found.iter().any(|(other, _)| others.contains(other))
    };
    let first = found.iter().find(|(name, _)| !waits(name));
    first.or(found.first()).copied()
}

/// What decides the result besides files and image. Neighbours of the service do not.
pub fn described(service: &config::Service) -> String {
    let image = service.image.as_ref();
    let container = image.and_then(|image| image.container.clone());
    let container = container.map(|container| Container {
        network: Attachment::default(),
        begins_after: Vec::new(),
        ..container
    });
    let name = image.map(|image| (image.reference.to_string(), &image.build));
    format!("{name:?} {container:?} {:?}", service.env)
}

/// The end of the key of a seed that was made with this image.
pub fn suffix(manifest: &ImageDigest) -> &str {
    &manifest.hex()[..DIGITS]
}

/// The service alone, and the volumes that it sees besides the one that it fills, all of them empty.
pub fn alone(spec: &WorkspaceSpec, name: &str, filled: &Volume) -> (Vec<Service>, Vec<Volume>) {
    let Some(service) = spec.services.iter().find(|service| service.name == name) else {
        return (Vec::new(), Vec::new());
    };
    let mut service = Service {
        depends_on: Vec::new(),
        restart: Restart::No,
        ..service.clone()
    };
    let mut seen = Vec::new();
    let image = service.image.as_mut();
    if let Some(container) = image.and_then(|image| image.container.as_mut()) {
        container.begins_after = Vec::new();
        container.stop_grace_ms = Some(CLEAN_STOP_MS);
        match &mut container.network {
            Attachment::Own(own) => own.links = Vec::new(),
            Attachment::Of(_) => container.network = Attachment::Workspace,
            Attachment::Nothing | Attachment::Workspace => {}
        }
        let volumes = container
            .mounts
            .iter()
            .filter_map(|mount| match &mount.source {
                Source::Volume { name, .. } => Some(name),
                _ => None,
            });
        seen.extend(volumes.cloned());
    }
    let others = spec.volumes.iter();
    let others = others.filter(|volume| volume.name != filled.name && seen.contains(&volume.name));
    let others = others.map(emptied);
    (vec![service], others.collect())
}

/// A service without neighbours, readiness and volumes.
pub fn bare(service: &Service) -> Service {
    let mut service = Service {
        depends_on: Vec::new(),
        ready: None,
        ..service.clone()
    };
    let image = service.image.as_mut();
    if let Some(container) = image.and_then(|image| image.container.as_mut()) {
        container.begins_after = Vec::new();
        container.post_start = Vec::new();
        container.pre_stop = Vec::new();
        container.watches = Vec::new();
        container.network = Attachment::Workspace;
        let is_volume = |source: &Source| matches!(source, Source::Volume { .. });
        container.mounts.retain(|mount| !is_volume(&mount.source));
    }
    service
}

/// As the volume of a temporary workspace that begins with nothing.
pub fn emptied(volume: &Volume) -> Volume {
    Volume {
        policy: Policy::Isolated,
        seed: None,
        generation: 0,
        snapshot: None,
        ..volume.clone()
    }
}
