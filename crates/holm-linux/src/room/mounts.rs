//! What a Compose file mounts into the root of a service. Called by the role that makes a room.
//!
//! Paths of the tree and of volumes are hostile: programs inside write them. They are resolved below the mount that they
//! belong to, so a link cannot lead out of it.

use super::Order;
use super::copying;
use super::fill::fill;
use super::paths::{find, is_missing, show_mount};
use crate::launch::{NewRoot, attach, copy_mount, filesystem};
use crate::sys::mount::{NO_DEV, NO_EXEC, NO_SUID, READ_ONLY, Reach, set_attributes};
use holm_core::container::{Mount, Source};
use holm_keeper::plan::{LaunchFailure, Part, Stepped};
use holm_keeper::room::RoomPlan;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fstat, mkdirat, openat, openat2};
use rustix::mount::{MountAttrFlags, OpenTreeFlags, open_tree};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

/// Copies of mounts from elsewhere, by their place in the list of the plan.
pub type Mounted = BTreeMap<usize, OwnedFd>;

const PATH: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
const HOSTS: &str = "/etc/hosts";

/// Copies of paths of the host that a person approved. This process still sees the host's mounts.
pub fn of_host(room: &RoomPlan) -> Result<Mounted, LaunchFailure> {
    let mut mounted = Mounted::new();
    for (index, mount) in room.mounts.iter().enumerate() {
        if let Source::Host(path) = &mount.source {
            let found = openat(CWD, path, PATH, Mode::empty()).map_err(io::Error::from);
            let copied = found.and_then(|place| copy_mount(&place, Reach::AllBelow));
            let step = format!("show {} of the host", path.display());
            mounted.insert(index, copied.step(Part::Mount, &step)?);
        }
    }
    Ok(mounted)
}

/// Copies of parts of the tree and of volumes. This process is in the workspace's mount namespace.
pub fn of_workspace(order: &Order) -> Result<Mounted, LaunchFailure> {
    let mut mounted = Mounted::new();
    for (index, mount) in order.room.mounts.iter().enumerate() {
        let found = match &mount.source {
            Source::Tree { path, create } => {
                let tree = find(&order.tree);
                tree.and_then(|tree| below(tree, path, *create))
            }
            Source::Volume { name, subpath, .. } => match order.room.places.get(name) {
                Some(place) => show_mount(place).and_then(|volume| match subpath {
                    Some(path) => below(volume, path, true),
                    None => Ok(volume),
                }),
                None => Err(io::Error::other("the workspace does not have it")),
            },
            Source::Image | Source::Memory { .. } | Source::Text(_) | Source::Host(_) => continue,
        };
        let step = format!("show {}", mount.target.display());
        let copied = found.and_then(|place| copy_mount(&place, Reach::AllBelow));
        mounted.insert(index, copied.step(Part::Mount, &step)?);
    }
    Ok(mounted)
}

/// Mounts everything, in the order of the plan.
pub fn mount(root: &NewRoot, room: &RoomPlan, mounted: &Mounted) -> Result<(), LaunchFailure> {
    // Other mounts may hide these parts of the image.
    let mut of_image = Mounted::new();
    for (index, mount) in room.mounts.iter().enumerate() {
        if mount.source == Source::Image {
            let copied = root
                .directory(&mount.target)
                .and_then(|place| copy_mount(&place, Reach::AllBelow))
                .step(Part::Mount, &step(mount))?;
            of_image.insert(index, copied);
        }
    }
    for (index, mount) in room.mounts.iter().enumerate() {
        if let (true, Some(volume)) = (begins_as_image(&mount.source), mounted.get(&index)) {
            let filled = fill(root, &mount.target, volume, &mut copying());
            filled.step(Part::Volume, &format!("fill {}", mount.target.display()))?;
        }
    }
    for (index, mount) in room.mounts.iter().enumerate() {
        let made;
        let source = match &mount.source {
            Source::Memory { size } => {
                made = memory(*size).step(Part::Mount, &step(mount))?;
                &made
            }
            Source::Text(text) => {
                made = file(text).step(Part::Mount, &step(mount))?;
                &made
            }
            _ => match of_image.get(&index).or_else(|| mounted.get(&index)) {
                Some(source) => source,
                None => continue,
            },
        };
        put(root, source, mount).step(Part::Mount, &step(mount))?;
    }
    if let Some(text) = &room.hosts {
        file(text)
            .and_then(|hosts| root.attach(&hosts, Path::new(HOSTS)))
            .step(Part::Mount, "mount /etc/hosts")?;
    }
    Ok(())
}

/// Whether a new volume gets the image's files.
fn begins_as_image(source: &Source) -> bool {
    matches!(
        source,
        Source::Volume {
            subpath: None,
            no_copy: false,
            ..
        }
    )
}

fn step(mount: &Mount) -> String {
    format!("mount {}", mount.target.display())
}

fn put(root: &NewRoot, source: &OwnedFd, mount: &Mount) -> io::Result<()> {
    let mut attributes = NO_SUID | NO_DEV;
    if mount.read_only {
        attributes |= READ_ONLY;
    }
    set_attributes(source.as_fd(), attributes, Reach::AllBelow)?;
    let target = mount.target.strip_prefix("/").unwrap_or(&mount.target);
    // An image may have a link there, such as /var/run.
    let inside = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    match openat2(root, target, PATH, Mode::empty(), inside) {
        Ok(place) if is_same_kind(&place, source)? => attach(source.as_fd(), place.as_fd()),
        Ok(_) => Err(io::Error::other(
            "a file cannot be mounted over a directory, nor a directory over a file",
        )),
        Err(_) => root.attach(source, &mount.target),
    }
}

fn is_same_kind(one: &OwnedFd, other: &OwnedFd) -> io::Result<bool> {
    let is_directory = |of: &OwnedFd| -> io::Result<bool> {
        Ok(rustix::fs::FileType::from_raw_mode(fstat(of)?.st_mode).is_dir())
    };
    Ok(is_directory(one)? == is_directory(other)?)
}

/// A path below a mount. Links in it must not lead out.
fn below(mount: OwnedFd, path: &Path, create: bool) -> io::Result<OwnedFd> {
    if path.as_os_str().is_empty() {
        return Ok(mount);
    }
    let inside = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let found = openat2(&mount, path, PATH, Mode::empty(), inside).map_err(io::Error::from);
    match found {
        Err(error) if create && is_missing(&error) => {}
        found => return found,
    }
    let mut directory = mount;
    for part in path.components() {
        let Component::Normal(name) = part else {
            return Err(io::Error::other("the path is not plain"));
        };
        match mkdirat(&directory, name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = PATH | OFlags::DIRECTORY;
        let next = openat2(&directory, name, flags, Mode::empty(), inside)?;
        directory = next;
    }
    Ok(directory)
}

fn memory(size: Option<u64>) -> io::Result<OwnedFd> {
    let size = size.map_or_else(|| "50%".to_owned(), |size| size.to_string());
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    filesystem("tmpfs", &[("mode", "1777"), ("size", &size)], flags)
}

/// A read-only file with this content.
pub fn file(text: &str) -> io::Result<OwnedFd> {
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    let files = filesystem("tmpfs", &[("mode", "0755"), ("size", "4m")], flags)?;
    let create = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = openat(&files, "file", create, Mode::from_raw_mode(0o644))?;
    File::from(file).write_all(text.as_bytes())?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let shown = open_tree(&files, "file", flags)?;
    let sealed = READ_ONLY | NO_SUID | NO_DEV | NO_EXEC;
    set_attributes(shown.as_fd(), sealed, Reach::ThisMount)?;
    Ok(shown)
}
