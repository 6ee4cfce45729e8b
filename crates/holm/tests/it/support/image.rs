//! Images for tests, made of programs of this machine with the libraries that they need.

use super::{Island, ids};
use holm_core::image_reference::ImageReference;
use holm_image::{Descriptor, Images, MediaType, digest_of};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::process::Command;
use tar::{Builder, EntryType, Header};

/// An image that is being made. Its first layer is at the bottom.
pub struct TestImage {
    layers: Vec<Vec<u8>>,
    tar: Builder<Vec<u8>>,
    /// Paths of libraries in this image.
    libraries: BTreeSet<String>,
    start: Value,
}

// === impl TestImage ===

impl TestImage {
    pub fn new(start: Value) -> Self {
        Self {
            layers: Vec::new(),
            tar: Builder::new(Vec::new()),
            libraries: BTreeSet::new(),
            start,
        }
    }

    /// An image with a shell and a few programs at their usual paths.
    pub fn with_shell(start: Value) -> Self {
        let programs = [
            "/bin/sh",
            "/usr/bin/cat",
            "/usr/bin/id",
            "/usr/bin/ls",
            "/usr/bin/sleep",
            "/usr/bin/stat",
            "/usr/bin/touch",
        ];
        let image = Self::new(start).directory("tmp", 0o1777);
        programs.into_iter().fold(image, Self::program)
    }

    /// A program of this machine, at the same path, and its libraries.
    pub fn program(mut self, path: &str) -> Self {
        let listed = Command::new("ldd").arg(path).output().unwrap();
        for word in String::from_utf8_lossy(&listed.stdout).split_whitespace() {
            if word.starts_with('/') && self.libraries.insert(word.to_owned()) {
                self = self.copy(word);
            }
        }
        self.copy(path)
    }

    fn copy(self, path: &str) -> Self {
        let content = std::fs::read(path).unwrap();
        self.file(path.trim_start_matches('/'), content, 0o755)
    }

    pub fn file(self, path: &str, content: impl AsRef<[u8]>, mode: u32) -> Self {
        self.entry(EntryType::Regular, path, content.as_ref(), mode)
    }

    pub fn directory(self, path: &str, mode: u32) -> Self {
        self.entry(EntryType::Directory, &format!("{path}/"), b"", mode)
    }

    pub fn link(mut self, path: &str, target: &str) -> Self {
        let mut header = header(EntryType::Symlink, 0, 0o777);
        self.tar.append_link(&mut header, path, target).unwrap();
        self
    }

    fn entry(mut self, kind: EntryType, path: &str, content: &[u8], mode: u32) -> Self {
        let mut header = header(kind, content.len(), mode);
        self.tar.append_data(&mut header, path, content).unwrap();
        self
    }

    /// What follows is in another layer above.
    pub fn layer(mut self) -> Self {
        let below = std::mem::replace(&mut self.tar, Builder::new(Vec::new()));
        self.layers.push(below.into_inner().unwrap());
        self
    }

    /// Puts the image into the store of the island's holm.
    pub fn add(self, island: &Island, name: &str) {
        let Self { layers, start, .. } = self.layer();
        let digests: Vec<String> = layers.iter().map(|it| digest_of(it).to_string()).collect();
        let config = json!({
            "os": "linux", "architecture": architecture(), "config": start,
            "rootfs": {"type": "layers", "diff_ids": digests},
        });
        let config = serde_json::to_vec(&config).unwrap();
        let part = |kind: &str, bytes: &[u8]| Descriptor {
            media_type: MediaType::new(&format!("application/vnd.oci.image.{kind}")),
            digest: digest_of(bytes),
            size: bytes.len() as u64,
        };
        let parts: Vec<_> = layers.iter().map(|it| part("layer.v1.tar", it)).collect();
        let manifest = json!({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": part("config.v1+json", &config), "layers": parts,
        });
        let manifest = serde_json::to_vec(&manifest).unwrap();
        let place = island.data().join("images");
        std::fs::create_dir_all(&place).unwrap();
        let images = Images::open(&place).unwrap();
        let writing = images.begin().unwrap();
        for blob in layers.iter().chain([&config, &manifest]) {
            writing.put(blob, MediaType::new("")).unwrap();
        }
        let described = part("manifest.v1+json", &manifest);
        images.unpack(&writing, &described.digest, &|_| {}).unwrap();
        let reference: ImageReference = name.parse().unwrap();
        images.name(&writing, &reference, &described).unwrap();
        if let Some((user, group)) = ids() {
            let mut give = Command::new("chown");
            give.arg("-R").arg(format!("{user}:{group}"));
            assert!(give.arg(island.holm_home()).status().unwrap().success());
        }
    }
}

fn header(kind: EntryType, size: usize, mode: u32) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(1_700_000_000);
    header.set_size(size as u64);
    header
}

/// As images name it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
