//! Writes one blob: hashes while it writes, and gives the blob its name only if digest and size are right.
//!
//! Several processes and tasks may write the same blob. One of them holds a lock on the partial file, the
//! others write files of their own; each renames a complete, verified file to the same name.

use crate::document::Descriptor;
use crate::media::MediaType;
use holm_core::image_reference::ImageDigest;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Dropped before it is finished, a writer of a known blob leaves its bytes for the next writer.
#[derive(Debug)]
pub struct BlobWriter {
    root: PathBuf,
    file: File,
    partial: PathBuf,
    hash: Sha256,
    written: u64,
    expected: Option<Descriptor>,
    /// Whether the partial file is of use to another writer.
    is_kept: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    #[error("cannot create a file for blob {0}")]
    Create(String, #[source] io::Error),
    #[error("cannot write a blob")]
    Write(#[source] io::Error),
    #[error("blob {digest} is longer than its stated {size} bytes")]
    Long { digest: ImageDigest, size: u64 },
    #[error("blob {digest} ended after {written} of its stated {size} bytes")]
    Short {
        digest: ImageDigest,
        written: u64,
        size: u64,
    },
    #[error("blob {stated} has other content: its digest is {real}")]
    Digest {
        stated: ImageDigest,
        real: ImageDigest,
    },
}

// === impl BlobWriter ===

impl BlobWriter {
    /// A writer that continues an earlier one of the same blob.
    pub(crate) fn resume(root: &Path, descriptor: &Descriptor) -> Result<Self, BlobError> {
        let hex = descriptor.digest.hex();
        let create = |source| BlobError::Create(hex.to_owned(), source);
        let shared = root.join("partial").join(hex);
        let (file, partial, is_kept) = match lock_partial(&shared).map_err(create)? {
            Some(file) => (file, shared, true),
            None => {
                let (file, path) = own_file(root).map_err(create)?;
                (file, path, false)
            }
        };
        let mut writer = Self {
            root: root.to_owned(),
            file,
            partial,
            hash: Sha256::new(),
            written: 0,
            expected: Some(descriptor.clone()),
            is_kept,
        };
        writer.read_back()?;
        Ok(writer)
    }

    /// A writer for content with a digest that is not known before.
    pub(crate) fn fresh(root: &Path) -> Result<Self, BlobError> {
        let created = own_file(root);
        let (file, partial) =
            created.map_err(|error| BlobError::Create("of unknown digest".to_owned(), error))?;
        Ok(Self {
            root: root.to_owned(),
            file,
            partial,
            hash: Sha256::new(),
            written: 0,
            expected: None,
            is_kept: false,
        })
    }

    /// How many bytes of the blob are there.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Forgets what is there, for a source that cannot continue.
    pub fn restart(&mut self) -> Result<(), BlobError> {
        self.file.set_len(0).map_err(BlobError::Write)?;
        self.file.rewind().map_err(BlobError::Write)?;
        self.hash = Sha256::new();
        self.written = 0;
        Ok(())
    }

    /// Adds bytes; more than the stated size is an error.
    pub fn add(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        if let Some(Descriptor { digest, size, .. }) = &self.expected
            && self.written + bytes.len() as u64 > *size
        {
            self.is_kept = false;
            let (digest, size) = (digest.clone(), *size);
            return Err(BlobError::Long { digest, size });
        }
        self.file.write_all(bytes).map_err(BlobError::Write)?;
        self.hash.update(bytes);
        self.written += bytes.len() as u64;
        Ok(())
    }

    /// Verifies a known blob and gives it its name.
    pub fn finish(self) -> Result<(), BlobError> {
        let media_type = self.expected.as_ref().map(|it| it.media_type.clone());
        let media_type = media_type.unwrap_or_else(|| MediaType::new(""));
        self.finish_as(media_type).map(drop)
    }

    /// Gives the blob its name, after its digest and size were compared with the stated ones if there are any.
    pub fn finish_as(mut self, media_type: MediaType) -> Result<Descriptor, BlobError> {
        let real = ImageDigest::from_bytes(self.hash.clone().finalize().into());
        if let Some(Descriptor { digest, size, .. }) = self.expected.clone() {
            if self.written < size {
                let written = self.written;
                return Err(BlobError::Short {
                    digest,
                    written,
                    size,
                });
            }
            if real != digest {
                self.is_kept = false;
                let stated = digest;
                return Err(BlobError::Digest { stated, real });
            }
        }
        self.file.sync_data().map_err(BlobError::Write)?;
        let name = self.root.join("blobs").join(real.hex());
        fs::rename(&self.partial, name).map_err(BlobError::Write)?;
        self.is_kept = true;
        Ok(Descriptor {
            media_type,
            digest: real,
            size: self.written,
        })
    }

    /// Hashes what an earlier writer left. More than the stated size cannot be a beginning of the blob.
    fn read_back(&mut self) -> Result<(), BlobError> {
        let mut buffer = vec![0; 1 << 16];
        loop {
            let length = self.file.read(&mut buffer).map_err(BlobError::Write)?;
            if length == 0 {
                break;
            }
            self.hash.update(&buffer[..length]);
            self.written += length as u64;
        }
        if self
            .expected
            .as_ref()
            .is_some_and(|it| self.written > it.size)
        {
            self.restart()?;
        }
        Ok(())
    }
}

impl Write for BlobWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.add(bytes).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for BlobWriter {
    fn drop(&mut self) {
        if !self.is_kept {
            // A file that stays behind costs room only; `sweep` removes it.
            let _ = fs::remove_file(&self.partial);
        }
    }
}

/// Opens and locks the shared partial file. `None` if another writer holds it.
fn lock_partial(path: &Path) -> io::Result<Option<File>> {
    loop {
        let mut options = File::options();
        options.create(true).truncate(false).read(true).write(true);
        let file = options.open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        }
        // The writer before may have renamed this file between the open and the lock: then it is a blob by now.
        let own = file.metadata()?;
        match fs::symlink_metadata(path) {
            Ok(named) if (named.dev(), named.ino()) == (own.dev(), own.ino()) => {
                return Ok(Some(file));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
}

fn own_file(root: &Path) -> io::Result<(File, PathBuf)> {
    let number = getrandom::u64().map_err(io::Error::other)?;
    let path = root.join("partial").join(format!("own-{number:016x}"));
    let file = File::options()
        .create_new(true)
        .read(true)
        .write(true)
        .open(&path)?;
    Ok((file, path))
}
