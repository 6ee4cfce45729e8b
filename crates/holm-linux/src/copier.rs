//! Copies files that a workspace wrote: upper layers, home and volumes, with everything that
//! overlayfs stores in them.
//!
//! It is a role of its own ([`run`]): directories that a program inside closed can be read only
//! with rights over them, which needs a user namespace, and only fresh processes may enter one.
//! Called by keepers while all processes inside are stopped, and by the driver where nothing runs.

use crate::mover::{Source, copy_entry};
use crate::open_files;
use holm_core::sub_ids::SubIds;
use holm_keeper::directories::open_directory;
use holm_keeper::wire::Pair;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The hidden first argument of a process that copies what workspaces wrote.
pub const ROLE: &str = "__copy";

/// Copies all of them in a separate process, with the owners that files of these ranges have. A failed copy leaves its partial result.
pub fn run(program: &Path, pairs: &[Pair], ids: Option<&SubIds>) -> io::Result<()> {
    let mut child = Command::new(program)
        .arg(ROLE)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(&serde_json::to_vec(&(pairs, ids))?)?;
    }
    let output = child.wait_with_output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let number: Option<i32> = said.lines().last().and_then(|line| line.parse().ok());
    match number {
        Some(errno) if errno > 0 => Err(io::Error::from_raw_os_error(errno)),
        _ => Err(io::Error::other(format!(
            "the copying process failed: {}",
            said.trim()
        ))),
    }
}

/// The role: reads the pairs from stdin; the last line on stderr is the errno.
pub fn main() -> ! {
    match copy() {
        Ok(()) => std::process::exit(0),
        Err(error) => {
            eprintln!("{error}\n{}", error.raw_os_error().unwrap_or(0));
            std::process::exit(1)
        }
    }
}

fn copy() -> io::Result<()> {
    let mut text = Vec::new();
    io::stdin().read_to_end(&mut text)?;
    let (pairs, ids): (Vec<Pair>, Option<SubIds>) = serde_json::from_slice(&text)?;
    // If this fails, the copy reports unreadable directories itself.
    crate::closed::enter_directories(ids.as_ref());
    // One directory is held open per level of the tree.
    open_files::raise();
    rustix::process::umask(rustix::fs::Mode::empty());
    for pair in &pairs {
        copy_one(pair)?;
    }
    Ok(())
}

fn copy_one(pair: &Pair) -> io::Result<()> {
    let split = |path: &Path| -> io::Result<(PathBuf, Vec<u8>)> {
        match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) => Ok((parent.to_owned(), name.as_bytes().to_vec())),
            _ => Err(io::Error::other("the path names no directory")),
        }
    };
    let ((from, name), (to, copy)) = (split(&pair.from)?, split(&pair.to)?);
    let (from, to) = (open_directory(&from)?, open_directory(&to)?);
    copy_entry(
        (from.as_fd(), &name),
        (to.as_fd(), &copy),
        Source::Layer,
        &mut || Ok(()),
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, XattrFlags, getxattr, mknodat, setxattr};
    use std::fs;
    use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};

    #[test]
    fn what_overlayfs_keeps_in_a_layer_comes_along() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::create_dir_all(at("upper/opaque")).unwrap();
        fs::write(at("upper/file"), "content").unwrap();
        fs::hard_link(at("upper/file"), at("upper/again")).unwrap();
        symlink("/nowhere", at("upper/link")).unwrap();
        let gone = at("upper/gone");
        mknodat(CWD, &gone, FileType::CharacterDevice, Mode::empty(), 0).unwrap();
        let opaque = "user.overlay.opaque";
        setxattr(at("upper/opaque"), opaque, b"y", XattrFlags::empty()).unwrap();
        let closed = fs::Permissions::from_mode(0o2711);
        fs::set_permissions(at("upper/opaque"), closed).unwrap();
        let pair = Pair {
            from: at("upper"),
            to: at("copy"),
        };
        copy_one(&pair).unwrap();
        assert_eq!(fs::read_to_string(at("copy/file")).unwrap(), "content");
        let inode = |name: &str| fs::symlink_metadata(at(name)).unwrap().ino();
        assert_eq!(inode("copy/file"), inode("copy/again"));
        assert_ne!(inode("copy/file"), inode("upper/file"));
        let target = fs::read_link(at("copy/link")).unwrap();
        assert_eq!(target, Path::new("/nowhere"));
        let whiteout = fs::symlink_metadata(at("copy/gone")).unwrap();
        assert!(whiteout.file_type().is_char_device() && whiteout.rdev() == 0);
        let mut value = [0_u8; 4];
        let length = getxattr(at("copy/opaque"), opaque, &mut value).unwrap();
        assert_eq!(&value[..length], b"y");
        let mode = fs::metadata(at("copy/opaque"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o7777, 0o2711);
        // A copy never replaces anything.
        let error = copy_one(&pair).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    }
}
