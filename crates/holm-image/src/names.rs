//! The names of stored images: one JSON file that maps a complete reference to the manifest of an image.
//!
//! The file is replaced by a rename, and every change happens under a lock, so readers need none. An unknown
//! field or a value of another form is an error.

use crate::document::Descriptor;
use holm_core::image_reference::{ImageReference, ReferenceError};
use jiff::Timestamp;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// An image that has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredImage {
    pub reference: ImageReference,
    pub manifest: Descriptor,
    /// All blobs of the image, as they are compressed.
    pub bytes: u64,
    /// When the image got this name.
    pub stored_at: Timestamp,
}

#[derive(Debug, thiserror::Error)]
pub enum NamesError {
    #[error("cannot {action} {path}, the list of images")]
    Io {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("{0}, the list of images, is not valid")]
    Json(PathBuf, #[source] serde_json::Error),
    #[error("{0}, the list of images, has version {1}, and this holm knows version {VERSION}")]
    Version(PathBuf, u32),
    #[error("the list of images has a wrong name")]
    Reference(#[from] ReferenceError),
    #[error("the list of images has a wrong time for `{0}`")]
    Time(String, #[source] jiff::Error),
}

const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u32,
    images: BTreeMap<String, Entry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    manifest: Descriptor,
    bytes: u64,
    stored_at: String,
}

type Named = BTreeMap<ImageReference, StoredImage>;

pub fn read(path: &Path) -> Result<Named, NamesError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Named::new()),
        Err(error) => return Err(failed("read", path)(error)),
    };
    let stored: Stored =
        serde_json::from_slice(&bytes).map_err(|error| NamesError::Json(path.to_owned(), error))?;
    if stored.version != VERSION {
        return Err(NamesError::Version(path.to_owned(), stored.version));
    }
    let images = stored.images.into_iter().map(|(name, entry)| {
        let stored_at = entry.stored_at.parse();
        let image = StoredImage {
            reference: name.parse()?,
            manifest: entry.manifest,
            bytes: entry.bytes,
            stored_at: stored_at.map_err(|error| NamesError::Time(name, error))?,
        };
        Ok((image.reference.clone(), image))
    });
    images.collect()
}

/// Changes the list: `change` gets it as it is now, and its answer is returned after the list is on the disk.
pub fn update<T>(path: &Path, change: impl FnOnce(&mut Named) -> T) -> Result<T, NamesError> {
    let lock = path.with_extension("lock");
    let mut options = File::options();
    let opened = options.create(true).truncate(false).write(true).open(&lock);
    let held = opened.map_err(failed("open the lock of", path))?;
    let locked = flock(&held, FlockOperation::LockExclusive);
    locked.map_err(|errno| failed("lock", path)(errno.into()))?;
    let mut images = read(path)?;
    let answer = change(&mut images);
    write(path, &images).map_err(failed("write", path))?;
    Ok(answer)
}

fn write(path: &Path, images: &Named) -> io::Result<()> {
    let images = images.iter().map(|(reference, image)| {
        let entry = Entry {
            manifest: image.manifest.clone(),
            bytes: image.bytes,
            stored_at: image.stored_at.to_string(),
        };
        (reference.to_string(), entry)
    });
    let stored = Stored {
        version: VERSION,
        images: images.collect(),
    };
    // A name that only the holder of the lock uses.
    let new = path.with_extension("new");
    let mut file = File::create(&new)?;
    file.write_all(&serde_json::to_vec_pretty(&stored)?)?;
    file.sync_data()?;
    fs::rename(&new, path)?;
    match path.parent() {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> NamesError {
    let path = path.to_owned();
    move |source| NamesError::Io {
        action,
        path,
        source,
    }
}
