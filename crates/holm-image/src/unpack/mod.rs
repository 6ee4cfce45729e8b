//! Unpacks a layer into a directory that overlayfs can use as a lower layer, with the option `userxattr`.
//!
//! `<place>/tree` has the files, `<place>/owners` their owners, and `<place>/layer.json` what counts about the whole.
//! They appear at once, by a rename, after the whole layer was read, its digest compared with the one in the
//! image's config, and everything written to the disk. A caller without root
//! owns every file. Device nodes, fifos and the bits for set-user-id and set-group-id are left out: programs
//! inside run with `no_new_privs`, and the kernel would ignore them. [`Unpacked`] lists what was left out.

mod member;
mod names;
mod owners;
mod record;
mod tree;

pub use names::NameError;
pub use owners::{Owner, OwnersError, read_owners};
pub use record::{LayerRecord, RecordError};

use crate::bounded::{ArchiveLimits, BoundError, Entries};
use crate::decompress::Decompressed;
use crate::media::Compression;
use holm_core::image_reference::ImageDigest;
use member::Unpacking;
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// A layer to unpack.
pub struct PackedLayer<R> {
    pub content: R,
    pub compression: Compression,
    /// The digest of the uncompressed layer, from the image's config.
    pub digest: ImageDigest,
}

/// What a layer became.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unpacked {
    pub files: u64,
    pub bytes: u64,
    /// Whether the layer hides all layers below it. Overlayfs cannot express this: leave them out of the mount.
    pub hides_everything: bool,
    pub left_out: Vec<LeftOut>,
}

/// A part of a layer that holm did not create. At most 1000 are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    pub path: String,
    pub reason: Reason,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    Device,
    Fifo,
    /// The file exists without its set-user-id and set-group-id bits.
    SetId,
    /// The file exists without this extended attribute.
    Attribute(String),
}

#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    #[error("the layer is refused")]
    Bound(#[from] BoundError),
    #[error("the layer has an entry with a name that is not allowed")]
    Name(#[from] NameError),
    #[error("the layer has the entry `{path}` of the unknown type {kind:#04x}")]
    Kind { path: String, kind: u8 },
    #[error("the layer puts `{path}` below a symbolic link or a file")]
    Through { path: String },
    #[error("the layer replaces the directory `{path}`, which has content, by another file")]
    ReplacesDirectory { path: String },
    #[error("the hard link `{path}` points to `{target}`, which is no file of this layer")]
    Link { path: String, target: String },
    #[error("`{path}` has a header that cannot be read")]
    Header { path: String, source: io::Error },
    #[error("cannot {action} `{path}` of a layer")]
    File {
        action: &'static str,
        path: String,
        source: Errno,
    },
    #[error("the layer has the digest {real}, but the image's config says {stated}")]
    Digest {
        stated: ImageDigest,
        real: ImageDigest,
    },
    #[error("cannot prepare the directory {path}")]
    Place { path: PathBuf, source: io::Error },
}

/// Unpacks a layer to `place`, which must not exist; its parent must. Nothing is there after an error.
pub fn unpack<R: Read>(
    layer: PackedLayer<R>,
    place: &Path,
    limits: ArchiveLimits,
) -> Result<Unpacked, UnpackError> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| UnpackError::Place { path, source }
    };
    let number = getrandom::u64().map_err(|error| at(place)(io::Error::other(error)))?;
    let mut name = place.file_name().unwrap_or_default().to_owned();
    name.push(format!(".new-{number:016x}"));
    let staging = place.with_file_name(name);
    fs::create_dir(&staging).map_err(at(&staging))?;
    let done = unpack_into(layer, &staging, limits);
    let done = done.and_then(|unpacked| {
        File::open(&staging)
            .and_then(|directory| Ok(rustix::fs::syncfs(directory)?))
            .map_err(at(&staging))?;
        fs::rename(&staging, place).map_err(at(place))?;
        Ok(unpacked)
    });
    if done.is_err() {
        // The first error counts; what stays has a name that no layer has.
        let _ = fs::remove_dir_all(&staging);
    }
    done
}

fn unpack_into<R: Read>(
    layer: PackedLayer<R>,
    staging: &Path,
    limits: ArchiveLimits,
) -> Result<Unpacked, UnpackError> {
    let at = |source| UnpackError::Place {
        path: staging.to_owned(),
        source,
    };
    fs::create_dir(staging.join("tree")).map_err(at)?;
    let root = File::open(staging.join("tree")).map_err(at)?;
    let mut unpacking = Unpacking::new(root.into());
    let content = Decompressed::new(layer.content, layer.compression, limits);
    let hashed = Hashed {
        inner: content,
        hash: Sha256::new(),
    };
    let entries = Entries::new(hashed, limits);
    let mut rest = entries.each(|path, entry| unpacking.add(path, entry))?;
    // The digest also covers the blocks after the last entry.
    io::copy(&mut rest, &mut io::sink()).map_err(BoundError::Read)?;
    let real = ImageDigest::from_bytes(rest.hash.finalize().into());
    if real != layer.digest {
        let stated = layer.digest;
        return Err(UnpackError::Digest { stated, real });
    }
    let (unpacked, owners) = unpacking.finish()?;
    let mut file = File::create(staging.join("owners")).map_err(at)?;
    owners::write(&mut file, &owners).map_err(at)?;
    record::write(staging, &unpacked).map_err(at)?;
    Ok(unpacked)
}

struct Hashed<R> {
    inner: R,
    hash: Sha256,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        self.hash.update(&buffer[..length]);
        Ok(length)
    }
}
