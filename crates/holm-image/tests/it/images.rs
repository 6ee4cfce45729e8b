//! One directory with images: named, unpacked once, used and swept.

use crate::support::{Image, MANIFEST, Tar, chain, describe, image};
use holm_core::image_reference::{ImageDigest, ImageReference};
use holm_image::{
    Descriptor, Images, ImagesError, MediaType, StoreError, UnpackProgress, digest_of,
};
use std::collections::BTreeSet;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tar::EntryType;

fn reference(text: &str) -> ImageReference {
    text.parse().unwrap()
}

/// Puts the blobs of an image into the store, unpacks it and names it.
fn add(images: &Images, source: &Image, name: &str) -> Result<Descriptor, ImagesError> {
    let writing = images.begin()?;
    for blob in source.blobs.iter().chain([&source.manifest]) {
        writing.put(blob, MediaType::new("")).unwrap();
    }
    let manifest = describe(MANIFEST, &source.manifest);
    images.unpack(&writing, &manifest.digest, &|_| ControlFlow::Continue(()))?;
    images.name(&writing, &reference(name), &manifest)?;
    Ok(manifest)
}

fn unpacked(root: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(root.join("layers")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| !name.ends_with(".lock")).collect()
}

fn used(manifests: &[&Descriptor]) -> BTreeSet<ImageDigest> {
    manifests.iter().map(|it| it.digest.clone()).collect()
}

#[test]
fn layers_are_unpacked_once_and_listed_from_the_top() {
    let root = tempfile::tempdir().unwrap();
    let images = Images::open(root.path()).unwrap();
    let low = Tar::default().file("low", b"1").end();
    let other = Tar::default().file("other", b"2").end();
    let hiding = Tar::default().file(".wh..wh..opq", b"").file("top", b"3");
    let hiding = hiding.end();
    let tree = |layer: &[u8]| {
        let digest = digest_of(layer);
        root.path().join("layers").join(digest.hex()).join("tree")
    };
    let layers = |manifest: &Descriptor| images.root(&manifest.digest).unwrap().layers;
    let first = add(&images, &image(&[low.clone(), other.clone()]), "first").unwrap();
    assert_eq!(layers(&first), [tree(&other), tree(&low)]);
    fs::write(tree(&low).join("kept"), "").unwrap();
    // Overlayfs refuses a directory that is listed twice.
    let twice = image(&[low.clone(), other.clone(), low.clone()]);
    let twice = add(&images, &twice, "twice").unwrap();
    assert_eq!(layers(&twice), [tree(&low), tree(&other)]);
    let hidden = image(&[low.clone(), hiding.clone(), other.clone()]);
    let hidden = add(&images, &hidden, "hidden").unwrap();
    assert_eq!(layers(&hidden), [tree(&other), tree(&hiding)]);
    assert!(
        tree(&low).join("kept").exists(),
        "no layer is unpacked twice"
    );
    assert_eq!(
        images.root(&hidden.digest).unwrap().config.command,
        ["serve"]
    );
    let names: Vec<String> = images
        .list()
        .unwrap()
        .into_iter()
        .map(|it| it.reference.to_string())
        .collect();
    let complete = ["first", "hidden", "twice"].map(|name| reference(name).to_string());
    assert_eq!(names, complete);
    assert_eq!(
        images.find(&reference("first")).unwrap().unwrap().manifest,
        first
    );
    // A name may move to another image.
    add(&images, &image(&[low]), "first").unwrap();
    assert_ne!(
        images.find(&reference("first")).unwrap().unwrap().manifest,
        first
    );
}

