//! Manifests and indexes: parsed once, with every value checked.
//!
//! Fields that the specifications do not define are ignored, as these demand. A value of a field that
//! holm uses must be right, or parsing fails and names the field. Foreign layer `urls` are never read.

use crate::media::{Compression, Kind, MediaType};
use crate::platform::Platform;
use holm_core::image_reference::ImageDigest;
use serde::{Deserialize, Serialize};

/// A larger manifest or index is refused unread.
pub const LARGEST_DOCUMENT: u64 = 4 << 20;
/// A larger config is refused unread.
pub const LARGEST_CONFIG: u64 = 8 << 20;
/// How many indexes may lead to a manifest.
pub(crate) const DEEPEST: usize = 4;
const MOST_LAYERS: usize = 400;
const MOST_MANIFESTS: usize = 1000;
const LARGEST_BLOB: u64 = 1 << 40;

/// Names a blob: what it is, its digest and its size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    pub media_type: MediaType,
    pub digest: ImageDigest,
    pub size: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    pub config: Descriptor,
    /// From the lowest to the topmost.
    pub layers: Vec<Layer>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    pub blob: Descriptor,
    pub compression: Compression,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    pub manifests: Vec<IndexEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    pub document: Descriptor,
    pub platform: Option<Platform>,
    /// The names that the exporting program gave to the image.
    pub names: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Document {
    Manifest(Manifest),
    Index(Index),
}

