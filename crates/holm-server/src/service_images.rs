//! Which manifests the images of a project's services are, when a workspace is made or its `holm.toml` is taken over.
//! An image that is not here is pulled while the workspace is made, by the egress rules of the project.

use super::App;
use super::declared::{self, Manifests};
use super::images::{PullWish, RulesOf, store_fault};
use holm_core::config::ProjectConfig;
use holm_core::egress::Policy;
use holm_core::first_start;
use holm_core::image_reference::{ImageDigest, ImageReference};
use holm_core::spec::{BuiltImage, Service, WorkspaceSpec};
use holm_core::{Code, Fault};
use holm_engine::{Progress, try_blocking};
use holm_image::Writing;
use std::collections::BTreeMap;

/// The images of a project's services.
#[derive(Default)]
pub struct Found {
    pub manifests: Manifests,
    pub missing: Vec<ImageReference>,
    /// Keeps `gc` from deleting the images until it is on record that a workspace uses them.
    held: Option<Writing>,
}

/// What a workspace that is about to be made needs of the images.
pub struct NeededImages {
    /// Keeps `gc` from deleting the images until the workspace is on record.
    pub held: Option<Writing>,
    /// `None`: all images are here.
    pub unpulled: Option<Unpulled>,
}

/// A workspace's images that have to be pulled before it is made.
pub struct Unpulled {
    pub config: ProjectConfig,
    pub found: Found,
}

// === impl App ===

impl App {
    /// Finds the images that the project's services run in. A name that a service of `before` has keeps its manifest.
    pub async fn find_images(
        &self,
        config: &ProjectConfig,
        before: &[Service],
    ) -> Result<Found, Fault> {
        let known = before.iter().filter_map(|service| service.image.as_ref());
        let known = known.map(|image| (image.reference.clone(), image.manifest.clone()));
        let mut found = Found {
            manifests: known.collect(),
            missing: Vec::new(),
            held: None,
        };
        let services = config.services.values();
        let references = services.filter_map(|service| Some(&service.image.as_ref()?.reference));
        let unknown = references.filter(|reference| !found.manifests.contains_key(reference));
        let unknown: Vec<_> = unknown.cloned().collect();
        if unknown.is_empty() {
            return Ok(found);
        }
        let images = self.images.clone();
        try_blocking(move || {
            found.held = Some(images.begin().map_err(store_fault)?);
            for reference in unknown {
                match images.find(&reference).map_err(store_fault)? {
                    Some(image) => {
                        found.manifests.insert(reference, image.manifest.digest);
                    }
                    None => found.missing.push(reference),
                }
            }
            Ok(found)
        })
        .await
    }

    /// The images that a client has built for services of a workspace. Until the second part is dropped, `gc` does not
    /// delete them.
    pub async fn built_images(
        &self,
        spec: &WorkspaceSpec,
        built: BTreeMap<String, ImageReference>,
    ) -> Result<(Vec<BuiltImage>, Option<Writing>), Fault> {
        let is_built_for = |name: &String| {
            let mut services = spec.services.iter();
            let service = services.find(|service| service.name == *name);
            let image = service.and_then(|service| service.image.as_ref());
            image.is_some_and(|image| image.build.is_some())
        };
        let wanted = built.into_iter();
        let wanted = wanted.filter(|(name, image)| is_built_for(name) && image.is_built());
        let wanted: Vec<_> = wanted.collect();
        if wanted.is_empty() {
            return Ok((Vec::new(), None));
        }
        self.require_builds()?;
        let images = self.images.clone();
        try_blocking(move || {
            let held = images.begin().map_err(store_fault)?;
            let found = wanted.into_iter().map(|(service, reference)| {
                let image = images.find(&reference).map_err(store_fault)?;
                let manifest = image.ok_or_else(unbuilt)?.manifest.digest;
                Ok(BuiltImage {
                    service,
                    reference,
                    manifest,
                })
            });
            Ok((found.collect::<Result<_, Fault>>()?, Some(held)))
        })
        .await
    }

    /// Pulls what is missing, and completes the spec of the workspace that is about to be made.
    pub async fn pull_missing(
        &self,
        unpulled: Unpulled,
        spec: &mut WorkspaceSpec,
        progress: &Progress,
    ) -> Result<(), Fault> {
        let Unpulled { config, mut found } = unpulled;
        let egress = &spec.network.egress;
        let policy = Policy::parse(egress.mode, &egress.allow).map_err(|error| {
            let message = "it is not clear which hosts the workspace may reach";
            let hint = "look at `[egress]` of holm.toml and config.toml";
            Fault::new(Code::InvalidConfig, message, hint).because(error)
        })?;
        let mut fetched = Vec::new();
        for reference in found.missing {
            if reference.is_built() {
                return Err(unbuilt());
            }
            let wish = PullWish {
                reference: reference.clone(),
                credentials: None,
                policy: policy.clone(),
                rules: RulesOf::Project,
            };
            let pulled = self.pull_image(wish, progress.clone()).await;
            let image = pulled.map_err(|fault| match fault.code {
                Code::RegistryDenied => refused(&reference).because(fault),
                _ => fault,
            })?;
            found
                .manifests
                .insert(reference.clone(), image.manifest.digest);
            fetched.push(reference);
        }
        // The seeds were named before their images were here.
        for seed in spec.volumes.iter_mut().filter_map(|it| it.seed.as_mut()) {
            let maker = seed.service.as_ref().and_then(|name| {
                let mut services = config.services.iter();
                services.find(|(other, _)| other.as_str() == name)
            });
            let image = maker.and_then(|(_, service)| Some(&service.image.as_ref()?.reference));
            let image = image.filter(|image| fetched.contains(image));
            if let Some(manifest) = image.and_then(|image| found.manifests.get(image)) {
                seed.key.push_str(first_start::suffix(manifest));
            }
        }
        spec.services = declared::services(&config, &found.manifests);
        Ok(())
    }
}

// === impl Found ===

impl Found {
    /// For a new workspace of this project.
    pub fn needed(mut self, config: &ProjectConfig) -> NeededImages {
        let held = self.held.take();
        let unpulled = (!self.missing.is_empty()).then(|| Unpulled {
            config: config.clone(),
            found: self,
        });
        NeededImages { held, unpulled }
    }

    /// Gives images that are not built yet a manifest that no image has, to show what would change.
    pub fn suppose_built(&mut self) {
        let unbuilt = self
            .missing
            .extract_if(.., |reference| reference.is_built());
        let nothing = ImageDigest::from_bytes([0; 32]);
        self.manifests
            .extend(unbuilt.map(|reference| (reference, nothing.clone())));
    }

    /// The manifests, if every image is here. Until this is dropped, `gc` does not delete the images.
    pub fn complete(&self) -> Result<&Manifests, Fault> {
        match self.missing.first() {
            None => Ok(&self.manifests),
            Some(reference) if reference.is_built() => Err(unbuilt()),
            Some(reference) => Err(Fault::new(
                Code::ImageNotFound,
                format!("the image {reference} is not here"),
                format!("`holm image pull {reference}` fetches it"),
            )),
        }
    }
}

fn unbuilt() -> Fault {
    Fault::new(
        Code::ImageNotFound,
        "the image of a service is not built",
        "the command line builds it: type the command in the repository",
    )
}

/// A workspace is made without the user's credentials, which only the user's own commands read.
fn refused(reference: &ImageReference) -> Fault {
    Fault::new(
        Code::RegistryDenied,
        format!("the image {reference} cannot be pulled without credentials"),
        format!("`holm image pull {reference}` uses yours"),
    )
}
