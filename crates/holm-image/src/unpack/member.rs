//! Creates the entries of a layer, one after the other.

use super::names::{Inside, Name, NameError, shown, shown_path};
use super::owners::Owner;
use super::tree::{Tree, failed, stat};
use super::{LeftOut, Reason, UnpackError, Unpacked};
use crate::bounded::{Entry, copy_content};
use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Timespec, Timestamps, XattrFlags, fchmod, fsetxattr, futimens,
    linkat, openat, symlinkat, utimensat,
};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use tar::EntryType;

pub struct Unpacking {
    tree: Tree,
    unpacked: Unpacked,
    owners: BTreeMap<PathBuf, Owner>,
    /// Directories get their modes and times at the end, because creating files needs and changes them.
    directories: BTreeMap<PathBuf, Attributes>,
}

/// What the headers of an entry say about its file.
struct Attributes {
    mode: Mode,
    modified: Timespec,
    owner: Owner,
    /// Names and values of the attributes that users may set.
    extended: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A file of the layer: its name as written, and in the tree.
struct Member<'a> {
    path: &'a [u8],
    inside: &'a Inside,
}

const MOST_LISTED: usize = 1000;
const ATTRIBUTE: &[u8] = b"SCHILY.xattr.";
/// What overlayfs itself stores in extended attributes; a layer must not write it.
const OF_OVERLAY: &[u8] = b"user.overlay.";

// === impl Unpacking ===

impl Unpacking {
    pub fn new(root: OwnedFd) -> Self {
        Self {
            tree: Tree::new(root),
            unpacked: Unpacked::default(),
            owners: BTreeMap::new(),
            directories: BTreeMap::new(),
        }
    }

    pub fn add<R: Read>(
        &mut self,
        path: &[u8],
        entry: &mut Entry<'_, R>,
    ) -> Result<(), UnpackError> {
        let kind = entry.header().entry_type();
        if kind.is_pax_global_extensions() {
            return Ok(());
        }
        let name = Name::parse(path)?;
        let is_plain = matches!(
            kind,
            EntryType::Regular | EntryType::Link | EntryType::Continuous
        );
        match name {
            Name::Root if kind.is_dir() => {
                let attributes = self.attributes(path, entry)?;
                self.note(PathBuf::new(), attributes.owner);
                self.directories.insert(PathBuf::new(), attributes);
                Ok(())
            }
            Name::Root => Err(NameError::Root(shown(path)).into()),
            Name::Whiteout(inside) if is_plain => self.tree.hide(&inside),
            Name::Opaque(directory) if is_plain => {
                self.unpacked.hides_everything |= directory.as_os_str().is_empty();
                self.tree.make_opaque(&directory)
            }
            Name::Whiteout(_) | Name::Opaque(_) => Err(NameError::Whiteout(shown(path)).into()),
            Name::File(inside) => {
                let inside = &inside;
                self.add_file(Member { path, inside }, entry)
            }
        }
    }

