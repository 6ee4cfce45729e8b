//! Volumes: where each is on the host. An `isolated` one is a directory of the workspace; a `fork` writes
//! into such a directory above the layer that its seed made; a `shared` one is a directory of the
//! project that all its workspaces write.
//!
//! `workspaces/<id>/volumes/<name>/<generation>/{own,work}`: one that is begun anew gets the next
//! number, so that nothing of the one before it is in it, and whoever still has files of that one
//! open does no harm.

use super::{LinuxDriver, blocking, disk_fault, layer};
use crate::Layout;
use crate::layout::WorkspaceDirs;
use crate::measure;
use crate::wire::{Below, Mounted, VolumeMount};
use holm_core::Fault;
use holm_core::config::Policy;
use holm_engine::spec::{Volume, WorkspaceSpec};
use rustix::fs::{CWD, Mode, OFlags, fchmod, openat};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

// === impl LinuxDriver ===

impl LinuxDriver {
    /// The bytes that each volume of the workspace takes by itself: of a fork, what differs from what
    /// it began with. `None`: it could not be measured.
    pub async fn volume_usage(&self, spec: &WorkspaceSpec) -> Result<Vec<Option<u64>>, Fault> {
        let id = super::workspace_id(spec)?;
        let (layout, program, spec) = (self.layout.clone(), self.program.clone(), spec.clone());
        blocking(move || {
            let mut dirs = layout.workspace(&id);
            if !dirs.dir.exists() {
                dirs.dir = layout.trash(&id);
            }
            let volumes = spec.volumes.iter();
            Ok(volumes
                .map(|volume| {
                    let place = place(&layout, &spec, &dirs, volume);
                    // One that was never mounted takes nothing.
                    if !place.exists() {
                        return Some(0);
                    }
                    let measured = measure::command(&program, &place).output().ok()?;
                    measure::understand(&measured.stdout).ok()
                })
                .collect())
        })
        .await
    }
}

/// The mounts of a workspace's volumes, with everything that they need on the host.
pub fn mounts(
    layout: &Layout,
    spec: &WorkspaceSpec,
    dirs: &WorkspaceDirs,
) -> Result<Vec<VolumeMount>, Fault> {
    let volumes = spec.volumes.iter();
    volumes
        .map(|volume| {
            mount(layout, spec, dirs, volume).map_err(|error| {
                let (name, id) = (&volume.name, &spec.id);
                disk_fault(&error, format!("cannot make the volume {name} of {id}"))
            })
        })
        .collect()
}

/// What is the workspace's own of a volume that is not shared.
pub fn own(dirs: &WorkspaceDirs, volume: &Volume) -> PathBuf {
    generation(dirs, volume).join("own")
}

fn generation(dirs: &WorkspaceDirs, volume: &Volume) -> PathBuf {
    let number = volume.generation.to_string();
    dirs.volumes().join(&volume.name).join(number)
}

/// All of one that is shared.
fn shared(layout: &Layout, spec: &WorkspaceSpec, volume: &Volume) -> PathBuf {
    let project = layout.data_dir.join("projects").join(&spec.project_id);
    project.join("volumes").join(&volume.name)
}

fn is_shared(volume: &Volume) -> bool {
    volume.policy == Policy::Shared.as_str()
}

/// Where the bytes of a volume are.
fn place(layout: &Layout, spec: &WorkspaceSpec, dirs: &WorkspaceDirs, volume: &Volume) -> PathBuf {
    match is_shared(volume) {
        true => shared(layout, spec, volume),
        false => generation(dirs, volume),
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
            make_like(&own, &layer)?;
            Some(Below { layer, work })
        }
        _ => {
            fs::create_dir_all(&own)?;
            None
        }
    };
    let lock = match is_shared(volume) && volume.single {
        true => {
            let lock = place.join("lock");
            fs::File::options().create(true).append(true).open(&lock)?;
            Some(lock)
        }
        false => None,
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

/// The top of an overlay has the mode of its writable layer, and a database refuses a directory that
/// others may read. So it gets that of what lies below, before anything is in it.
fn make_like(own: &Path, layer: &Path) -> io::Result<()> {
    if own.exists() {
        return Ok(());
    }
    let mode = Mode::from_raw_mode(fs::metadata(layer)?.mode() & 0o7777);
    let fresh = own.with_extension("new");
    fs::create_dir_all(&fresh)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    fchmod(openat(CWD, &fresh, flags, Mode::empty())?, mode)?;
    fs::rename(fresh, own)
}
