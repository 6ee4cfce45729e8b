//! Unpacks archives that a client sent: into an upper layer that is not mounted yet, and for the
//! file API ([`crate::files`]) into a tree that programs change meanwhile. So every step is
//! relative to a descriptor and follows no symlink.
//!
//! Modes and modification times are preserved to the nanosecond, because build tools compare times.
//!
//! The user's own client sends the archive, but its names come from a repository: absolute paths,
//! `..`, symlinks on the way and anything except files, directories and symlinks are refused.

use rustix::fs::{
    AtFlags, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, fchmod, futimens, mkdirat, openat,
    symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use tar::{Archive, Entry, EntryType};

const DIRECTORY: OFlags = OFlags::PATH
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// How to treat a `.git` directory at the top of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GitDirectory {
    Take,
    Refuse,
}

/// Unpacks the files that a client sent with a new workspace.
pub fn unpack(archive: &Path, into: &Path) -> io::Result<()> {
    let top = crate::directories::open_directory(into)?;
    unpack_at(File::open(archive)?, &top, GitDirectory::Refuse)
}

/// As [`unpack`], but only these paths and everything below them.
pub fn unpack_some(archive: &Path, into: &Path, wanted: &[&Path]) -> io::Result<()> {
    let top = crate::directories::open_directory(into)?;
    let is_wanted = |path: &Path| wanted.iter().any(|wanted| path.starts_with(wanted));
    unpack_where(File::open(archive)?, &top, GitDirectory::Refuse, &is_wanted)
}

/// The content of a file of an archive, or of all files below a directory with their names. `None`: the
/// archive does not have it.
pub fn contents(archive: &Path, wanted: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
    let (mut content, mut is_there) = (Vec::new(), false);
    for entry in Archive::new(File::open(archive)?).entries()? {
        let entry = entry?;
        let path = plain(&entry.path()?);
        if !path.starts_with(wanted) {
            continue;
        }
        is_there = true;
        if path != wanted {
            content.extend(path.as_os_str().as_bytes());
            content.push(0);
        }
        entry.take(most + 1).read_to_end(&mut content)?;
        if content.len() as u64 > most {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
    }
    Ok(is_there.then_some(content))
}

/// `tar -c .` writes `./` and `./name`, which every reader treats the same.
fn plain(path: &Path) -> PathBuf {
    let parts = path.components();
    parts.filter(|part| *part != Component::CurDir).collect()
}

/// The same from any reader, into an open directory.
pub fn unpack_at(archive: impl Read, top: &OwnedFd, git: GitDirectory) -> io::Result<()> {
    unpack_where(archive, top, git, &|_| true)
}

fn unpack_where(
    archive: impl Read,
    top: &OwnedFd,
    git: GitDirectory,
    is_wanted: &dyn Fn(&Path) -> bool,
) -> io::Result<()> {
    let mut archive = Archive::new(archive);
    let mut directories = Vec::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = plain(&entry.path()?);
        if !is_wanted(&path) {
            continue;
        }
        if path.as_os_str().is_empty() && entry.header().entry_type() == EntryType::Directory {
            continue;
        }
        let given = EntryMetadata {
            mode: Mode::from_raw_mode(entry.header().mode()? & 0o777),
            times: times(&mut entry)?,
        };
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
        if git == GitDirectory::Refuse && path.starts_with(".git") {
            return refuse("the repository's own directory is not taken along");
        }
        // Readers of archives disagree about these, so they are refused.
        let is_file = entry.header().entry_type() == EntryType::Regular;
        if is_ambiguous(&mut entry)? || (!is_file && entry.size() != 0) {
            return refuse("not a plain entry");
        }
        match entry.header().entry_type() {
            EntryType::Directory => {
                directory(top, &path)?;
                directories.push((path, given));
            }
            EntryType::Regular => {
                let size = entry.size();
                if write_file(top, &path, &given, &mut entry)? != size {
                    return refuse("the archive ends in the middle of it");
                }
            }
            EntryType::Symlink => {
                let Some(target) = entry.link_name()? else {
                    return refuse("a link to nothing");
                };
                let (parent, name) = parent(top, &path)?;
                remove_existing(&parent, name)?;
                symlinkat(target.as_ref(), &parent, name)?;
                utimensat(&parent, name, &given.times, AtFlags::SYMLINK_NOFOLLOW)?;
            }
            _ => return refuse("neither a file nor a directory nor a link"),
        }
    }
    finish_directories(top, directories)
}

/// An entry's metadata.
struct EntryMetadata {
    mode: Mode,
    times: Timestamps,
}

