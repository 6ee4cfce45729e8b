//! Whether services of images have several users in a workspace, and with which ranges of ids. It is decided when the first
//! one of them is about to start, and never changed: files of the workspace belong to these ids. The file `users.json` of
//! the workspace's directory says it.

use super::disk_fault;
use crate::{Layout, owned, sub_ids};
use holm_core::image_reference::ImageDigest;
use holm_core::spec::{Service, WorkspaceSpec};
use holm_core::sub_ids::SubIds;
use holm_core::{Fault, WorkspaceId, image_users};
use holm_image::Images;
use holm_keeper::directories::WorkspaceDirs;
use holm_keeper::wire::{Defence, switched_off};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The ranges of a workspace that is about to start. `None`: its services have one user.
pub fn decide(dirs: &WorkspaceDirs, spec: &WorkspaceSpec) -> Result<Option<SubIds>, Fault> {
    let disk = |error| {
        disk_fault(
            error,
            format!("cannot decide about the users of {}", spec.id),
        )
    };
    let has_images = spec.services.iter().any(|service| service.image.is_some());
    match decided(&dirs.dir).map_err(disk)? {
        Some(ids) => Ok(ids),
        None if !has_images => Ok(None),
        None => {
            let is_off = !Defence::SubIds.is_in_force(&switched_off());
            // Rooms of an earlier release had one user.
            let ids = match dirs.rooms().exists() || is_off {
                true => None,
                false => sub_ids::find().ok(),
            };
            write(&dirs.dir, ids).map_err(disk)?;
            Ok(ids)
        }
    }
}

/// The ranges that files of a workspace may belong to.
pub fn of(dirs: &WorkspaceDirs) -> io::Result<Option<SubIds>> {
    Ok(decided(&dirs.dir)?.flatten())
}

/// A copy has the users of its origin.
pub fn take_over(from: &WorkspaceDirs, to: &WorkspaceDirs) -> io::Result<()> {
    match decided(&from.dir)? {
        Some(ids) => write(&to.dir, ids),
        None if from.rooms().exists() => write(&to.dir, None),
        None => Ok(()),
    }
}

/// Why services of the workspace have one user each, if that matters to them.
pub fn shortcomings(layout: &Layout, spec: &WorkspaceSpec) -> Vec<String> {
    let images = spec.services.iter().filter(|it| it.image.is_some());
    let mut images = images.peekable();
    if images.peek().is_none() {
        return Vec::new();
    }
    let found = WorkspaceId::parse(&spec.id).ok();
    let found = found.and_then(|id| decided(&layout.workspace(&id).dir).ok());
    let why = match (found.flatten(), sub_ids::find()) {
        (Some(Some(_)), _) | (None, Ok(_)) => return Vec::new(),
        (Some(None), Ok(_)) => {
            "this workspace was made without ranges of ids; a new one has them".to_owned()
        }
        (_, Err(missing)) => format!("{missing}; `holm doctor` says how to get it"),
    };
    let Ok(store) = Images::open(&layout.images()) else {
        return Vec::new();
    };
    // A named user of the image is the one user.
    let needs_users = |service: &&Service| {
        let Some(image) = &service.image else {
            return false;
        };
        let own = image.container.as_ref().and_then(|it| it.user.clone());
        let user = own.or_else(|| store.root(&image.manifest).ok()?.config.user);
        let user = user.as_deref();
        image_users::is_root(user)
            || user.is_some_and(|user| user.starts_with(|it: char| it.is_ascii_digit()))
    };
    let names: Vec<&str> = images
        .filter(needs_users)
        .map(|it| it.name.as_str())
        .collect();
    if names.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "all programs of {} have one user, who is not root, so `su`, `gosu` and `chown` to a number fail in them: {why}",
        names.join(", ")
    )]
}

/// The layer with the files of an image that do not belong to root. All workspaces share it.
pub fn layer(
    layout: &Layout,
    manifest: &ImageDigest,
    layers: &[PathBuf],
    ids: &SubIds,
) -> io::Result<Option<PathBuf>> {
    let SubIds { users, groups } = ids;
    let name = format!(
        "{}-{}-{}-{}-{}",
        manifest.hex(),
        users.first,
        users.count,
        groups.first,
        groups.count
    );
    let place = layout.owned_files().join(name);
    if !place.is_dir() {
        fs::create_dir_all(layout.owned_files())?;
        owned::copy_owned(layers, &place, ids)?;
    }
    let has_files = fs::read_dir(&place)?.next().is_some();
    Ok(has_files.then_some(place))
}

/// `None`: not decided yet. An unreadable value is an error and never a default.
fn decided(dir: &Path) -> io::Result<Option<Option<SubIds>>> {
    match fs::read(place(dir)) {
        Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn write(dir: &Path, ids: Option<SubIds>) -> io::Result<()> {
    let fresh = dir.join("users.new");
    fs::write(&fresh, serde_json::to_vec(&ids)?)?;
    fs::rename(fresh, place(dir))
}

fn place(dir: &Path) -> PathBuf {
    dir.join("users.json")
}
