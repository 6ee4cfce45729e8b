//! All images of one holm: blobs, unpacked layers and names, in one directory.
//!
//! ```text
//! blobs/ partial/ lock   the content store
//! layers/                unpacked layers, shared by all images
//! names.json             complete references and the manifests that they name
//! ```
//!
//! A caller that adds an image holds a [`Writing`] while it pulls or imports, unpacks and names the image, and one that
//! creates a workspace from an image until the workspace is on record. If it dies before, [`Images::sweep`] removes what
//! it left. All functions block.

use crate::bounded::ArchiveLimits;
use crate::config::{ConfigError, ImageConfig};
use crate::document::{Descriptor, DocumentError, LARGEST_CONFIG, LARGEST_DOCUMENT, Manifest};
use crate::layers::{Layers, LayersError};
use crate::names::{self, NamesError, StoredImage};
use crate::platform::Platform;
use crate::store::{ContentStore, StoreError, Writing};
use crate::unpack::PackedLayer;
use holm_core::image_reference::{ImageDigest, ImageReference};
use jiff::Timestamp;
use std::collections::BTreeSet;
use std::fs::File;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug)]
pub struct Images {
    content: ContentStore,
    layers: Layers,
    names: PathBuf,
}

/// What a service needs to run in an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageRoot {
    pub config: ImageConfig,
    /// Directories for overlayfs, top first. Layers below one that hides everything are left out, and each
    /// directory is listed once, because overlayfs refuses to use one twice.
    pub layers: Vec<PathBuf>,
}

/// A layer of an image is being unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnpackProgress {
    /// From 1.
    pub layer: usize,
    pub layers: usize,
}

/// The right to sweep. While one exists, no caller gets a [`Writing`], so the set of used images only shrinks.
#[derive(Debug)]
pub struct Sweeping {
    _alone: File,
}

