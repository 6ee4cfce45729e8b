//! Pulls an image from a registry by its API, version 2.
//!
//! The tag is resolved once; everything after that is asked for by digest, so a tag that changes during a pull
//! cannot mix two images. Credentials go only to the registry's host and to its token realm: on the same host,
//! or the realm in `default_registry.txt`. A blob may be redirected to another host, which gets no credentials.
//! All connections are made by the caller's function.

mod challenge;
mod download;
mod http;

pub use http::{Connection, Destination, Dial, Duplex, RequestError};

use crate::blob::BlobError;
use crate::config::{ConfigError, ImageConfig};
use crate::document::{DEEPEST, LARGEST_DOCUMENT};
use crate::document::{Descriptor, Document, DocumentError, Manifest};
use crate::media::MediaType;
use crate::platform::Platform;
use crate::store::{StoreError, Writing, digest_of};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use challenge::{Challenge, token};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use holm_core::image_reference::{DEFAULT_REGISTRY, ImageDigest, ImageReference};
use http::{Address, Answer};
use hyper::StatusCode;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderName, WWW_AUTHENTICATE};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use zeroize::Zeroizing;

/// How a pull reaches registries, and what it may use.
#[derive(Clone)]
pub struct Access {
    pub dial: Dial,
    pub tls: Arc<rustls::ClientConfig>,
    /// Registries, as `host` or `host:port`, that speak HTTP without TLS. The user's settings name them.
    pub plain: BTreeSet<String>,
    pub credentials: Option<Credentials>,
    pub bounds: PullBounds,
}

/// A user name and password for one registry.
#[derive(Clone)]
pub struct Credentials {
    /// As in references: with the port if there is one.
    pub registry: String,
    pub user: String,
    pub password: Zeroizing<String>,
}

#[derive(Clone, Copy, Debug)]
pub struct PullBounds {
    /// Until a connection is open, and until an answer begins.
    pub answer: Duration,
    /// Between two parts of a body.
    pub stall: Duration,
    /// The whole pull.
    pub whole: Duration,
    /// All blobs of the image.
    pub bytes: u64,
    /// How many transfers in a row may break without a new byte before the pull fails.
    pub attempts: usize,
    /// How many blobs are loaded at once.
    pub parallel: usize,
}

/// An image that is now in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulled {
    /// What the reference named: the manifest, or an index above it.
    pub document: Descriptor,
    pub manifest: Descriptor,
    pub config: ImageConfig,
}

/// How much of one blob is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    pub digest: ImageDigest,
    pub done: u64,
    pub total: u64,
    /// The bytes of all blobs of the image that the store did not have when the pull began.
    pub missing: u64,
}

/// Receives how many bytes of a blob are there.
type Note<'a> = dyn Fn(&Descriptor, u64) + Sync + 'a;

