//! The TLS client that verifies hosts: used by the gateway, for webhooks, and by the daemon for registries.

use rustls::crypto::ring::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;

/// Verifies hosts by these CAs, as DER.
pub fn trusting(authorities: Vec<Vec<u8>>) -> Result<ClientConfig, rustls::Error> {
    let mut roots = RootCertStore::empty();
    // CA bundles contain certificates that rustls does not accept; those are skipped.
    roots.add_parsable_certificates(authorities.into_iter().map(CertificateDer::from));
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}
