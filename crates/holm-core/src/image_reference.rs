//! Names of images: `postgres:16`, `registry.example.org:5000/a/b@sha256:…`.
//!
//! `holm image` names images this way; no key of `holm.toml` names an image yet. A parsed reference is complete:
//! it has a registry, a repository and a tag or digest. The registry for names without a registry is
//! in `default_registry.txt`, and no other file says which public host holm pulls from.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

/// A sha256 digest, written `sha256:<64 hexadecimal digits>`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ImageDigest(String);

/// A complete name of an image.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ImageReference {
    /// In lower case, with a port if the reference has one.
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<ImageDigest>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    #[error("an image name is longer than {LONGEST} characters")]
    Long,
    #[error("`{0}` is not a registry host")]
    Registry(String),
    #[error("`{0}` is not the name of an image repository")]
    Repository(String),
    #[error("`{0}` is not an image tag")]
    Tag(String),
    #[error("`{0}` is not a sha256 digest")]
    Digest(String),
}

/// Where holm pulls images whose name has no registry.
#[derive(Debug)]
pub struct DefaultRegistry {
    /// The registry's name in references.
    pub name: &'static str,
    /// Another name that references and credential files use for it.
    pub alias: &'static str,
    /// The host that serves its API.
    pub host: &'static str,
    /// The host that issues its tokens.
    pub realm: &'static str,
    /// The first part of a repository name that a reference may leave out.
    pub official: &'static str,
}

const LONGEST: usize = 512;
const LONGEST_REPOSITORY: usize = 255;
const LONGEST_TAG: usize = 128;

pub static DEFAULT_REGISTRY: LazyLock<DefaultRegistry> = LazyLock::new(|| {
    let lines = include_str!("default_registry.txt").lines();
    let value = |key: &str| {
        let mut pairs = lines.clone().filter_map(|line| line.split_once(' '));
        pairs.find(|pair| pair.0 == key).map_or("", |pair| pair.1)
    };
    DefaultRegistry {
        name: value("name"),
        alias: value("alias"),
        host: value("host"),
        realm: value("realm"),
        official: value("official"),
    }
});

// === impl ImageDigest ===

impl ImageDigest {
    /// The digest of these 32 bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
        Self(format!("sha256:{}", digits.collect::<String>()))
    }

    /// The 64 digits without `sha256:`.
    pub fn hex(&self) -> &str {
        &self.0["sha256:".len()..]
    }
}

impl FromStr for ImageDigest {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        match text.strip_prefix("sha256:") {
            Some(hex) if hex.len() == 64 && hex.bytes().all(is_digit) => Ok(Self(text.to_owned())),
            _ => Err(ReferenceError::Digest(text.to_owned())),
        }
    }
}

impl fmt::Display for ImageDigest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl TryFrom<String> for ImageDigest {
    type Error = ReferenceError;

    fn try_from(text: String) -> Result<Self, ReferenceError> {
        text.parse()
    }
}

impl From<ImageDigest> for String {
    fn from(digest: ImageDigest) -> Self {
        digest.0
    }
}

// === impl ImageReference ===

impl ImageReference {
    /// The registry's name, with its port if the reference has one.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    pub fn repository(&self) -> &str {
        &self.repository
    }

    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    pub fn digest(&self) -> Option<&ImageDigest> {
        self.digest.as_ref()
    }

    /// The shortest name that means the same: without the default registry, and without what may be left out there.
    pub fn familiar(&self) -> String {
        let whole = self.to_string();
        let default = format!("{}/", DEFAULT_REGISTRY.name);
        let official = format!("{default}{}/", DEFAULT_REGISTRY.official);
        let shorter = [official, default].into_iter();
        let mut shorter = shorter.filter_map(|prefix| whole.strip_prefix(&prefix));
        let found = shorter.find(|name| name.parse().as_ref() == Ok(self));
        found.map(str::to_owned).unwrap_or(whole)
    }

    /// The host, and the port if there is one, that serves the registry's API.
    pub fn api_host(&self) -> &str {
        if self.registry == DEFAULT_REGISTRY.name {
            DEFAULT_REGISTRY.host
        } else {
            &self.registry
        }
    }
}

