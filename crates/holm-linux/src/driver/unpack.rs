//! Laying out the files that a client sent along, into an upper layer that nothing has mounted yet.
//!
//! The archive comes from the user's own client, but its names come from a repository: absolute
//! paths, `..`, links on the way and anything that is not a file, directory or link are refused.

use rustix::fs::{Mode, OFlags, mkdirat, openat, symlinkat, unlinkat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};
use tar::{Archive, EntryType};

const DIRECTORY: OFlags = OFlags::PATH
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

pub fn unpack(archive: &Path, into: &Path) -> io::Result<()> {
    let top = crate::launch::open_directory(into)?;
    let mut archive = Archive::new(File::open(archive)?);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let mode = Mode::from_raw_mode(entry.header().mode()? & 0o777);
        let refuse = |why: &str| {
            let message = format!("{}: {why}", path.display());
            Err(io::Error::new(io::ErrorKind::InvalidData, message))
        };
        let plain = path
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        if !plain || path.as_os_str().is_empty() {
            return refuse("not a plain relative path");
        }
        if path.starts_with(".git") {
            return refuse("the repository's own directory is not taken along");
        }
        match entry.header().entry_type() {
            EntryType::Directory => drop(directory(&top, &path)?),
            EntryType::Regular => write_file(&top, &path, mode, &mut entry)?,
            EntryType::Symlink => {
                let Some(target) = entry.link_name()? else {
                    return refuse("a link to nothing");
                };
                let (parent, name) = parent(&top, &path)?;
                remove_existing(&parent, name)?;
                symlinkat(target.as_ref(), &parent, name)?;
            }
            _ => return refuse("neither a file nor a directory nor a link"),
        }
    }
    Ok(())
}

fn write_file(top: &OwnedFd, path: &Path, mode: Mode, content: &mut impl Read) -> io::Result<()> {
    let (parent, name) = parent(top, path)?;
    remove_existing(&parent, name)?;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(&parent, name, flags, mode | Mode::WUSR)?;
    io::copy(content, &mut File::from(file))?;
    Ok(())
}

fn parent<'a>(top: &OwnedFd, path: &'a Path) -> io::Result<(OwnedFd, &'a Path)> {
    let name = Path::new(path.file_name().unwrap_or_default());
    Ok((
        directory(top, path.parent().unwrap_or(Path::new("")))?,
        name,
    ))
}

/// Opens a directory, made with its parents where missing; a link on the way is an error.
fn directory(top: &OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    let mut here = rustix::io::dup(top)?;
    for name in path.iter() {
        match mkdirat(&here, name.as_bytes(), Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        here = openat(&here, name.as_bytes(), DIRECTORY, Mode::empty())?;
    }
    Ok(here)
}

/// A name that comes twice is taken as it came last, as tar does.
fn remove_existing(parent: &OwnedFd, name: &Path) -> io::Result<()> {
    match unlinkat(parent, name, rustix::fs::AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;

    fn archive(place: &Path, add: impl FnOnce(&mut tar::Builder<Vec<u8>>)) -> PathBuf {
        let mut builder = tar::Builder::new(Vec::new());
        add(&mut builder);
        let path = place.join("archive.tar");
        fs::write(&path, builder.into_inner().unwrap()).unwrap();
        path
    }

    fn raw(builder: &mut tar::Builder<Vec<u8>>, kind: EntryType, name: &str, link: &str) {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(0o644);
        header.set_size(0);
        // The builder's own methods refuse such names, so they are written by hand.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_cksum();
        builder.append(&header, io::empty()).unwrap();
    }

    #[test]
    fn files_and_links_arrive_with_their_modes() {
        let place = tempfile::tempdir().unwrap();
        let into = place.path().join("into");
        fs::create_dir(&into).unwrap();
        let path = archive(place.path(), |builder| {
            let mut header = tar::Header::new_gnu();
            header.set_size(2);
            header.set_mode(0o755);
            builder
                .append_data(&mut header, "bin/run", &b"hi"[..])
                .unwrap();
            raw(builder, EntryType::Symlink, "link", "bin/run");
        });
        unpack(&path, &into).unwrap();
        assert_eq!(fs::read(into.join("link")).unwrap(), b"hi");
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(
            fs::metadata(into.join("bin/run"))
                .unwrap()
                .permissions()
                .mode()
                & 0o777,
            0o755
        );
    }

    #[test]
    fn nothing_gets_out_of_the_directory_attack_9() {
        let place = tempfile::tempdir().unwrap();
        let outside = place.path().join("outside");
        let into = place.path().join("into");
        fs::create_dir_all(&outside).unwrap();
        let refused = |add: &dyn Fn(&mut tar::Builder<Vec<u8>>)| {
            let _ = fs::remove_dir_all(&into);
            fs::create_dir(&into).unwrap();
            let path = archive(place.path(), |builder| add(builder));
            unpack(&path, &into).unwrap_err();
            assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
        };
        refused(&|builder| raw(builder, EntryType::Regular, "../outside/x", ""));
        refused(&|builder| raw(builder, EntryType::Regular, "/tmp/holm-outside-x", ""));
        refused(&|builder| raw(builder, EntryType::Regular, ".git/hooks/post-checkout", ""));
        refused(&|builder| raw(builder, EntryType::Link, "hard", "/etc/passwd"));
        refused(&|builder| raw(builder, EntryType::Fifo, "fifo", ""));
        refused(&|builder| {
            raw(builder, EntryType::Symlink, "out", "../outside");
            raw(builder, EntryType::Regular, "out/x", "");
        });
    }
}
