//! Files of other users than the workspace's: what services of images made with ranges of ids, and the files of images
//! with the owners that they should have.
//!
//! It is a role of its own: only a process in a user namespace with the ranges may change such files, and only a fresh
//! process may enter one.

use crate::mover::{Source, copy_entry};
use crate::programs::OWN_PROGRAM;
use crate::{open_files, sub_ids};
use holm_core::sub_ids::{OwnIds, SubIds};
use holm_image::{Owner, read_owners};
use holm_keeper::directories::open_directory;
use holm_keeper::files::remove::{remove_counted, remove_tree};
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Uid, chownat, fchmod, fchown,
    fgetxattr, mkdirat, openat, openat2, stat, statat,
};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The hidden first argument of a process that changes files of other users.
pub const ROLE: &str = "__owned";

/// overlayfs's mark of a directory that hides those below it.
const OPAQUE: &str = "user.overlay.opaque";

#[derive(Serialize, Deserialize)]
struct Order {
    ids: SubIds,
    work: Work,
}

/// What the process does.
#[derive(Serialize, Deserialize)]
enum Work {
    Remove(PathBuf),
    Rename {
        from: PathBuf,
        to: PathBuf,
    },
    /// Gives `to` the owner of `from`.
    OwnLike {
        from: PathBuf,
        to: PathBuf,
    },
    /// Copies the files of an image that do not belong to root to a new directory, with their owners.
    CopyOwned {
        /// Unpacked layers, top first.
        layers: Vec<PathBuf>,
        to: PathBuf,
    },
}

/// Removes a tree in which programs of rooms may have made files. Returns the bytes that it freed.
pub fn remove_all(path: &Path, tell: &mut dyn FnMut(u64)) -> io::Result<()> {
    match remove_counted(path, tell) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            // Without ranges there are no such files.
            let ids = sub_ids::find().map_err(|_| error)?;
            tell(run(&ids, Work::Remove(path.to_owned()))?);
            Ok(())
        }
        removed => removed,
    }
}

/// The same without the number of bytes.
pub fn remove(path: &Path) -> io::Result<()> {
    remove_all(path, &mut |_| ())
}

/// Renames a directory that may belong to another user. The kernel lets only its owner move one to another directory.
pub fn rename(from: &Path, to: &Path, ids: Option<&SubIds>) -> io::Result<()> {
    match (fs::rename(from, to), ids) {
        (Err(error), Some(ids)) if error.kind() == io::ErrorKind::PermissionDenied => {
            let (from, to) = (from.to_owned(), to.to_owned());
            run(ids, Work::Rename { from, to }).map(drop)
        }
        (renamed, _) => renamed,
    }
}

/// Gives a new directory the owner of another one.
pub fn own_like(from: &Path, to: &Path, ids: &SubIds) -> io::Result<()> {
    let (from, to) = (from.to_owned(), to.to_owned());
    run(ids, Work::OwnLike { from, to }).map(drop)
}

/// Makes the layer of an image's files that do not belong to root.
pub fn copy_owned(layers: &[PathBuf], to: &Path, ids: &SubIds) -> io::Result<()> {
    let work = Work::CopyOwned {
        layers: layers.to_vec(),
        to: to.to_owned(),
    };
    run(ids, work).map(drop)
}

/// Does it in a separate process. Returns the number that it printed.
fn run(ids: &SubIds, work: Work) -> io::Result<u64> {
    let mut child = Command::new(OWN_PROGRAM)
        .arg(ROLE)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(&serde_json::to_vec(&Order { ids: *ids, work })?)?;
    }
    let output = child.wait_with_output()?;
    if output.status.success() {
        let said = String::from_utf8_lossy(&output.stdout);
        return Ok(said.trim().parse().unwrap_or(0));
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let cause = said.trim().to_owned();
    Err(io::Error::new(io::ErrorKind::PermissionDenied, cause))
}

/// The role: the order comes on stdin.
pub fn main() -> ! {
    match work() {
        Ok(bytes) => {
            println!("{bytes}");
            std::process::exit(0)
        }
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1)
        }
    }
}

fn work() -> io::Result<u64> {
    let mut text = Vec::new();
    io::stdin().read_to_end(&mut text)?;
    let Order { ids, work } = serde_json::from_slice(&text)?;
    let own = sub_ids::own();
    open_files::raise();
    rustix::process::umask(Mode::empty());
    sub_ids::enter(&ids)?;
    let mut bytes = 0;
    match work {
        Work::Remove(path) => remove_counted(&path, &mut |freed| bytes += freed)?,
        Work::Rename { from, to } => fs::rename(from, to)?,
        Work::OwnLike { from, to } => {
            let status = stat(from)?;
            let to = OwnedFd::from(File::open(to)?);
            let (user, group) = (status.st_uid, status.st_gid);
            give(&to, OwnIds { user, group })?;
        }
        Work::CopyOwned { layers, to } => copy(&layers, &to, &ids, own)?,
    }
    Ok(bytes)
}

fn give(file: &OwnedFd, owner: OwnIds) -> io::Result<()> {
    let (user, group) = (Uid::from_raw(owner.user), Gid::from_raw(owner.group));
    Ok(fchown(file, Some(user), Some(group))?)
}

// === The owners of an image's files ===

/// An unpacked layer with the owners of its files.
struct Layer {
    tree: OwnedFd,
    owners: BTreeMap<PathBuf, Owner>,
}

/// Where a path of the image is.
enum Found {
    /// In this layer.
    There(OwnedFd, Stat),
    /// A layer above hides it, or no layer has it.
    Hidden,
    Below,
}

