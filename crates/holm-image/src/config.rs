//! The config of an image: how its programs start, and the digests of its unpacked layers.

use crate::document::{LARGEST_CONFIG, Manifest};
use crate::platform::Platform;
use crate::store::{ContentStore, StoreError};
use holm_core::image_reference::ImageDigest;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageConfig {
    pub platform: Platform,
    pub entrypoint: Vec<String>,
    pub command: Vec<String>,
    /// Names and values, in the image's order.
    pub environment: Vec<(String, String)>,
    /// As written: a name or number, and perhaps a group after a colon.
    pub user: Option<String>,
    /// Absolute.
    pub working_directory: Option<String>,
    pub stop_signal: Option<String>,
    /// Absolute paths inside.
    pub volumes: Vec<String>,
    pub ports: Vec<ExposedPort>,
    pub labels: BTreeMap<String, String>,
    /// The digests of the uncompressed layers, from the lowest to the topmost.
    pub layers: Vec<ImageDigest>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExposedPort {
    pub port: u16,
    pub protocol: Protocol,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    Tcp,
    Udp,
    Sctp,
}

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("an image config is not valid JSON")]
    Json(#[from] serde_json::Error),
    #[error("an image config has the wrong value `{value}` in `{field}`")]
    Value { field: &'static str, value: String },
    #[error("an image config lists {listed} layers, but its manifest has {present}")]
    Layers { listed: usize, present: usize },
}

#[derive(Deserialize)]
struct Raw {
    os: String,
    architecture: String,
    variant: Option<String>,
    config: Option<RawStart>,
    rootfs: RawRoot,
}

#[derive(Deserialize)]
struct RawRoot {
    r#type: String,
    diff_ids: Vec<ImageDigest>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RawStart {
    user: Option<String>,
    exposed_ports: Option<BTreeMap<String, IgnoredAny>>,
    env: Option<Vec<String>>,
    entrypoint: Option<Vec<String>>,
    cmd: Option<Vec<String>>,
    volumes: Option<BTreeMap<String, IgnoredAny>>,
    working_dir: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    stop_signal: Option<String>,
}

// === impl ImageConfig ===

impl ImageConfig {
    /// Reads the config of a manifest, which is in the store.
    pub(crate) fn read<E>(store: &ContentStore, manifest: &Manifest) -> Result<Self, E>
    where
        E: From<StoreError> + From<ConfigError>,
    {
        let bytes = store.read(&manifest.config.digest, LARGEST_CONFIG)?;
        Ok(Self::parse(&bytes, manifest.layers.len())?)
    }

    /// Parses the config of a manifest with `present` layers.
    pub fn parse(bytes: &[u8], present: usize) -> Result<Self, ConfigError> {
        let raw: Raw = serde_json::from_slice(bytes)?;
        if raw.rootfs.r#type != "layers" {
            return Err(wrong("rootfs.type", &raw.rootfs.r#type));
        }
        let layers = raw.rootfs.diff_ids;
        if layers.len() != present {
            let listed = layers.len();
            return Err(ConfigError::Layers { listed, present });
        }
        let start = raw.config.unwrap_or_default();
        let ports = start.exposed_ports.unwrap_or_default();
        let ports = ports.keys().map(|text| port(text));
        let volumes = start.volumes.unwrap_or_default();
        let volumes = volumes.into_keys().map(|path| absolute("Volumes", path));
        let environment = start.env.unwrap_or_default();
        let environment = environment.iter().map(|text| variable(text));
        let directory = start.working_dir.filter(|path| !path.is_empty());
        let directory = directory.map(|path| absolute("WorkingDir", path));
        Ok(Self {
            platform: Platform {
                os: raw.os,
                architecture: raw.architecture,
                variant: raw.variant.filter(|variant| !variant.is_empty()),
            },
            entrypoint: words("Entrypoint", start.entrypoint)?,
            command: words("Cmd", start.cmd)?,
            environment: environment.collect::<Result<_, _>>()?,
            user: plain("User", start.user)?,
            working_directory: directory.transpose()?,
            stop_signal: plain("StopSignal", start.stop_signal)?,
            volumes: volumes.collect::<Result<_, _>>()?,
            ports: ports.collect::<Result<_, _>>()?,
            labels: start.labels.unwrap_or_default(),
            layers,
        })
    }
}

fn wrong(field: &'static str, value: &str) -> ConfigError {
    let value = value.escape_debug().take(200).collect();
    ConfigError::Value { field, value }
}

/// `5432`, `5432/tcp`.
fn port(text: &str) -> Result<ExposedPort, ConfigError> {
    let (port, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
    let protocol = match protocol {
        "tcp" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        "sctp" => Protocol::Sctp,
        _ => return Err(wrong("ExposedPorts", text)),
    };
    match port.parse() {
        Ok(port) if port > 0 => Ok(ExposedPort { port, protocol }),
        _ => Err(wrong("ExposedPorts", text)),
    }
}

fn variable(text: &str) -> Result<(String, String), ConfigError> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !text.contains('\0') => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err(wrong("Env", text)),
    }
}

fn absolute(field: &'static str, path: String) -> Result<String, ConfigError> {
    let climbs = path.split('/').any(|part| part == "..");
    if path.starts_with('/') && !climbs && !path.contains('\0') {
        Ok(path)
    } else {
        Err(wrong(field, &path))
    }
}

fn words(field: &'static str, words: Option<Vec<String>>) -> Result<Vec<String>, ConfigError> {
    let words = words.unwrap_or_default();
    match words.iter().find(|word| word.contains('\0')) {
        Some(word) => Err(wrong(field, word)),
        None => Ok(words),
    }
}

/// A value of one line; an empty one counts as absent.
fn plain(field: &'static str, text: Option<String>) -> Result<Option<String>, ConfigError> {
    match text.filter(|text| !text.is_empty()) {
        Some(text) if text.contains(char::is_control) => Err(wrong(field, &text)),
        text => Ok(text),
    }
}