impl FromStr for ImageReference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        if text.len() > LONGEST {
            return Err(ReferenceError::Long);
        }
        let (name, digest) = match text.split_once('@') {
            Some((name, digest)) => (name, Some(digest.parse()?)),
            None => (text, None),
        };
        let (name, tag) = match name.rsplit_once(':') {
            // A colon before a slash begins a port.
            Some((name, tag)) if !tag.contains('/') => (name, Some(checked_tag(tag)?)),
            _ => (name, None),
        };
        let (registry, repository) = match name.split_once('/') {
            Some((first, rest)) if is_registry_like(first) => (checked_registry(first)?, rest),
            _ => (DEFAULT_REGISTRY.name.to_owned(), name),
        };
        let is_official = registry == DEFAULT_REGISTRY.name && !repository.contains('/');
        let parts_are_valid = repository.split('/').all(is_repository_part);
        if repository.len() > LONGEST_REPOSITORY || !parts_are_valid {
            return Err(ReferenceError::Repository(repository.to_owned()));
        }
        let repository = if is_official {
            format!("{}/{repository}", DEFAULT_REGISTRY.official)
        } else {
            repository.to_owned()
        };
        let tag = match (tag, &digest) {
            (None, None) => Some("latest".to_owned()),
            (tag, _) => tag,
        };
        Ok(Self {
            registry,
            repository,
            tag,
            digest,
        })
    }
}

impl fmt::Display for ImageReference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(formatter, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(formatter, "@{digest}")?;
        }
        Ok(())
    }
}

impl TryFrom<String> for ImageReference {
    type Error = ReferenceError;

    fn try_from(text: String) -> Result<Self, ReferenceError> {
        text.parse()
    }
}

impl From<ImageReference> for String {
    fn from(reference: ImageReference) -> Self {
        reference.to_string()
    }
}

/// The rule of Docker: without a dot or a port, `team/app` names a repository of the default registry.
fn is_registry_like(first: &str) -> bool {
    first.contains(['.', ':']) || first == "localhost"
}

/// A host name, an IPv4 address or an IPv6 address in brackets, and perhaps a port.
fn checked_registry(text: &str) -> Result<String, ReferenceError> {
    let wrong = || ReferenceError::Registry(text.to_owned());
    let lower = text.to_ascii_lowercase();
    let (host, port) = match lower.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (lower.as_str(), None),
    };
    let is_port = |port: &str| {
        port.bytes().all(|byte| byte.is_ascii_digit())
            && port.parse::<u16>().is_ok_and(|port| port > 0)
    };
    let is_label = |label: &str| {
        let is_of_label = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let is_edge_valid = !label.starts_with('-') && !label.ends_with('-');
        !label.is_empty() && label.len() <= 63 && is_edge_valid && label.bytes().all(is_of_label)
    };
    let address = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    let is_host = match address {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => host.len() <= 253 && host.split('.').all(is_label),
    };
    if !is_host || !port.is_none_or(is_port) {
        return Err(wrong());
    }
    if lower == DEFAULT_REGISTRY.alias || lower == DEFAULT_REGISTRY.host {
        return Ok(DEFAULT_REGISTRY.name.to_owned());
    }
    Ok(lower)
}

/// Lower-case letters and digits, separated by `.`, `_`, `__` or any number of `-`.
fn is_repository_part(part: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = [part.bytes().next(), part.bytes().next_back()];
    let separators = part.split(|letter: char| is_plain(letter as u8) && letter.is_ascii());
    ends.iter().all(|end| end.is_some_and(is_plain))
        && separators.filter(|it| !it.is_empty()).all(|separator| {
            matches!(separator, "." | "_" | "__") || separator.bytes().all(|byte| byte == b'-')
        })
}

fn checked_tag(tag: &str) -> Result<String, ReferenceError> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_of_tag = |byte: u8| is_word(byte) || byte == b'.' || byte == b'-';
    let begins_well = tag.bytes().next().is_some_and(is_word);
    if begins_well && tag.len() <= LONGEST_TAG && tag.bytes().all(is_of_tag) {
        Ok(tag.to_owned())
    } else {
        Err(ReferenceError::Tag(tag.to_owned()))
    }
}
