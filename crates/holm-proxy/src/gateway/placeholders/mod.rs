//! Secrets that a workspace may use but never sees. The workspace has a token for each; the gateway
//! replaces the token by the value in requests to the hosts that `holm.toml` declares for it.
//!
//! For such a host and port the gateway terminates TLS itself, with a certificate that only this
//! workspace trusts. It verifies the host's own certificate against the machine's CAs and carries
//! HTTP/1.1 between the two ([`serve`]). [`head`] decides what changes in a request; [`head`],
//! [`body`] and, for a WebSocket, [`frames`] what changes in a response. All other traffic, also
//! plain HTTP to the same host, passes unchanged, with the token, which is worthless.
//!
//! The process that runs this holds the secrets of one workspace and leaf certificates for single
//! names. It has neither the CA's key nor data of other workspaces.

mod body;
mod frames;
mod head;
mod renew;
mod serve;

pub use renew::{NewTokens, Renewing};

use crate::tls::trusting;
use holm_core::agents::known::is_listed;
use holm_secrets::Value;
use holm_secrets::authority::Leaf;
use holm_secrets::exchange::Exchange;
use renew::Renewal;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{default_provider, sign::any_supported_type};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, ServerConfig};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

/// The only protocol offered on both sides; clients that prefer HTTP/2 fall back to it.
const PROTOCOL: &[u8] = b"http/1.1";

/// A secret that the gateway may use.
#[derive(Clone, Debug)]
pub struct Placeholder {
    pub name: String,
    /// What the workspace has in place of the value.
    pub token: String,
    pub value: Value,
    /// Normalised names, and ports.
    pub hosts: Vec<(String, u16)>,
    pub expires_at: Option<SystemTime>,
    pub insertion: Insertion,
}

/// Where in requests the value is put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Insertion {
    /// Into the heads of requests for these paths.
    Heads(Paths),
    /// Into the gateway's own request for a new access token ([`renew`]).
    Renewal { agent: String, path: String },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Paths {
    All,
    Listed(Vec<String>),
}

/// The current placeholders of a workspace.
#[derive(Default)]
pub struct Placeholders {
    secrets: Vec<Ready>,
    hosts: HashMap<(String, u16), Arc<ServerConfig>>,
    answers: Option<Answers>,
    /// Built for the first inspected connection.
    outside: OnceLock<Arc<ClientConfig>>,
}

/// Replaces values by tokens in responses.
#[derive(Clone)]
struct Answers {
    text: Exchange,
    /// For header names, which are lower case.
    names: Exchange,
}

struct Ready {
    name: String,
    token: String,
    value: Value,
    insertion: Insertion,
    hosts: Vec<(String, u16)>,
    expires_at: Option<SystemTime>,
    exchange: Exchange,
}

/// An inspected host, for the life of a connection to it.
#[derive(Clone)]
pub struct Inspected {
    pub host: String,
    pub port: u16,
    tls: Arc<ServerConfig>,
}

/// A leaf certificate that rustls does not accept.
#[derive(Debug, thiserror::Error)]
pub enum InvalidLeaf {
    #[error("the certificate for {0} is damaged")]
    Damaged(String),
    #[error("cannot set up TLS")]
    Tls(#[source] rustls::Error),
}

/// Offers the certificate only when the client asks for exactly this name.
#[derive(Debug)]
struct OneName {
    host: String,
    key: Arc<CertifiedKey>,
}

// === impl Placeholders ===

impl Placeholders {
    /// `leaves` must hold a certificate for every host that a secret names.
    pub fn new(secrets: Vec<Placeholder>, leaves: &[Leaf]) -> Result<Self, InvalidLeaf> {
        if secrets.is_empty() {
            return Ok(Self::default());
        }
        let provider = Arc::new(default_provider());
        let mut hosts = HashMap::new();
        let named = secrets.iter().flat_map(|secret| &secret.hosts);
        for (host, port) in named {
            let Some(leaf) = leaves.iter().find(|leaf| leaf.host == *host) else {
                return Err(InvalidLeaf::Damaged(host.clone()));
            };
            let tls = server_config(leaf, &provider)?;
            hosts.insert((host.clone(), *port), Arc::new(tls));
        }
        let pairs = secrets
            .iter()
            .map(|secret| (secret.token.as_str(), &secret.value));
        Ok(Self {
            answers: Some(Answers::new(pairs)),
            secrets: secrets.into_iter().map(Ready::from).collect(),
            hosts,
            outside: OnceLock::new(),
        })
    }

