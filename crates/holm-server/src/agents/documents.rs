//! Reads files of known agents in the user's home, each up to a limit.

use holm_config::known_agents;
use holm_engine::MOST_CREDENTIAL;
use serde_json::Value as Json;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// A settings file; `None`: there is none.
pub fn document(home: &Path, file: &str) -> Result<Option<Json>, String> {
    let path = home.join(file);
    if !path.exists() {
        return Ok(None);
    }
    let text = text(&path)?;
    let parsed = known_agents::parse(file, &text);
    parsed.map(Some).map_err(|error| error.to_string())
}

/// Settings files of agents grow with their history.
const MOST_DOCUMENT: u64 = 16 << 20;

/// The content of a file of the user that is brought as it is.
pub fn read(path: &Path) -> Result<Vec<u8>, String> {
    read_at_most(path, MOST_CREDENTIAL)
}

/// The same for a file of which only listed keys are brought.
pub fn read_document(path: &Path) -> Result<Vec<u8>, String> {
    read_at_most(path, MOST_DOCUMENT)
}

fn read_at_most(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    let mut options = std::fs::OpenOptions::new();
    // A pipe in its place must not block.
    let options = options
        .read(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    let file = options.open(path).map_err(|error| error.to_string())?;
    let metadata = file.metadata().map_err(|error| error.to_string())?;
    if !metadata.is_file() || metadata.len() > most {
        return Err(format!("it is not a file of at most {most} bytes"));
    }
    let mut content = Vec::new();
    file.take(most)
        .read_to_end(&mut content)
        .map_err(|error| error.to_string())?;
    Ok(content)
}

/// Reads a whole file as text, for callers that replace the file.
pub fn text(path: &Path) -> Result<String, String> {
    let bytes = read_document(path)?;
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_brought_as_it_is_has_the_lower_limit_whatever_its_name() {
        let place = tempfile::tempdir().unwrap();
        let most = usize::try_from(MOST_CREDENTIAL).unwrap();
        for name in ["auth.json", "auth"] {
            let path = place.path().join(name);
            std::fs::write(&path, vec![b' '; most]).unwrap();
            assert_eq!(read(&path).unwrap().len(), most);
            std::fs::write(&path, vec![b' '; most + 1]).unwrap();
            assert!(read(&path).is_err(), "{name}");
            assert_eq!(read_document(&path).unwrap().len(), most + 1);
        }
    }
}
