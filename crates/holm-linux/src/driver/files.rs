//! Creates a workspace's own files. Nothing is mounted yet, so plain writes are safe.

use super::environment::{below_home, write_etc};
use super::generation::{complete, generation};
use super::places::Places;
use super::secrets::tree_files;
use super::{
    LinuxDriver, base, disk_fault, project_id, remove_tree, snapshot, sweep, workspace_id,
};
use crate::Layout;
use crate::launch::PROTECTED_WITHIN;
use holm_core::spec::{Code as CodeSpec, Purpose, Setup, WorkspaceSpec};
use holm_core::{Code, Fault, WorkspaceId};
use holm_engine::try_blocking;
use holm_git::{Seed, seed_excluded, seed_git_dir};
use holm_keeper::directories::WorkspaceDirs;
use holm_keeper::files::unpack::{unpack, unpack_some};
use holm_keeper::wire::Pair;
use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub async fn make(driver: &LinuxDriver, spec: Arc<WorkspaceSpec>) -> Result<(), Fault> {
    let id = workspace_id(&spec)?;
    let dirs = driver.layout.workspace(&id);
    if dirs.complete().exists() {
        return Ok(());
    }
    let (layout, made) = (Arc::clone(&driver.layout), Arc::clone(&spec));
    let places = Arc::clone(&driver.places);
    let work = move || make_places(&layout, &places, &made);
    driver.builds.uninterrupted(&spec.id, work).await?;
    if let Some(origin) = &spec.origin {
        snapshot::copy_origin(driver, &spec, origin).await?;
    }
    if let Purpose::Check(check) = &spec.purpose
        && !check.volumes.is_empty()
    {
        snapshot::copy_volumes(driver, &spec, check).await?;
    }
    complete(&dirs, &spec)
}

/// Creates everything except copies.
fn make_places(layout: &Layout, places: &Places, spec: &WorkspaceSpec) -> Result<(), Fault> {
    let id = workspace_id(spec)?;
    let dirs = layout.workspace(&id);
    let disk = |error: io::Error| disk_fault(error, format!("cannot make the files of {id}"));
    remove_tree(&dirs.dir).map_err(disk)?;
    places.take(&dirs).map_err(disk)?;
    write_etc(&dirs, spec).map_err(disk)?;
    fs::write(dirs.guest().join("id"), format!("{id}\n")).map_err(disk)?;
    if spec.origin.is_some() {
        let emptied = remove_tree(&dirs.upper()).and_then(|()| fs::remove_dir(dirs.home()));
        return emptied.map_err(disk);
    }
    copy_to_home(&dirs, spec).map_err(disk)?;
    let brought = [
        (spec.brought.include_tar.as_ref(), dirs.include_tar()),
        (
            spec.brought.dirty.as_ref().map(|dirty| &dirty.pack),
            dirs.dirty_pack(),
        ),
    ];
    for (received, kept) in brought {
        let Some(received) = received else {
            continue;
        };
        // A layer that is built again later, or a check: the workspace that it is made for has the upload.
        let earlier = kept.file_name().zip(made_for(layout, spec)?);
        let earlier = earlier.map(|(name, needs)| needs.dir.join(name));
        let source = earlier.filter(|_| !received.exists());
        fs::copy(source.as_ref().unwrap_or(received), kept).map_err(disk)?;
    }
    make_tree(layout, &dirs, spec)
}

/// The workspace that a setup builds its layer for, or that a check is about.
fn made_for(layout: &Layout, spec: &WorkspaceSpec) -> Result<Option<WorkspaceDirs>, Fault> {
    let id = match &spec.purpose {
        Purpose::Setup(Setup {
            workspace: Some(id),
            ..
        }) => id,
        Purpose::Check(check) => &check.workspace,
        Purpose::Work | Purpose::Setup(_) | Purpose::Seed(_) => return Ok(None),
    };
    let id = WorkspaceId::parse(id).map_err(super::corrupt)?;
    Ok(Some(layout.workspace(&id)))
}

