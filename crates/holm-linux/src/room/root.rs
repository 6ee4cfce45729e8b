//! The root of a room: an overlay of the image's layers with parts of the workspace mounted into it. Called by the
//! role that makes a room, before any program of the image can run there.
//!
//! Every path of the image is hostile: it is resolved from the root's descriptor, without following links.

use super::copying;
use super::fill::fill;
use super::mounts::{self, Mounted};
use super::paths::{is_missing, show, show_mount};
use super::{Namespaces, Order, held, users};
use crate::launch::{NewRoot, attach, filesystem, overlay};
use crate::sys::mount::{NO_DEV, NO_SUID, READ_ONLY, Reach, set_attributes};
use crate::{sub_ids, sys};
use holm_core::image_users::{self, ImageUsers, User, UserFiles};
use holm_core::sub_ids::OwnIds;
use holm_keeper::directories::{descriptor_path, open_directory};
use holm_keeper::guest::{SECRET_FILES, secret_directory};
use holm_keeper::plan::{LaunchFailure, Part, Stepped};
use holm_keeper::room::RoomPlan;
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat2, symlinkat};
use rustix::mount::{MountAttrFlags, MountFlags, OpenTreeFlags, mount, open_tree};
use rustix::thread::{
    LinkNameSpaceType, ThreadNameSpaceType, move_into_link_name_space, move_into_thread_name_spaces,
};
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

/// A directory of the workspace where the new root is mounted. It is empty, and no program inside can change it.
const MOUNT_POINT: &str = "/mnt";

/// Directories of the workspace that a room shows at the same path. The last is missing where the host has none.
const SHARED: [&str; 3] = ["/dev", "/proc", "/sys"];

/// What a room shows whole if programs of people run in it: holm itself, its sockets, git objects, secrets of all receivers.
const HOLM: &str = "/run/holm";

/// Files of the workspace that a room shows at the same path; the first unless it has its own.
const HOSTS: &str = "/etc/hosts";
const RESOLVER: &str = "/etc/resolv.conf";

/// The kernel takes 255 bytes for one option of a mount that has no place yet.
const MOST_LAYERS_AT_ONCE: usize = 10;

/// A longer list of users is not read.
const LONGEST_USERS: u64 = 1 << 20;

const SEALED: u64 = READ_ONLY | NO_SUID | NO_DEV;

/// Everything that is mounted into the root.
struct Parts {
    image: OwnedFd,
    /// Each with its path in the room.
    shown: Vec<(OwnedFd, std::path::PathBuf)>,
    /// What a Compose file mounts from elsewhere, by its place in the list.
    mounted: Mounted,
    /// Our program for helpers.
    helper: Option<OwnedFd>,
    /// The writable layer of the tree, which has whiteouts to hold.
    upper: Option<OwnedFd>,
}

/// What the room's init needs of the image.
pub struct Entered {
    /// `$HOME` of the image's user.
    pub home: String,
    /// The user that the service starts as, and the user namespace to enter. `None`: every program has one user.
    pub users: Option<(User, OwnedFd)>,
}

/// Makes the root and enters it and the other namespaces of the workspace's init. Children of this process are in its
/// pid namespace from here on.
pub fn enter(order: &Order, workspace: &Namespaces) -> Result<Entered, LaunchFailure> {
    let init = workspace.init.as_fd();
    let ids = sub_ids::own();
    let join = |kinds: ThreadNameSpaceType| move_into_thread_name_spaces(init, kinds);
    make_own(&order.room.own).step(Part::Mount, "make the place of the service's own files")?;
    join(ThreadNameSpaceType::USER).step(Part::User, "join the workspace")?;
    let namespace = order.sub_ids.as_ref();
    let namespace = namespace.map(|ranges| users::make(order, ranges, ids));
    let namespace = namespace
        .transpose()
        .step(Part::User, "make the users of the image")?;
    // The host's directories are visible from here; the mount belongs to the workspace's user namespace.
    sys::process::own_mount_namespace().step(Part::Mount, "make a mount namespace")?;
    let image = image(&order.room).step(Part::Overlay, "mount the layers of the image")?;
    let of_host = mounts::of_host(&order.room)?;
    let upper = held::upper(order)?;
    join(ThreadNameSpaceType::MOUNT).step(Part::Mount, "join the workspace's mounts")?;
    let shown = shown(order)?;
    let helper = order.room.helper.as_ref().map(|path| show(path));
    let helper = helper.transpose().step(Part::Mount, "show our program")?;
    let mut mounted = mounts::of_workspace(order)?;
    mounted.extend(of_host);
    sys::process::own_mount_namespace().step(Part::Mount, "make a mount namespace")?;
    let parts = Parts {
        image,
        shown,
        mounted,
        helper,
        upper,
    };
    let (root, user) = assemble(order, parts, ids)?;
    root.enter()?.finish()?;
    match &workspace.network {
        Some(network) => {
            move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))
                .step(Part::Network, "join the network of the service")?
        }
        None => join(ThreadNameSpaceType::NETWORK).step(Part::Network, "join the workspace")?,
    }
    let others = ThreadNameSpaceType::INTER_PROCESS_COMMUNICATION
        | ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME
        | ThreadNameSpaceType::CONTROL_GROUP
        | ThreadNameSpaceType::PROCESS_ID;
    join(others).step(Part::Other, "join the workspace")?;
    if let Some(name) = &order.room.hostname {
        sys::process::own_name_namespace()
            .and_then(|()| Ok(rustix::system::sethostname(name.as_bytes())?))
            .step(Part::Other, "set the name of the host")?;
    }
    Ok(Entered {
        home: user.home.clone(),
        users: namespace.map(|namespace| (user, namespace)),
    })
}

