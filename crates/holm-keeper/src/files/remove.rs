//! Deletes a tree that a workspace wrote: without following symlinks, at any depth, with any
//! directory modes, and never across a mount.

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, Stat, StatxAttributes, StatxFlags,
    chmodat, fstat, openat, renameat_with, statat, statx, unlinkat,
};
use rustix::io::Errno;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// The unit of `st_blocks`, whatever the file system's own is.
pub const BLOCK: u64 = 512;

/// The number of open directories; deeper ones are moved up first.
const DEEPEST: usize = 32;

/// Removes `path` and everything below it on the same file system. It is fine if it does not exist.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    remove_at(CWD, path)
}

/// The same for a name in an open directory.
pub fn remove_at(parent: BorrowedFd<'_>, name: &Path) -> io::Result<()> {
    remove(parent, name, None)
}

/// Removes everything below a directory and keeps the directory itself. It is fine if it does not
/// exist.
pub fn empty_tree(path: &Path) -> io::Result<()> {
    match open(CWD, path) {
        Ok(top) => empty(top, None),
        Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// As [`remove_tree`]; calls `tell` with the bytes freed by each file.
pub fn remove_counted(path: &Path, tell: &mut dyn FnMut(u64)) -> io::Result<()> {
    remove(CWD, path, Some(tell))
}

fn remove(
    parent: BorrowedFd<'_>,
    name: &Path,
    mut tell: Option<&mut dyn FnMut(u64)>,
) -> io::Result<()> {
    let top = match open(parent, name) {
        Ok(top) => top,
        Err(Errno::NOENT) => return Ok(()),
        Err(Errno::NOTDIR | Errno::LOOP) => {
            if let (Some(tell), Ok(stat)) =
                (&mut tell, statat(parent, name, AtFlags::SYMLINK_NOFOLLOW))
            {
                tell(freed_by(&stat));
            }
            return gone(unlinkat(parent, name, AtFlags::empty()));
        }
        Err(error) => return Err(error.into()),
    };
    if is_mount(&top)? {
        return Err(io::Error::other("it is a mount point"));
    }
    empty(top, tell)?;
    gone(unlinkat(parent, name, AtFlags::REMOVEDIR))
}

fn empty(top: OwnedFd, tell: Option<&mut dyn FnMut(u64)>) -> io::Result<()> {
    let device = fstat(&top)?.st_dev;
    let mut removal = Removal {
        top,
        device,
        moved: 0,
        tell,
    };
    let entry = rustix::io::dup(&removal.top)?;
    removal.empty(entry.as_fd(), 0)
}

struct Removal<'a> {
    top: OwnedFd,
    device: u64,
    moved: u64,
    tell: Option<&'a mut dyn FnMut(u64)>,
}

// === impl Removal ===

impl Removal<'_> {
    /// Repeats until a pass finds nothing: moved directories appear in the top directory.
    fn empty(&mut self, directory: BorrowedFd<'_>, depth: usize) -> io::Result<()> {
        loop {
            let names = names(directory)?;
            if names.is_empty() {
                return Ok(());
            }
            for (name, kind) in names {
                self.remove_entry(directory, &name, kind, depth)?;
            }
            if depth > 0 {
                return Ok(());
            }
        }
    }

    fn remove_entry(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &CString,
        kind: FileType,
        depth: usize,
    ) -> io::Result<()> {
        let is_directory = match kind {
            FileType::Directory => true,
            FileType::Unknown => {
                let mode = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode;
                FileType::from_raw_mode(mode) == FileType::Directory
            }
            _ => false,
        };
        if !is_directory {
            if let Some(tell) = &mut self.tell {
                tell(freed_by(&statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?));
            }
            return gone(unlinkat(parent, name, AtFlags::empty()));
        }
        if depth.is_multiple_of(DEEPEST) && depth > 0 && self.move_up(parent, name)? {
            return Ok(());
        }
        let child = open(parent, name)?;
        let stat = fstat(&child)?;
        if stat.st_dev != self.device || is_mount(&child)? {
            return Err(io::Error::other("something is mounted below it"));
        }
        self.empty(child.as_fd(), depth + 1)?;
        if let Some(tell) = &mut self.tell {
            tell(stat.st_blocks.cast_unsigned() * BLOCK);
        }
        gone(unlinkat(parent, name, AtFlags::REMOVEDIR))
    }

    /// Moves a directory to the top, under a name that an interrupted removal did not use. `false`:
    /// an overlay, where a directory of a lower layer cannot be moved and is descended into
    /// instead.
    fn move_up(&mut self, parent: BorrowedFd<'_>, name: &CString) -> io::Result<bool> {
        loop {
            self.moved += 1;
            let fresh = format!(".holm-deep-{}", self.moved);
            match renameat_with(parent, name, &self.top, fresh, RenameFlags::NOREPLACE) {
                Ok(()) => return Ok(true),
                Err(Errno::EXIST) => {}
                Err(Errno::XDEV) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// A file with further hard links stays on disk.
fn freed_by(stat: &Stat) -> u64 {
    match stat.st_nlink {
        0 | 1 => stat.st_blocks.cast_unsigned() * BLOCK,
        _ => 0,
    }
}

/// Whether this is a mount point; a bind mount has the same device as its parent.
pub fn is_mount(directory: &OwnedFd) -> Result<bool, Errno> {
    let flags = AtFlags::EMPTY_PATH;
    match statx(directory, c"", flags, StatxFlags::empty()) {
        Ok(found) => Ok(found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)),
        // An old kernel does not say; the device was compared.
        Err(Errno::NOSYS) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Opens a directory, and restores the permissions that are needed to empty it.
fn open(parent: impl AsFd, name: impl rustix::path::Arg + Copy) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = match openat(&parent, name, flags, Mode::empty()) {
        Err(Errno::ACCESS) => {
            let closed = openat(&parent, name, flags | OFlags::PATH, Mode::empty())?;
            // Through its descriptor, because the name may be a symlink meanwhile.
            let place = format!("/proc/self/fd/{}", closed.as_raw_fd());
            match chmodat(CWD, place, Mode::RWXU, AtFlags::empty()) {
                // The mover is not in the pid namespace that `/proc` shows.
                Err(Errno::NOENT) => chmodat(&parent, name, Mode::RWXU, AtFlags::empty())?,
                changed => changed?,
            }
            openat(&parent, name, flags, Mode::empty())?
        }
        other => other?,
    };
    if fstat(&opened)?.st_mode & 0o700 != 0o700 {
        rustix::fs::fchmod(&opened, Mode::RWXU)?;
    }
    Ok(opened)
}

fn names(directory: BorrowedFd<'_>) -> io::Result<Vec<(CString, FileType)>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            found.push((entry.file_name().to_owned(), entry.file_type()));
        }
    }
    Ok(found)
}

fn gone(result: Result<(), Errno>) -> io::Result<()> {
    match result {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn closed_directories_and_links_out_are_removed_and_nothing_behind_them() {
        let place = tempfile::tempdir().unwrap();
        let outside = place.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("kept"), "kept").unwrap();
        let tree = place.path().join("tree");
        fs::create_dir_all(tree.join("closed/inner")).unwrap();
        symlink(&outside, tree.join("link")).unwrap();
        fs::set_permissions(tree.join("closed"), fs::Permissions::from_mode(0o000)).unwrap();
        remove_tree(&tree).unwrap();
        assert!(!tree.exists());
        assert_eq!(fs::read_to_string(outside.join("kept")).unwrap(), "kept");
        remove_tree(&tree).unwrap();
    }

    #[test]
    fn what_the_disk_gets_back_is_counted_truly() {
        let place = tempfile::tempdir().unwrap();
        let tree = place.path().join("tree");
        fs::create_dir(&tree).unwrap();
        fs::write(tree.join("own"), vec![1; 1 << 20]).unwrap();
        fs::write(place.path().join("kept"), vec![1; 8 << 20]).unwrap();
        fs::hard_link(place.path().join("kept"), tree.join("linked")).unwrap();
        let sparse = fs::File::create(tree.join("sparse")).unwrap();
        sparse.set_len(1 << 40).unwrap();
        sparse.sync_all().unwrap();
        fs::File::open(tree.join("own"))
            .unwrap()
            .sync_all()
            .unwrap();
        let mut bytes = 0;
        remove_counted(&tree, &mut |freed| bytes += freed).unwrap();
        assert!(((1 << 20)..(2 << 20)).contains(&bytes), "{bytes}");
        assert!(!tree.exists() && place.path().join("kept").exists());
    }

    #[test]
    fn a_tree_deeper_than_any_path_is_removed_attack_27() {
        let place = tempfile::tempdir().unwrap();
        let tree = place.path().join("tree");
        fs::create_dir(&tree).unwrap();
        let name = "d".repeat(200);
        let mut here = open(CWD, &tree).unwrap();
        for _ in 0..100 {
            rustix::fs::mkdirat(&here, name.as_str(), Mode::RWXU).unwrap();
            here = open(&here, name.as_str()).unwrap();
        }
        drop(here);
        // What an interrupted removal left behind.
        fs::create_dir_all(tree.join(".holm-deep-1/full")).unwrap();
        fs::create_dir_all(tree.join(".holm-deep-2/full")).unwrap();
        remove_tree(&tree).unwrap();
        assert!(!tree.exists());
    }
}
