//! Making a workspace's own files. Nothing of it is mounted yet, so plain writing is safe.

use super::environment::{below_home, write_etc};
use super::unpack::unpack;
use super::{base, disk_fault, project_id, remove_tree, workspace_id};
use crate::Layout;
use crate::layout::WorkspaceDirs;
use holm_core::{Code, Fault};
use holm_engine::spec::WorkspaceSpec;
use holm_engine::try_blocking;
use holm_git::{Seed, seed_excluded, seed_git_dir};
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub async fn make(layout: &Arc<Layout>, spec: Arc<WorkspaceSpec>) -> Result<(), Fault> {
    let layout = Arc::clone(layout);
    try_blocking(move || {
        let id = workspace_id(&spec)?;
        let dirs = layout.workspace(&id);
        if dirs.complete().exists() {
            return Ok(());
        }
        let disk = |error: io::Error| disk_fault(&error, format!("cannot make the files of {id}"));
        remove_tree(&dirs.dir).map_err(disk)?;
        make_directories(&dirs).map_err(disk)?;
        write_etc(&dirs, &spec).map_err(disk)?;
        fs::write(dirs.guest().join("id"), format!("{id}\n")).map_err(disk)?;
        copy_to_home(&dirs, &spec).map_err(disk)?;
        if let Some(archive) = &spec.brought.include_tar {
            unpack(archive, &dirs.upper()).map_err(|error| {
                let hint = "name the files one by one with `--include`";
                let message = format!("cannot lay out the included files: {error}");
                match error.kind() {
                    io::ErrorKind::InvalidData => Fault::new(Code::Refused, message, hint),
                    _ => disk(error),
                }
            })?;
        }
        seed(&layout, &dirs, &spec)?;
        fs::write(dirs.complete(), "").map_err(disk)
    })
    .await
}

/// The places of a workspace, empty; also those of a trial.
pub fn make_directories(dirs: &WorkspaceDirs) -> io::Result<()> {
    let own = [
        dirs.upper(),
        dirs.work(),
        dirs.pins(),
        dirs.home(),
        dirs.home_work(),
        dirs.tmp(),
        dirs.etc(),
        dirs.guest().join("bin"),
        dirs.guest().join("objects"),
        dirs.mount_point(),
    ];
    for directory in own {
        fs::create_dir_all(directory)?;
    }
    fs::write(dirs.guest().join("bin/holm"), "")?;
    fs::write(dirs.lock(), "")?;
    fs::set_permissions(dirs.tmp(), fs::Permissions::from_mode(0o1777))?;
    fs::set_permissions(dirs.home(), fs::Permissions::from_mode(0o755))?;
    fs::set_permissions(&dirs.dir, fs::Permissions::from_mode(0o700))
}

/// What the user's own settings ask to copy (`[home] copy`); what is not there is not copied.
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

/// Notes anew what git must not see, after the uncommitted state has been laid out: a protected path
/// may have come or gone with it. Nothing but git has run in the workspace yet.
pub async fn exclude_again(layout: &Arc<Layout>, spec: &WorkspaceSpec) -> Result<(), Fault> {
    let (layout, spec) = (Arc::clone(layout), spec.clone());
    try_blocking(move || {
        let dirs = layout.workspace(&workspace_id(&spec)?);
        let excluded = excluded(&layout, &dirs, &spec)?;
        Ok(seed_excluded(&dirs.upper(), &excluded)?)
    })
    .await
}

/// What was included; and protected paths that are not there, because those are empty directories
/// inside, which git must not try to remove, as `stash -u` and `clean` do with what they do not know.
fn excluded(
    layout: &Layout,
    dirs: &WorkspaceDirs,
    spec: &WorkspaceSpec,
) -> Result<Vec<String>, Fault> {
    let base = base::tree(layout, &project_id(spec)?, spec);
    let protected = spec.protected_paths.iter();
    let absent = protected.filter(|path| !is_there(&dirs.upper(), &base, Path::new(path)));
    let placeholders = absent.map(|path| format!("{path}/"));
    Ok(spec
        .code
        .excluded
        .iter()
        .cloned()
        .chain(placeholders)
        .collect())
}

/// Whether the overlay will show something at `path`.
fn is_there(upper: &Path, base: &Path, path: &Path) -> bool {
    let is_whiteout = |above: &Path| {
        let metadata = upper.join(above).symlink_metadata();
        metadata.is_ok_and(|metadata| metadata.file_type().is_char_device())
    };
    let is_removed = path.ancestors().any(is_whiteout);
    let is_in = |layer: &Path| layer.join(path).symlink_metadata().is_ok();
    !is_removed && (is_in(upper) || is_in(base))
}

/// The workspace's own part of `.git`.
fn seed(layout: &Layout, dirs: &WorkspaceDirs, spec: &WorkspaceSpec) -> Result<(), Fault> {
    let packed_refs: PathBuf = layout.repository(&project_id(spec)?).join("packed-refs");
    let code = &spec.code;
    let seed = Seed {
        label: spec.label.clone(),
        commit: code.commit.clone(),
        object_format: code.object_format.clone(),
        user_name: code.user_name.clone(),
        user_email: code.user_email.clone(),
        remotes: code
            .remotes
            .iter()
            .map(|remote| holm_git::Remote {
                name: remote.name.clone(),
                url: remote.url.clone(),
                fetch: remote.fetch.clone(),
            })
            .collect(),
        shallow: code.shallow.clone(),
        excluded: excluded(layout, dirs, spec)?,
        packed_refs,
    };
    Ok(seed_git_dir(&dirs.upper(), &seed)?)
}
