//! Images for tests, made of programs of this machine with the libraries that they need.

use super::packed::describe;
use super::user::give;
use super::{Image, Island, MANIFEST, ids};
use holm_core::image_reference::ImageReference;
use holm_image::{Images, MediaType, digest_of};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;
use tar::{Builder, EntryType, Header};

/// An image that is being made. Its first layer is at the bottom.
pub struct TestImage {
    layers: Vec<Vec<u8>>,
    tar: Builder<Vec<u8>>,
    /// Paths of libraries in this image.
    libraries: BTreeSet<String>,
    start: Value,
    /// Of the following files.
    owner: (u64, u64),
}

// === impl TestImage ===

impl TestImage {
    pub fn new(start: Value) -> Self {
        Self {
            layers: Vec::new(),
            tar: Builder::new(Vec::new()),
            libraries: BTreeSet::new(),
            start,
            owner: (0, 0),
        }
    }

    /// What follows belongs to this user and group of the image.
    pub fn owned_by(self, user: u64, group: u64) -> Self {
        Self {
            owner: (user, group),
            ..self
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

    /// The users that packages of services make, and a program that changes to one of them, as entrypoints do.
    pub fn with_users(self) -> Self {
        let users = [
            ("root", 0, "/root"),
            ("www-data", 33, "/var/www"),
            ("redis", 998, "/data"),
            ("mysql", 997, "/nonexistent"),
            ("postgres", 999, "/var/lib/postgresql"),
            ("memcache", 11211, "/nonexistent"),
            ("app", 1000, "/home/app"),
            ("nobody", 65534, "/nonexistent"),
        ];
        let passwd = users.map(|(name, id, home)| format!("{name}:x:{id}:{id}::{home}:/bin/sh\n"));
        let group = users.map(|(name, id, _)| match name {
            "nobody" => format!("nogroup:x:{id}:\n"),
            name => format!("{name}:x:{id}:\n"),
        });
        let gosu = "#!/bin/sh\nuser=$1; shift\n\
            exec setpriv --reuid=\"$user\" --regid=\"$user\" --init-groups -- \"$@\"\n";
        self.file("etc/passwd", passwd.concat(), 0o644)
            .file("etc/group", group.concat(), 0o644)
            .file("usr/local/bin/gosu", gosu, 0o755)
            .program("/usr/bin/setpriv")
            .program("/usr/bin/chown")
    }

    /// A program of this machine, at the same path, and its libraries.
    pub fn program(self, path: &str) -> Self {
        self.libraries(path).copy(path)
    }

    /// The libraries that a program of this machine needs.
    pub fn libraries(mut self, path: &str) -> Self {
        let listed = Command::new("ldd").arg(path).output().unwrap();
        for word in String::from_utf8_lossy(&listed.stdout).split_whitespace() {
            if word.starts_with('/') && self.libraries.insert(word.to_owned()) {
                self = self.copy(word);
            }
        }
        self
    }

    fn copy(self, path: &str) -> Self {
        let content = std::fs::read(path).unwrap();
        self.file(path.trim_start_matches('/'), content, 0o755)
    }

    /// The files below a directory of this machine, at the same path.
    pub fn tree(mut self, path: &Path) -> Self {
        for entry in std::fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            self = if path.is_dir() {
                self.tree(&path)
            } else {
                self.copy(path.to_str().unwrap())
            };
        }
        self
    }

    pub fn file(self, path: &str, content: impl AsRef<[u8]>, mode: u32) -> Self {
        self.entry(EntryType::Regular, path, content.as_ref(), mode)
    }

    pub fn directory(self, path: &str, mode: u32) -> Self {
        self.entry(EntryType::Directory, &format!("{path}/"), b"", mode)
    }

    pub fn link(mut self, path: &str, target: &str) -> Self {
        let mut header = header(EntryType::Symlink, 0, 0o777, self.owner);
        self.tar.append_link(&mut header, path, target).unwrap();
        self
    }

    fn entry(mut self, kind: EntryType, path: &str, content: &[u8], mode: u32) -> Self {
        let mut header = header(kind, content.len(), mode, self.owner);
        self.tar.append_data(&mut header, path, content).unwrap();
        self
    }

    /// What follows is in another layer above.
    pub fn layer(mut self) -> Self {
        let below = std::mem::replace(&mut self.tar, Builder::new(Vec::new()));
        self.layers.push(below.into_inner().unwrap());
        self
    }

    pub fn build(self) -> Image {
        let Self { layers, start, .. } = self.layer();
        let digests: Vec<String> = layers.iter().map(|it| digest_of(it).to_string()).collect();
        let config = json!({
            "os": "linux", "architecture": architecture(), "config": start,
            "rootfs": {"type": "layers", "diff_ids": digests},
        });
        let config = serde_json::to_vec(&config).unwrap();
        let kind = |name: &str| format!("application/vnd.oci.image.{name}");
        let layer = |bytes: &Vec<u8>| describe(&kind("layer.v1.tar"), bytes);
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST,
            "config": describe(&kind("config.v1+json"), &config),
            "layers": layers.iter().map(layer).collect::<Vec<_>>(),
        });
        let manifest = serde_json::to_vec(&manifest).unwrap();
        let mut blobs = layers;
        blobs.push(config);
        Image { blobs, manifest }
    }

    /// Puts the image into the store of the island's holm.
    pub fn add(self, island: &Island, name: &str) {
        let Image { blobs, manifest } = self.build();
        let place = island.data().join("images");
        std::fs::create_dir_all(&place).unwrap();
        let images = Images::open(&place).unwrap();
        let writing = images.begin().unwrap();
        for blob in blobs.iter().chain([&manifest]) {
            writing.put(blob, MediaType::new("")).unwrap();
        }
        let described = describe(MANIFEST, &manifest);
        let on = |_| ControlFlow::Continue(());
        images.unpack(&writing, &described.digest, &on).unwrap();
        let reference: ImageReference = name.parse().unwrap();
        images.name(&writing, &reference, &described).unwrap();
        if let Some((user, group)) = ids() {
            let mut all = Command::new("chown");
            all.arg("-R").arg(format!("{user}:{group}"));
            assert!(all.arg(&place).status().unwrap().success());
            let above = place.ancestors().skip(1);
            above
                .take_while(|directory| directory.starts_with(island.holm_home()))
                .for_each(give);
        }
    }
}

fn header(kind: EntryType, size: usize, mode: u32, (user, group): (u64, u64)) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(user);
    header.set_gid(group);
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
