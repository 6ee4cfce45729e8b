//! Images without an engine: pull, import, verify, unpack into layers.
//!
//! ```text
//!  registry ── pull ──┐                         ┌─ tree    for overlayfs, option `userxattr`
//!                     ├─► ContentStore ─ unpack ┤
//!  archive ── import ─┘   blobs by digest       └─ owners  uid and gid of each path
//! ```
//!
//! [`Images`] keeps all of it in one directory, with the names that people gave to images.
//!
//! Registries, archives and layers are hostile input. No blob gets its name before its digest and size were
//! verified, no document is used before every value of it was checked, and no path or link of a layer leaves the
//! directory that it is unpacked into. The crate decides nothing about who may pull what: the caller passes
//! the function that connects, and the credentials for one host.

mod blob;
mod bounded;
mod config;
mod decompress;
mod document;
mod images;
mod import;
mod layers;
mod media;
mod names;
mod platform;
mod registry;
mod store;
mod unpack;

pub use blob::{BlobError, BlobWriter};
pub use bounded::{ArchiveLimits, BoundError};
pub use config::{ConfigError, ExposedPort, ImageConfig, Protocol};
pub use document::{Descriptor, Document, DocumentError, Index, IndexEntry, Layer, Manifest};
pub use document::{LARGEST_CONFIG, LARGEST_DOCUMENT};
pub use images::{ImageRoot, Images, ImagesError, ImagesSwept, Sweeping, UnpackProgress};
pub use import::{ImportError, Imported, import_archive};
pub use layers::LayersError;
pub use media::{Compression, Kind, MediaType};
pub use names::{NamesError, StoredImage};
pub use platform::Platform;
pub use registry::{Access, Connection, Credentials, Destination, Dial, Duplex, Progress};
pub use registry::{PullBounds, PullError, Pulled, RequestError, pull};
pub use store::{ContentStore, StoreError, Swept, Writing, digest_of};
pub use unpack::{
    LayerRecord, LeftOut, NameError, Owner, OwnersError, PackedLayer, Reason, RecordError,
    UnpackError, Unpacked, read_owners, unpack,
};
