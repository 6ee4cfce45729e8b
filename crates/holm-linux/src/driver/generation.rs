//! The generation of a workspace's files: a file names it once they are complete.

use super::disk_fault;
use holm_core::spec::WorkspaceSpec;
use holm_core::{Code, Fault};
use holm_keeper::directories::WorkspaceDirs;
use std::fs;
use std::io;

/// The generation of existing files. Files of another generation are replaced, so an unreadable
/// value is an error and never a default.
pub fn generation(dirs: &WorkspaceDirs) -> Result<Option<u64>, Fault> {
    let path = dirs.complete();
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(disk_fault(error, format!("cannot read {}", path.display())));
        }
    };
    match text.trim() {
        "" => Ok(Some(0)),
        number => number.parse().map(Some).map_err(|_| {
            let (path, shown) = (path.display(), number.escape_debug());
            let message = format!("{path} says `{shown}`, which is not a generation of the files");
            let hint = "write the number there that the store has, or use the holm that wrote it; \
                        the files are left alone";
            Fault::new(Code::CorruptState, message, hint)
        }),
    }
}

/// Marks the files as those of the spec's generation.
pub fn complete(dirs: &WorkspaceDirs, spec: &WorkspaceSpec) -> Result<(), Fault> {
    let fresh = dirs.complete().with_extension("new");
    let written = fs::write(&fresh, spec.generation.to_string())
        .and_then(|()| fs::rename(&fresh, dirs.complete()));
    written.map_err(|error| disk_fault(error, format!("cannot make the files of {}", spec.id)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Layout;
    use holm_core::WorkspaceId;

    /// Files of another generation are moved away, so the value must never be guessed.
    #[test]
    fn a_generation_that_is_not_understood_is_an_error() {
        let place = tempfile::tempdir().unwrap();
        let layout = Layout {
            data_dir: place.path().to_owned(),
            run_dir: place.path().to_owned(),
        };
        let dirs = layout.workspace(&WorkspaceId::random());
        fs::create_dir_all(&dirs.dir).unwrap();
        assert_eq!(generation(&dirs).unwrap(), None);
        for (text, expect) in [("", 0), ("0", 0), ("7\n", 7)] {
            fs::write(dirs.complete(), text).unwrap();
            assert_eq!(generation(&dirs).unwrap(), Some(expect));
        }
        for text in ["seven", "-1", "7 8"] {
            fs::write(dirs.complete(), text).unwrap();
            let fault = generation(&dirs).unwrap_err();
            assert_eq!(fault.code, Code::CorruptState, "{text}");
            assert!(fault.message().contains(text), "{fault}");
        }
        fs::remove_file(dirs.complete()).unwrap();
        fs::create_dir(dirs.complete()).unwrap();
        assert!(generation(&dirs).is_err());
    }
}