    /// Whether connections to this host are inspected, and how.
    pub fn inspected(&self, host: &str, port: u16) -> Option<Inspected> {
        let tls = self.hosts.get(&(host.to_owned(), port))?;
        Some(Inspected {
            host: host.to_owned(),
            port,
            tls: Arc::clone(tls),
        })
    }

    /// The secrets that may be used at this host now.
    fn usable(&self, at: &Inspected, path: &str, now: SystemTime) -> Vec<(&str, &Exchange)> {
        let is_usable = |secret: &&Ready| {
            let is_path = match &secret.insertion {
                Insertion::Heads(Paths::All) => true,
                Insertion::Heads(Paths::Listed(listed)) => is_listed(path, listed),
                Insertion::Renewal { .. } => false,
            };
            is_path && secret.is_for(at) && secret.expires_at.is_none_or(|end| now < end)
        };
        let usable = self.secrets.iter().filter(is_usable);
        usable
            .map(|secret| (secret.name.as_str(), &secret.exchange))
            .collect()
    }

    /// The sign-in that a request for this path could refresh.
    fn renewal(&self, at: &Inspected, asked: &str) -> Option<Renewal> {
        self.secrets
            .iter()
            .find_map(|secret| match &secret.insertion {
                Insertion::Renewal { agent, path } if path == asked && secret.is_for(at) => {
                    Some(Renewal {
                        agent: agent.clone(),
                        name: secret.name.clone(),
                        token: secret.token.clone(),
                        value: secret.value.clone(),
                    })
                }
                _ => None,
            })
    }

    /// The TLS client configuration, which verifies hosts against the machine's CAs.
    fn outside(
        &self,
        trusted: impl FnOnce() -> Vec<Vec<u8>>,
    ) -> Result<Arc<ClientConfig>, rustls::Error> {
        if let Some(config) = self.outside.get() {
            return Ok(Arc::clone(config));
        }
        let mut config = trusting(trusted())?;
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(Arc::clone(self.outside.get_or_init(|| Arc::new(config))))
    }
}

// === impl Answers ===

impl Answers {
    fn new<'a>(pairs: impl Iterator<Item = (&'a str, &'a Value)> + Clone) -> Self {
        Self {
            text: Exchange::into_tokens(pairs.clone()),
            names: Exchange::into_tokens_in_names(pairs),
        }
    }
}

// === impl Ready ===

impl Ready {
    fn is_for(&self, at: &Inspected) -> bool {
        let is_here = |(host, port): &(String, u16)| *host == at.host && *port == at.port;
        self.hosts.iter().any(is_here)
    }
}

impl From<Placeholder> for Ready {
    fn from(secret: Placeholder) -> Self {
        Self {
            exchange: Exchange::into_value(&secret.token, &secret.value),
            name: secret.name,
            token: secret.token,
            value: secret.value,
            insertion: secret.insertion,
            hosts: secret.hosts,
            expires_at: secret.expires_at,
        }
    }
}

// === impl OneName ===

impl ResolvesServerCert for OneName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let asked = hello.server_name()?;
        asked
            .eq_ignore_ascii_case(&self.host)
            .then(|| Arc::clone(&self.key))
    }
}

/// The certificates in a PEM text as DER; other blocks are skipped.
pub fn certificates(pem: &[u8]) -> Vec<Vec<u8>> {
    let found = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok);
    found.map(|certificate| certificate.to_vec()).collect()
}

fn server_config(leaf: &Leaf, provider: &Arc<CryptoProvider>) -> Result<ServerConfig, InvalidLeaf> {
    let damaged = || InvalidLeaf::Damaged(leaf.host.clone());
    let certificate =
        CertificateDer::from_pem_slice(leaf.certificate.as_bytes()).map_err(|_| damaged())?;
    let key = PrivateKeyDer::from_pem_slice(leaf.key.reveal().as_bytes()).map_err(|_| damaged())?;
    let key = any_supported_type(&key).map_err(InvalidLeaf::Tls)?;
    let only = OneName {
        host: leaf.host.clone(),
        key: Arc::new(CertifiedKey::new(vec![certificate], key)),
    };
    let mut config = ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_safe_default_protocol_versions()
        .map_err(InvalidLeaf::Tls)?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(only));
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(config)
}
