//! Copies of a workspace's files: snapshots, and the initial files of a fork. Called for
//! [`Action::TakeSnapshot`](holm_core::plan::Action) and by [`files`](super::files).
//!
//! The keeper copies a running workspace while all its processes are stopped. A snapshot is
//! `workspaces/<id>/snapshots/<key>/{upper,home,volumes/<name>}`; it is assembled under another
//! name and renamed when it is complete.

use super::connect::client;
use super::{LinuxDriver, disk_fault, halt, observe, remove_tree, users, volume, workspace_id};
use crate::copier;
use holm_core::check::CheckFor;
use holm_core::spec::{Origin, Volume, WorkspaceSpec};
use holm_core::{Code, Fault, WorkspaceId};
use holm_engine::try_blocking;
use holm_keeper::directories::WorkspaceDirs;
use holm_keeper::wire::{Answer, Op, Pair};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The prefix of a snapshot that is being assembled.
const MAKING: &str = ".making-";

/// Copying gigabytes takes time.
const COPIED_WITHIN: Duration = Duration::from_secs(3600);

/// Takes the last of the spec's snapshots.
pub async fn take(driver: &LinuxDriver, spec: &WorkspaceSpec) -> Result<(), Fault> {
    let Some(snapshot) = spec.snapshots.last() else {
        let message = format!("workspace {} has no snapshot to take", spec.id);
        return Err(Fault::new(Code::Internal, message, "report this"));
    };
    let id = workspace_id(spec)?;
    let dirs = driver.layout.workspace(&id);
    let target = dirs.snapshots().join(&snapshot.key);
    if target.is_dir() {
        return Ok(());
    }
    let making = dirs.snapshots().join(format!("{MAKING}{}", snapshot.key));
    let what = format!("cannot take a snapshot of workspace {id}");
    let disk = |error: io::Error| disk_fault(error, what.clone());
    fs::create_dir_all(making.join("volumes")).map_err(disk)?;
    let to = |volume: &Volume| making.join("volumes").join(&volume.name);
    let mut pairs = pairs(
        Parts::live(&dirs),
        &making.join("upper"),
        &making.join("home"),
    );
    pairs.extend(volume_pairs(
        &spec.volumes,
        |volume| volume::own(&dirs, volume),
        to,
    ));
    if let Err(fault) = copy(driver, spec, &id, pairs).await {
        // Perhaps the disk is full; the next start deletes what is left.
        let _ = try_blocking(move || remove_tree(&making).map_err(|error| disk_fault(error, what)))
            .await;
        return Err(fault);
    }
    let kept = try_blocking(move || {
        let keep = || {
            // Not while the processes are stopped: the disk may have much to write.
            rustix::fs::syncfs(File::open(&making)?)?;
            fs::rename(&making, &target)
        };
        keep().map_err(|error: io::Error| disk_fault(error, "cannot keep a snapshot".to_owned()))
    });
    kept.await
}

/// Copies tree, home and volumes of the origin to the new workspace.
pub async fn copy_origin(
    driver: &LinuxDriver,
    spec: &WorkspaceSpec,
    origin: &Origin,
) -> Result<(), Fault> {
    let source = WorkspaceId::parse(&origin.workspace).map_err(super::corrupt)?;
    let (from, to) = (
        driver.layout.workspace(&source),
        driver.layout.workspace(&workspace_id(spec)?),
    );
    let parts = match &origin.snapshot {
        Some(key) => Parts::kept(&from, key),
        None => Parts::live(&from),
    };
    let mut pairs = pairs(parts, &to.upper(), &to.home());
    let disk = |error| disk_fault(error, format!("cannot copy workspace {source}"));
    users::take_over(&from, &to).map_err(disk)?;
    make_generations(&source, &to, spec)?;
    let earlier = |volume: &Volume| match &origin.snapshot {
        Some(key) => volume::kept_volume(&from, key, volume),
        None => live_volume(&from, &origin.volumes, volume),
    };
    pairs.extend(volume_pairs(&spec.volumes, earlier, |volume| {
        volume::own(&to, volume)
    }));
    match origin.snapshot {
        // A snapshot never changes, so it needs no stop.
        Some(_) => copy_still(driver, spec, None, pairs).await,
        None => copy(driver, spec, &source, pairs).await,
    }
}

/// Copies volumes of the checked workspace, as they are now, to the workspace of its check.
pub async fn copy_volumes(
    driver: &LinuxDriver,
    spec: &WorkspaceSpec,
    check: &CheckFor,
) -> Result<(), Fault> {
    let source = WorkspaceId::parse(&check.workspace).map_err(super::corrupt)?;
    let from = driver.layout.workspace(&source);
    let to = driver.layout.workspace(&workspace_id(spec)?);
    let disk = |error| disk_fault(error, format!("cannot copy workspace {source}"));
    users::take_over(&from, &to).map_err(disk)?;
    make_generations(&source, &to, spec)?;
    let pairs = volume_pairs(
        &spec.volumes,
        |volume| live_volume(&from, &check.volumes, volume),
        |volume| volume::own(&to, volume),
    );
    copy(driver, spec, &source, pairs).await
}

