//! Volumes: their directories on the host. An `isolated` one is a directory of the workspace; a
//! `fork` writes into such a directory above the layer of its seed; a `shared` one is a directory
//! of the project that all its workspaces write.
//!
//! `workspaces/<id>/volumes/<name>/<generation>/{own,work}`: a reset volume gets the next number,
//! so that it contains nothing of the earlier one, and programs with files of that one open do no
//! harm. In a running workspace the new volume is mounted on the root directory of the earlier one
//! ([`crate::remount`]). The kernel unmounts what is mounted on a deleted directory, so an earlier
//! `own` is emptied at once and deleted at the next start ([`sweep`]).

use super::connect::client;
use super::{LinuxDriver, disk_fault, halt, launch, layer, remove_tree, rooms, snapshot};
use crate::Layout;
use crate::copier;
use holm_core::config::Policy;
use holm_core::spec::{Volume, WorkspaceSpec};
use holm_core::{Code, Fault, WorkspaceId};
use holm_keeper::directories::WorkspaceDirs;
use holm_keeper::files::remove::empty_tree;
use holm_keeper::wire::{Answer, Below, Mounted, Op, Pair, Renewal, VolumeMount};
use rustix::fs::{CWD, Mode, OFlags, fchmod, openat};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Services get twenty seconds to end; the rest is quick.
const RENEWED_WITHIN: Duration = Duration::from_secs(120);

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

/// Mounts reset volumes into a running workspace. If that is impossible, the workspace is
/// restarted.
pub async fn renew(driver: &LinuxDriver, spec: &WorkspaceSpec) -> Result<(), Fault> {
    let id = super::workspace_id(spec)?;
    let dirs = driver.layout.workspace(&id);
    let mounts = mounts(driver, spec, &dirs).await?.into_iter();
    let renewals = mounts.map(|volume| Renewal {
        users: users(spec, &volume.mount.inside),
        volume,
    });
    let op = Op::RenewVolumes(renewals.collect());
    match client(&dirs).ask_within(op, RENEWED_WITHIN).await {
        Ok(Answer::Done) => {}
        Ok(Answer::Failed { cause, .. }) => {
            return Err(Fault::new(
                Code::StartFailed,
                format!("workspace {id}"),
                format!("`holm restart {id}` begins with what is wanted"),
            )
            .because(cause));
        }
        Ok(_) | Err(_) => {
            halt::halt(&driver.layout, &id).await?;
            return launch::launch(driver, spec).await.map(drop);
        }
    }
    empty_earlier(&dirs, spec);
    Ok(())
}

/// The services that name the path in their command or environment, or see it in their room.
pub fn users(spec: &WorkspaceSpec, place: &Path) -> Vec<String> {
    let text = place.to_string_lossy();
    let named = spec.services.iter().filter(|service| {
        let values = service.env.iter().map(|(_, value)| value);
        let mut texts = values.chain([&service.run]);
        texts.any(|words| words.contains(text.as_ref())) || rooms::shows(spec, service, place)
    });
    named.map(|service| service.name.clone()).collect()
}

/// Deletes, in the background, files of earlier generations of volumes, trees and snapshots. The
/// workspace has no processes, so nothing is mounted there. A failed deletion is repeated at the
/// next start.
pub fn sweep(dirs: &WorkspaceDirs, spec: &WorkspaceSpec) {
    let mut gone = snapshot::leftovers(dirs, spec);
    gone.extend(earlier(dirs, spec));
    for path in gone {
        // If it fails, the next start finds it again.
        let _ = set_aside(dirs, &path);
    }
    let old = dirs.old();
    if old.exists() {
        tokio::task::spawn_blocking(move || remove_tree(&old));
    }
}

/// Empties, in the background, earlier generations of volumes of a running workspace. Their root
/// directories stay, because the new volumes are mounted on them.
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

/// The directories of earlier generations.
fn earlier(dirs: &WorkspaceDirs, spec: &WorkspaceSpec) -> Vec<PathBuf> {
    let is_current = |path: &PathBuf| {
        let mut kept = spec.volumes.iter().chain(&spec.retired_volumes);
        kept.any(|volume| generation(dirs, volume) == *path)
    };
    let all = entries(&dirs.volumes()).into_iter();
    let all = all.flat_map(|volume| entries(&volume));
    all.filter(|path| !is_current(path)).collect()
}

/// Renames a file of the workspace to the directory of files to be deleted.
pub fn set_aside(dirs: &WorkspaceDirs, path: &Path) -> io::Result<()> {
    let name = WorkspaceId::random().to_string();
    loop {
        fs::create_dir_all(dirs.old())?;
        match fs::rename(path, dirs.old().join(&name)) {
            // A deletion in the background also removes the directory.
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

/// Copies the initial content of a volume that starts from a snapshot.
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

/// The workspace's own directory of a volume that is not shared.
pub fn own(dirs: &WorkspaceDirs, volume: &Volume) -> PathBuf {
    generation(dirs, volume).join("own")
}

pub fn generation(dirs: &WorkspaceDirs, volume: &Volume) -> PathBuf {
    let number = volume.generation.to_string();
    dirs.volumes().join(&volume.name).join(number)
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
            make_like(&own, &layer)?;
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
/// others may read. So it gets the mode of the layer below before it is used.
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
