//! The content store: blobs in a directory, named by their sha256 digest.
//!
//! ```text
//! blobs/<64 digits>     complete and verified, never changed
//! partial/<64 digits>   the beginning of a blob, which the next writer continues
//! lock                  shared by writers, exclusive for `sweep`
//! ```
//!
//! A blob gets its name by a rename after its digest and size were verified, so a name below `blobs`
//! is a promise. [`Writing`] keeps `sweep` out: a caller holds it from before the first blob until the
//! image's manifest is on the list that the next `sweep` keeps.

use crate::blob::{BlobError, BlobWriter};
use crate::document::Descriptor;
use crate::media::{Compression, MediaType};
use holm_core::image_reference::ImageDigest;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

#[derive(Clone, Debug)]
pub struct ContentStore {
    root: PathBuf,
}

/// The right to add blobs. While one exists, `sweep` removes nothing.
#[derive(Debug)]
pub struct Writing {
    store: ContentStore,
    _lock: File,
}

/// What [`ContentStore::remove_others`] removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    pub blobs: usize,
    pub bytes: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("cannot {action} {path} of the image store")]
    Io {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("blob {0} is not in the image store")]
    Absent(ImageDigest),
    #[error("blob {digest} has {present} bytes in the image store instead of {stated}")]
    Size {
        digest: ImageDigest,
        present: u64,
        stated: u64,
    },
    #[error("blob {0} is larger than a document may be")]
    Large(ImageDigest),
    #[error("blob {0} changed in the image store")]
    Changed(ImageDigest),
    #[error("the image store is in use by a pull, an import or the creation of a workspace")]
    Busy,
}

// === impl ContentStore ===

impl ContentStore {
    /// Opens the store in `root`, which is created if it is absent.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        for name in ["blobs", "partial"] {
            let path = root.join(name);
            fs::create_dir_all(&path).map_err(failed("create", &path))?;
        }
        Ok(Self {
            root: root.to_owned(),
        })
    }

    /// Waits while a `sweep` runs.
    pub fn begin(&self) -> Result<Writing, StoreError> {
        let lock = self.lock_file()?;
        let locked = flock(&lock, FlockOperation::LockShared);
        locked.map_err(|errno| failed("lock", &self.root)(errno.into()))?;
        Ok(Writing {
            store: self.clone(),
            _lock: lock,
        })
    }

    /// Whether the blob is there with its stated size. A file that cannot be opened is an error, not an absent blob.
    pub fn has(&self, descriptor: &Descriptor) -> Result<bool, StoreError> {
        match self.open_blob(descriptor) {
            Ok(_) => Ok(true),
            Err(StoreError::Absent(_) | StoreError::Size { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Opens a blob. Its size is checked here; its digest was verified when it was written.
    pub fn open_blob(&self, descriptor: &Descriptor) -> Result<File, StoreError> {
        let file = self.file(&descriptor.digest)?;
        let path = self.blob(&descriptor.digest);
        let present = file.metadata().map_err(failed("look at", &path))?.len();
        if present != descriptor.size {
            return Err(StoreError::Size {
                digest: descriptor.digest.clone(),
                present,
                stated: descriptor.size,
            });
        }
        Ok(file)
    }

    /// Names a blob of the store as a layer, with the compression that its first bytes show.
    pub(crate) fn describe(&self, digest: &ImageDigest) -> Result<Descriptor, StoreError> {
        let path = self.blob(digest);
        let file = self.file(digest)?;
        let size = file.metadata().map_err(failed("look at", &path))?.len();
        let mut first = Vec::new();
        let read = file.take(4).read_to_end(&mut first);
        read.map_err(failed("read", &path))?;
        Ok(Descriptor {
            media_type: MediaType::oci_layer(Compression::of(&first)),
            digest: digest.clone(),
            size,
        })
    }

    /// Reads a document of at most `most` bytes and verifies its digest again.
    pub fn read(&self, digest: &ImageDigest, most: u64) -> Result<Vec<u8>, StoreError> {
        let mut bytes = Vec::new();
        let read = self.file(digest)?.take(most + 1).read_to_end(&mut bytes);
        read.map_err(failed("read", &self.blob(digest)))?;
        if bytes.len() as u64 > most {
            return Err(StoreError::Large(digest.clone()));
        }
        if digest_of(&bytes) != *digest {
            return Err(StoreError::Changed(digest.clone()));
        }
        Ok(bytes)
    }

    /// Keeps all writers out while the returned file is open. A writer at work is an error.
    pub(crate) fn alone(&self) -> Result<File, StoreError> {
        let lock = self.lock_file()?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(lock),
            Err(Errno::WOULDBLOCK) => Err(StoreError::Busy),
            Err(errno) => Err(failed("lock", &self.root)(errno.into())),
        }
    }

    /// Removes every blob whose digits are not in `reached`. The caller is [`Self::alone`].
    pub(crate) fn remove_others(&self, reached: &BTreeSet<String>) -> Result<Swept, StoreError> {
        let mut swept = Swept::default();
        for directory in ["blobs", "partial"] {
            let directory = self.root.join(directory);
            for entry in fs::read_dir(&directory).map_err(failed("list", &directory))? {
                let entry = entry.map_err(failed("list", &directory))?;
                let name = entry.file_name();
                let is_blob = directory.ends_with("blobs");
                if is_blob && name.to_str().is_some_and(|name| reached.contains(name)) {
                    continue;
                }
                let path = entry.path();
                swept.bytes += entry.metadata().map_err(failed("look at", &path))?.len();
                swept.blobs += usize::from(is_blob);
                fs::remove_file(&path).map_err(failed("remove", &path))?;
            }
        }
        Ok(swept)
    }

    fn lock_file(&self) -> Result<File, StoreError> {
        let path = self.root.join("lock");
        let mut options = File::options();
        let opened = options.create(true).truncate(false).write(true).open(&path);
        opened.map_err(failed("open", &path))
    }

    fn file(&self, digest: &ImageDigest) -> Result<File, StoreError> {
        let path = self.blob(digest);
        match File::open(&path) {
            Ok(file) => Ok(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(StoreError::Absent(digest.clone()))
            }
            Err(error) => Err(failed("open", &path)(error)),
        }
    }

    fn blob(&self, digest: &ImageDigest) -> PathBuf {
        self.root.join("blobs").join(digest.hex())
    }
}

// === impl Writing ===

impl Writing {
    pub fn store(&self) -> &ContentStore {
        &self.store
    }

    /// A writer for a blob whose digest and size are known. It continues an unfinished one.
    pub fn resume(&self, descriptor: &Descriptor) -> Result<BlobWriter, BlobError> {
        BlobWriter::resume(&self.store.root, descriptor)
    }

    /// Stores a document, and returns how to name it.
    pub fn put(&self, bytes: &[u8], media_type: MediaType) -> Result<Descriptor, BlobError> {
        let mut writer = BlobWriter::fresh(&self.store.root)?;
        writer.write_all(bytes).map_err(BlobError::Write)?;
        writer.finish_as(media_type)
    }

    /// A writer for a blob whose digest its content decides.
    pub fn fresh(&self) -> Result<BlobWriter, BlobError> {
        BlobWriter::fresh(&self.store.root)
    }
}

pub fn digest_of(bytes: &[u8]) -> ImageDigest {
    ImageDigest::from_bytes(Sha256::digest(bytes).into())
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.to_owned();
    move |source| StoreError::Io {
        action,
        path,
        source,
    }
}
