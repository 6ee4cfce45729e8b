//! Services that must be built before they are started, stored beyond the life of a keeper.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::PathBuf;

/// Names of services with an outdated build, in a file beside the workspace.
pub struct Unbuilt {
    file: PathBuf,
    pub names: BTreeSet<String>,
}

// === impl Unbuilt ===

impl Unbuilt {
    /// An unreadable list is an error: a service would start on an old build.
    pub fn read(file: PathBuf) -> io::Result<Self> {
        let names = match std::fs::read(&file) {
            Ok(text) => serde_json::from_slice(&text).map_err(|error| {
                io::Error::other(format!("{} is not understood: {error}", file.display()))
            })?,
            // Usually none was ever written.
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeSet::new(),
            Err(error) => return Err(error),
        };
        Ok(Self { file, names })
    }

    pub fn note(&mut self, names: BTreeSet<String>) -> io::Result<()> {
        if names == self.names {
            return Ok(());
        }
        let fresh = self.file.with_extension("json.new");
        let mut file = std::fs::File::create(&fresh)?;
        file.write_all(&serde_json::to_vec(&names)?)?;
        // After a power failure the file has the earlier list or this one, never a part.
        file.sync_all()?;
        std::fs::rename(fresh, &self.file)?;
        self.names = names;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_is_not_understood_is_an_error_that_names_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("unbuilt.json");
        let mut unbuilt = Unbuilt::read(file.clone()).unwrap();
        assert!(unbuilt.names.is_empty());
        let names = BTreeSet::from(["web".to_owned()]);
        unbuilt.note(names.clone()).unwrap();
        assert_eq!(Unbuilt::read(file.clone()).unwrap().names, names);
        for text in ["", "{\"web\":1}", "[7]"] {
            std::fs::write(&file, text).unwrap();
            let Err(error) = Unbuilt::read(file.clone()) else {
                panic!("`{text}` was read");
            };
            assert!(error.to_string().contains("unbuilt.json"), "{error}");
        }
    }
}
