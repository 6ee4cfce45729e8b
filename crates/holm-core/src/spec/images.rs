//! The images that a workspace uses.

use super::WorkspaceSpec;
use crate::image_reference::{ImageDigest, ImageReference};
use serde::{Deserialize, Serialize};

/// The image of a service, built for the commit of a move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BuiltImage {
    pub service: String,
    pub reference: ImageReference,
    pub manifest: ImageDigest,
}

// === impl WorkspaceSpec ===

impl WorkspaceSpec {
    /// Gives services the images that were built for them; whether one is another image than before.
    pub fn take_images(&mut self, built: &[BuiltImage]) -> bool {
        let mut is_changed = false;
        for one in built {
            let mut services = self.services.iter_mut();
            let service = services.find(|service| service.name == one.service);
            if let Some(image) = service.and_then(|service| service.image.as_mut()) {
                is_changed |= image.manifest != one.manifest;
                image.reference = one.reference.clone();
                image.manifest = one.manifest.clone();
            }
        }
        is_changed
    }

    /// The manifests of the images that it and its snapshots need.
    pub fn image_manifests(&self) -> impl Iterator<Item = &ImageDigest> {
        let snapshots = self.snapshots.iter().map(|snapshot| &*snapshot.spec);
        let all = std::iter::once(self).chain(snapshots);
        let services = all.flat_map(|spec| &spec.services);
        let used = services.filter_map(|service| Some(&service.image.as_ref()?.manifest));
        let moving = self.moving.iter().flat_map(|moving| &moving.images);
        used.chain(moving.map(|image| &image.manifest))
    }
}
