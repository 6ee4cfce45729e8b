//! Making a workspace's own files. Nothing of it is mounted yet, so plain writing is safe.

use super::environment::{below_home, write_etc};
use super::unpack::unpack;
use super::{blocking, disk_fault, project_id, remove_tree, workspace_id};
use crate::Layout;
use crate::layout::WorkspaceDirs;
use holm_core::{Code, Fault};
use holm_engine::spec::WorkspaceSpec;
use holm_git::{Seed, seed_git_dir};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;

pub async fn make(layout: &Arc<Layout>, spec: Arc<WorkspaceSpec>) -> Result<(), Fault> {
    let layout = Arc::clone(layout);
    blocking(move || {
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
        seed(&layout, &dirs, &spec)?;
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
        fs::write(dirs.complete(), "").map_err(disk)
    })
    .await
}

fn make_directories(dirs: &WorkspaceDirs) -> io::Result<()> {
    let own = [
        dirs.upper(),
        dirs.work(),
        dirs.pins(),
        dirs.home(),
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

/// Protected paths that are not there are directories inside. git must not try to remove them, as
/// `stash -u` and `clean` do with what they do not know.
fn placeholders(spec: &WorkspaceSpec) -> impl Iterator<Item = String> {
    spec.protected_paths.iter().map(|path| format!("{path}/"))
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
        excluded: code
            .excluded
            .iter()
            .cloned()
            .chain(placeholders(spec))
            .collect(),
        packed_refs,
    };
    Ok(seed_git_dir(&dirs.upper(), &seed)?)
}