/// Creates the initial tree; git inside checks out uncommitted state later.
fn make_tree(layout: &Layout, dirs: &WorkspaceDirs, spec: &WorkspaceSpec) -> Result<(), Fault> {
    let archive = dirs.include_tar();
    if archive.exists() {
        let unpacked = match &spec.purpose {
            Purpose::Setup(setup) => {
                let wanted: Vec<_> = tree_files(setup).into_iter().map(Path::new).collect();
                unpack_some(&archive, &dirs.upper(), &wanted)
            }
            Purpose::Work | Purpose::Seed(_) | Purpose::Check(_) => unpack(&archive, &dirs.upper()),
        };
        unpacked.map_err(|error| {
            let hint = "name the files one by one with `--include`";
            let message = "cannot lay out the included files";
            match error.kind() {
                io::ErrorKind::InvalidData => {
                    Fault::new(Code::Refused, message, hint).because(error)
                }
                _ => disk_fault(error, format!("cannot make the files of {}", spec.id)),
            }
        })?;
    }
    seed(layout, dirs, spec)
}

/// Recreates the tree of a stopped workspace: as at its start, or as in a snapshot.
pub async fn remake(driver: &LinuxDriver, spec: Arc<WorkspaceSpec>) -> Result<(), Fault> {
    let id = workspace_id(&spec)?;
    let dirs = driver.layout.workspace(&id);
    if generation(&dirs)? == Some(spec.generation) {
        return Ok(());
    }
    let disk = |error: io::Error| disk_fault(error, format!("cannot make the files of {id} anew"));
    for path in [dirs.upper(), dirs.work(), dirs.pins(), dirs.prepared()] {
        sweep::set_aside(&dirs, &path).map_err(disk)?;
    }
    let snapshot = spec
        .origin
        .as_ref()
        .and_then(|origin| origin.snapshot.as_ref());
    for path in [dirs.work(), dirs.pins()] {
        fs::create_dir_all(path).map_err(disk)?;
    }
    match snapshot {
        Some(key) => {
            let pair = Pair {
                from: dirs.snapshots().join(key).join("upper"),
                to: dirs.upper(),
            };
            snapshot::copy_still(driver, &spec, Some(&id), vec![pair]).await?;
        }
        None => {
            fs::create_dir_all(dirs.upper()).map_err(disk)?;
            let (layout, dirs, spec) = (Arc::clone(&driver.layout), dirs.clone(), spec.clone());
            try_blocking(move || make_tree(&layout, &dirs, &spec)).await?;
        }
    }
    complete(&dirs, &spec)?;
    sweep::sweep(&dirs, &spec);
    Ok(())
}

/// Copies files that the user's settings name (`[home] copy`); missing ones are skipped.
fn copy_to_home(dirs: &WorkspaceDirs, spec: &WorkspaceSpec) -> io::Result<()> {
    for source in &spec.home_copies {
        let Some(target) = below_home(spec, dirs, source) else {
            continue;
        };
        if !source.is_file() {
            continue;
        }
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::copy(source, target)?;
    }
    Ok(())
}

/// Updates git's exclude list after the uncommitted state was checked out, because that may have
/// added or removed a protected path. Only git has run in the workspace so far.
pub async fn exclude_again(layout: &Arc<Layout>, spec: &WorkspaceSpec) -> Result<(), Fault> {
    let (layout, spec) = (Arc::clone(layout), spec.clone());
    try_blocking(move || {
        let dirs = layout.workspace(&workspace_id(&spec)?);
        let excluded = excluded(&layout, &dirs, &spec)?;
        Ok(seed_excluded(&dirs.upper(), &excluded)?)
    })
    .await
}

