//! Imports images that another program exported: an OCI layout as a directory or archive, or `docker save`.
//!
//! An archive is read once, as a stream. Blobs go to the store as they come, under the digest of their content;
//! the few documents that say what they mean are kept in memory until the end. An archive that has both
//! an OCI index and Docker's `manifest.json`, as newer versions of Docker write, is read by its OCI index.

use crate::blob::BlobError;
use crate::bounded::{ArchiveLimits, BoundError, Entries, Entry, copy_content};
use crate::config::{ConfigError, ImageConfig};
use crate::decompress::Decompressed;
use crate::document::{DEEPEST, LARGEST_DOCUMENT};
use crate::document::{Descriptor, Document, DocumentError, Manifest};
use crate::media::MediaType;
use crate::platform::Platform;
use crate::store::{StoreError, Writing};
use holm_core::image_reference::ImageDigest;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::Read;
use tar::EntryType;

/// An image that is now in the store, complete and verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The names that the exporting program gave to the image, as written.
    pub names: Vec<String>,
    pub manifest: Descriptor,
    pub config: ImageConfig,
}

#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("the archive of images is refused")]
    Bound(#[from] BoundError),
    #[error("a blob of the images cannot be stored")]
    Blob(#[from] BlobError),
    #[error("a blob of the images is missing or wrong")]
    Store(#[from] StoreError),
    #[error("a manifest of the images is refused")]
    Document(#[from] DocumentError),
    #[error("the config of an image is refused")]
    Config(#[from] ConfigError),
    #[error("`{0}` of the images is not valid JSON")]
    Json(&'static str, #[source] serde_json::Error),
    #[error("`{0}` of the images is larger than {LARGEST_DOCUMENT} bytes")]
    Large(String),
    #[error("the images name the file `{0}`, which is absent")]
    Absent(String),
    #[error("there is neither an `index.json` nor a `manifest.json`, so these are no images")]
    NoImages,
    #[error("indexes of the images name each other more than {DEEPEST} times")]
    Deep,
}

const BLOBS: &str = "blobs/sha256/";

/// A file of an archive that is no blob of a layout.
enum Extra {
    Stored(ImageDigest),
    /// A symbolic or hard link, resolved inside the archive.
    Link(String),
}

#[derive(Default)]
struct Found {
    documents: BTreeMap<&'static str, Vec<u8>>,
    extras: BTreeMap<String, Extra>,
}

/// An image in Docker's `manifest.json`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Saved {
    config: String,
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

/// Imports the images for `platform` of an archive: an OCI archive or one of `docker save`, also compressed.
pub fn import_archive(
    writing: &Writing,
    archive: impl Read,
    platform: &Platform,
    limits: ArchiveLimits,
) -> Result<Vec<Imported>, ImportError> {
    let content = Decompressed::sniffed(archive, limits).map_err(BoundError::Read)?;
    let mut found = Found::default();
    let entries = Entries::new(content, limits);
    entries.each(|path, entry| take(writing, path, entry, &mut found))?;
    if let Some(index) = found.documents.get("index.json") {
        return of_index(writing, index, platform);
    }
    let saved = found.documents.get("manifest.json");
    let saved = saved.ok_or(ImportError::NoImages)?;
    let saved: Vec<Saved> =
        serde_json::from_slice(saved).map_err(|error| ImportError::Json("manifest.json", error))?;
    let images = saved
        .iter()
        .map(|image| of_saved(writing, image, &found.extras));
    images.collect()
}

/// Takes one entry of an archive. Every size was compared with the limits before.
fn take<R: Read>(
    writing: &Writing,
    path: &[u8],
    entry: &mut Entry<'_, R>,
    found: &mut Found,
) -> Result<(), ImportError> {
    let text = String::from_utf8_lossy(path);
    let name = text.trim_start_matches("./");
    match entry.header().entry_type() {
        EntryType::Regular => {}
        EntryType::Symlink | EntryType::Link => {
            let target = entry.link_name_bytes().unwrap_or_default();
            let target = String::from_utf8_lossy(&target).into_owned();
            let is_symbolic = entry.header().entry_type().is_symlink();
            let target = if is_symbolic {
                beside(name, &target)
            } else {
                target
            };
            found.extras.insert(name.to_owned(), Extra::Link(target));
            return Ok(());
        }
        _ => return Ok(()),
    }
    if let Some(known) = ["index.json", "manifest.json"]
        .into_iter()
        .find(|it| *it == name)
    {
        if entry.size() > LARGEST_DOCUMENT {
            return Err(ImportError::Large(name.to_owned()));
        }
        let mut bytes = Vec::new();
        copy_content(path, entry, &mut bytes)?;
        found.documents.insert(known, bytes);
        return Ok(());
    }
    if let Some(hex) = name.strip_prefix(BLOBS)
        && let Ok(digest) = format!("sha256:{hex}").parse::<ImageDigest>()
    {
        let blob = Descriptor {
            media_type: MediaType::new(""),
            digest,
            size: entry.size(),
        };
        let mut writer = writing.resume(&blob)?;
        writer.restart()?;
        copy_content(path, entry, &mut writer)?;
        return Ok(writer.finish()?);
    }
    if name.ends_with(".json") || name.ends_with(".tar") {
        let mut writer = writing.fresh()?;
        copy_content(path, entry, &mut writer)?;
        let blob = writer.finish_as(MediaType::new(""))?;
        let extra = Extra::Stored(blob.digest);
        found.extras.insert(name.to_owned(), extra);
    }
    Ok(())
}

/// Follows `index.json` to its images, and makes sure that every blob of them is in the store.
fn of_index(
    writing: &Writing,
    index: &[u8],
    platform: &Platform,
) -> Result<Vec<Imported>, ImportError> {
    let Document::Index(index) = Document::parse(index, &MediaType::oci_index())? else {
        return Err(ImportError::NoImages);
    };
    let mut images = Vec::new();
    for entry in index.manifests {
        let is_image = entry.document.media_type.is_document();
        let runs = entry.platform.as_ref().is_none_or(|it| platform.runs(it));
        if !is_image || !runs {
            continue;
        }
        let (manifest, parsed) = resolve(writing, entry.document, platform)?;
        let layers = parsed.layers.iter().map(|layer| &layer.blob);
        for blob in layers.chain([&parsed.config]) {
            writing.store().open_blob(blob)?;
        }
        images.push(Imported {
            names: entry.names,
            manifest,
            config: ImageConfig::read::<ImportError>(writing.store(), &parsed)?,
        });
    }
    if images.is_empty() {
        return Err(ImportError::NoImages);
    }
    Ok(images)
}

/// Follows indexes to the manifest for `platform`.
fn resolve(
    writing: &Writing,
    mut document: Descriptor,
    platform: &Platform,
) -> Result<(Descriptor, Manifest), ImportError> {
    for _ in 0..DEEPEST {
        writing.store().open_blob(&document)?;
        let bytes = writing.store().read(&document.digest, LARGEST_DOCUMENT)?;
        match Document::parse(&bytes, &document.media_type)? {
            Document::Manifest(manifest) => return Ok((document, manifest)),
            Document::Index(index) => document = index.choose(platform)?.document.clone(),
        }
    }
    Err(ImportError::Deep)
}

/// Writes the manifest that an image of the old `docker save` does not have.
fn of_saved(
    writing: &Writing,
    saved: &Saved,
    extras: &BTreeMap<String, Extra>,
) -> Result<Imported, ImportError> {
    let mut config = stored(&saved.config, extras, writing)?;
    config.media_type = MediaType::oci_config();
    let layers = saved.layers.iter();
    let layers = layers.map(|name| stored(name, extras, writing));
    let layers = layers.collect::<Result<_, _>>()?;
    let manifest = Manifest::checked(config, layers)?;
    let parsed = ImageConfig::read::<ImportError>(writing.store(), &manifest)?;
    let manifest = manifest.to_json()?;
    Ok(Imported {
        names: saved.repo_tags.clone().unwrap_or_default(),
        manifest: writing.put(&manifest, MediaType::oci_manifest())?,
        config: parsed,
    })
}

/// The blob behind a name in `manifest.json` as a layer, through at most one link.
fn stored(
    name: &str,
    extras: &BTreeMap<String, Extra>,
    writing: &Writing,
) -> Result<Descriptor, ImportError> {
    let absent = || ImportError::Absent(name.to_owned());
    let target = match extras.get(name) {
        Some(Extra::Link(target)) => target,
        _ => name,
    };
    let digest = match extras.get(target) {
        Some(Extra::Stored(digest)) => digest.clone(),
        Some(Extra::Link(_)) => return Err(absent()),
        // `manifest.json` beside blobs of a layout, but without its index.
        None => {
            let hex = target.strip_prefix(BLOBS).ok_or_else(absent)?;
            format!("sha256:{hex}").parse().map_err(|_| absent())?
        }
    };
    Ok(writing.store().describe(&digest)?)
}

/// `a/layer.tar` with the target `../b/layer.tar` is `b/layer.tar`.
fn beside(name: &str, target: &str) -> String {
    let mut parts: Vec<&str> = name.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}
