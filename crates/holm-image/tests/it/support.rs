//! Builds layers and images by hand, also such as no honest program writes.

use flate2::Compression as Level;
use flate2::write::GzEncoder;
use holm_image::{
    ArchiveLimits, Compression, Descriptor, MediaType, PackedLayer, UnpackError, Unpacked,
    digest_of, unpack,
};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use tar::{EntryType, Header};

/// How many zero bytes end a tar file.
const END: usize = 1024;

/// The bytes of a tar file, entry by entry.
#[derive(Clone, Default)]
pub struct Tar(pub Vec<u8>);

impl Tar {
    pub fn file(self, path: &str, content: &[u8]) -> Self {
        self.entry(EntryType::Regular, path, "", 0o644, content)
    }

    pub fn directory(self, path: &str) -> Self {
        self.entry(EntryType::Directory, path, "", 0o755, b"")
    }

    pub fn symlink(self, path: &str, target: &str) -> Self {
        self.entry(EntryType::Symlink, path, target, 0o777, b"")
    }

    pub fn link(self, path: &str, target: &str) -> Self {
        self.entry(EntryType::Link, path, target, 0o644, b"")
    }

    /// Writes the names as they are; `tar::Builder` would refuse some.
    pub fn entry(self, kind: EntryType, path: &str, link: &str, mode: u32, content: &[u8]) -> Self {
        let mut header = Header::new_gnu();
        let gnu = header.as_gnu_mut().unwrap();
        gnu.name[..path.len()].copy_from_slice(path.as_bytes());
        gnu.linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(1_700_000_000);
        header.set_size(content.len() as u64);
        header.set_cksum();
        self.raw(&header, content)
    }

    pub fn raw(mut self, header: &Header, content: &[u8]) -> Self {
        self.0.extend_from_slice(header.as_bytes());
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    /// PAX records for the next entry.
    pub fn pax(self, records: &[(&str, &str)]) -> Self {
        let mut builder = tar::Builder::new(self.0);
        let records = records.iter();
        builder
            .append_pax_extensions(records.map(|(key, value)| (*key, value.as_bytes())))
            .unwrap();
        let mut bytes = builder.into_inner().unwrap();
        // The builder ended the archive.
        bytes.truncate(bytes.len() - END);
        Self(bytes)
    }

    pub fn end(mut self) -> Vec<u8> {
        self.0.extend_from_slice(&[0; END]);
        self.0
    }
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Level::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub fn unpack_tar(tar: &[u8], place: &Path) -> Result<Unpacked, UnpackError> {
    unpack_within(tar, place, ArchiveLimits::default())
}

pub fn unpack_within(
    tar: &[u8],
    place: &Path,
    limits: ArchiveLimits,
) -> Result<Unpacked, UnpackError> {
    let layer = PackedLayer {
        content: tar,
        compression: Compression::None,
        digest: digest_of(tar),
    };
    unpack(layer, place, limits)
}

/// What a program without defences does: GNU tar that believes every name.
pub fn naive(tar: &[u8], into: &Path) {
    std::fs::create_dir_all(into).unwrap();
    let mut child = Command::new("tar")
        .args(["-x", "-P", "-p", "-f", "-", "-C"])
        .arg(into)
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // tar may stop early at what it cannot create.
    let _ = child.stdin.take().unwrap().write_all(tar);
    child.wait().unwrap();
}

/// An image. Its last blob is the config.
#[derive(Clone)]
pub struct Image {
    pub blobs: Vec<Vec<u8>>,
    pub manifest: Vec<u8>,
}

pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub const INDEX: &str = "application/vnd.oci.image.index.v1+json";

pub fn describe(media_type: &str, bytes: &[u8]) -> Descriptor {
    Descriptor {
        media_type: MediaType::new(media_type),
        digest: digest_of(bytes),
        size: bytes.len() as u64,
    }
}

/// An image of these tar files, each compressed with gzip.
pub fn image(layers: &[Vec<u8>]) -> Image {
    let ids: Vec<String> = layers
        .iter()
        .map(|layer| digest_of(layer).to_string())
        .collect();
    let config = serde_json::json!({
        "os": "linux", "architecture": "amd64",
        "config": {"Cmd": ["serve"], "Env": ["PATH=/bin"], "ExposedPorts": {"5432/tcp": {}}},
        "rootfs": {"type": "layers", "diff_ids": ids},
    });
    let config = serde_json::to_vec(&config).unwrap();
    let mut blobs: Vec<Vec<u8>> = layers.iter().map(|layer| gzip(layer)).collect();
    let layers: Vec<Descriptor> = blobs
        .iter()
        .map(|blob| describe("application/vnd.oci.image.layer.v1.tar+gzip", blob))
        .collect();
    let manifest = serde_json::json!({
        "schemaVersion": 2, "mediaType": MANIFEST,
        "config": describe("application/vnd.oci.image.config.v1+json", &config),
        "layers": layers,
    });
    blobs.push(config);
    Image {
        blobs,
        manifest: serde_json::to_vec(&manifest).unwrap(),
    }
}

/// An index that offers `manifest` for amd64 after an image for another machine.
pub fn index(manifest: &[u8]) -> Vec<u8> {
    let mut other = serde_json::to_value(describe(MANIFEST, b"other")).unwrap();
    other["platform"] = serde_json::json!({"os": "linux", "architecture": "s390x"});
    let mut own = serde_json::to_value(describe(MANIFEST, manifest)).unwrap();
    own["platform"] = serde_json::json!({"os": "linux", "architecture": "amd64"});
    own["annotations"] = serde_json::json!({"org.opencontainers.image.ref.name": "app:1"});
    serde_json::to_vec(
        &serde_json::json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [other, own]}),
    )
    .unwrap()
}

pub fn amd64() -> holm_image::Platform {
    holm_image::Platform {
        os: "linux".into(),
        architecture: "amd64".into(),
        variant: None,
    }
}

/// The error and its causes, as the renderer would print them.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text += &format!(": {cause}");
        next = cause.source();
    }
    text
}