struct Copying<'a> {
    layers: &'a [Layer],
    to: OwnedFd,
    ids: &'a SubIds,
    own: OwnIds,
}

/// The copy appears when it is complete.
fn copy(layers: &[PathBuf], to: &Path, ids: &SubIds, own: OwnIds) -> io::Result<()> {
    let layers = layers.iter().map(|tree| Layer::open(tree));
    let layers = layers.collect::<io::Result<Vec<_>>>()?;
    let fresh = to.with_extension(format!("new-{}", std::process::id()));
    remove_tree(&fresh)?;
    fs::create_dir_all(&fresh)?;
    let copying = Copying {
        layers: &layers,
        to: open_directory(&fresh)?,
        ids,
        own,
    };
    let mut paths: Vec<&PathBuf> = layers
        .iter()
        .flat_map(|layer| layer.owners.keys())
        .collect();
    // Directories come before what is in them.
    paths.sort_unstable();
    paths.dedup();
    for path in paths {
        copying.entry(path)?;
    }
    rustix::fs::syncfs(File::open(&fresh)?)?;
    match fs::rename(&fresh, to) {
        // Another process was faster.
        Err(_) if to.is_dir() => remove_tree(&fresh),
        renamed => renamed,
    }
}

// === impl Layer ===

impl Layer {
    fn open(tree: &Path) -> io::Result<Self> {
        let owners = File::open(tree.with_file_name("owners"))?;
        Ok(Self {
            tree: open_directory(tree)?,
            owners: read_owners(owners).map_err(io::Error::other)?,
        })
    }

    /// Looks for a path without following links, as overlayfs would merge it.
    fn find(&self, path: &Path) -> io::Result<Found> {
        let mut here = self.tree.try_clone()?;
        let mut is_opaque = false;
        let names: Vec<_> = path.iter().collect();
        for (index, name) in names.iter().enumerate() {
            let status = match statat(&here, *name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) if is_opaque => return Ok(Found::Hidden),
                Err(Errno::NOENT) => return Ok(Found::Below),
                status => status?,
            };
            let kind = FileType::from_raw_mode(status.st_mode);
            if kind == FileType::CharacterDevice {
                return Ok(Found::Hidden);
            }
            if index + 1 == names.len() {
                return Ok(Found::There(here, status));
            }
            if kind != FileType::Directory {
                return Ok(Found::Hidden);
            }
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let plain = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
            here = openat2(&here, *name, flags, Mode::empty(), plain)?;
            let mut value = [0_u8; 1];
            is_opaque |= fgetxattr(&here, OPAQUE, &mut value).is_ok();
        }
        Ok(Found::Hidden)
    }
}

// === impl Copying ===

impl Copying<'_> {
    /// Copies one entry, but not what is below it, if it belongs to another user than root.
    fn entry(&self, path: &Path) -> io::Result<()> {
        let Some((parent, status, owner)) = self.find(path)? else {
            return Ok(());
        };
        let Some(owner) = self.outside(owner) else {
            return Ok(());
        };
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
            return Ok(());
        };
        let to = self.parent(directory)?;
        if FileType::from_raw_mode(status.st_mode) == FileType::Directory {
            return self.directory(&to, name.as_bytes(), &status, owner);
        }
        let name = name.as_bytes();
        let copied = copy_entry(
            (parent.as_fd(), name),
            (to.as_fd(), name),
            Source::Still,
            &mut || Ok(()),
        );
        copied?;
        let (user, group) = (Uid::from_raw(owner.user), Gid::from_raw(owner.group));
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        Ok(chownat(&to, name, Some(user), Some(group), flags)?)
    }

    fn directory(
        &self,
        parent: &OwnedFd,
        name: &[u8],
        status: &Stat,
        owner: OwnIds,
    ) -> io::Result<()> {
        mkdirat(parent, name, Mode::RWXU)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = openat(parent, name, flags, Mode::empty())?;
        give(&made, owner)?;
        Ok(fchmod(&made, Mode::from_raw_mode(status.st_mode & 0o7777))?)
    }

    /// The directory of the copy, made with its parents as the image has them.
    fn parent(&self, path: &Path) -> io::Result<OwnedFd> {
        let mut here = self.to.try_clone()?;
        let mut way = PathBuf::new();
        for name in path {
            way.push(name);
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            here = match openat(&here, name, flags, Mode::empty()) {
                Err(Errno::NOENT) => {
                    let Some((_, status, owner)) = self.find(&way)? else {
                        return Err(io::Error::other("a directory of the image is missing"));
                    };
                    let owner = self.outside(owner).unwrap_or(self.own);
                    self.directory(&here, name.as_bytes(), &status, owner)?;
                    openat(&here, name, flags, Mode::empty())?
                }
                opened => opened?,
            };
        }
        Ok(here)
    }

    /// The directory that has the entry, and its owner.
    fn find(&self, path: &Path) -> io::Result<Option<(OwnedFd, Stat, Owner)>> {
        for layer in self.layers {
            match layer.find(path)? {
                Found::There(parent, status) => {
                    let owner = layer.owners.get(path).copied().unwrap_or_default();
                    return Ok(Some((parent, status, owner)));
                }
                Found::Hidden => return Ok(None),
                Found::Below => {}
            }
        }
        Ok(None)
    }

    /// The owner on the host. `None`: root, or an id that there is none for.
    fn outside(&self, owner: Owner) -> Option<OwnIds> {
        if owner == Owner::default() {
            return None;
        }
        let user = self.ids.users.outside(owner.user, self.own.user)?;
        let group = self.ids.groups.outside(owner.group, self.own.group)?;
        Some(OwnIds { user, group })
    }
}
