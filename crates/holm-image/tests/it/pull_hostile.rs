//! Registries that lie, send credentials elsewhere, or never end.

use crate::pull::{access, pulled};
use crate::scripted::{Scripted, reply};
use crate::support::{Image, MANIFEST, Tar, chain, describe, image};
use holm_image::{Access, ContentStore, Credentials, PullBounds, PullError};
use rustls::RootCertStore;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

fn source() -> Image {
    image(&[Tar::default()
        .file(
            "a",
            &(0..90_000u32)
                .flat_map(u32::to_le_bytes)
                .collect::<Vec<_>>(),
        )
        .end()])
}

/// What an honest registry answers to a request for a manifest or blob.
fn honest(image: &Image, head: &str) -> Vec<u8> {
    if head.contains("/manifests/") {
        return reply(
            "200 OK",
            &format!("Content-Type: {MANIFEST}\r\n"),
            &image.manifest,
        );
    }
    let blob = image
        .blobs
        .iter()
        .find(|blob| head.contains(&describe("", blob).digest.to_string()));
    reply("200 OK", "", blob.unwrap())
}

fn is_layer(image: &Image, head: &str) -> bool {
    head.contains(&format!("/blobs/{}", describe("", &image.blobs[0]).digest))
}

struct Try {
    server: Scripted,
    access: Access,
    store: tempfile::TempDir,
}

