//! A copy of our own binary below the data directory. Keepers run it and workspaces see it, so
//! replacing the installed program does not affect running workspaces.

use crate::Layout;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Creates the copy if it is missing; its name depends on the program.
pub fn keep_copy(layout: &Layout) -> io::Result<PathBuf> {
    let source = fs::File::open("/proc/self/exe")?;
    let metadata = source.metadata()?;
    let version = format!(
        "{:x}-{:x}-{:x}",
        metadata.ino(),
        metadata.size(),
        metadata.mtime_nsec()
    );
    let directory = layout.data_dir.join("program").join(version);
    let copy = directory.join("holm");
    if copy.exists() {
        return Ok(copy);
    }
    fs::create_dir_all(&directory)?;
    let fresh = directory.join(format!("new-{}", std::process::id()));
    if !link(&fresh, metadata.ino()) {
        io::copy(&mut &source, &mut fs::File::create(&fresh)?)?;
        fs::set_permissions(&fresh, fs::Permissions::from_mode(0o755))?;
    }
    fs::rename(&fresh, &copy)?;
    Ok(copy)
}

/// A hard link is free, but only the owner of a program may create one, and the program at our path
/// may already be newer.
fn link(fresh: &Path, inode: u64) -> bool {
    let linked = std::env::current_exe()
        .and_then(|path| fs::hard_link(path, fresh))
        .is_ok();
    let same = fs::metadata(fresh).is_ok_and(|metadata| metadata.ino() == inode);
    if linked && !same {
        // The copy that follows writes a new file, never through the link.
        let _ = fs::remove_file(fresh);
    }
    linked && same
}