/// Included files, and placeholders of absent protected paths, which git must not try to remove, as
/// `stash -u` and `clean` do with unknown files.
fn excluded(
    layout: &Layout,
    dirs: &WorkspaceDirs,
    spec: &WorkspaceSpec,
) -> Result<Vec<String>, Fault> {
    let base = base::tree(layout, &project_id(spec)?, spec);
    let protected = spec.protected_paths.iter();
    let absent = protected.filter(|path| !is_there(&dirs.upper(), &base, Path::new(path)));
    let placeholders = absent.flat_map(|path| {
        let parent = Path::new(path)
            .parent()
            .filter(|parent| *parent != Path::new(""));
        let mark = parent.map(|parent| format!("{}/{PROTECTED_WITHIN}/", parent.display()));
        mark.into_iter().chain([format!("{path}/")])
    });
    Ok(spec
        .code
        .excluded
        .iter()
        .cloned()
        .chain(placeholders)
        .collect())
}

/// Whether the overlay will show a file at `path`.
fn is_there(upper: &Path, base: &Path, path: &Path) -> bool {
    let is_whiteout = |above: &Path| {
        let metadata = upper.join(above).symlink_metadata();
        metadata.is_ok_and(|metadata| metadata.file_type().is_char_device())
    };
    let is_removed = path.ancestors().any(is_whiteout);
    let is_in = |layer: &Path| layer.join(path).symlink_metadata().is_ok();
    !is_removed && (is_in(upper) || is_in(base))
}

/// Writes the workspace's own part of `.git`.
fn seed(layout: &Layout, dirs: &WorkspaceDirs, spec: &WorkspaceSpec) -> Result<(), Fault> {
    let packed_refs: PathBuf = layout.repository(&project_id(spec)?).join("packed-refs");
    let seed = Seed {
        label: spec.label.clone(),
        code: CodeSpec {
            excluded: excluded(layout, dirs, spec)?,
            ..spec.code.clone()
        },
        packed_refs,
    };
    Ok(seed_git_dir(&dirs.upper(), &seed)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use holm_core::ProjectId;
    use holm_engine::conformance;
    use holm_engine::driver::Driver;
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    /// A cancelled creation drops the future, but not the thread that makes the files: here it waits for the
    /// included files, which come by a pipe.
    #[tokio::test(flavor = "multi_thread")]
    async fn undo_waits_for_the_thread_that_makes_the_files() {
        let place = tempfile::tempdir().unwrap();
        let layout = Layout {
            data_dir: place.path().join("data"),
            run_dir: place.path().join("run"),
        };
        let pipe = place.path().join("include.tar");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let (id, project) = (WorkspaceId::random(), ProjectId::random());
        let dirs = layout.workspace(&id);
        let mut spec = conformance::spec(&id, &project, &"0".repeat(40));
        spec.brought.include_tar = Some(pipe.clone());
        let driver = LinuxDriver::new(layout, Arc::new(|_| Ok(Vec::new())), &[]).unwrap();
        let driver = Arc::new(driver);

        let (maker, made) = (Arc::clone(&driver), Arc::new(spec.clone()));
        let making = tokio::spawn(async move { make(&maker, made).await });
        // The thread writes this file last before it opens the pipe.
        while !dirs.guest().join("id").exists() {
            tokio::task::yield_now().await;
        }
        making.abort();
        assert!(making.await.unwrap_err().is_cancelled());
        let (undoer, undone) = (Arc::clone(&driver), spec.clone());
        let undoing = tokio::spawn(async move { undoer.undo(&undone).await });
        // Meanwhile other workspaces are undone, which takes as long.
        for _ in 0..20 {
            let other = conformance::spec(&WorkspaceId::random(), &project, &spec.id);
            driver.undo(&other).await.unwrap();
        }
        let has_waited = dirs.dir.exists() && !undoing.is_finished();
        // The thread reads the end of the pipe, and goes on.
        drop(fs::OpenOptions::new().write(true).open(pipe).unwrap());
        assert!(has_waited);
        undoing.await.unwrap().unwrap();
        assert!(!dirs.dir.exists());
    }
}
