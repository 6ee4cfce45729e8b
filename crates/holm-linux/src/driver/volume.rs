//! Volumes: where each is on the host. An `isolated` one is a directory of the workspace; a `fork` writes
//! into such a directory above the layer that its seed made; a `shared` one is a directory of the
//! project that all its workspaces write.
//!
//! `workspaces/<id>/volumes/<name>/<generation>/{own,work}`: one that is begun anew gets the next
//! number, so that nothing of the one before it is in it, and whoever still has files of that one
//! open does no harm. While the workspace runs, the new one is mounted on the top directory of the
//! one before it ([`crate::remount`]). The kernel unmounts what is mounted on a directory that is
//! deleted, so an earlier `own` is emptied at once and deleted at the next start ([`sweep`]).

use super::remove::empty_tree;
use super::{LinuxDriver, disk_fault, halt, keeper, launch, layer, remove_tree, snapshot};
use crate::Layout;
use crate::copier::{self, Pair};
use crate::layout::WorkspaceDirs;
use crate::wire::{Answer, Below, Mounted, Op, Renewal, VolumeMount};
use holm_core::config::Policy;
use holm_core::{Code, Fault, WorkspaceId};
use holm_engine::spec::{Volume, WorkspaceSpec};
use holm_engine::try_blocking;
use rustix::fs::{CWD, Mode, OFlags, fchmod, openat};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Services get twenty seconds to end; the rest is quick.
const RENEWED_WITHIN: Duration = Duration::from_secs(120);

/// The mounts of a workspace's volumes, with everything that they need on the host.
pub async fn mounts(
    driver: &LinuxDriver,
    spec: &WorkspaceSpec,
    dirs: &WorkspaceDirs,
) -> Result<Vec<VolumeMount>, Fault> {
    if spec.volumes.is_empty() {
        return Ok(Vec::new());
    }
    let (layout, program) = (Arc::clone(&driver.layout), driver.program.clone());
    let (spec, dirs) = (spec.clone(), dirs.clone());
    try_blocking(move || {
        let volumes = spec.volumes.iter();
        volumes
            .map(|volume| {
                let begun = begin(&program, &dirs, volume);
                let made = begun.and_then(|()| mount(&layout, &spec, &dirs, volume));
                made.map_err(|error| {
                    let (name, id) = (&volume.name, &spec.id);
                    disk_fault(&error, format!("cannot make the volume {name} of {id}"))
                })
            })
            .collect()
    })
    .await
}

/// Mounts volumes that were begun anew into a workspace that runs. Where that cannot be done, the
/// workspace is started anew.
pub async fn renew(driver: &LinuxDriver, spec: &WorkspaceSpec) -> Result<(), Fault> {
    let id = super::workspace_id(spec)?;
    let dirs = driver.layout.workspace(&id);
    let mounts = mounts(driver, spec, &dirs).await?.into_iter();
    let renewals = mounts.map(|volume| Renewal {
        users: users(spec, &volume.mount.inside),
        volume,
    });
    let op = Op::RenewVolumes(renewals.collect());
    match keeper::ask_within(&dirs, op, RENEWED_WITHIN).await {
        Ok(Answer::Done) => {}
        Ok(Answer::Failed { cause, .. }) => {
            return Err(Fault::new(
                Code::StartFailed,
                format!("workspace {id}: {cause}"),
                format!("`holm restart {id}` begins with what is wanted"),
            ));
        }
        Ok(_) | Err(_) => {
            halt::halt(&driver.layout, &id).await?;
            return launch::launch(driver, spec).await;
        }
    }
    empty_earlier(&dirs, spec);
    Ok(())
}

/// The services that name the place in their command or environment.
fn users(spec: &WorkspaceSpec, place: &Path) -> Vec<String> {
    let text = place.to_string_lossy();
    let named = spec.services.iter().filter(|service| {
        let values = service.env.iter().map(|(_, value)| value);
        let mut texts = values.chain([&service.run]);
        texts.any(|words| words.contains(text.as_ref()))
    });
    named.map(|service| service.name.clone()).collect()
}