#[test]
fn sweep_keeps_what_has_a_name_or_is_used() {
    let root = tempfile::tempdir().unwrap();
    let images = Images::open(root.path()).unwrap();
    // A directory that its owner may not enter is removed, too.
    let closed = Tar::default().entry(EntryType::Directory, "closed/", "", 0, b"");
    let closed = closed.entry(EntryType::Directory, "./", "", 0, b"").end();
    let shared = Tar::default().file("shared", b"1").end();
    let [one, two, three] = ["1", "2", "3"].map(|text| {
        let own = Tar::default().file("own", text.as_bytes()).end();
        image(&[shared.clone(), closed.clone(), own])
    });
    let one = add(&images, &one, "one").unwrap();
    let two = add(&images, &two, "two").unwrap();
    let three = add(&images, &three, "three").unwrap();
    assert_eq!(unpacked(root.path()).len(), 5);
    // A process that died left these.
    let left = root
        .path()
        .join("layers")
        .join(format!("{}.new-0", "a".repeat(64)));
    fs::create_dir(left).unwrap();
    let remove = |name: &str, image: &Descriptor| {
        let removed = images.remove(&reference(name), &image.digest);
        removed.unwrap()
    };
    assert!(remove("two", &one).is_none(), "it names another image");
    remove("two", &two).unwrap();
    remove("three", &three).unwrap();
    assert!(remove("three", &three).is_none());
    let writing = images.begin().unwrap();
    let mut unfinished = writing.resume(&describe("", b"unfinished")).unwrap();
    unfinished.add(b"unfin").unwrap();
    drop(unfinished);
    let busy = images.begin_sweep();
    assert!(
        matches!(busy, Err(ImagesError::Store(StoreError::Busy))),
        "{busy:?}"
    );
    drop(writing);
    // An image that a workspace uses stays; one that is unknown does not stop the sweep.
    let unknown = describe(MANIFEST, b"unknown");
    let sweeping = images.begin_sweep().unwrap();
    // A manifest that cannot be opened is not one that was never pulled.
    let manifest = root.path().join("blobs").join(two.digest.hex());
    fs::rename(&manifest, manifest.with_extension("aside")).unwrap();
    symlink(&manifest, &manifest).unwrap();
    let unreadable = images.sweep(&sweeping, &used(&[&two]));
    assert!(
        matches!(unreadable, Err(ImagesError::Store(StoreError::Io { .. }))),
        "{unreadable:?}"
    );
    assert_eq!(unpacked(root.path()).len(), 6, "nothing was removed");
    fs::rename(manifest.with_extension("aside"), &manifest).unwrap();
    let swept = images.sweep(&sweeping, &used(&[&two, &unknown])).unwrap();
    let partial = fs::read_dir(root.path().join("partial")).unwrap();
    assert_eq!(partial.count(), 0);
    assert_eq!((swept.blobs, swept.layers), (3, 1));
    assert!(images.root(&one.digest).is_ok() && images.root(&two.digest).is_ok());
    let gone = images.root(&three.digest).unwrap_err();
    assert!(
        matches!(gone, ImagesError::Store(StoreError::Absent(_))),
        "{gone:?}"
    );
    assert_eq!(unpacked(root.path()).len(), 4);
    remove("one", &one).unwrap();
    let swept = images.sweep(&sweeping, &BTreeSet::new()).unwrap();
    assert_eq!((swept.blobs, swept.layers), (8, 4));
    assert_eq!(fs::read_dir(root.path().join("layers")).unwrap().count(), 0);
}

#[test]
fn a_cancelled_unpacking_leaves_the_other_layers_and_the_name_out() {
    let root = tempfile::tempdir().unwrap();
    let images = Images::open(root.path()).unwrap();
    let layers = ["1", "2"].map(|text| Tar::default().file(text, b"").end());
    let source = image(&layers);
    let writing = images.begin().unwrap();
    for blob in source.blobs.iter().chain([&source.manifest]) {
        writing.put(blob, MediaType::new("")).unwrap();
    }
    let digest = digest_of(&source.manifest);
    let first_only = |step: UnpackProgress| match step.layer {
        1 => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    };
    let cancelled = images.unpack(&writing, &digest, &first_only).unwrap_err();
    assert!(matches!(cancelled, ImagesError::Cancelled(_)));
    assert_eq!(unpacked(root.path()).len(), 1);
}

