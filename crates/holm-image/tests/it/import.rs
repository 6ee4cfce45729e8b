//! Imports of every form that programs export, and of hostile ones.

use crate::support::{Image, Tar, amd64, chain, gzip, image, index};
use holm_image::{
    ArchiveLimits, ContentStore, Descriptor, Document, ImportError, Imported, digest_of,
    import_archive,
};
use serde_json::json;

fn layers() -> Vec<Vec<u8>> {
    vec![
        Tar::default().file("a", b"one").end(),
        Tar::default().file("b", b"two").end(),
    ]
}

fn blob_path(bytes: &[u8]) -> String {
    format!("blobs/sha256/{}", digest_of(bytes).hex())
}

/// An OCI archive; its index comes first.
fn oci(image: &Image) -> Tar {
    let mut tar = Tar::default()
        .file("oci-layout", b"{}")
        .directory("blobs/sha256")
        .file("./index.json", &index(&image.manifest));
    for blob in image.blobs.iter().chain([&image.manifest]) {
        tar = tar.file(&blob_path(blob), blob);
    }
    tar
}

fn imported(archive: &[u8], limits: ArchiveLimits) -> Result<Vec<Imported>, ImportError> {
    let root = tempfile::tempdir().unwrap();
    let store = ContentStore::open(root.path()).unwrap();
    let images = import_archive(&store.begin().unwrap(), archive, &amd64(), limits)?;
    let manifests: Vec<Descriptor> = images.iter().map(|it| it.manifest.clone()).collect();
    for manifest in &manifests {
        let bytes = store.read(&manifest.digest, manifest.size).unwrap();
        let parsed = Document::parse(&bytes, &manifest.media_type).unwrap();
        let Document::Manifest(parsed) = parsed else {
            panic!("{parsed:?}")
        };
        store.open_blob(&parsed.config).unwrap();
        for layer in &parsed.layers {
            store.open_blob(&layer.blob).unwrap();
        }
    }
    Ok(images)
}

#[test]
fn an_oci_archive_is_imported_also_compressed() {
    let archive = oci(&image(&layers())).end();
    for bytes in [archive.clone(), gzip(&archive)] {
        let images = imported(&bytes, ArchiveLimits::default()).unwrap();
        assert_eq!(images.len(), 1);
        assert_eq!(images[0].names, ["app:1"]);
        assert_eq!(images[0].config.layers.len(), 2);
    }
}

#[test]
fn both_forms_of_docker_save_are_imported() {
    let parts = layers();
    let source = image(&parts);
    let config = &source.blobs[2];
    let name = format!("{}.json", digest_of(config).hex());
    let manifest = json!([{"Config": name, "RepoTags": ["app:1"], "Layers": ["x/layer.tar", "y/layer.tar", "z/layer.tar"]}]);
    // The old form writes a layer that two images share once, and a link for the other.
    let three: Vec<Vec<u8>> = vec![parts[0].clone(), parts[1].clone(), parts[0].clone()];
    let config = &image(&three).blobs[3];
    let old = Tar::default()
        .directory("x")
        .file("x/layer.tar", &parts[0])
        .file("x/VERSION", b"1.0")
        .file("y/layer.tar", &parts[1])
        .symlink("z/layer.tar", "../x/layer.tar")
        .file(&name, config)
        .file("manifest.json", &serde_json::to_vec(&manifest).unwrap())
        .end();
    let images = imported(&old, ArchiveLimits::default()).unwrap();
    assert_eq!(
        (images[0].names.as_slice(), images[0].config.layers.len()),
        (&["app:1".to_owned()][..], 3)
    );
    // More layers than any reader of the stored manifest accepts.
    let many = vec![parts[0].clone(); 401];
    let manifest = json!([{"Config": name, "RepoTags": null, "Layers": vec!["x/layer.tar"; 401]}]);
    let many = Tar::default()
        .file("x/layer.tar", &parts[0])
        .file(&name, image(&many).blobs.last().unwrap())
        .file("manifest.json", &serde_json::to_vec(&manifest).unwrap())
        .end();
    let error = imported(&many, ArchiveLimits::default()).unwrap_err();
    assert!(chain(&error).contains("401 layers"), "{}", chain(&error));
    let manifest = json!([{"Config": blob_path(&source.blobs[2]), "RepoTags": null, "Layers": [blob_path(&source.blobs[0]), blob_path(&source.blobs[1])]}]);
    // Without an index, and a layer by a link to a blob.
    let linked = json!([{"Config": blob_path(&source.blobs[2]), "RepoTags": null, "Layers": ["x/layer.tar", blob_path(&source.blobs[1])]}]);
    let linked = source.blobs.iter().fold(
        Tar::default()
            .symlink(
                "x/layer.tar",
                &format!("../{}", blob_path(&source.blobs[0])),
            )
            .file("manifest.json", &serde_json::to_vec(&linked).unwrap()),
        |tar, blob| tar.file(&blob_path(blob), blob),
    );
    imported(&linked.end(), ArchiveLimits::default()).unwrap();
    let new = oci(&source)
        .file("manifest.json", &serde_json::to_vec(&manifest).unwrap())
        .end();
    assert_eq!(
        imported(&new, ArchiveLimits::default()).unwrap()[0].names,
        ["app:1"]
    );
}

#[test]
fn attack_200_hostile_archives_are_refused() {
    let source = image(&layers());
    let refused = |archive: Vec<u8>, limits: ArchiveLimits, message: &str| {
        let error = imported(&archive, limits).unwrap_err();
        assert!(chain(&error).contains(message), "{}", chain(&error));
    };
    let all = ArchiveLimits::default();
    let lying = oci(&source).file(&blob_path(b"other"), b"not other").end();
    refused(lying, all, "has other content");
    refused(
        oci(&source).end(),
        ArchiveLimits { entries: 3, ..all },
        "more than 3 entries",
    );
    refused(
        oci(&source).end(),
        ArchiveLimits { bytes: 2000, ..all },
        "more than 2000 bytes",
    );
    refused(
        Tar::default()
            .pax(&[("path", &"p".repeat(5000))])
            .file("a", b"")
            .end(),
        all,
        "path of an entry",
    );
    refused(
        Tar::default().file("a", b"").end(),
        all,
        "neither an `index.json`",
    );
    let missing = Tar::default()
        .file("index.json", &index(&source.manifest))
        .end();
    refused(missing, all, "is not in the image store");
    let escaping = json!([{"Config": "../../etc/passwd", "Layers": []}]);
    refused(
        Tar::default()
            .file("manifest.json", &serde_json::to_vec(&escaping).unwrap())
            .end(),
        all,
        "`../../etc/passwd`, which is absent",
    );
    let cut = oci(&source).end();
    refused(
        cut[..cut.len() - 1600].to_vec(),
        all,
        "ends in the middle of",
    );
}
