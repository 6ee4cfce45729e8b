//! Unpacked layers in a directory, each named by the digest of its content, shared by all images.
//!
//! ```text
//! <64 digits>/{tree, owners, layer.json}   complete, never changed
//! <64 digits>.new-<number>                 being unpacked, or left by a process that died
//! <64 digits>.old                          being removed
//! <64 digits>.lock                         held by the process that unpacks the layer
//! ```

use crate::bounded::ArchiveLimits;
use crate::unpack::{LayerRecord, PackedLayer, RecordError, UnpackError, unpack};
use holm_core::image_reference::ImageDigest;
use holm_keeper::files::remove::{remove_counted, remove_tree};
use rustix::fs::{FlockOperation, flock};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

#[derive(Clone, Debug)]
pub struct Layers {
    root: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum LayersError {
    #[error("cannot {action} {path} of the unpacked layers")]
    Io {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("an unpacked layer cannot be used")]
    Record(#[from] RecordError),
    #[error("layer {digest} cannot be unpacked")]
    Unpack {
        digest: ImageDigest,
        source: Box<UnpackError>,
    },
}

// === impl Layers ===

impl Layers {
    pub fn open(root: PathBuf) -> Result<Self, LayersError> {
        fs::create_dir_all(&root).map_err(failed("create", &root))?;
        Ok(Self { root })
    }

    /// The directory with the files of a layer, and its record. `None` if the layer is not unpacked.
    pub fn get(&self, digest: &ImageDigest) -> Result<Option<(PathBuf, LayerRecord)>, LayersError> {
        let place = self.root.join(digest.hex());
        let record = LayerRecord::read(&place)?;
        Ok(record.map(|record| (place.join("tree"), record)))
    }

    /// Unpacks a layer, unless it is there. A second process waits for the first.
    pub fn add<R: Read>(
        &self,
        layer: PackedLayer<R>,
        limits: ArchiveLimits,
    ) -> Result<LayerRecord, LayersError> {
        let digest = layer.digest.clone();
        let path = self.root.join(format!("{}.lock", digest.hex()));
        let mut options = File::options();
        let opened = options.create(true).truncate(false).write(true).open(&path);
        let lock = opened.map_err(failed("open", &path))?;
        let locked = flock(&lock, FlockOperation::LockExclusive);
        locked.map_err(|errno| failed("lock", &path)(errno.into()))?;
        if let Some((_, record)) = self.get(&digest)? {
            return Ok(record);
        }
        self.remove_left_behind(&digest)?;
        let place = self.root.join(digest.hex());
        let unpacked = unpack(layer, &place, limits);
        let unpacked = unpacked.map_err(|error| LayersError::Unpack {
            digest,
            source: Box::new(error),
        })?;
        Ok(LayerRecord::from(&unpacked))
    }

    /// Removes every layer that is not in `keep`, and everything that dead processes left. Returns the number of
    /// layers and the freed bytes. The caller keeps all unpackers out.
    pub fn remove_others(&self, keep: &BTreeSet<ImageDigest>) -> Result<(usize, u64), LayersError> {
        let keep: BTreeSet<&str> = keep.iter().map(ImageDigest::hex).collect();
        let (mut layers, mut bytes) = (0, 0);
        for name in self.names()? {
            if keep.contains(name.as_str()) {
                continue;
            }
            let mut path = self.root.join(&name);
            if !name.contains('.') {
                // Half of a layer must not have the name of a whole one.
                let old = path.with_extension("old");
                // A sweep that died may have left one.
                let left = remove_counted(&old, &mut |freed| bytes += freed);
                left.map_err(failed("remove", &old))?;
                fs::rename(&path, &old).map_err(failed("set aside", &path))?;
                path = old;
                layers += 1;
            }
            let removed = remove_counted(&path, &mut |freed| bytes += freed);
            removed.map_err(failed("remove", &path))?;
        }
        Ok((layers, bytes))
    }

    /// Removes what an unpacker of this layer left that died. The caller holds the layer's lock.
    fn remove_left_behind(&self, digest: &ImageDigest) -> Result<(), LayersError> {
        let prefix = format!("{}.new-", digest.hex());
        for name in self.names()? {
            if name.starts_with(&prefix) {
                let path = self.root.join(name);
                remove_tree(&path).map_err(failed("remove", &path))?;
            }
        }
        Ok(())
    }

    fn names(&self) -> Result<Vec<String>, LayersError> {
        let listed = fs::read_dir(&self.root).map_err(failed("list", &self.root))?;
        let names = listed.map(|entry| {
            let entry = entry.map_err(failed("list", &self.root))?;
            Ok(entry.file_name().to_string_lossy().into_owned())
        });
        names.collect()
    }
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LayersError {
    let path = path.to_owned();
    move |source| LayersError::Io {
        action,
        path,
        source,
    }
}