#[test]
fn several_unpackers_at_once_make_one_layer() {
    let root = tempfile::tempdir().unwrap();
    let images = Images::open(root.path()).unwrap();
    let mut layer = Tar::default();
    for number in 0..200 {
        layer = layer.file(&format!("{number}"), b"x");
    }
    let source = image(&[layer.end()]);
    let left = unpacking(root.path(), &source);
    fs::create_dir(&left).unwrap();
    std::thread::scope(|scope| {
        for number in 0..6 {
            let (images, source) = (&images, &source);
            scope.spawn(move || add(images, source, &format!("name-{number}")).unwrap());
        }
    });
    assert_eq!(
        unpacked(root.path()).len(),
        1,
        "the rest of a dead unpacker is removed"
    );
    assert_eq!(images.list().unwrap().len(), 6, "no name is lost");
}

/// Where a process that died unpacked the first layer of `source`.
fn unpacking(root: &Path, source: &Image) -> PathBuf {
    let config: serde_json::Value = serde_json::from_slice(source.blobs.last().unwrap()).unwrap();
    let digest = config["rootfs"]["diff_ids"][0].as_str().unwrap();
    let hex = digest.strip_prefix("sha256:").unwrap();
    root.join("layers").join(format!("{hex}.new-0"))
}

#[test]
fn an_image_that_cannot_run_gets_no_name() {
    let root = tempfile::tempdir().unwrap();
    let images = Images::open(root.path()).unwrap();
    let layer = Tar::default().file("a", b"").end();
    let source = image(&[layer]);
    let text = String::from_utf8(source.blobs[1].clone()).unwrap();
    let foreign = rebuilt(&source, text.replace("amd64", "s390x"));
    let error = add(&images, &foreign, "foreign").unwrap_err();
    assert!(
        chain(&error).contains("is for linux/s390x"),
        "{}",
        chain(&error)
    );
    let lying = digest_of(b"another layer").to_string();
    let config: serde_json::Value = serde_json::from_str(&text).unwrap();
    let stated = config["rootfs"]["diff_ids"][0].as_str().unwrap();
    let lying = rebuilt(&source, text.replace(stated, &lying));
    let error = add(&images, &lying, "lying").unwrap_err();
    assert!(
        chain(&error).contains("the image's config says"),
        "{}",
        chain(&error)
    );
    assert!(images.list().unwrap().is_empty() && unpacked(root.path()).is_empty());
}

/// The image with another config.
fn rebuilt(source: &Image, config: String) -> Image {
    let mut manifest: serde_json::Value = serde_json::from_slice(&source.manifest).unwrap();
    let described = describe(
        "application/vnd.oci.image.config.v1+json",
        config.as_bytes(),
    );
    manifest["config"] = serde_json::to_value(described).unwrap();
    Image {
        blobs: vec![source.blobs[0].clone(), config.into_bytes()],
        manifest: serde_json::to_vec(&manifest).unwrap(),
    }
}

#[test]
fn an_unknown_stored_value_is_an_error() {
    let root = tempfile::tempdir().unwrap();
    let images = Images::open(root.path()).unwrap();
    let manifest = add(&images, &image(&[Tar::default().file("a", b"").end()]), "a").unwrap();
    let names = root.path().join("names.json");
    let right = fs::read_to_string(&names).unwrap();
    for (old, new, expected) in [
        ("\"version\": 1", "\"version\": 2", "has version 2"),
        ("\"version\"", "\"more\": 1, \"version\"", "unknown field"),
        ("/a:", "/A:", "is not the name of an image repository"),
        ("\"stored_at\": \"", "\"stored_at\": \"x", "wrong time"),
    ] {
        assert!(right.contains(old), "{right}");
        fs::write(&names, right.replace(old, new)).unwrap();
        let error = images.list().unwrap_err();
        assert!(chain(&error).contains(expected), "{}", chain(&error));
        let swept = images.sweep(&images.begin_sweep().unwrap(), &BTreeSet::new());
        assert!(swept.is_err(), "an unreadable list removes nothing");
    }
    fs::write(&names, right).unwrap();
    let layer = images.root(&manifest.digest).unwrap().layers.remove(0);
    fs::write(layer.with_file_name("layer.json"), "{}").unwrap();
    let error = images.root(&manifest.digest).unwrap_err();
    assert!(chain(&error).contains("missing field"), "{}", chain(&error));
}