fn make_generations(
    source: &WorkspaceId,
    to: &WorkspaceDirs,
    spec: &WorkspaceSpec,
) -> Result<(), Fault> {
    let disk = |error: io::Error| disk_fault(error, format!("cannot copy workspace {source}"));
    for volume in &spec.volumes {
        fs::create_dir_all(volume::generation(to, volume)).map_err(disk)?;
    }
    Ok(())
}

/// The files of the volume of this name, in a workspace with these volumes.
fn live_volume(from: &WorkspaceDirs, theirs: &[Volume], volume: &Volume) -> PathBuf {
    let theirs = theirs.iter().find(|earlier| earlier.name == volume.name);
    volume::own(from, theirs.unwrap_or(volume))
}

/// Unfinished snapshots, and those that no record has.
pub fn leftovers(dirs: &WorkspaceDirs, spec: &WorkspaceSpec) -> Vec<PathBuf> {
    let entries = fs::read_dir(dirs.snapshots()).into_iter().flatten();
    let paths = entries.flatten().map(|entry| entry.path());
    let is_known = |path: &Path| {
        let mut known = spec.snapshots.iter();
        known.any(|snapshot| {
            path.file_name()
                .is_some_and(|name| name == snapshot.key.as_str())
        })
    };
    paths.filter(|path| !is_known(path)).collect()
}

/// The tree and home of a workspace or of a snapshot.
struct Parts {
    upper: PathBuf,
    home: PathBuf,
}

// === impl Parts ===

impl Parts {
    fn live(dirs: &WorkspaceDirs) -> Self {
        Self {
            upper: dirs.upper(),
            home: dirs.home(),
        }
    }

    fn kept(dirs: &WorkspaceDirs, key: &str) -> Self {
        let snapshot = dirs.snapshots().join(key);
        Self {
            upper: snapshot.join("upper"),
            home: snapshot.join("home"),
        }
    }
}

fn pairs(parts: Parts, upper: &Path, home: &Path) -> Vec<Pair> {
    let pair = |from, to: &Path| Pair {
        from,
        to: to.to_owned(),
    };
    vec![pair(parts.upper, upper), pair(parts.home, home)]
}

/// A shared volume belongs to the project, and a missing one was never mounted.
fn volume_pairs(
    volumes: &[Volume],
    from: impl Fn(&Volume) -> PathBuf,
    to: impl Fn(&Volume) -> PathBuf,
) -> Vec<Pair> {
    let own = volumes.iter().filter(|volume| !volume::is_shared(volume));
    let pairs = own.map(|volume| Pair {
        from: from(volume),
        to: to(volume),
    });
    pairs.filter(|pair| pair.from.is_dir()).collect()
}

/// Copies the files of workspace `id` as of one instant, for the workspace of `spec`.
async fn copy(
    driver: &LinuxDriver,
    spec: &WorkspaceSpec,
    id: &WorkspaceId,
    pairs: Vec<Pair>,
) -> Result<(), Fault> {
    let dirs = driver.layout.workspace(id);
    let what = || format!("cannot copy workspace {id}");
    let keeper = observe::keeper_pid(&dirs).map_err(|error| disk_fault(error, what()))?;
    if keeper.is_none() {
        return copy_still(driver, spec, Some(id), pairs).await;
    }
    match client(&dirs)
        .ask_within(Op::Copy(pairs), COPIED_WITHIN)
        .await?
    {
        Answer::Failed { errno, cause } => {
            let error = errno.map(io::Error::from_raw_os_error);
            let error = error.unwrap_or_else(|| io::Error::other(cause));
            Err(disk_fault(error, what()))
        }
        _ => Ok(()),
    }
}

/// Copies files that no process writes, for the workspace of `spec`. The lock of workspace `id` is held
/// meanwhile, so that nothing starts.
pub async fn copy_still(
    driver: &LinuxDriver,
    spec: &WorkspaceSpec,
    id: Option<&WorkspaceId>,
    pairs: Vec<Pair>,
) -> Result<(), Fault> {
    let (layout, programs) = (driver.layout.clone(), driver.programs.clone());
    let own = driver.layout.workspace(&workspace_id(spec)?);
    let id = id.cloned();
    let work = move || {
        let what = "cannot copy a workspace's files".to_owned();
        let held = id.map(|id| halt::hold(&layout, &id)).transpose();
        let _held = held.map_err(|error| disk_fault(error, what.clone()))?;
        let ids = users::of(&own).map_err(|error| disk_fault(error, what.clone()))?;
        copier::run(programs.roles(), &pairs, ids.as_ref()).map_err(|error| disk_fault(error, what))
    };
    driver.builds.uninterrupted(&spec.id, work).await
}
