//! Layers that a client provides: build output of the user's checkout, and snapshots of caches.
//!
//! A client of the same user fills a directory of the daemon itself, with reflinks where possible;
//! any other client sends an archive. One rename makes it a layer.

use super::unpack::unpack;
use super::{LinuxDriver, disk_fault, layer, remove_tree};
use crate::Layout;
use holm_core::layer::LayerKey;
use holm_core::{Code, Fault, WorkspaceId};
use holm_engine::spec::WorkspaceSpec;
use holm_engine::try_blocking;
use holm_git::Dated;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A tree that is being provided.
#[derive(Clone, Debug)]
pub struct BroughtTree {
    pub name: WorkspaceId,
    /// The directory to fill.
    pub directory: PathBuf,
}

/// The file of modification times: `object seconds nanoseconds path`, each ended by a zero byte.
const DATES: &str = "dates";

// === impl LinuxDriver ===

impl LinuxDriver {
    pub fn has_brought(&self, key: &LayerKey) -> bool {
        layer::directory(&self.layout, key).is_dir()
    }

    /// Creates an empty directory for a tree.
    pub fn begin_tree(&self, key: &LayerKey) -> Result<BroughtTree, Fault> {
        let name = WorkspaceId::random();
        let directory = place(&self.layout, key, &name).join("tree");
        fs::create_dir_all(&directory)
            .map_err(|error| disk_fault(&error, format!("cannot make {}", directory.display())))?;
        Ok(BroughtTree { name, directory })
    }

    /// Makes the tree a layer, unless another client was faster.
    pub async fn finish_tree(
        &self,
        key: LayerKey,
        name: WorkspaceId,
        archive: Option<PathBuf>,
        dates: Vec<Dated>,
    ) -> Result<(), Fault> {
        let layout = Arc::clone(&self.layout);
        try_blocking(move || finish(&layout, &key, &name, archive.as_deref(), dates)).await
    }
}

fn place(layout: &Layout, key: &LayerKey, name: &WorkspaceId) -> PathBuf {
    layer::directory(layout, key).with_file_name(format!("{}{name}", layer::BRINGING))
}

fn finish(
    layout: &Layout,
    key: &LayerKey,
    name: &WorkspaceId,
    archive: Option<&Path>,
    dates: Vec<Dated>,
) -> Result<(), Fault> {
    let bringing = place(layout, key, name);
    let tree = bringing.join("tree");
    if !tree.is_dir() {
        let message = format!("there is no tree `{name}`");
        return Err(Fault::new(Code::PathNotFound, message, "begin it again"));
    }
    let target = layer::directory(layout, key);
    let keep = || {
        if let Some(archive) = archive {
            unpack(archive, &tree)?;
        }
        // A layer never contains a repository.
        remove_tree(&tree.join(".git"))?;
        fs::write(bringing.join(DATES), written(&dates))?;
        rustix::fs::syncfs(File::open(&bringing)?)?;
        match fs::rename(&bringing, &target) {
            Err(_) if target.is_dir() => remove_tree(&bringing),
            renamed => renamed,
        }
    };
    keep().map_err(|error: io::Error| {
        // It is unused now; if removal fails, the next collection finds it.
        let _ = remove_tree(&bringing);
        let message = format!("cannot keep what was brought: {error}");
        match error.kind() {
            io::ErrorKind::InvalidData => Fault::new(Code::Refused, message, "leave it out"),
            _ => disk_fault(&error, "cannot keep what was brought".to_owned()),
        }
    })
}

/// The modification times of the checkout's files, if a client sent them.
pub fn dates(layout: &Layout, spec: &WorkspaceSpec) -> Vec<Dated> {
    let Some(warm) = &spec.layers.warm else {
        return Vec::new();
    };
    let file = layer::directory(layout, &spec.layer(warm)).join(DATES);
    // Without them builds only take longer.
    let text = fs::read_to_string(file).unwrap_or_default();
    text.split('\0').filter_map(read).collect()
}

fn written(dates: &[Dated]) -> String {
    let entries = dates.iter().map(|date| {
        let Dated {
            path,
            object,
            seconds,
            nanoseconds,
        } = date;
        format!("{object} {seconds} {nanoseconds} {path}\0")
    });
    entries.collect()
}

fn read(entry: &str) -> Option<Dated> {
    let mut parts = entry.splitn(4, ' ');
    Some(Dated {
        object: parts.next()?.to_owned(),
        seconds: parts.next()?.parse().ok()?,
        nanoseconds: parts.next()?.parse().ok()?,
        path: parts.next()?.to_owned(),
    })
}
