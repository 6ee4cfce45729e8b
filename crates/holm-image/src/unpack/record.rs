//! The side file `layer.json` of an unpacked layer.

use super::Unpacked;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerRecord {
    pub files: u64,
    pub bytes: u64,
    /// Whether the layer hides all layers below it.
    pub hides_everything: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("cannot read {0} of an unpacked layer")]
    Read(PathBuf, #[source] io::Error),
    #[error("{0} of an unpacked layer is not valid")]
    Json(PathBuf, #[source] serde_json::Error),
}

const NAME: &str = "layer.json";

// === impl LayerRecord ===

impl LayerRecord {
    /// `None` if no layer was unpacked to `place`.
    pub fn read(place: &Path) -> Result<Option<Self>, RecordError> {
        let path = place.join(NAME);
        match fs::read(&path) {
            Ok(bytes) => match serde_json::from_slice(&bytes) {
                Ok(record) => Ok(Some(record)),
                Err(error) => Err(RecordError::Json(path, error)),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(RecordError::Read(path, error)),
        }
    }
}

impl From<&Unpacked> for LayerRecord {
    fn from(unpacked: &Unpacked) -> Self {
        Self {
            files: unpacked.files,
            bytes: unpacked.bytes,
            hides_everything: unpacked.hides_everything,
        }
    }
}

pub fn write(place: &Path, unpacked: &Unpacked) -> io::Result<()> {
    let record = LayerRecord::from(unpacked);
    fs::write(place.join(NAME), serde_json::to_vec(&record)?)
}
