//! Caches: their mounts on the host. A `fork` writes into the workspace's own directory above a
//! snapshot, so nothing of it reaches another workspace; a `shared` one is a directory of the
//! project that all its workspaces write.

use super::layer;
use crate::Layout;
use holm_core::config::Policy;
use holm_core::spec::{Cache, WorkspaceSpec};
use holm_keeper::directories::WorkspaceDirs;
use holm_keeper::wire::{Below, Mounted};
use std::fs;
use std::io;

/// The mounts of a workspace's caches; creates the directories that they need.
pub fn mounts(
    layout: &Layout,
    spec: &WorkspaceSpec,
    dirs: &WorkspaceDirs,
) -> io::Result<Vec<Mounted>> {
    let caches = spec.caches.iter();
    caches
        .map(|cache| mount(layout, spec, dirs, cache))
        .collect()
}

fn mount(
    layout: &Layout,
    spec: &WorkspaceSpec,
    dirs: &WorkspaceDirs,
    cache: &Cache,
) -> io::Result<Mounted> {
    let is_shared = cache.policy == Policy::Shared;
    let own = if is_shared {
        let project = layout.data_dir.join("projects").join(&spec.project_id);
        project.join("caches").join(&cache.name)
    } else {
        dirs.dir.join("caches").join(&cache.name).join("own")
    };
    fs::create_dir_all(&own)?;
    let below = match &cache.snapshot {
        Some(key) if !is_shared => {
            let work = dirs.dir.join("caches").join(&cache.name).join("work");
            fs::create_dir_all(&work)?;
            let layer = layer::directory(layout, &spec.layer(key)).join("tree");
            Some(Below { layer, work })
        }
        _ => None,
    };
    Ok(Mounted {
        inside: cache.path.clone(),
        own,
        below,
    })
}
