//! Makes one path of the service's root the same as one of the tree. Both may change at any moment, and nothing in them
//! is followed or waited for but directories of the service's own root.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// It was the same already.
    Same,
    Changed,
}

const CHUNK: u64 = 64 * 1024;

/// The name of a file that is not complete yet.
const NEW: &str = ".holm-new";

/// A path that is gone is removed; directories are made only for what is in them.
pub fn copy(from: &Path, to: &Path) -> io::Result<Done> {
    let Some(kind) = found(from)? else {
        return remove(to);
    };
    if kind.is_symlink() {
        let leads_to = fs::read_link(from)?;
        if fs::read_link(to).is_ok_and(|before| before == leads_to) {
            return Ok(Done::Same);
        }
        make_room(to)?;
        symlink(leads_to, to)?;
        return Ok(Done::Changed);
    }
    if !kind.is_file() {
        return Ok(Done::Same);
    }
    // A pipe that took its place would block.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let mut file = File::options().read(true).custom_flags(flags).open(from)?;
    let mode = file.metadata()?.permissions().mode() & 0o777;
    if let Some(before) = found(to)?.filter(Metadata::is_file)
        && before.permissions().mode() & 0o777 == mode
        && before.len() == kind.len()
        && is_same(&mut file, &mut File::open(to)?)?
    {
        return Ok(Done::Same);
    }
    let mut file = File::options().read(true).custom_flags(flags).open(from)?;
    if found(to)?.is_some_and(|before| !before.is_file()) {
        remove(to)?;
    }
    make_parent(to)?;
    let fresh = to.with_file_name(NEW);
    let written = File::create(&fresh).and_then(|mut new| {
        io::copy(&mut file, &mut new)?;
        new.set_permissions(fs::Permissions::from_mode(mode))?;
        fs::rename(&fresh, to)
    });
    if written.is_err() {
        // The first error is what matters.
        let _ = fs::remove_file(&fresh);
    }
    written.map(|()| Done::Changed)
}

fn found(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(None),
            _ => Err(error),
        },
    }
}

fn remove(path: &Path) -> io::Result<Done> {
    let removed = match found(path)? {
        None => return Ok(Done::Same),
        Some(kind) if kind.is_dir() => fs::remove_dir_all(path),
        Some(_) => fs::remove_file(path),
    };
    removed.map(|()| Done::Changed)
}

fn make_room(path: &Path) -> io::Result<()> {
    remove(path)?;
    make_parent(path)
}

fn make_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)
}

fn is_same(one: &mut File, other: &mut File) -> io::Result<bool> {
    let (mut left, mut right) = (Vec::new(), Vec::new());
    loop {
        left.clear();
        right.clear();
        one.by_ref().take(CHUNK).read_to_end(&mut left)?;
        other.by_ref().take(CHUNK).read_to_end(&mut right)?;
        if left != right {
            return Ok(false);
        }
        if left.is_empty() {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_links_and_what_is_gone() {
        let place = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to/deep/file"].map(|name| place.path().join(name));
        let check = |expected: Done| assert_eq!(copy(&from, &to).unwrap(), expected);
        fs::write(&from, "one").unwrap();
        check(Done::Changed);
        check(Done::Same);
        fs::write(&from, "two").unwrap();
        check(Done::Changed);
        assert_eq!(fs::read_to_string(&to).unwrap(), "two");
        fs::set_permissions(&from, fs::Permissions::from_mode(0o755)).unwrap();
        check(Done::Changed);
        check(Done::Same);
        // A directory is in the way.
        fs::remove_file(&to).unwrap();
        fs::create_dir_all(to.join("below")).unwrap();
        check(Done::Changed);
        fs::remove_file(&from).unwrap();
        symlink("/absent", &from).unwrap();
        check(Done::Changed);
        check(Done::Same);
        assert_eq!(fs::read_link(&to).unwrap(), Path::new("/absent"));
        fs::remove_file(&from).unwrap();
        check(Done::Changed);
        check(Done::Same);
        assert_eq!(fs::read_dir(to.parent().unwrap()).unwrap().count(), 0);
        // A pipe is nothing to copy, and opening it would block.
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &from,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o644),
            0,
        )
        .unwrap();
        check(Done::Same);
    }
}