#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    #[error("an image manifest is not valid JSON")]
    Json(#[from] serde_json::Error),
    #[error("an image manifest has schema version {0}, and holm reads version 2")]
    Version(u64),
    #[error("`{0}` is not a media type of a manifest or index")]
    Type(MediaType),
    #[error("a manifest says that it is `{said}`, but was offered as `{offered}`")]
    OtherType { said: MediaType, offered: MediaType },
    #[error("a document has both layers and manifests, so its meaning depends on its reader")]
    Ambiguous,
    #[error("a document of type `{0}` has no `{1}`")]
    Missing(MediaType, &'static str),
    #[error("`{0}` is not a media type of {1}")]
    PartType(MediaType, &'static str),
    #[error("blob {digest} has a stated size of {size} bytes, which is more than holm accepts")]
    Size { digest: ImageDigest, size: u64 },
    #[error("an image has {0} {1}, which is more than holm accepts")]
    Many(usize, &'static str),
    #[error("the index has no image for {wanted}, only for {offered}")]
    Platform { wanted: Platform, offered: String },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawDocument {
    schema_version: u64,
    media_type: Option<MediaType>,
    config: Option<Descriptor>,
    layers: Option<Vec<Descriptor>>,
    manifests: Option<Vec<RawEntry>>,
    #[serde(rename = "fsLayers")]
    schema1: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SelfDescribed {
    media_type: Option<MediaType>,
}

#[derive(Deserialize)]
struct RawEntry {
    #[serde(flatten)]
    document: Descriptor,
    platform: Option<Platform>,
    #[serde(default)]
    annotations: std::collections::BTreeMap<String, String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WrittenManifest<'a> {
    schema_version: u64,
    media_type: MediaType,
    config: &'a Descriptor,
    layers: Vec<&'a Descriptor>,
}

// === impl Document ===

impl Document {
    /// Parses a document that a registry, a layout or an index offers as `offered`.
    pub fn parse(bytes: &[u8], offered: &MediaType) -> Result<Self, DocumentError> {
        let raw: RawDocument = serde_json::from_slice(bytes)?;
        if raw.schema_version != 2 || raw.schema1.is_some() {
            return Err(DocumentError::Version(raw.schema_version));
        }
        // OCI documents may leave their own type out.
        if let Some(said) = raw.media_type.filter(|said| said != offered) {
            let offered = offered.clone();
            return Err(DocumentError::OtherType { said, offered });
        }
        if raw.manifests.is_some() && (raw.layers.is_some() || raw.config.is_some()) {
            return Err(DocumentError::Ambiguous);
        }
        let missing = |field| DocumentError::Missing(offered.clone(), field);
        match offered.kind() {
            Some(Kind::Manifest) => {
                let config = raw.config.ok_or_else(|| missing("config"))?;
                let layers = raw.layers.ok_or_else(|| missing("layers"))?;
                Ok(Self::Manifest(Manifest::checked(config, layers)?))
            }
            Some(Kind::Index) => {
                let entries = raw.manifests.ok_or_else(|| missing("manifests"))?;
                Ok(Self::Index(Index::checked(entries)?))
            }
            _ => Err(DocumentError::Type(offered.clone())),
        }
    }
}

// === impl Manifest ===

impl Manifest {
    /// A manifest of these blobs, if their kinds, sizes and number are right.
    pub(crate) fn checked(
        config: Descriptor,
        layers: Vec<Descriptor>,
    ) -> Result<Self, DocumentError> {
        if config.media_type.kind() != Some(Kind::Config) {
            return Err(DocumentError::PartType(
                config.media_type,
                "an image config",
            ));
        }
        check_size(&config, LARGEST_CONFIG)?;
        if layers.len() > MOST_LAYERS {
            return Err(DocumentError::Many(layers.len(), "layers"));
        }
        let layers = layers.into_iter().map(|blob| {
            check_size(&blob, LARGEST_BLOB)?;
            match blob.media_type.kind() {
                Some(Kind::Layer(compression)) => Ok(Layer { blob, compression }),
                _ => Err(DocumentError::PartType(blob.media_type, "a layer")),
            }
        });
        let layers = layers.collect::<Result<_, _>>()?;
        Ok(Self { config, layers })
    }

    /// Parses a manifest of the store, of which only the digest is known. Docker's always name their own type.
    pub fn parse(bytes: &[u8]) -> Result<Self, DocumentError> {
        let raw: SelfDescribed = serde_json::from_slice(bytes)?;
        let own = raw.media_type.unwrap_or_else(MediaType::oci_manifest);
        match Document::parse(bytes, &own)? {
            Document::Manifest(manifest) => Ok(manifest),
            Document::Index(_) => Err(DocumentError::Type(own)),
        }
    }

    /// An OCI manifest as bytes, for archives that have none.
    pub fn to_json(&self) -> Result<Vec<u8>, DocumentError> {
        let written = WrittenManifest {
            schema_version: 2,
            media_type: MediaType::oci_manifest(),
            config: &self.config,
            layers: self.layers.iter().map(|layer| &layer.blob).collect(),
        };
        Ok(serde_json::to_vec(&written)?)
    }
}

// === impl Index ===

impl Index {
    fn checked(entries: Vec<RawEntry>) -> Result<Self, DocumentError> {
        if entries.len() > MOST_MANIFESTS {
            return Err(DocumentError::Many(entries.len(), "manifests"));
        }
        let entries = entries.into_iter().map(|raw| {
            check_size(&raw.document, LARGEST_BLOB)?;
            Ok::<_, DocumentError>(IndexEntry {
                names: names(&raw.annotations),
                document: raw.document,
                platform: raw.platform,
            })
        });
        let manifests = entries.collect::<Result<_, _>>()?;
        Ok(Self { manifests })
    }

    /// The first entry for `platform`. Entries of other kinds, such as attestations, are left out.
    pub fn choose(&self, platform: &Platform) -> Result<&IndexEntry, DocumentError> {
        let is_fitting = |entry: &&IndexEntry| {
            let of_image = entry.document.media_type.is_document();
            let offered = entry.platform.as_ref();
            of_image && offered.is_some_and(|offered| platform.runs(offered))
        };
        self.manifests.iter().find(is_fitting).ok_or_else(|| {
            let offered = self.manifests.iter().filter_map(|it| it.platform.as_ref());
            let offered: Vec<String> = offered.map(ToString::to_string).collect();
            DocumentError::Platform {
                wanted: platform.clone(),
                offered: offered.join(", "),
            }
        })
    }
}

/// Docker and containerd write the whole name; the key of OCI often has the tag only.
fn names(annotations: &std::collections::BTreeMap<String, String>) -> Vec<String> {
    let keys = [
        "io.containerd.image.name",
        "org.opencontainers.image.ref.name",
    ];
    let found = keys.iter().find_map(|key| annotations.get(*key));
    found.cloned().into_iter().collect()
}

fn check_size(descriptor: &Descriptor, most: u64) -> Result<(), DocumentError> {
    if descriptor.size > most {
        let Descriptor { digest, size, .. } = descriptor.clone();
        return Err(DocumentError::Size { digest, size });
    }
    Ok(())
}
