//! The names and labels of what the driver makes on an engine. They have the name of the installation, so that two
//! installations do not touch each other's, and the id of the workspace.

use rustix::rand::{GetRandomFlags, getrandom};
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;

pub const INSTALLATION: &str = "holm.installation";
pub const WORKSPACE: &str = "holm.workspace";
/// On the store: which program it runs.
pub const PROGRAM: &str = "holm.program";

/// The file with the name of the installation. It exists from the first use of an engine on.
const FILE: &str = "containers/installation";

/// The name of an installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation(String);

// === impl Installation ===

impl Installation {
    /// `None`: no engine was ever used.
    pub fn known(data_dir: &Path) -> io::Result<Option<Self>> {
        match fs::read_to_string(data_dir.join(FILE)) {
            Ok(text) if is_name(text.trim()) => Ok(Some(Self(text.trim().to_owned()))),
            Ok(_) => Err(io::ErrorKind::InvalidData.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub fn known_or_new(data_dir: &Path) -> io::Result<Self> {
        if let Some(known) = Self::known(data_dir)? {
            return Ok(known);
        }
        let name = random()?;
        let file = data_dir.join(FILE);
        if let Some(parent) = file.parent() {
            fs::create_dir_all(parent)?;
        }
        let fresh = file.with_extension("new");
        fs::write(&fresh, &name)?;
        fs::rename(fresh, file)?;
        Ok(Self(name))
    }

    pub fn volume(&self) -> String {
        format!("holm-{}", self.0)
    }

    pub fn store(&self) -> String {
        format!("holm-{}-store", self.0)
    }

    pub fn workspace(&self, id: &str) -> String {
        format!("holm-{}-{id}", self.0)
    }

    pub fn keeper(&self, id: &str) -> String {
        format!("holm-{}-{id}-keeper", self.0)
    }

    /// One of a workspace's volumes, which last as long as its containers.
    pub fn mount(&self, id: &str, start: &str, number: usize) -> String {
        format!("holm-{}-{id}-{start}-{number}", self.0)
    }

    pub fn labels(&self) -> HashMap<String, String> {
        HashMap::from([(INSTALLATION.to_owned(), self.0.clone())])
    }

    pub fn labels_of(&self, id: &str) -> HashMap<String, String> {
        let mut labels = self.labels();
        labels.insert(WORKSPACE.to_owned(), id.to_owned());
        labels
    }

    /// A filter for what belongs to a workspace.
    pub fn filter(&self, id: &str) -> HashMap<String, Vec<String>> {
        let label = |name: &str, value: &str| format!("{name}={value}");
        let labels = vec![label(INSTALLATION, &self.0), label(WORKSPACE, id)];
        HashMap::from([("label".to_owned(), labels)])
    }
}

/// Twelve random letters and digits.
pub fn random() -> io::Result<String> {
    let mut bytes = [0; 6];
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installation_keeps_its_name() {
        let place = tempfile::tempdir().unwrap();
        assert_eq!(Installation::known(place.path()).unwrap(), None);
        let first = Installation::known_or_new(place.path()).unwrap();
        assert_eq!(Installation::known_or_new(place.path()).unwrap(), first);
        let other = tempfile::tempdir().unwrap();
        assert_ne!(Installation::known_or_new(other.path()).unwrap(), first);
        fs::write(place.path().join(FILE), "../x").unwrap();
        assert!(Installation::known(place.path()).is_err());
    }
}