/// The mode of the upper directory is that of `/` in the room.
fn make_own(own: &Path) -> io::Result<()> {
    for directory in [own.to_owned(), own.join("upper"), own.join("work")] {
        match fs::DirBuilder::new().mode(0o755).create(&directory) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    match fs::set_permissions(own.join("upper"), fs::Permissions::from_mode(0o755)) {
        // The room's root gave `/` to another user.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        set => set,
    }
}

/// The image with the service's own files above it, not mounted anywhere yet.
fn image(room: &RoomPlan) -> io::Result<OwnedFd> {
    let layers = room.layers.iter().map(|layer| open_directory(layer));
    let layers = layers.collect::<io::Result<Vec<_>>>()?;
    let (upper, work) = (
        open_directory(&room.own.join("upper"))?,
        open_directory(&room.own.join("work"))?,
    );
    if layers.len() <= MOST_LAYERS_AT_ONCE {
        return overlay(&layers, Some((&upper, &work)));
    }
    let paths = layers.iter().map(descriptor_path);
    let paths: Vec<String> = paths.map(|path| path.display().to_string()).collect();
    let options = format!(
        "userxattr,lowerdir={},upperdir={},workdir={}",
        paths.join(":"),
        descriptor_path(&upper).display(),
        descriptor_path(&work).display()
    );
    let options = CString::new(options)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("holm", &room.own, "overlay", flags, options.as_c_str())?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    Ok(open_tree(CWD, &room.own, flags)?)
}

/// Copies of the workspace's mounts. This process is in the workspace's mount namespace.
fn shown(order: &Order) -> Result<Vec<(OwnedFd, std::path::PathBuf)>, LaunchFailure> {
    let mut shown = Vec::new();
    let hosts = order.room.hosts.is_none().then_some(HOSTS);
    let files = hosts.into_iter().chain([RESOLVER]);
    for path in SHARED.into_iter().chain(files).map(Path::new) {
        match show(path) {
            Err(error) if is_missing(&error) => {}
            copy => {
                let copy = copy.step(Part::Mount, &format!("show {}", path.display()))?;
                shown.push((copy, path.to_owned()));
            }
        }
    }
    if let Some(place) = &order.room.tree {
        let copy = show_mount(&order.tree).step(Part::Mount, "show the tree")?;
        shown.push((copy, place.clone()));
    }
    for volume in &order.room.volumes {
        let step = format!("show the volume at {}", volume.display());
        let copy = show_mount(volume).step(Part::Volume, &step)?;
        shown.push((copy, volume.clone()));
    }
    if order.room.home_of.is_some() {
        let copy = show(Path::new(HOLM)).step(Part::Mount, "show holm's own files")?;
        shown.push((copy, Path::new(HOLM).to_owned()));
    }
    for name in secrets(order) {
        let place = Path::new(SECRET_FILES).join(secret_directory(name));
        let copy = show(&place).step(Part::Secrets, &format!("show the secret {name}"))?;
        shown.push((copy, place));
    }
    Ok(shown)
}

/// Mounts everything into the image's root, which is mounted at a place of this mount namespace only.
fn assemble(order: &Order, parts: Parts, ids: OwnIds) -> Result<(NewRoot, User), LaunchFailure> {
    let place = Path::new(MOUNT_POINT);
    let root = open_directory(place)
        .and_then(|directory| attach(parts.image.as_fd(), directory.as_fd()))
        .and_then(|()| open_directory(place))
        .step(Part::Mount, "mount the root of the image")?;
    let root = NewRoot::at(root);
    let (user, replaced) = find_users(&root, order, ids)?;
    if !secrets(order).is_empty() {
        mount_secrets(&root, order).step(Part::Secrets, "make the place of secrets")?;
    }
    if let Some(upper) = &parts.upper {
        held::hold(&root, order, upper)?;
    }
    for (mount, inside) in &parts.shown {
        if order.room.volumes.contains(inside) {
            let filled = fill(&root, inside, mount, &mut copying());
            filled.step(Part::Volume, &format!("fill {}", inside.display()))?;
        }
        root.attach(mount, inside).step(
            Part::Mount,
            &format!("mount {} into the image", inside.display()),
        )?;
    }
    mounts::mount(&root, &order.room, &parts.mounted)?;
    // A mount of the file may be above it.
    if let (Some(helper), Some(place)) = (&parts.helper, &order.room.helper) {
        root.attach(helper, place)
            .step(Part::Mount, "mount our program into the image")?;
    }
    for directory in &order.room.directories {
        // A program that cannot do without it says so; the image may have a link there.
        let _ = root.directory(directory);
    }
    if let Some(users) = replaced {
        mount_users(&root, &users).step(Part::Mount, "replace the image's list of users")?;
    }
    if order.room.is_read_only {
        set_attributes(root.as_fd(), READ_ONLY, Reach::ThisMount)
            .step(Part::Mount, "make the root of the image read-only")?;
    }
    Ok((root, user))
}

/// The secrets that the room shows besides holm's own files.
fn secrets(order: &Order) -> &[String] {
    match order.room.home_of {
        Some(_) => &[],
        None => &order.secrets,
    }
}

/// A directory of ours with a link for each secret. The secrets themselves are mounted into it.
fn mount_secrets(root: &NewRoot, order: &Order) -> io::Result<()> {
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let files = filesystem("tmpfs", &[("mode", "0755"), ("size", "1m")], flags)?;
    root.attach(&files, Path::new(SECRET_FILES))?;
    for name in &order.secrets {
        let directory = secret_directory(name);
        root.directory(&Path::new(SECRET_FILES).join(&directory))?;
        symlinkat(format!("{directory}/{name}"), &files, name.as_str())?;
    }
    set_attributes(files.as_fd(), SEALED, Reach::ThisMount)
}

/// The user that the service starts as, and, where all programs are one user, the lists that say so. A file that cannot
/// be read as a plain file counts as missing.
fn find_users(
    root: &NewRoot,
    order: &Order,
    ids: OwnIds,
) -> Result<(User, Option<ImageUsers>), LaunchFailure> {
    let read = |path: &str| {
        root.read(Path::new(path), LONGEST_USERS)
            .unwrap_or_default()
    };
    let (passwd, group) = (read("etc/passwd"), read("etc/group"));
    let files = UserFiles {
        passwd: &String::from_utf8_lossy(&passwd),
        group: &String::from_utf8_lossy(&group),
    };
    let start = &order.room.start;
    let wanted = start.user.as_deref();
    let Some(ranges) = &order.sub_ids else {
        let users = image_users::with_one_user(wanted, files, ids);
        let user = User {
            home: users.home.clone(),
            ..User::default()
        };
        return Ok((user, Some(users)));
    };
    let found = image_users::find(wanted, &start.groups, files, ranges);
    let user = found
        .map_err(io::Error::other)
        .step(Part::Other, "find the user of the image")?;
    Ok((user, None))
}

/// A mount also covers a link, whose target is then not looked at.
fn mount_users(root: &NewRoot, users: &ImageUsers) -> io::Result<()> {
    for (name, text) in [("passwd", &users.passwd), ("group", &users.group)] {
        let place = Path::new("/etc").join(name);
        root.attach(&mounts::file(text)?, &place)?;
    }
    Ok(())
}

// === impl NewRoot ===

impl NewRoot {
    /// Reads a plain file of the root, if no part of its path is a link.
    fn read(&self, inside: &Path, longest: u64) -> io::Result<Vec<u8>> {
        let plain = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        // A pipe would block.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = openat2(self, inside, flags, Mode::empty(), plain)?;
        let status = fstat(&file)?;
        let is_file = FileType::from_raw_mode(status.st_mode) == FileType::RegularFile;
        if !is_file || u64::try_from(status.st_size).is_ok_and(|size| size > longest) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut content = Vec::new();
        File::from(file).take(longest).read_to_end(&mut content)?;
        Ok(content)
    }
}
