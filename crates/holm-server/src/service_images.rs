//! Which manifests the images of a project's services are, when a workspace is made or its `holm.toml` is taken over.

use super::App;
use holm_core::config::ProjectConfig;
use holm_core::image_reference::{ImageDigest, ImageReference};
use holm_core::spec::Service;
use holm_core::{Code, Fault};
use holm_engine::try_blocking;
use std::collections::BTreeMap;

/// The manifest of each image by its name.
pub type Manifests = BTreeMap<ImageReference, ImageDigest>;

// === impl App ===

impl App {
    /// Finds the images that the project's services run in. A name that a service of `before` has keeps its manifest.
    pub async fn manifests(
        &self,
        config: &ProjectConfig,
        before: &[Service],
    ) -> Result<Manifests, Fault> {
        let known = before.iter().filter_map(|service| service.image.as_ref());
        let known = known.map(|image| (image.reference.clone(), image.manifest.clone()));
        let mut manifests: Manifests = known.collect();
        let images = config.services.values();
        let references = images.filter_map(|service| Some(&service.image.as_ref()?.reference));
        let unknown = references.filter(|reference| !manifests.contains_key(reference));
        let references: Vec<_> = unknown.cloned().collect();
        if references.is_empty() {
            return Ok(manifests);
        }
        let images = self.images.clone();
        try_blocking(move || {
            for reference in references {
                let image = images.find(&reference);
                let image = image.map_err(|error| unreadable(error.into()))?;
                let image = image.ok_or_else(|| missing(&reference))?;
                manifests.insert(reference, image.manifest.digest);
            }
            Ok(manifests)
        })
        .await
    }
}

fn missing(reference: &ImageReference) -> Fault {
    Fault::new(
        Code::ImageNotFound,
        format!("the image {reference} is not here"),
        format!("`holm image pull {reference}` fetches it"),
    )
}

fn unreadable(error: holm_core::Cause) -> Fault {
    let message = "the images cannot be read";
    Fault::new(Code::Internal, message, "look at `holm image ls`").because(error)
}
