//! The secrets that a workspace declares.

use super::word;
use crate::config::{self, Inject};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A declared secret, without its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Secret {
    pub name: String,
    pub source: SecretSource,
    #[serde(with = "word")]
    pub inject: Inject,
    /// Names of services, `runs`, `sessions`.
    pub to: Vec<String>,
    /// How long a value is valid, in milliseconds.
    pub ttl_ms: Option<u64>,
    /// For a placeholder: the hosts where it may be used, as in `holm.toml`.
    #[serde(default)]
    pub hosts: Vec<String>,
}

/// The source of a secret. The user's own client reads all but stored ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum SecretSource {
    Env(String),
    /// As written in `holm.toml`.
    File(String),
    Command(Vec<String>),
    Stored,
}

// === impl SecretSource ===

impl From<&config::SecretSource> for SecretSource {
    fn from(source: &config::SecretSource) -> Self {
        match source {
            config::SecretSource::Env(variable) => Self::Env(variable.to_string()),
            config::SecretSource::File(place) => Self::File(place.to_string()),
            config::SecretSource::Command(argv) => Self::Command(argv.clone()),
            config::SecretSource::Stored => Self::Stored,
        }
    }
}
