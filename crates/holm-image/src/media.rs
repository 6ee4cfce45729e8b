//! The media types of images, of OCI and of Docker, that holm understands.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What a blob contains. Both families of names mean the same kinds of documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Index,
    Manifest,
    Config,
    Layer(Compression),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    None,
    Gzip,
    Zstd,
}

/// The name of a media type, as documents and registries write it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MediaType(String);

const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
const OCI_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const OCI_LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
const OCI_LAYER_GZIP: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const OCI_LAYER_ZSTD: &str = "application/vnd.oci.image.layer.v1.tar+zstd";

const KNOWN: [(&str, Kind); 16] = [
    (OCI_MANIFEST, Kind::Manifest),
    (OCI_INDEX, Kind::Index),
    (
        "application/vnd.docker.distribution.manifest.v2+json",
        Kind::Manifest,
    ),
    (
        "application/vnd.docker.distribution.manifest.list.v2+json",
        Kind::Index,
    ),
    (OCI_CONFIG, Kind::Config),
    (
        "application/vnd.docker.container.image.v1+json",
        Kind::Config,
    ),
    (OCI_LAYER, Kind::Layer(Compression::None)),
    (OCI_LAYER_GZIP, Kind::Layer(Compression::Gzip)),
    (OCI_LAYER_ZSTD, Kind::Layer(Compression::Zstd)),
    (
        "application/vnd.oci.image.layer.nondistributable.v1.tar",
        Kind::Layer(Compression::None),
    ),
    (
        "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
        Kind::Layer(Compression::Gzip),
    ),
    (
        "application/vnd.docker.image.rootfs.diff.tar",
        Kind::Layer(Compression::None),
    ),
    (
        "application/vnd.docker.image.rootfs.diff.tar.gzip",
        Kind::Layer(Compression::Gzip),
    ),
    (
        "application/vnd.docker.image.rootfs.diff.tar.zstd",
        Kind::Layer(Compression::Zstd),
    ),
    (
        "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
        Kind::Layer(Compression::Gzip),
    ),
    (
        "application/vnd.docker.image.rootfs.foreign.diff.tar",
        Kind::Layer(Compression::None),
    ),
];

// === impl MediaType ===

impl MediaType {
    pub fn new(name: &str) -> Self {
        Self(name.to_owned())
    }

    pub fn oci_manifest() -> Self {
        Self::new(OCI_MANIFEST)
    }

    pub fn oci_index() -> Self {
        Self::new(OCI_INDEX)
    }

    pub fn oci_config() -> Self {
        Self::new(OCI_CONFIG)
    }

    pub fn oci_layer(compression: Compression) -> Self {
        Self::new(match compression {
            Compression::None => OCI_LAYER,
            Compression::Gzip => OCI_LAYER_GZIP,
            Compression::Zstd => OCI_LAYER_ZSTD,
        })
    }

    /// `None` if holm does not know the name.
    pub fn kind(&self) -> Option<Kind> {
        let found = KNOWN.iter().find(|(name, _)| *name == self.0);
        found.map(|(_, kind)| *kind)
    }

    /// Whether it is a manifest or an index.
    pub fn is_document(&self) -> bool {
        matches!(self.kind(), Some(Kind::Manifest | Kind::Index))
    }

    /// The types of documents that a client of a registry accepts as a manifest.
    pub fn manifests() -> impl Iterator<Item = &'static str> {
        let documents = KNOWN.iter();
        let documents = documents.filter(|(_, kind)| matches!(kind, Kind::Manifest | Kind::Index));
        documents.map(|(name, _)| *name)
    }
}

impl fmt::Display for MediaType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

// === impl Compression ===

impl Compression {
    /// The compression that the first bytes of a blob show.
    pub fn of(first: &[u8]) -> Self {
        if first.starts_with(&[0x1f, 0x8b]) {
            Self::Gzip
        } else if first.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
            Self::Zstd
        } else {
            Self::None
        }
    }
}
