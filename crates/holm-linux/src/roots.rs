//! Whose certificates the machine believes, as its distribution keeps them in one file. Used by the
//! gateway, which verifies hosts by it, and by the driver, which shows it inside.

use std::fs;
use std::path::{Path, PathBuf};

/// Where distributions have it; some have several names for one file.
const BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The files that are there, links followed, each once.
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

/// The first of them; a machine without any believes nobody.
pub fn bundle() -> Vec<u8> {
    let first = files().into_iter().next();
    first
        .and_then(|file| fs::read(file).ok())
        .unwrap_or_default()
}

/// What is in it, each as DER.
pub fn certificates() -> Vec<Vec<u8>> {
    holm_proxy::gateway::certificates(&bundle())
}

/// Only what is below `/etc` is covered inside; elsewhere it is part of the system.
pub fn covered() -> Vec<PathBuf> {
    let files = files().into_iter();
    files
        .filter(|file| file.starts_with(Path::new("/etc")))
        .collect()
}