#[derive(Debug, thiserror::Error)]
pub enum PullError {
    #[error("cannot ask the registry {registry}")]
    Request {
        registry: String,
        source: RequestError,
    },
    #[error("{registry} has no image `{reference}`, or it needs other credentials ({status})")]
    Absent {
        registry: String,
        reference: String,
        status: StatusCode,
    },
    #[error("{registry} answered with {status} for `{what}`")]
    Status {
        registry: String,
        what: String,
        status: StatusCode,
    },
    #[error("{registry} asks for an authentication that holm does not know")]
    Challenge { registry: String },
    #[error("the manifest from {registry} has the digest {real} instead of {stated}")]
    Digest {
        registry: String,
        stated: String,
        real: ImageDigest,
    },
    #[error("a manifest has {real} bytes instead of its stated {stated}")]
    Size { real: u64, stated: u64 },
    #[error("the image has {bytes} bytes, and at most {most} are allowed")]
    Large { bytes: u64, most: u64 },
    #[error("a manifest of the image is refused")]
    Document(#[from] DocumentError),
    #[error("the config of the image is refused")]
    Config(#[from] ConfigError),
    #[error("a blob of the image cannot be stored")]
    Blob(#[from] BlobError),
    #[error("the image store failed")]
    Store(#[from] StoreError),
    #[error("indexes of the image name each other too often")]
    Deep,
    #[error("the pull took longer than {0:?}")]
    Time(Duration),
}

const LARGEST_TOKEN: u64 = 1 << 20;
const CONTENT_DIGEST: HeaderName = HeaderName::from_static("docker-content-digest");

impl Default for PullBounds {
    fn default() -> Self {
        Self {
            answer: Duration::from_secs(30),
            stall: Duration::from_secs(30),
            whole: Duration::from_secs(3600),
            bytes: 64 << 30,
            attempts: 4,
            parallel: 4,
        }
    }
}

/// Pulls the image that `reference` names for `platform` into the store.
pub async fn pull(
    writing: &Writing,
    access: &Access,
    reference: &ImageReference,
    platform: &Platform,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Pulled, PullError> {
    let whole = access.bounds.whole;
    let source = Source {
        access,
        reference,
        authorization: Mutex::new(None),
    };
    let pulling = source.pull(writing, platform, progress);
    let pulled = tokio::time::timeout(whole, pulling).await;
    pulled.unwrap_or(Err(PullError::Time(whole)))
}

/// One repository of one registry, during one pull.
pub(crate) struct Source<'a> {
    access: &'a Access,
    reference: &'a ImageReference,
    /// The value of the `Authorization` header that the registry accepted.
    authorization: Mutex<Option<Zeroizing<String>>>,
}

// === impl Source ===

impl Source<'_> {
    async fn pull(
        &self,
        writing: &Writing,
        platform: &Platform,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<Pulled, PullError> {
        let (document, bytes) = self.first().await?;
        writing.put(&bytes, document.media_type.clone())?;
        let (manifest, parsed) = self.resolve(writing, &document, bytes, platform).await?;
        let sizes = parsed.layers.iter().map(|layer| layer.blob.size);
        let bytes = sizes.fold(parsed.config.size, u64::saturating_add);
        let most = self.access.bounds.bytes;
        if bytes > most {
            return Err(PullError::Large { bytes, most });
        }
        // An image may name the same layer several times.
        let layers = parsed.layers.iter().map(|layer| &layer.blob);
        let layers = layers.map(|blob| ((&blob.digest, blob.size), blob));
        let layers: BTreeMap<_, &Descriptor> = layers.collect();
        let mut missing = 0;
        for blob in layers.values().copied().chain([&parsed.config]) {
            if !writing.store().has(blob)? {
                missing += blob.size;
            }
        }
        let progress = |blob: &Descriptor, done: u64| {
            progress(Progress {
                digest: blob.digest.clone(),
                done,
                total: blob.size,
                missing,
            });
        };
        let progress: &Note<'_> = &progress;
        // The config is first: it is small, and a wrong one saves the rest.
        self.download(writing, &parsed.config, progress).await?;
        let config = ImageConfig::read::<PullError>(writing.store(), &parsed)?;
        let downloads = layers.into_values();
        let downloads = downloads.map(|blob| self.download(writing, blob, progress));
        // A list of futures first: the compiler cannot infer that the lazy iterator is `Send`.
        let downloads: Vec<_> = downloads.collect();
        let parallel = self.access.bounds.parallel.max(1);
        stream::iter(downloads)
            .buffer_unordered(parallel)
            .try_collect::<()>()
            .await?;
        Ok(Pulled {
            document,
            manifest,
            config,
        })
    }

    /// What the reference itself names.
    async fn first(&self) -> Result<(Descriptor, Vec<u8>), PullError> {
        let digest = self.reference.digest();
        let name = match digest {
            Some(digest) => digest.to_string(),
            None => self.reference.tag().unwrap_or("latest").to_owned(),
        };
        self.document(&name, digest).await
    }

    /// Follows indexes to the manifest for `platform`.
    async fn resolve(
        &self,
        writing: &Writing,
        first: &Descriptor,
        mut bytes: Vec<u8>,
        platform: &Platform,
    ) -> Result<(Descriptor, Manifest), PullError> {
        let mut document = first.clone();
        for _ in 0..DEEPEST {
            let index = match Document::parse(&bytes, &document.media_type)? {
                Document::Manifest(manifest) => return Ok((document, manifest)),
                Document::Index(index) => index,
            };
            let stated = index.choose(platform)?.document.clone();
            let (loaded, content) = self
                .document(&stated.digest.to_string(), Some(&stated.digest))
                .await?;
            if loaded.size != stated.size {
                let (real, stated) = (loaded.size, stated.size);
                return Err(PullError::Size { real, stated });
            }
            writing.put(&content, stated.media_type.clone())?;
            (document, bytes) = (stated, content);
        }
        Err(PullError::Deep)
    }

    /// Loads a manifest or index, and compares its digest with every digest that anything states.
    async fn document(
        &self,
        name: &str,
        digest: Option<&ImageDigest>,
    ) -> Result<(Descriptor, Vec<u8>), PullError> {
        let accepted: Vec<&str> = MediaType::manifests().collect();
        let headers = [(ACCEPT, accepted.join(", "))];
        let path = format!("manifests/{name}");
        let answer = self.ask(&path, &headers).await?;
        match answer.status() {
            StatusCode::OK => {}
            status @ (StatusCode::NOT_FOUND | StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
                return Err(PullError::Absent {
                    registry: self.registry(),
                    reference: self.reference.to_string(),
                    status,
                });
            }
            status => return Err(self.unexpected(path, status)),
        }
        let media_type = answer.header(&CONTENT_TYPE).unwrap_or_default();
        let media_type = media_type.split(';').next().unwrap_or_default().trim();
        let media_type = MediaType::new(media_type);
        let stated = answer.header(&CONTENT_DIGEST);
        let stall = self.access.bounds.stall;
        let bytes = answer.collect(LARGEST_DOCUMENT, stall).await;
        let bytes = bytes.map_err(|source| self.failed(source))?;
        let real = digest_of(&bytes);
        let wanted = digest.map(ToString::to_string);
        for stated in [wanted, stated].into_iter().flatten() {
            if stated != real.to_string() {
                return Err(PullError::Digest {
                    registry: self.registry(),
                    stated,
                    real,
                });
            }
        }
        let document = Descriptor {
            media_type,
            digest: real,
            size: bytes.len() as u64,
        };
        Ok((document, bytes))
    }

    /// Asks for something of the repository, and signs in if the registry wants it.
    async fn ask(&self, path: &str, headers: &[(HeaderName, String)]) -> Result<Answer, PullError> {
        let address = self.address(path);
        let authorization = self.authorization();
        let answer = self.send(&address, headers, authorization).await?;
        if answer.status() != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        let challenge = answer.header(&WWW_AUTHENTICATE).unwrap_or_default();
        drop(answer);
        let authorization = self.sign_in(&challenge).await?;
        *self.held() = Some(authorization.clone());
        self.send(&address, headers, Some(authorization)).await
    }

    /// The value of `Authorization` that answers a challenge.
    async fn sign_in(&self, challenge: &str) -> Result<Zeroizing<String>, PullError> {
        let unknown = || PullError::Challenge {
            registry: self.registry(),
        };
        match Challenge::parse(challenge).ok_or_else(unknown)? {
            Challenge::Basic => self.basic().ok_or_else(unknown),
            Challenge::Bearer { realm, service } => {
                let mut address = Address::parse(&realm).ok_or_else(unknown)?;
                if !address.is_tls && !self.access.plain.contains(&address.authority) {
                    return Err(unknown());
                }
                let scope = format!("repository:{}:pull", self.reference.repository());
                address.add_query(&[("service", &service), ("scope", &scope)]);
                // Another host gets no credentials, whatever the registry says.
                let credentials = self.basic().filter(|_| self.is_own_realm(&address));
                let answer = self.send(&address, &[], credentials).await?;
                if answer.status() != StatusCode::OK {
                    return Err(self.unexpected(realm, answer.status()));
                }
                let body = answer
                    .collect(LARGEST_TOKEN, self.access.bounds.stall)
                    .await;
                let body = body.map_err(|source| self.failed(source))?;
                let token = token(&body).ok_or_else(unknown)?;
                Ok(Zeroizing::new(format!("Bearer {}", *token)))
            }
        }
    }

    /// A realm on the registry's host, or the one that the data file names for the default registry.
    fn is_own_realm(&self, realm: &Address) -> bool {
        let own = self.address("");
        let is_default = self.reference.registry() == DEFAULT_REGISTRY.name;
        realm.is_same_server(&own)
            || (is_default && realm.is_tls && realm.authority == DEFAULT_REGISTRY.realm)
    }

    fn basic(&self) -> Option<Zeroizing<String>> {
        let credentials = self.access.credentials.as_ref();
        let credentials = credentials.filter(|it| it.registry == self.reference.registry())?;
        let pair = format!("{}:{}", credentials.user, *credentials.password);
        let encoded = STANDARD.encode(Zeroizing::new(pair).as_bytes());
        Some(Zeroizing::new(format!("Basic {encoded}")))
    }

    async fn send(
        &self,
        address: &Address,
        headers: &[(HeaderName, String)],
        authorization: Option<Zeroizing<String>>,
    ) -> Result<Answer, PullError> {
        let authorization = authorization.as_ref().map(|value| value.as_str());
        let sent = http::get(self.access, address, headers, authorization).await;
        sent.map_err(|source| self.failed(source))
    }

    fn address(&self, path: &str) -> Address {
        let authority = self.reference.api_host().to_owned();
        let is_tls = !self.access.plain.contains(&authority);
        let path = format!("/v2/{}/{path}", self.reference.repository());
        Address {
            is_tls,
            authority,
            path,
        }
    }

    fn authorization(&self) -> Option<Zeroizing<String>> {
        self.held().clone()
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Option<Zeroizing<String>>> {
        self.authorization
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn registry(&self) -> String {
        self.reference.registry().to_owned()
    }

    fn failed(&self, source: RequestError) -> PullError {
        PullError::Request {
            registry: self.registry(),
            source,
        }
    }

    fn unexpected(&self, what: String, status: StatusCode) -> PullError {
        PullError::Status {
            registry: self.registry(),
            what,
            status,
        }
    }
}
