//! Which services have to be built before they are started, remembered beyond the life of a keeper.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;

/// Names of services whose build is older than their files, as a file beside the workspace.
pub struct Unbuilt {
    file: PathBuf,
    pub names: BTreeSet<String>,
}

// === impl Unbuilt ===

impl Unbuilt {
    pub fn read(file: PathBuf) -> Self {
        // None was ever written, mostly.
        let text = std::fs::read(&file).unwrap_or_default();
        Self {
            names: serde_json::from_slice(&text).unwrap_or_default(),
            file,
        }
    }

    pub fn note(&mut self, names: BTreeSet<String>) -> io::Result<()> {
        if names == self.names {
            return Ok(());
        }
        let fresh = self.file.with_extension("json.new");
        std::fs::write(&fresh, serde_json::to_vec(&names)?)?;
        std::fs::rename(fresh, &self.file)?;
        self.names = names;
        Ok(())
    }
}