/// What [`Images::sweep`] removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImagesSwept {
    pub blobs: usize,
    pub layers: usize,
    pub bytes: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum ImagesError {
    #[error("the image store failed")]
    Store(#[from] StoreError),
    #[error("the list of images failed")]
    Names(#[from] NamesError),
    #[error("the unpacked layers failed")]
    Layers(#[from] LayersError),
    #[error("manifest {digest} of the image store is refused")]
    Document {
        digest: ImageDigest,
        source: Box<DocumentError>,
    },
    #[error("the config of image {digest} is refused")]
    Config {
        digest: ImageDigest,
        source: ConfigError,
    },
    #[error("image {digest} is for {image}, and this machine is {host}")]
    Platform {
        digest: ImageDigest,
        image: Box<Platform>,
        host: Box<Platform>,
    },
    #[error("the unpacking of image {0} was cancelled")]
    Cancelled(ImageDigest),
    #[error("layer {layer} of image {digest} is not unpacked")]
    NotUnpacked {
        digest: ImageDigest,
        layer: ImageDigest,
    },
}

// === impl Images ===

impl Images {
    /// Opens the images in `root`, which is created if it is absent.
    pub fn open(root: &Path) -> Result<Self, ImagesError> {
        Ok(Self {
            content: ContentStore::open(root)?,
            layers: Layers::open(root.join("layers"))?,
            names: root.join("names.json"),
        })
    }

    /// The right to add or to use an image. Waits while a `sweep` runs.
    pub fn begin(&self) -> Result<Writing, ImagesError> {
        Ok(self.content.begin()?)
    }

    /// All images that have a name, sorted by name.
    pub fn list(&self) -> Result<Vec<StoredImage>, ImagesError> {
        Ok(names::read(&self.names)?.into_values().collect())
    }

    pub fn find(&self, reference: &ImageReference) -> Result<Option<StoredImage>, ImagesError> {
        Ok(names::read(&self.names)?.remove(reference))
    }

    /// Unpacks the layers of an image that are not unpacked yet. The blobs must be in the store. `progress` is called
    /// before each layer, and cancels the rest by `Break`.
    pub fn unpack(
        &self,
        _writing: &Writing,
        manifest: &ImageDigest,
        progress: &dyn Fn(UnpackProgress) -> ControlFlow<()>,
    ) -> Result<(), ImagesError> {
        let (parsed, config) = self.read(manifest)?;
        let host = Platform::host();
        if !host.runs(&config.platform) {
            return Err(ImagesError::Platform {
                digest: manifest.clone(),
                image: Box::new(config.platform),
                host: Box::new(host),
            });
        }
        let layers = parsed.layers.len();
        // The bounds are those of the whole image.
        let mut limits = ArchiveLimits::default();
        for (number, (layer, digest)) in parsed.layers.iter().zip(&config.layers).enumerate() {
            let layer = PackedLayer {
                content: self.content.open_blob(&layer.blob)?,
                compression: layer.compression,
                digest: digest.clone(),
            };
            let step = UnpackProgress {
                layer: number + 1,
                layers,
            };
            if progress(step).is_break() {
                return Err(ImagesError::Cancelled(manifest.clone()));
            }
            let record = self.layers.add(layer, limits)?;
            limits.bytes = limits.bytes.saturating_sub(record.bytes);
            limits.entries = limits.entries.saturating_sub(record.files);
        }
        Ok(())
    }

    /// Gives an unpacked image a name, which may have named another image before.
    pub fn name(
        &self,
        _writing: &Writing,
        reference: &ImageReference,
        manifest: &Descriptor,
    ) -> Result<StoredImage, ImagesError> {
        // Only an image that can run gets a name.
        let (parsed, config) = self.read(&manifest.digest)?;
        self.layers_of(&manifest.digest, &config)?;
        let sizes = parsed.layers.iter().map(|layer| layer.blob.size);
        let image = StoredImage {
            reference: reference.clone(),
            manifest: manifest.clone(),
            bytes: sizes.fold(parsed.config.size, u64::saturating_add),
            stored_at: Timestamp::now(),
        };
        let named = image.clone();
        names::update(&self.names, |images| {
            images.insert(reference.clone(), named)
        })?;
        Ok(image)
    }

    /// Removes a name of the image with this manifest; `sweep` removes the image. `None` if the name does not exist, or
    /// names another image by now.
    pub fn remove(
        &self,
        reference: &ImageReference,
        manifest: &ImageDigest,
    ) -> Result<Option<StoredImage>, ImagesError> {
        let removed = names::update(&self.names, |images| {
            let found = images.get(reference)?;
            let is_same = found.manifest.digest == *manifest;
            is_same.then(|| images.remove(reference)).flatten()
        });
        Ok(removed?)
    }

    /// The root directory and the config of the image with this manifest.
    pub fn root(&self, manifest: &ImageDigest) -> Result<ImageRoot, ImagesError> {
        let (_, config) = self.read(manifest)?;
        let layers = self.layers_of(manifest, &config)?;
        Ok(ImageRoot { config, layers })
    }

    fn layers_of(
        &self,
        manifest: &ImageDigest,
        config: &ImageConfig,
    ) -> Result<Vec<PathBuf>, ImagesError> {
        let mut layers = Vec::new();
        for layer in config.layers.iter().rev() {
            let found = self.layers.get(layer)?;
            let (tree, record) = found.ok_or_else(|| ImagesError::NotUnpacked {
                digest: manifest.clone(),
                layer: layer.clone(),
            })?;
            // The lower one of two equal layers adds nothing that the upper one does not have.
            if !layers.contains(&tree) {
                layers.push(tree);
            }
            if record.hides_everything {
                break;
            }
        }
        Ok(layers)
    }

    /// The right to sweep. It fails while an image is being added, or a workspace is created from one.
    pub fn begin_sweep(&self) -> Result<Sweeping, ImagesError> {
        let alone = self.content.alone()?;
        Ok(Sweeping { _alone: alone })
    }

    /// Removes blobs and layers that neither a name nor a manifest in `used` reaches. The caller looks for used images
    /// after it got the right to sweep.
    pub fn sweep(
        &self,
        _sweeping: &Sweeping,
        used: &BTreeSet<ImageDigest>,
    ) -> Result<ImagesSwept, ImagesError> {
        let named = self.list()?.into_iter().map(|image| image.manifest.digest);
        let mut kept: BTreeSet<ImageDigest> = named.collect();
        // The user may have deleted files of the store. A workspace that needs such an image has to pull it again.
        let is_there = |digest: &&ImageDigest| {
            let read = self.content.read(digest, LARGEST_DOCUMENT);
            !matches!(read, Err(StoreError::Absent(_)))
        };
        kept.extend(used.iter().filter(is_there).cloned());
        let (mut blobs, mut layers) = (BTreeSet::new(), BTreeSet::new());
        for digest in kept {
            let (manifest, config) = self.read(&digest)?;
            layers.extend(config.layers);
            let parts = manifest.layers.iter().map(|layer| &layer.blob.digest);
            let parts = parts.chain([&manifest.config.digest, &digest]);
            blobs.extend(parts.map(|digest| digest.hex().to_owned()));
        }
        let swept = self.content.remove_others(&blobs)?;
        let (layers, bytes) = self.layers.remove_others(&layers)?;
        Ok(ImagesSwept {
            blobs: swept.blobs,
            layers,
            bytes: swept.bytes + bytes,
        })
    }

    fn read(&self, digest: &ImageDigest) -> Result<(Manifest, ImageConfig), ImagesError> {
        let bytes = self.content.read(digest, LARGEST_DOCUMENT)?;
        let manifest = Manifest::parse(&bytes);
        let manifest = manifest.map_err(|error| ImagesError::Document {
            digest: digest.clone(),
            source: Box::new(error),
        })?;
        let bytes = self.content.read(&manifest.config.digest, LARGEST_CONFIG)?;
        let config = ImageConfig::parse(&bytes, manifest.layers.len());
        let config = config.map_err(|source| ImagesError::Config {
            digest: digest.clone(),
            source,
        })?;
        Ok((manifest, config))
    }
}