impl Try {
    fn new(answer: impl Fn(&Image, &str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let image = source();
        let server = Scripted::start(move |head| answer(&image, head));
        let access = access(
            &[format!("127.0.0.1:{}", server.port)],
            RootCertStore::empty(),
        );
        Self {
            server,
            access,
            store: tempfile::tempdir().unwrap(),
        }
    }

    fn host(&self) -> String {
        format!("127.0.0.1:{}", self.server.port)
    }

    fn with_password(mut self) -> Self {
        self.access.credentials = Some(Credentials {
            registry: self.host(),
            user: "me".into(),
            password: "secret".to_owned().into(),
        });
        self
    }

    fn pull(&self) -> Result<holm_image::Pulled, PullError> {
        let store = ContentStore::open(self.store.path()).unwrap();
        pulled(
            &store.begin().unwrap(),
            &self.access,
            &format!("{}/app:1", self.host()),
            &|_| {},
        )
    }

    #[track_caller]
    fn fails(&self, message: &str) {
        let error = self.pull().unwrap_err();
        assert!(chain(&error).contains(message), "{}", chain(&error));
    }

    fn has_layer(&self) -> bool {
        let store = ContentStore::open(self.store.path()).unwrap();
        store.has(&describe("", &source().blobs[0])).unwrap()
    }
}

#[test]
fn attack_201_the_stand_in_is_honest_without_a_lie() {
    let honest = Try::new(honest);
    honest.pull().unwrap();
    assert!(honest.has_layer());
}

#[test]
fn attack_201_other_content_is_refused() {
    let blob = Try::new(|image, head| {
        if is_layer(image, head) {
            let mut other = image.blobs[0].clone();
            other[100] ^= 1;
            return reply("200 OK", "", &other);
        }
        honest(image, head)
    });
    blob.fails("has other content");
    assert!(!blob.has_layer());
    let long = Try::new(|image, head| {
        if is_layer(image, head) {
            return reply("200 OK", "", &[image.blobs[0].as_slice(), b"more"].concat());
        }
        honest(image, head)
    });
    long.fails("is longer than its stated");
    let header = Try::new(|image, head| {
        let lie = format!(
            "Content-Type: {MANIFEST}\r\nDocker-Content-Digest: sha256:{}\r\n",
            "0".repeat(64)
        );
        if head.contains("/manifests/") {
            reply("200 OK", &lie, &image.manifest)
        } else {
            honest(image, head)
        }
    });
    header.fails("instead of sha256:0000");
    let kind = Try::new(|image, _| reply("200 OK", "Content-Type: text/html\r\n", &image.manifest));
    kind.fails("but was offered as `text/html`");
}

#[test]
fn attack_201_a_pinned_digest_is_compared_with_the_content() {
    let server = Try::new(honest);
    let store = ContentStore::open(server.store.path()).unwrap();
    let name = format!("{}/app@sha256:{}", server.host(), "1".repeat(64));
    let error = pulled(&store.begin().unwrap(), &server.access, &name, &|_| {}).unwrap_err();
    assert!(matches!(error, PullError::Digest { .. }), "{error:?}");
}

#[test]
fn attack_201_broken_transfers_are_continued_within_bounds() {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let flaky = Try::new(|image, head| {
        if !is_layer(image, head) {
            return honest(image, head);
        }
        let blob = &image.blobs[0];
        let range = head
            .lines()
            .find_map(|line| line.strip_prefix("range: bytes=")?.strip_suffix('-'));
        let begin: usize = range.map_or(0, |range| range.parse().unwrap());
        ASKED.fetch_add(1, Ordering::Relaxed);
        let status = if begin == 0 {
            "200 OK"
        } else {
            "206 Partial Content"
        };
        let range = format!(
            "Content-Range: bytes {begin}-{}/{}\r\n",
            blob.len() - 1,
            blob.len()
        );
        let mut answer = reply(status, &range, &blob[begin..]);
        // The connection breaks in the middle of what is left, until little is left.
        let left = blob.len() - begin;
        if left > 1000 {
            answer.truncate(answer.len() - left / 2);
        }
        answer
    });
    flaky.pull().unwrap();
    assert!(flaky.has_layer() && ASKED.load(Ordering::Relaxed) > 3);
    let dead = Try::new(|image, head| {
        if is_layer(image, head) {
            Vec::new()
        } else {
            honest(image, head)
        }
    });
    dead.fails("the request to");
    let asked = dead
        .server
        .asked()
        .iter()
        .filter(|head| head.contains("/blobs/"))
        .count();
    assert_eq!(
        asked,
        1 + PullBounds::default().attempts,
        "the config once, the layer a few times"
    );
    let wrong_range = Try::new(|image, head| {
        let lie = "Content-Range: bytes 5-9/10\r\n";
        if is_layer(image, head) {
            reply("206 Partial Content", lie, &image.blobs[0])
        } else {
            honest(image, head)
        }
    });
    wrong_range.fails("206 Partial Content");
}

#[test]
fn attack_201_a_redirect_gets_no_credentials() {
    let elsewhere = {
        let image = source();
        Scripted::start(move |head| honest(&image, head))
    };
    let port = elsewhere.port;
    let server = Try::new(move |image, head| {
        if !head.contains("authorization: Basic bWU6c2VjcmV0") {
            return reply(
                "401 Unauthorized",
                "WWW-Authenticate: Basic realm=\"x\"\r\n",
                b"",
            );
        }
        if is_layer(image, head) {
            let path = head.split(' ').nth(1).unwrap();
            return reply(
                "307 Temporary Redirect",
                &format!("Location: http://127.0.0.1:{port}{path}\r\n"),
                b"",
            );
        }
        honest(image, head)
    });
    let mut server = server.with_password();
    // Without TLS, only hosts of the user's settings are followed to.
    server.fails("307 Temporary Redirect");
    assert!(elsewhere.asked().is_empty());
    server.access.plain.insert(format!("127.0.0.1:{port}"));
    server.pull().unwrap();
    assert!(!elsewhere.asked().is_empty());
    assert!(
        elsewhere
            .asked()
            .iter()
            .all(|head| !head.to_lowercase().contains("authorization"))
    );
    // The counterpart: the registry itself did get them.
    assert!(
        server
            .server
            .asked()
            .iter()
            .any(|head| is_layer(&source(), head) && head.contains("bWU6c2VjcmV0"))
    );
}

#[test]
fn attack_201_redirects_end() {
    let server = Try::new(|image, head| {
        if is_layer(image, head) {
            let path = head.split(' ').nth(1).unwrap();
            return reply("302 Found", &format!("Location: {path}\r\n"), b"");
        }
        honest(image, head)
    });
    server.fails("302 Found");
    let scheme = Try::new(|image, head| {
        if is_layer(image, head) {
            reply("302 Found", "Location: file:///etc/passwd\r\n", b"")
        } else {
            honest(image, head)
        }
    });
    scheme.fails("302 Found");
}

/// A registry that wants a token of the realm at `realm`, or at itself.
fn with_realm(realm: Option<u16>) -> Try {
    Try::new(move |image, head| {
        if head.starts_with("GET /token?service=reg%2Eexample&scope=repository%3Aapp%3Apull ") {
            return reply("200 OK", "", br#"{"token":"t0ken"}"#);
        }
        if head.contains("authorization: Bearer t0ken") {
            return honest(image, head);
        }
        let host = head.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
        let host = realm.map_or(host.to_owned(), |port| format!("127.0.0.1:{port}"));
        let challenge = format!("WWW-Authenticate: Bearer realm=\"http://{host}/token\",service=\"reg.example\",scope=\"everything\"\r\n");
        reply("401 Unauthorized", &challenge, b"")
    })
    .with_password()
}

#[test]
fn attack_201_only_a_realm_on_the_registry_gets_the_password() {
    let own = with_realm(None);
    own.pull().unwrap();
    assert!(
        own.server
            .asked()
            .iter()
            .any(|head| head.starts_with("GET /token") && head.contains("Basic bWU6c2VjcmV0"))
    );
    let foreign = Scripted::start(|_| reply("200 OK", "", br#"{"access_token":"t0ken"}"#));
    let mut server = with_realm(Some(foreign.port));
    server.fails("asks for an authentication that holm does not know");
    server
        .access
        .plain
        .insert(format!("127.0.0.1:{}", foreign.port));
    server.pull().unwrap();
    assert_eq!(foreign.asked().len(), 1, "an anonymous token is asked for");
    assert!(!foreign.asked()[0].to_lowercase().contains("authorization"));
}

#[test]
fn attack_201_bodies_and_waits_are_bounded() {
    let endless = Try::new(|_, _| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {MANIFEST}\r\n\r\n");
        [head.into_bytes(), vec![b' '; 5 << 20]].concat()
    });
    endless.fails("sends more than 4194304 bytes");
    let mut large = Try::new(honest);
    large.access.bounds.bytes = 1000;
    large.fails("and at most 1000 are allowed");
    assert!(
        !large
            .server
            .asked()
            .iter()
            .any(|head| head.contains("/blobs/")),
        "nothing is loaded"
    );
    let (hold, held) = std::sync::mpsc::channel::<()>();
    let held = std::sync::Mutex::new(held);
    let mut silent = Try::new(move |_, _| {
        let _ = held.lock().unwrap().recv();
        Vec::new()
    });
    silent.access.bounds.answer = Duration::from_millis(50);
    silent.fails("did not answer in time");
    drop(hold);
}

#[test]
fn attack_201_the_callers_function_decides_about_destinations() {
    let server = Try::new(honest);
    let store = ContentStore::open(server.store.path()).unwrap();
    let error = pulled(
        &store.begin().unwrap(),
        &server.access,
        "169.254.169.254/app:1",
        &|_| {},
    )
    .unwrap_err();
    assert!(
        chain(&error).contains("permission denied"),
        "{}",
        chain(&error)
    );
}