    fn add_file<R: Read>(
        &mut self,
        member: Member<'_>,
        entry: &mut Entry<'_, R>,
    ) -> Result<(), UnpackError> {
        let Member { path, inside } = member;
        let kind = entry.header().entry_type();
        match kind {
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                let attributes = self.attributes(path, entry)?;
                self.add_regular(member, &attributes, entry)?;
                self.note(inside.path(), attributes.owner);
            }
            EntryType::Directory => {
                let attributes = self.attributes(path, entry)?;
                let directory = self.tree.make_directory(inside)?;
                set_extended(inside, &attributes, &directory)?;
                self.note(inside.path(), attributes.owner);
                self.directories.insert(inside.path(), attributes);
            }
            EntryType::Symlink => {
                let attributes = self.attributes(path, entry)?;
                self.add_symlink(inside, &attributes, entry)?;
                self.note(inside.path(), attributes.owner);
            }
            EntryType::Link => self.add_link(inside, entry)?,
            EntryType::Char | EntryType::Block => {
                self.leave_out(inside, Reason::Device);
                return Ok(());
            }
            EntryType::Fifo => {
                self.leave_out(inside, Reason::Fifo);
                return Ok(());
            }
            other => {
                return Err(UnpackError::Kind {
                    path: shown(path),
                    kind: other.as_byte(),
                });
            }
        }
        self.unpacked.files += 1;
        Ok(())
    }

    fn add_regular<R: Read>(
        &mut self,
        Member { path, inside }: Member<'_>,
        attributes: &Attributes,
        entry: &mut Entry<'_, R>,
    ) -> Result<(), UnpackError> {
        let parent = self.make_room(inside)?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let created = openat(&parent, &inside.name, flags, Mode::RUSR | Mode::WUSR);
        let mut file = File::from(created.map_err(failed("create", inside))?);
        self.unpacked.bytes += copy_content(path, entry, &mut file)?;
        let file = OwnedFd::from(file);
        set_extended(inside, attributes, &file)?;
        fchmod(&file, attributes.mode).map_err(failed("set the mode of", inside))?;
        futimens(&file, &times(attributes.modified)).map_err(failed("set the time of", inside))
    }

    /// The text of a symbolic link is not checked: only programs inside follow it, in the image's root.
    fn add_symlink<R: Read>(
        &mut self,
        inside: &Inside,
        attributes: &Attributes,
        entry: &mut Entry<'_, R>,
    ) -> Result<(), UnpackError> {
        let target = entry.link_name_bytes().unwrap_or_default().into_owned();
        let parent = self.make_room(inside)?;
        symlinkat(OsStr::from_bytes(&target), &parent, &inside.name)
            .map_err(failed("create the symbolic link", inside))?;
        let times = times(attributes.modified);
        utimensat(&parent, &inside.name, &times, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(failed("set the time of", inside))
    }

    fn add_link<R: Read>(
        &mut self,
        inside: &Inside,
        entry: &mut Entry<'_, R>,
    ) -> Result<(), UnpackError> {
        let target = entry.link_name_bytes().unwrap_or_default().into_owned();
        let target = Inside::of_link(&target)?;
        let outside = || UnpackError::Link {
            path: shown_path(&inside.path()),
            target: shown_path(&target.path()),
        };
        if target == *inside {
            return Err(outside());
        }
        let source = match self.tree.open(&target.parent) {
            Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR | Errno::XDEV) => return Err(outside()),
            opened => opened.map_err(failed("open the target of", inside))?,
        };
        let found = stat(&source, &target).map_err(|_| outside())?;
        let kind = FileType::from_raw_mode(found.st_mode);
        if !matches!(kind, FileType::RegularFile | FileType::Symlink) {
            return Err(outside());
        }
        let parent = self.make_room(inside)?;
        // Without AT_SYMLINK_FOLLOW the kernel links the symbolic link, never its target.
        linkat(
            &source,
            &target.name,
            &parent,
            &inside.name,
            AtFlags::empty(),
        )
        .map_err(failed("create the hard link", inside))?;
        match self.owners.get(&target.path()).copied() {
            Some(owner) => drop(self.owners.insert(inside.path(), owner)),
            None => drop(self.owners.remove(&inside.path())),
        }
        Ok(())
    }

    /// Sets modes and times of the directories, the deepest first: a closed directory hides what is below it.
    pub fn finish(self) -> Result<(Unpacked, BTreeMap<PathBuf, Owner>), UnpackError> {
        for (path, attributes) in self.directories.iter().rev() {
            let failed = |action| {
                move |source| UnpackError::File {
                    action,
                    path: shown_path(path),
                    source,
                }
            };
            let directory = self.tree.open(path).map_err(failed("open"))?;
            let timed = futimens(&directory, &times(attributes.modified));
            timed.map_err(failed("set the time of"))?;
            fchmod(&directory, attributes.mode).map_err(failed("set the mode of"))?;
        }
        Ok((self.unpacked, self.owners))
    }

    fn make_room(&mut self, inside: &Inside) -> Result<OwnedFd, UnpackError> {
        let parent = self.tree.make_room(inside)?;
        self.directories.remove(&inside.path());
        Ok(parent)
    }

    fn attributes<R: Read>(
        &mut self,
        path: &[u8],
        entry: &mut Entry<'_, R>,
    ) -> Result<Attributes, UnpackError> {
        let unreadable = |source| UnpackError::Header {
            path: shown(path),
            source,
        };
        let malformed = |field: &str| {
            let what = format!("`{field}` is malformed or out of range");
            unreadable(io::Error::new(io::ErrorKind::InvalidData, what))
        };
        let header = entry.header();
        let bits = header.mode().map_err(unreadable)? & 0o7777;
        let owner = Owner {
            user: id(header.uid().map_err(unreadable)?).ok_or_else(|| malformed("uid"))?,
            group: id(header.gid().map_err(unreadable)?).ok_or_else(|| malformed("gid"))?,
        };
        let modified = i64::try_from(header.mtime().map_err(unreadable)?);
        let mut attributes = Attributes {
            mode: Mode::from_raw_mode(bits & !0o6000),
            modified: Timespec {
                tv_sec: modified.map_err(|_| malformed("mtime"))?,
                tv_nsec: 0,
            },
            owner,
            extended: Vec::new(),
        };
        let mut left_out = Vec::new();
        for extension in entry
            .pax_extensions()
            .map_err(unreadable)?
            .into_iter()
            .flatten()
        {
            let extension = extension.map_err(unreadable)?;
            // Other records, such as paths and extended attributes, need not be UTF-8.
            let value = extension.value().ok();
            let number = || id(value?.parse().ok()?);
            match extension.key_bytes() {
                b"uid" => attributes.owner.user = number().ok_or_else(|| malformed("uid"))?,
                b"gid" => attributes.owner.group = number().ok_or_else(|| malformed("gid"))?,
                b"mtime" => {
                    let modified = value.and_then(seconds);
                    attributes.modified = modified.ok_or_else(|| malformed("mtime"))?;
                }
                key => match key.strip_prefix(ATTRIBUTE) {
                    Some(name) if name.starts_with(b"user.") && !name.starts_with(OF_OVERLAY) => {
                        let value = extension.value_bytes().to_vec();
                        attributes.extended.push((name.to_vec(), value));
                    }
                    Some(name) => left_out.push(shown(name)),
                    None => {}
                },
            }
        }
        if bits & 0o6000 != 0 {
            self.list(shown(path), Reason::SetId);
        }
        for name in left_out {
            self.list(shown(path), Reason::Attribute(name));
        }
        Ok(attributes)
    }

    fn note(&mut self, path: PathBuf, owner: Owner) {
        if owner == Owner::default() {
            self.owners.remove(&path);
        } else {
            self.owners.insert(path, owner);
        }
    }

    fn leave_out(&mut self, inside: &Inside, reason: Reason) {
        self.list(shown_path(&inside.path()), reason);
    }

    fn list(&mut self, path: String, reason: Reason) {
        if self.unpacked.left_out.len() < MOST_LISTED {
            self.unpacked.left_out.push(LeftOut { path, reason });
        }
    }
}

fn set_extended(
    inside: &Inside,
    attributes: &Attributes,
    file: &OwnedFd,
) -> Result<(), UnpackError> {
    for (name, value) in &attributes.extended {
        fsetxattr(file, name.as_slice(), value, XattrFlags::empty())
            .map_err(failed("set an extended attribute of", inside))?;
    }
    Ok(())
}

fn times(modified: Timespec) -> Timestamps {
    Timestamps {
        last_access: modified,
        last_modification: modified,
    }
}

/// An id that a user can have: the largest number means "no change" to `chown`.
fn id(number: u64) -> Option<u32> {
    let id = u32::try_from(number).ok();
    id.filter(|id| *id != u32::MAX)
}

/// `1700000000.25` of a PAX record.
fn seconds(text: &str) -> Option<Timespec> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    if !fraction.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let digits: String = fraction
        .chars()
        .chain("000000000".chars())
        .take(9)
        .collect();
    Some(Timespec {
        tv_sec: whole.parse().ok()?,
        tv_nsec: digits.parse().ok()?,
    })
}
