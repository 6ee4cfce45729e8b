//! Pulls from Debian's registry: anonymous, with a password, over TLS, resumed, and of changing tags.

use crate::server::Registry;
use crate::support::{INDEX, Tar, amd64, chain, image, index};
use futures_util::FutureExt;
use holm_core::image_reference::ImageReference;
use holm_image::{
    Access, Connection, ContentStore, Credentials, Destination, Dial, Progress, PullBounds,
    PullError, Pulled, Writing, digest_of, pull,
};
use rustls::crypto::ring::default_provider;
use rustls::{ClientConfig, RootCertStore};
use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpStream;

/// Connects to loopback only; a name ending in `.test` stands for it.
pub fn dial() -> Dial {
    Arc::new(|destination: Destination| {
        async move {
            if destination.host != "127.0.0.1" && !destination.host.ends_with(".test") {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            let stream = TcpStream::connect(("127.0.0.1", destination.port)).await?;
            Ok(Box::new(stream) as Connection)
        }
        .boxed()
    })
}

pub fn access(plain: &[String], roots: RootCertStore) -> Access {
    let tls = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let limit = Duration::from_secs(5);
    Access {
        dial: dial(),
        tls: Arc::new(tls),
        plain: plain.iter().cloned().collect::<BTreeSet<_>>(),
        credentials: None,
        bounds: PullBounds {
            answer: limit,
            stall: limit,
            ..PullBounds::default()
        },
    }
}

pub fn pulled(
    writing: &Writing,
    access: &Access,
    reference: &str,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Pulled, PullError> {
    let reference: ImageReference = reference.parse().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(pull(writing, access, &reference, &amd64(), progress))
}

fn two_layers() -> crate::support::Image {
    image(&[
        Tar::default().file("a", &[1; 9000]).end(),
        Tar::default().file("b", b"two").end(),
    ])
}

#[test]
fn an_image_of_an_index_is_pulled_with_progress_and_only_once() {
    let registry = Registry::start();
    let source = two_layers();
    registry.push("team/app", "single", &source);
    let mut list: serde_json::Value = serde_json::from_slice(&index(&source.manifest)).unwrap();
    list["manifests"].as_array_mut().unwrap().remove(0);
    registry.push_manifest("team/app", "1", INDEX, &serde_json::to_vec(&list).unwrap());
    let root = tempfile::tempdir().unwrap();
    let store = ContentStore::open(root.path()).unwrap();
    let writing = store.begin().unwrap();
    let host = format!("127.0.0.1:{}", registry.port);
    let access = access(std::slice::from_ref(&host), RootCertStore::empty());
    let seen = Mutex::new(Vec::new());
    let note = |step: Progress| seen.lock().unwrap().push(step);
    let image = pulled(&writing, &access, &format!("{host}/team/app:1"), &note).unwrap();
    assert_eq!(image.manifest.digest, digest_of(&source.manifest));
    assert_ne!(image.document, image.manifest);
    assert_eq!(image.config.command, ["serve"]);
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    assert!(source.blobs.iter().all(|blob| {
        seen.iter()
            .any(|it| it.digest == digest_of(blob) && it.done == it.total)
    }));
    let again = Mutex::new(0);
    let by_digest = format!("{host}/team/app@{}", digest_of(&source.manifest));
    pulled(&writing, &access, &by_digest, &|_| {
        *again.lock().unwrap() += 1
    })
    .unwrap();
    assert_eq!(
        *again.lock().unwrap(),
        0,
        "blobs that are there are not loaded again"
    );
    let error = pulled(&writing, &access, &format!("{host}/team/app:none"), &|_| {}).unwrap_err();
    assert!(matches!(error, PullError::Absent { .. }), "{error:?}");
    // Without the setting, the registry has to speak TLS.
    let strict = self::access(&[], RootCertStore::empty());
    let error = pulled(&writing, &strict, &format!("{host}/team/app:1"), &|_| {}).unwrap_err();
    assert!(chain(&error).contains("TLS with"), "{}", chain(&error));
}

#[test]
fn an_interrupted_blob_is_continued_by_the_next_pull() {
    let registry = Registry::start();
    let source = two_layers();
    registry.push("app", "1", &source);
    let root = tempfile::tempdir().unwrap();
    let store = ContentStore::open(root.path()).unwrap();
    let writing = store.begin().unwrap();
    let blob = crate::support::describe("", &source.blobs[0]);
    let wrong = crate::support::describe("", &source.blobs[1]);
    writing
        .resume(&blob)
        .unwrap()
        .add(&source.blobs[0][..20])
        .unwrap();
    // The beginning of another interrupted blob was written wrong.
    writing.resume(&wrong).unwrap().add(b"wrong").unwrap();
    let host = format!("127.0.0.1:{}", registry.port);
    let access = access(std::slice::from_ref(&host), RootCertStore::empty());
    let least = Mutex::new(u64::MAX);
    pulled(&writing, &access, &format!("{host}/app:1"), &|step| {
        if step.digest == blob.digest {
            let mut least = least.lock().unwrap();
            *least = (*least).min(step.done);
        }
    })
    .unwrap();
    assert!(*least.lock().unwrap() > 20 && store.has(&blob).unwrap() && store.has(&wrong).unwrap());
}

#[test]
fn a_tag_that_changes_gives_one_image_or_the_other() {
    let registry = Registry::start();
    let (old, new) = (
        two_layers(),
        image(&[Tar::default().file("new", b"").end()]),
    );
    let root = tempfile::tempdir().unwrap();
    let store = ContentStore::open(root.path()).unwrap();
    let writing = store.begin().unwrap();
    let host = format!("127.0.0.1:{}", registry.port);
    let access = access(std::slice::from_ref(&host), RootCertStore::empty());
    for source in [&old, &new] {
        registry.push("app", "1", source);
        let image = pulled(&writing, &access, &format!("{host}/app:1"), &|_| {}).unwrap();
        assert_eq!(image.manifest.digest, digest_of(&source.manifest));
    }
    let image = pulled(
        &writing,
        &access,
        &format!("{host}/app@{}", digest_of(&old.manifest)),
        &|_| {},
    )
    .unwrap();
    assert_eq!(image.config.layers.len(), 2);
}

#[test]
fn a_registry_with_tls_and_a_password_is_pulled_from() {
    let key = rcgen::generate_simple_self_signed(vec!["registry.test".to_owned()]).unwrap();
    let (certificate, private) = (key.cert.pem(), key.signing_key.serialize_pem());
    // The password is `secret`.
    let users = "me:$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n";
    let registry = Registry::start_with(|files| {
        let write = |name: &str, text: &str| {
            std::fs::write(files.join(name), text).unwrap();
            files.join(name).display().to_string()
        };
        let (certificate, private, users) = (
            write("cert", &certificate),
            write("key", &private),
            write("users", users),
        );
        format!(
            "  tls:\n    certificate: {certificate}\n    key: {private}\nauth:\n  htpasswd:\n    realm: test\n    path: {users}\n"
        )
    });
    let mut roots = RootCertStore::empty();
    roots.add(key.cert.der().clone()).unwrap();
    let root = tempfile::tempdir().unwrap();
    let store = ContentStore::open(root.path()).unwrap();
    let writing = store.begin().unwrap();
    let host = format!("registry.test:{}", registry.port);
    let mut access = access(&[], roots);
    let name = format!("{host}/app:1");
    let error = pulled(&writing, &access, &name, &|_| {}).unwrap_err();
    assert!(matches!(error, PullError::Challenge { .. }), "{error:?}");
    let credentials = |registry: &str, password: &str| {
        Some(Credentials {
            registry: registry.to_owned(),
            user: "me".into(),
            password: password.to_owned().into(),
        })
    };
    access.credentials = credentials(&host, "wrong");
    let error = pulled(&writing, &access, &name, &|_| {}).unwrap_err();
    assert!(chain(&error).contains("401"), "{}", chain(&error));
    // Signed in, the registry says that the image does not exist.
    access.credentials = credentials(&host, "secret");
    let error = pulled(&writing, &access, &name, &|_| {}).unwrap_err();
    assert!(chain(&error).contains("404"), "{}", chain(&error));
    access.credentials = credentials("other.test", "secret");
    let error = pulled(&writing, &access, &name, &|_| {}).unwrap_err();
    assert!(matches!(error, PullError::Challenge { .. }), "{error:?}");
}
