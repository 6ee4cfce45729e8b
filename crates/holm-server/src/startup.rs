//! What a daemon needs before it serves: its directories, its exclusive lock, and its log.

use holm_core::{Code, Fault};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// The exclusive lock of a data directory. The kernel releases it when the process ends.
pub struct DataLock {
    _file: File,
}

/// A larger log is rotated when a daemon starts.
const LARGEST_LOG: u64 = 10 << 20;

/// Creates a directory that only this user can enter, or checks an existing one.
pub fn private_dir(path: &Path) -> Result<(), Fault> {
    let made = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path);
    let checked = made.and_then(|()| std::fs::metadata(path));
    let metadata = checked.map_err(|error| unusable("create", path, error))?;
    let own_uid = rustix::process::geteuid().as_raw();
    if metadata.uid() != own_uid {
        return Err(Fault::new(
            Code::Refused,
            format!(
                "{} belongs to the user {} and not to the daemon's ({own_uid})",
                path.display(),
                metadata.uid()
            ),
            "use a directory of your own: HOLM_HOME=<dir>",
        ));
    }
    if metadata.mode() & 0o077 != 0 {
        let private = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(path, private)
            .map_err(|error| unusable("make private the directory", path, error))?;
    }
    Ok(())
}

// === impl DataLock ===

impl DataLock {
    /// Takes the lock.
    pub fn acquire(path: &Path) -> Result<Self, Fault> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
            .map_err(|error| unusable("open", path, error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => return Err(another(path, &mut file)),
            Err(std::fs::TryLockError::Error(error)) => {
                return Err(unusable("lock", path, error));
            }
        }
        let pid = std::process::id();
        // The pid is for people and for the error of a second daemon; the lock is what counts.
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{pid}"))
            .map_err(|error| unusable("write", path, error))?;
        Ok(Self { _file: file })
    }
}

/// Opens the log for appending; a long one becomes `<name>.old`.
pub fn open_log(path: &Path) -> Result<File, Fault> {
    let is_long = std::fs::metadata(path).is_ok_and(|metadata| metadata.len() > LARGEST_LOG);
    if is_long {
        std::fs::rename(path, path.with_extension("log.old"))
            .map_err(|error| unusable("put aside", path, error))?;
    }
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
        .map_err(|error| unusable("open", path, error))
}

/// The fault for a file of the daemon that cannot be used.
pub fn unusable(what: &str, path: &Path, error: io::Error) -> Fault {
    let (code, hint) = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => (
            Code::DiskFull,
            "free some space on that disk, then try again",
        ),
        io::ErrorKind::PermissionDenied
        | io::ErrorKind::ReadOnlyFilesystem
        | io::ErrorKind::NotADirectory => (
            Code::ReadOnly,
            "make it writable, or use another directory with HOLM_HOME=<dir>",
        ),
        _ => (
            Code::Internal,
            "check the directory, or use another one with HOLM_HOME=<dir>",
        ),
    };
    Fault::new(code, format!("cannot {what} {}", path.display()), hint).because(error)
}

fn another(path: &Path, file: &mut File) -> Fault {
    let mut pid = String::new();
    // The other daemon may be about to write its pid; the error is right without it.
    let holder = match file.read_to_string(&mut pid) {
        Ok(_) if !pid.trim().is_empty() => format!(" (pid {})", pid.trim()),
        _ => String::new(),
    };
    let directory = path.parent().unwrap_or(path);
    Fault::new(
        Code::AnotherDaemon,
        format!("another daemon{holder} owns {}", directory.display()),
        "`holm daemon stop` ends it; HOLM_HOME=<dir> gives a second one its own directory",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_daemon() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let first = DataLock::acquire(&path).unwrap();
        let Err(second) = DataLock::acquire(&path) else {
            panic!("two daemons have one directory");
        };
        assert_eq!(second.code, Code::AnotherDaemon);
        let pid = format!("(pid {})", std::process::id());
        assert!(second.message().contains(&pid), "{}", second.message());
        drop(first);
        assert!(DataLock::acquire(&path).is_ok());
    }

    #[test]
    fn directories_are_private_and_a_file_in_the_way_is_said() {
        let directory = tempfile::tempdir().unwrap();
        let open = directory.path().join("a/b");
        std::fs::create_dir_all(&open).unwrap();
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o755)).unwrap();
        private_dir(&open).unwrap();
        assert_eq!(std::fs::metadata(&open).unwrap().mode() & 0o777, 0o700);
        let file = directory.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert_eq!(
            private_dir(&file.join("x")).unwrap_err().code,
            Code::ReadOnly
        );
    }

    #[test]
    fn a_long_log_is_put_aside_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("daemon.log");
        let file = open_log(&path).unwrap();
        file.set_len(LARGEST_LOG + 1).unwrap();
        writeln!(open_log(&path).unwrap(), "new").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new\n");
        let old = std::fs::metadata(directory.path().join("daemon.log.old")).unwrap();
        assert_eq!(old.len(), LARGEST_LOG + 1);
    }
}