/// Whether an extended header repeats a key, of which readers take the first or the last, or
/// declares a sparse file, which can be larger than any disk.
fn is_ambiguous(entry: &mut Entry<'_, impl Read>) -> io::Result<bool> {
    let mut keys = BTreeSet::new();
    let Some(extensions) = entry.pax_extensions()? else {
        return Ok(false);
    };
    for extension in extensions {
        let extension = extension?;
        let key = extension.key_bytes();
        if key.starts_with(b"GNU.sparse.") || !keys.insert(key.to_vec()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The modification time; the access time is not restored.
fn times(entry: &mut Entry<'_, impl Read>) -> io::Result<Timestamps> {
    let mut seconds = i64::try_from(entry.header().mtime()?).unwrap_or(0);
    let mut nanoseconds = 0;
    if let Some(extensions) = entry.pax_extensions()? {
        for extension in extensions {
            let extension = extension?;
            if extension.key_bytes() == b"mtime"
                && let Ok(text) = extension.value()
                && let Some((whole, fraction)) = text.split_once('.')
                && fraction.len() == 9
                && let (Ok(whole), Ok(fraction)) = (whole.parse(), fraction.parse::<u32>())
            {
                (seconds, nanoseconds) = (whole, fraction);
            }
        }
    }
    Ok(Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        last_modification: Timespec {
            tv_sec: seconds,
            tv_nsec: nanoseconds.into(),
        },
    })
}

/// Directories get their mode and time last, because creating files in one changes its time and may
/// need more than its mode allows. The deepest come first for the same reason.
fn finish_directories(
    top: &OwnedFd,
    mut directories: Vec<(PathBuf, EntryMetadata)>,
) -> io::Result<()> {
    directories.sort_by(|(left, _), (right, _)| right.cmp(left));
    for (path, given) in directories {
        let (parent, name) = parent(top, &path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat(&parent, name, flags, Mode::empty())?;
        futimens(&opened, &given.times)?;
        fchmod(&opened, given.mode)?;
    }
    Ok(())
}

fn write_file(
    top: &OwnedFd,
    path: &Path,
    given: &EntryMetadata,
    content: &mut impl Read,
) -> io::Result<u64> {
    let (parent, name) = parent(top, path)?;
    remove_existing(&parent, name)?;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(openat(&parent, name, flags, Mode::RUSR | Mode::WUSR)?);
    let written = io::copy(content, &mut file)?;
    // Separately, because the daemon's umask would apply at creation.
    fchmod(&file, given.mode)?;
    futimens(&file, &given.times)?;
    Ok(written)
}

fn parent<'a>(top: &OwnedFd, path: &'a Path) -> io::Result<(OwnedFd, &'a Path)> {
    let name = Path::new(path.file_name().unwrap_or_default());
    Ok((
        directory(top, path.parent().unwrap_or(Path::new("")))?,
        name,
    ))
}

/// Opens a directory, creating missing parents; a symlink on the way is an error.
pub fn directory(top: &OwnedFd, path: &Path) -> io::Result<OwnedFd> {
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

/// If a name occurs twice, the last one counts, as in tar.
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
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

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
    fn files_and_links_arrive_with_their_modes_and_times() {
        let place = tempfile::tempdir().unwrap();
        let into = place.path().join("into");
        fs::create_dir(&into).unwrap();
        let path = archive(place.path(), |builder| {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(EntryType::Directory);
            header.set_size(0);
            header.set_mode(0o555);
            header.set_mtime(77);
            builder
                .append_data(&mut header, "bin", io::empty())
                .unwrap();
            header.set_entry_type(EntryType::Regular);
            header.set_size(2);
            header.set_mode(0o555);
            builder
                .append_pax_extensions([("mtime", &b"1000000000.000000007"[..])])
                .unwrap();
            builder
                .append_data(&mut header, "bin/run", &b"hi"[..])
                .unwrap();
            raw(builder, EntryType::Symlink, "link", "bin/run");
        });
        unpack(&path, &into).unwrap();
        assert_eq!(fs::read(into.join("link")).unwrap(), b"hi");
        let run = fs::metadata(into.join("bin/run")).unwrap();
        assert_eq!(run.mode() & 0o777, 0o555);
        assert_eq!((run.mtime(), run.mtime_nsec()), (1_000_000_000, 7));
        let bin = fs::metadata(into.join("bin")).unwrap();
        assert_eq!((bin.mode() & 0o777, bin.mtime()), (0o555, 77));
        assert_eq!(fs::symlink_metadata(into.join("link")).unwrap().mtime(), 0);
        fs::set_permissions(into.join("bin"), fs::Permissions::from_mode(0o755)).unwrap();
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
        refused(&|builder| raw(builder, EntryType::Regular, "./.git/config", ""));
        refused(&|builder| raw(builder, EntryType::Regular, "./../outside/x", ""));
        refused(&|builder| raw(builder, EntryType::Regular, ".", ""));
        refused(&|builder| raw(builder, EntryType::Link, "hard", "/etc/passwd"));
        refused(&|builder| raw(builder, EntryType::Fifo, "fifo", ""));
        refused(&|builder| {
            raw(builder, EntryType::Symlink, "out", "../outside");
            raw(builder, EntryType::Regular, "out/x", "");
        });
    }
}