/// Deletes, in the background, what volumes, trees and snapshots of an earlier beginning left. The
/// workspace has no processes, so nothing is mounted there. What cannot be deleted is tried again at
/// the next start.
pub fn sweep(dirs: &WorkspaceDirs, spec: &WorkspaceSpec) {
    let mut gone = snapshot::leftovers(dirs, spec);
    gone.extend(earlier(dirs, spec));
    for path in gone {
        // It stays where it is, and is found again.
        let _ = set_aside(dirs, &path);
    }
    let old = dirs.old();
    if old.exists() {
        tokio::task::spawn_blocking(move || remove_tree(&old));
    }
}

/// Deletes, in the background, the content of earlier beginnings of volumes of a workspace that runs.
/// Their top directories stay: the new volumes are mounted on them.
fn empty_earlier(dirs: &WorkspaceDirs, spec: &WorkspaceSpec) {
    let earlier = earlier(dirs, spec);
    tokio::task::spawn_blocking(move || {
        for generation in earlier {
            let own = generation.join("own");
            if let Err(error) = empty_tree(&own) {
                let own = own.display();
                tracing::warn!(%own, %error, "an earlier volume is deleted at the next start");
            }
        }
    });
}

/// The directories of volumes that were begun anew since.
fn earlier(dirs: &WorkspaceDirs, spec: &WorkspaceSpec) -> Vec<PathBuf> {
    let is_current = |path: &PathBuf| {
        let mut kept = spec.volumes.iter().chain(&spec.retired_volumes);
        kept.any(|volume| generation(dirs, volume) == *path)
    };
    let all = entries(&dirs.volumes()).into_iter();
    let all = all.flat_map(|volume| entries(&volume));
    all.filter(|path| !is_current(path)).collect()
}

/// Renames something of the workspace to where it is only waiting to be deleted.
pub fn set_aside(dirs: &WorkspaceDirs, path: &Path) -> io::Result<()> {
    let name = WorkspaceId::random().to_string();
    loop {
        fs::create_dir_all(dirs.old())?;
        match fs::rename(path, dirs.old().join(&name)) {
            // What is deleted in the background takes the directory along.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if path.symlink_metadata().is_err() {
                    return Ok(());
                }
            }
            renamed => return renamed,
        }
    }
}

fn entries(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// The first content of one that begins with a snapshot.
fn begin(program: &Path, dirs: &WorkspaceDirs, volume: &Volume) -> io::Result<()> {
    let own = own(dirs, volume);
    let Some(key) = volume.snapshot.as_ref().filter(|_| !own.exists()) else {
        return Ok(());
    };
    let kept = snapshot::kept_volume(dirs, key, volume);
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
    copier::run(program, &[pair])?;
    fs::rename(copy, own)
}

/// What is the workspace's own of a volume that is not shared.
pub fn own(dirs: &WorkspaceDirs, volume: &Volume) -> PathBuf {
    generation(dirs, volume).join("own")
}

pub fn generation(dirs: &WorkspaceDirs, volume: &Volume) -> PathBuf {
    let number = volume.generation.to_string();
    dirs.volumes().join(&volume.name).join(number)
}

/// All of one that is shared.
fn shared(layout: &Layout, spec: &WorkspaceSpec, volume: &Volume) -> PathBuf {
    let project = layout.data_dir.join("projects").join(&spec.project_id);
    project.join("volumes").join(&volume.name)
}

pub fn is_shared(volume: &Volume) -> bool {
    volume.policy == Policy::Shared
}

/// Where the bytes of each volume are.
pub fn places(layout: &Layout, spec: &WorkspaceSpec, dirs: &WorkspaceDirs) -> Vec<PathBuf> {
    let volumes = spec.volumes.iter();
    volumes
        .map(|volume| place(layout, spec, dirs, volume))
        .collect()
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
