//! Volumes: their directories on the host. An `isolated` one is a directory of the workspace; a
//! `fork` writes into such a directory above the layer of its seed; a `shared` one is a directory
//! of the project that all its workspaces write.
//!
//! `workspaces/<id>/volumes/<name>/<generation>/{own,work}`: a reset volume gets the next number,
//! so that it contains nothing of the earlier one, and programs with files of that one open do no
//! harm ([`super::renew`]).

use super::{LinuxDriver, disk_fault, layer, remove_tree, users};
use crate::Layout;
use crate::{copier, owned};
use holm_core::Fault;
use holm_core::config::Policy;
use holm_core::spec::{Volume, WorkspaceSpec};
use holm_core::sub_ids::SubIds;
use holm_keeper::directories::WorkspaceDirs;
use holm_keeper::wire::{Below, Mounted, Pair, VolumeMount};
use rustix::fs::{CWD, Mode, OFlags, fchmod, openat};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The mounts of a workspace's volumes; creates the directories that they need.
pub async fn mounts(
    driver: &LinuxDriver,
    spec: &WorkspaceSpec,
    dirs: &WorkspaceDirs,
) -> Result<Vec<VolumeMount>, Fault> {
    if spec.volumes.is_empty() {
        return Ok(Vec::new());
    }
    let (layout, programs) = (Arc::clone(&driver.layout), driver.programs.clone());
    let (id, spec, dirs) = (spec.id.clone(), spec.clone(), dirs.clone());
    let work = move || {
        let volumes = spec.volumes.iter();
        volumes
            .map(|volume| {
                let begun = begin(programs.roles(), &dirs, volume);
                let made = begun.and_then(|()| mount(&layout, &spec, &dirs, volume));
                made.map_err(|error| {
                    let (name, id) = (&volume.name, &spec.id);
                    disk_fault(error, format!("cannot make the volume {name} of {id}"))
                })
            })
            .collect()
    };
    driver.builds.uninterrupted(&id, work).await
}

/// Copies the initial content of a volume that starts from a snapshot.
fn begin(program: &Path, dirs: &WorkspaceDirs, volume: &Volume) -> io::Result<()> {
    let own = own(dirs, volume);
    let Some(key) = volume.snapshot.as_ref().filter(|_| !own.exists()) else {
        return Ok(());
    };
    let kept = kept_volume(dirs, key, volume);
    if !kept.is_dir() {
        // It was never mounted before the snapshot was taken.
        return Ok(());
    }
    let copy = own.with_extension("copy");
    remove_tree(&copy)?;
    fs::create_dir_all(generation(dirs, volume))?;
    let pair = Pair {
        from: kept,
        to: copy.clone(),
    };
    copier::run(program, &[pair], users::of(dirs)?.as_ref())?;
    fs::rename(copy, own)
}

/// The workspace's own directory of a volume that is not shared.
pub fn own(dirs: &WorkspaceDirs, volume: &Volume) -> PathBuf {
    generation(dirs, volume).join("own")
}

pub fn generation(dirs: &WorkspaceDirs, volume: &Volume) -> PathBuf {
    let number = volume.generation.to_string();
    dirs.volumes().join(&volume.name).join(number)
}

/// The path of a volume in a snapshot.
pub fn kept_volume(dirs: &WorkspaceDirs, key: &str, volume: &Volume) -> PathBuf {
    let snapshot = dirs.snapshots().join(key);
    snapshot.join("volumes").join(&volume.name)
}

/// The directory of a shared volume.
fn shared(layout: &Layout, spec: &WorkspaceSpec, volume: &Volume) -> PathBuf {
    let project = layout.data_dir.join("projects").join(&spec.project_id);
    project.join("volumes").join(&volume.name)
}

pub fn is_shared(volume: &Volume) -> bool {
    volume.policy == Policy::Shared
}

/// The directories with the bytes of each volume.
pub fn places(layout: &Layout, spec: &WorkspaceSpec, dirs: &WorkspaceDirs) -> Vec<PathBuf> {
    let volumes = spec.volumes.iter();
    volumes
        .map(|volume| place(layout, spec, dirs, volume))
        .collect()
}

/// The directory with the bytes of a volume.
pub fn place(
    layout: &Layout,
    spec: &WorkspaceSpec,
    dirs: &WorkspaceDirs,
    volume: &Volume,
) -> PathBuf {
    if is_shared(volume) {
        shared(layout, spec, volume)
    } else {
        generation(dirs, volume)
    }
}

fn mount(
    layout: &Layout,
    spec: &WorkspaceSpec,
    dirs: &WorkspaceDirs,
    volume: &Volume,
) -> io::Result<VolumeMount> {
    let place = place(layout, spec, dirs, volume);
    let own = place.join("own");
    let below = match &volume.seed {
        Some(seed) if !is_shared(volume) => {
            let work = place.join("work");
            fs::create_dir_all(&work)?;
            let layer = layer::directory(layout, &spec.layer(&seed.key)).join("tree");
            make_like(&own, &layer, users::of(dirs)?.as_ref())?;
            Some(Below { layer, work })
        }
        _ => {
            fs::create_dir_all(&own)?;
            None
        }
    };
    let lock = if is_shared(volume) && volume.single {
        let lock = place.join("lock");
        fs::File::options().create(true).append(true).open(&lock)?;
        Some(lock)
    } else {
        None
    };
    Ok(VolumeMount {
        name: volume.name.clone(),
        generation: volume.generation,
        mount: Mounted {
            inside: volume.path.clone(),
            own,
            below,
        },
        lock,
    })
}

/// The root of an overlay has the mode of its upper layer, and a database refuses a directory that
/// others may read. So it gets the mode and the owner of the layer below before it is used.
fn make_like(own: &Path, layer: &Path, ids: Option<&SubIds>) -> io::Result<()> {
    if own.exists() {
        return Ok(());
    }
    let of_layer = fs::metadata(layer)?;
    let mode = Mode::from_raw_mode(of_layer.mode() & 0o7777);
    let fresh = own.with_extension("new");
    fs::create_dir_all(&fresh)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    fchmod(openat(CWD, &fresh, flags, Mode::empty())?, mode)?;
    if let Some(ids) = ids.filter(|ids| ids.users.contains(of_layer.uid())) {
        owned::own_like(layer, &fresh, ids)?;
    }
    fs::rename(fresh, own)
}
