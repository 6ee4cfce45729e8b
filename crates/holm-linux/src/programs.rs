//! Copies of our own programs below the data directory. Keepers run them and workspaces see them, so
//! replacing the installed program does not affect running workspaces.

use crate::Layout;
use flate2::bufread::GzDecoder;
use holm_keeper::guest::{PROGRAM, ROLES};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The program of this process, also when an upgrade has removed it.
pub const OWN_PROGRAM: &str = "/proc/self/exe";

/// How a compressed file begins.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The programs of one version of holm on the host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Programs {
    /// The whole program, which programs inside can call.
    pub holm: PathBuf,
    /// The small program that plays the roles, in the same directory. `None`: `holm` was built without it and plays
    /// them itself.
    small: Option<PathBuf>,
}

// === impl Programs ===

impl Programs {
    /// The program of this process, which plays every role.
    pub fn own() -> io::Result<Self> {
        Ok(Self {
            holm: std::env::current_exe()?,
            small: None,
        })
    }

    /// Creates the copies if they are missing; the name of their directory depends on the program. `embedded` is the
    /// small program, in a release compressed, or empty.
    pub fn keep_copies(layout: &Layout, embedded: &[u8]) -> io::Result<Self> {
        let source = fs::File::open("/proc/self/exe")?;
        let metadata = source.metadata()?;
        let version = format!(
            "{:x}-{:x}-{:x}",
            metadata.ino(),
            metadata.size(),
            metadata.mtime_nsec()
        );
        let directory = layout.data_dir.join("program").join(version);
        let kept = Self {
            holm: directory.join("holm"),
            small: (!embedded.is_empty()).then(|| directory.join("holm-roles")),
        };
        // It is created last.
        if kept.holm.exists() {
            return Ok(kept);
        }
        fs::create_dir_all(&directory)?;
        let fresh = directory.join(format!("new-{}", std::process::id()));
        if let Some(small) = &kept.small {
            if embedded.starts_with(&GZIP) {
                write(&fresh, GzDecoder::new(embedded))?;
            } else {
                write(&fresh, embedded)?;
            }
            fs::rename(&fresh, small)?;
        }
        if !link(&fresh, metadata.ino()) {
            write(&fresh, &source)?;
        }
        fs::rename(&fresh, &kept.holm)?;
        Ok(kept)
    }

    /// The program that plays the roles on the host.
    pub fn roles(&self) -> &Path {
        self.small.as_deref().unwrap_or(&self.holm)
    }

    /// The same program, as it is found inside.
    pub fn roles_inside(&self) -> PathBuf {
        match self.small {
            Some(_) => ROLES.into(),
            None => PROGRAM.into(),
        }
    }

    /// What is shown inside, and where: the directory with both programs, or only `holm`.
    pub fn shown(&self) -> (&Path, &Path) {
        let whole = (self.holm.as_path(), Path::new(PROGRAM));
        let both = self.small.as_ref().and_then(|small| small.parent());
        match both.zip(Path::new(PROGRAM).parent()) {
            Some(directories) => directories,
            None => whole,
        }
    }
}

/// Writes a program. A full disk must not stay full because of a part of it.
fn write(path: &Path, mut program: impl io::Read) -> io::Result<()> {
    let written = fs::File::create(path).and_then(|mut file| {
        io::copy(&mut program, &mut file)?;
        file.set_permissions(fs::Permissions::from_mode(0o755))
    });
    if written.is_err() {
        // The first error is what the user has to know.
        let _ = fs::remove_file(path);
    }
    written
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
