//! The machine's CA certificates, which the distribution keeps in one file. Used by the gateway,
//! which verifies hosts with it, and by the driver, which shows it inside.

use std::fs;
use std::path::{Path, PathBuf};

/// Where distributions keep it; some have several names for one file.
const BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The existing files with symlinks resolved, each once.
pub fn files() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = Vec::new();
    for bundle in BUNDLES {
        if let Ok(file) = fs::canonicalize(bundle)
            && file.is_file()
            && !files.contains(&file)
        {
            files.push(file);
        }
    }
    files
}

/// The first of them; a machine without any trusts no CA.
pub fn bundle() -> Vec<u8> {
    let first = files().into_iter().next();
    first
        .and_then(|file| fs::read(file).ok())
        .unwrap_or_default()
}

/// Its certificates as DER.
pub fn certificates() -> Vec<Vec<u8>> {
    holm_proxy::gateway::certificates(&bundle())
}

/// Only files below `/etc` are covered inside; others are part of the system.
pub fn covered() -> Vec<PathBuf> {
    let files = files().into_iter();
    files
        .filter(|file| file.starts_with(Path::new("/etc")))
        .collect()
}
