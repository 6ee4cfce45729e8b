//! Manifests, indexes and configs: what is read, and that wrong values are named.

use crate::support::{INDEX, MANIFEST, Tar, amd64, chain, image, index};
use holm_image::{Document, ImageConfig, MediaType, Platform, Protocol};
use proptest::prelude::*;
use serde_json::{Value, json};

fn manifest(change: impl Fn(&mut Value)) -> Result<Document, String> {
    let image = image(&[Tar::default().file("a", b"").end()]);
    let mut value: Value = serde_json::from_slice(&image.manifest).unwrap();
    change(&mut value);
    let bytes = serde_json::to_vec(&value).unwrap();
    Document::parse(&bytes, &MediaType::new(MANIFEST)).map_err(|error| chain(&error))
}

#[test]
fn a_manifest_with_foreign_urls_and_unknown_fields_is_read_without_them() {
    let parsed = manifest(|value| {
        value["layers"][0]["urls"] = json!(["https://evil.test/layer"]);
        value["annotations"] = json!({"a": "b"});
    });
    assert_eq!(parsed, manifest(|_| {}));
}

#[test]
fn lying_manifests_are_refused_by_name() {
    let check = |change: &dyn Fn(&mut Value), message: &str| {
        let error = manifest(change).unwrap_err();
        assert!(error.contains(message), "{error}");
    };
    check(&|it| it["schemaVersion"] = json!(1), "schema version 1");
    check(&|it| it["mediaType"] = json!(INDEX), "but was offered as");
    check(
        &|it| it["manifests"] = json!([]),
        "both layers and manifests",
    );
    check(
        &|it| it["config"]["mediaType"] = json!("text/plain"),
        "`text/plain` is not a media type of an image config",
    );
    check(
        &|it| it["layers"][0]["mediaType"] = json!("text/plain"),
        "of a layer",
    );
    check(
        &|it| it["layers"][0]["size"] = json!(u64::MAX),
        "stated size of 18446744073709551615",
    );
    check(&|it| it["layers"][0]["size"] = json!(-1), "not valid JSON");
    check(
        &|it| it["layers"][0]["digest"] = json!("sha256:../../x"),
        "`sha256:../../x` is not a sha256 digest",
    );
    check(&|it| it["config"]["size"] = json!(9 << 20), "stated size");
    check(
        &|it| drop(it.as_object_mut().unwrap().remove("layers")),
        "has no `layers`",
    );
    check(
        &|it| it["layers"] = Value::Array(vec![it["layers"][0].clone(); 401]),
        "401 layers",
    );
}

#[test]
fn an_index_gives_the_image_of_the_platform() {
    let bytes = index(b"own");
    let Document::Index(list) = Document::parse(&bytes, &MediaType::new(INDEX)).unwrap() else {
        panic!()
    };
    assert_eq!(list.choose(&amd64()).unwrap().document.size, 3);
    let other = Platform {
        architecture: "riscv64".into(),
        ..amd64()
    };
    let error = list.choose(&other).unwrap_err().to_string();
    assert_eq!(
        error,
        "the index has no image for linux/riscv64, only for linux/s390x, linux/amd64"
    );
    let arm = |variant: Option<&str>| Platform {
        architecture: "arm64".into(),
        variant: variant.map(Into::into),
        ..amd64()
    };
    assert!(
        arm(None).runs(&arm(Some("v8")))
            && !arm(Some("v9")).runs(&Platform {
                variant: Some("v7".into()),
                ..arm(None)
            })
    );
}

#[test]
fn a_config_is_typed_and_its_wrong_values_are_named() {
    let config = |start: Value| {
        let value = json!({"os": "linux", "architecture": "amd64", "config": start, "rootfs": {"type": "layers", "diff_ids": []}});
        ImageConfig::parse(&serde_json::to_vec(&value).unwrap(), 0)
            .map_err(|error| error.to_string())
    };
    let parsed = config(json!({"Env": ["A=b=c"], "Cmd": null, "Entrypoint": ["run"], "ExposedPorts": {"53/udp": {}, "80": {}}, "Volumes": {"/data": {}}, "WorkingDir": "/srv", "User": "", "StopSignal": "SIGINT"})).unwrap();
    assert_eq!(parsed.environment, [("A".into(), "b=c".into())]);
    assert_eq!(
        parsed
            .ports
            .iter()
            .map(|it| (it.port, it.protocol))
            .collect::<Vec<_>>(),
        [(53, Protocol::Udp), (80, Protocol::Tcp)]
    );
    assert_eq!(
        (parsed.user, parsed.working_directory, parsed.stop_signal),
        (None, Some("/srv".into()), Some("SIGINT".into()))
    );
    for (wrong, field) in [
        (json!({"Env": ["novalue"]}), "Env"),
        (json!({"Env": ["A=\u{0}"]}), "Env"),
        (json!({"ExposedPorts": {"70000/tcp": {}}}), "ExposedPorts"),
        (json!({"ExposedPorts": {"1/icmp": {}}}), "ExposedPorts"),
        (json!({"Volumes": {"/a/../../b": {}}}), "Volumes"),
        (json!({"WorkingDir": "relative"}), "WorkingDir"),
        (json!({"User": "a\nb"}), "User"),
        (json!({"Cmd": ["a\u{0}"]}), "Cmd"),
    ] {
        assert!(
            config(wrong.clone())
                .unwrap_err()
                .contains(&format!("in `{field}`")),
            "{wrong}"
        );
    }
    let error = ImageConfig::parse(
        br#"{"os":"linux","architecture":"amd64","rootfs":{"type":"layers","diff_ids":[]}}"#,
        2,
    )
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "an image config lists 0 layers, but its manifest has 2"
    );
}

proptest! {
    /// Random bytes would not get beyond the JSON parser; a real document with one other byte often does.
    #[test]
    fn no_bytes_make_the_parsers_panic(place: prop::sample::Index, byte: u8) {
        let image = image(&[Tar::default().file("a", b"").end()]);
        let changed = |document: &[u8]| {
            let mut bytes = document.to_vec();
            bytes[place.index(document.len())] = byte;
            bytes
        };
        let _ = Document::parse(&changed(&image.manifest), &MediaType::new(MANIFEST));
        let _ = Document::parse(&changed(&index(&image.manifest)), &MediaType::new(INDEX));
        let _ = ImageConfig::parse(&changed(image.blobs.last().unwrap()), 1);
    }
}
