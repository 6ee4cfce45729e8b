//! The content store: verified names, resumed writers, writers at the same time, and `sweep`.

use crate::support::describe;
use holm_image::{BlobError, ContentStore, StoreError};
use std::fs;
use std::io::Write;

#[test]
fn a_blob_has_no_name_before_it_is_verified() {
    let root = tempfile::tempdir().unwrap();
    let store = ContentStore::open(root.path()).unwrap();
    let writing = store.begin().unwrap();
    let blob = describe("", b"right");
    let mut writer = writing.resume(&blob).unwrap();
    writer.add(b"wrong").unwrap();
    assert!(matches!(writer.finish(), Err(BlobError::Digest { .. })));
    let mut writer = writing.resume(&blob).unwrap();
    assert_eq!(writer.written(), 0, "wrong bytes are not continued");
    assert!(matches!(
        writer.add(b"right and more"),
        Err(BlobError::Long { .. })
    ));
    drop(writer);
    let mut writer = writing.resume(&blob).unwrap();
    writer.add(b"rig").unwrap();
    assert!(matches!(
        writer.finish(),
        Err(BlobError::Short { written: 3, .. })
    ));
    assert!(!store.has(&blob).unwrap());
    let mut writer = writing.resume(&blob).unwrap();
    assert_eq!(writer.written(), 3, "a beginning is continued");
    writer.add(b"ht").unwrap();
    writer.finish().unwrap();
    assert_eq!(store.read(&blob.digest, 100).unwrap(), b"right");
    assert!(matches!(
        store.read(&blob.digest, 4),
        Err(StoreError::Large(_))
    ));
    // The counterpart: a changed file is found when it is read.
    fs::write(root.path().join("blobs").join(blob.digest.hex()), b"evil!").unwrap();
    assert!(matches!(
        store.read(&blob.digest, 100),
        Err(StoreError::Changed(_))
    ));
}

#[test]
fn several_writers_of_one_blob_do_not_mix() {
    let root = tempfile::tempdir().unwrap();
    let store = ContentStore::open(root.path()).unwrap();
    let content: Vec<u8> = (0..200_000u32).flat_map(u32::to_le_bytes).collect();
    let blob = describe("", &content);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let writing = store.begin().unwrap();
                let mut writer = writing.resume(&blob).unwrap();
                let begin = usize::try_from(writer.written()).unwrap();
                for part in content[begin..].chunks(1000) {
                    writer.write_all(part).unwrap();
                }
                writer.finish().unwrap();
            });
        }
    });
    assert_eq!(store.read(&blob.digest, 1 << 20).unwrap(), content);
    assert_eq!(
        fs::read_dir(root.path().join("partial")).unwrap().count(),
        0
    );
}
