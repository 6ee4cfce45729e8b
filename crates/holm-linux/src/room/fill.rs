//! Fills a new volume with the files that the image has at its place, as other container programs do. Called by the role
//! that makes a room, before the volume covers them.
//!
//! Several rooms may show one volume, and a room may end at any moment. So the files are copied under another name while
//! a lock is held, and the next room repeats or finishes what was interrupted.

use crate::mover::{Source, copy_entry};
use crate::open_files;
use holm_keeper::directories::descriptor_path;
use rustix::fs::{
    AtFlags, Dir, FlockOperation, Gid, Mode, OFlags, ResolveFlags, Uid, fchmod, fchown, flock,
    fstat, openat, openat2, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// Where files are while they are copied, and when all of them are.
const COPYING: &str = ".holm-copying";
const COPIED: &str = ".holm-copied";

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Copies what the root has at `target` into the volume, if that is empty. `tell` is called for each file.
pub fn fill(
    root: &impl AsFd,
    target: &Path,
    volume: &OwnedFd,
    tell: &mut dyn FnMut(),
) -> io::Result<()> {
    let target = target.strip_prefix("/").unwrap_or(target);
    // An image may have a link there, such as /var/run.
    let inside = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(image) = openat2(root, target, flags, Mode::empty(), inside) else {
        return Ok(());
    };
    let volume = match openat(volume, ".", DIRECTORY, Mode::empty()) {
        Err(Errno::NOTDIR) => return Ok(()),
        opened => opened?,
    };
    flock(&volume, FlockOperation::LockExclusive)?;
    if statat(&volume, COPIED, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
        return move_up(&volume);
    }
    if !is_empty(&volume)? {
        return Ok(());
    }
    match std::fs::remove_dir_all(descriptor_path(&volume).join(COPYING)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        removed => removed?,
    }
    // One directory is held open per level of the tree.
    open_files::raise();
    let mut tell = || {
        tell();
        Ok(())
    };
    let (from, to) = ((image.as_fd(), b".".as_slice()), COPYING.as_bytes());
    copy_entry(from, (volume.as_fd(), to), Source::Still, &mut tell)?;
    renameat(&volume, COPYING, &volume, COPIED)?;
    move_up(&volume)
}

/// Whether it has nothing but what an interrupted copy left.
fn is_empty(directory: &OwnedFd) -> io::Result<bool> {
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if !matches!(name, b"." | b"..") && name != COPYING.as_bytes() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Gives complete copies their places.
fn move_up(volume: &OwnedFd) -> io::Result<()> {
    let copied = openat(volume, COPIED, DIRECTORY, Mode::empty())?;
    let status = fstat(&copied)?;
    let mode = Mode::from_raw_mode(status.st_mode & 0o7777);
    for entry in Dir::read_from(&copied)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        match renameat(&copied, name, volume, name) {
            // A program was faster; its file stays, and this one stays hidden.
            Err(Errno::EXIST | Errno::NOTEMPTY | Errno::ISDIR | Errno::NOTDIR) => {}
            moved => moved?,
        }
    }
    let (user, group) = (Uid::from_raw(status.st_uid), Gid::from_raw(status.st_gid));
    fchown(volume, Some(user), Some(group))?;
    fchmod(volume, mode)?;
    match unlinkat(volume, COPIED, AtFlags::REMOVEDIR) {
        Err(Errno::NOTEMPTY) => Ok(()),
        removed => Ok(removed?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// A directory of an image, and a volume.
    fn places() -> (tempfile::TempDir, OwnedFd, OwnedFd) {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::create_dir_all(at("image/data/below")).unwrap();
        fs::create_dir(at("volume")).unwrap();
        fs::write(at("image/data/below/file"), "of the image").unwrap();
        symlink("below/file", at("image/data/link")).unwrap();
        fs::set_permissions(at("image/data"), fs::Permissions::from_mode(0o700)).unwrap();
        let open = |name: &str| OwnedFd::from(File::open(at(name)).unwrap());
        let (image, volume) = (open("image"), open("volume"));
        (place, image, volume)
    }

    #[test]
    fn an_empty_volume_gets_the_files_and_another_keeps_its_own() {
        let (place, image, volume) = places();
        let at = |name: &str| place.path().join("volume").join(name);
        let mut told = 0;
        fill(&image, Path::new("/data"), &volume, &mut || told += 1).unwrap();
        assert_eq!(fs::read_to_string(at("link")).unwrap(), "of the image");
        assert_eq!(
            fs::metadata(at("")).unwrap().permissions().mode() & 0o7777,
            0o700
        );
        assert_eq!(fs::read_dir(at("")).unwrap().count(), 2);
        assert_eq!(told, 4);
        fs::remove_file(at("link")).unwrap();
        fill(&image, Path::new("/data"), &volume, &mut || told += 1).unwrap();
        fill(&image, Path::new("/absent"), &volume, &mut || told += 1).unwrap();
        assert_eq!((fs::read_dir(at("")).unwrap().count(), told), (1, 4));
    }

    #[test]
    fn what_was_interrupted_is_repeated_or_finished() {
        let (place, image, volume) = places();
        let at = |name: &str| place.path().join("volume").join(name);
        fs::create_dir_all(at(".holm-copying/below")).unwrap();
        fill(&image, Path::new("/data"), &volume, &mut || ()).unwrap();
        assert_eq!(fs::read_to_string(at("link")).unwrap(), "of the image");
        // All files were copied, and some had their places.
        fs::create_dir(at(".holm-copied")).unwrap();
        fs::rename(at("link"), at(".holm-copied/link")).unwrap();
        fill(&image, Path::new("/data"), &volume, &mut || ()).unwrap();
        assert_eq!(fs::read_to_string(at("link")).unwrap(), "of the image");
        assert!(!at(".holm-copied").exists() && !at(".holm-copying").exists());
    }

    #[test]
    fn links_of_an_image_lead_nowhere_else() {
        let (place, image, volume) = places();
        fs::create_dir(place.path().join("outside")).unwrap();
        fs::write(place.path().join("outside/secret"), "x").unwrap();
        symlink(place.path().join("outside"), place.path().join("image/out")).unwrap();
        symlink("../outside", place.path().join("image/up")).unwrap();
        for target in ["/out", "/up"] {
            fill(&image, Path::new(target), &volume, &mut || ()).unwrap();
        }
        assert!(is_empty(&volume).unwrap());
    }
}
