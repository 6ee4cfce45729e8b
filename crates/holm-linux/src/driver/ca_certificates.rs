//! CA certificates for programs inside: the machine's list, those of the user's settings (`[network] ca`), and in
//! a workspace with placeholders the authority of this installation. Other workspaces are not affected.
//!
//! Every kind of program has its own way to find CA certificates; each gets the same list.

use crate::launch::LaunchPlan;
use holm_keeper::directories::WorkspaceDirs;
use holm_keeper::guest::AUTHORITY;
use holm_keeper::roots;
use sha1::{Digest, Sha1};
use std::fs;
use std::io;

/// Variables that name a file with all certificates. `SSL_CERT_FILE`: OpenSSL, Python, Go, Rust.
const BUNDLE_VARIABLES: [&str; 4] = [
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
];
/// Node adds this file to its own list.
const EXTRA_VARIABLE: &str = "NODE_EXTRA_CA_CERTS";
const JAVA_VARIABLE: &str = "JAVA_TOOL_OPTIONS";

/// The file contains no secret; Java requires a password, and this is its usual one.
const JAVA_PASSWORD: &str = "changeit";

/// Writes the files, and adds variables and mounts to the plan.
pub fn prepare(plan: &mut LaunchPlan, dirs: &WorkspaceDirs) -> io::Result<()> {
    let place = dirs.authority();
    let keeper = &mut plan.keeper;
    let mut standins = keeper
        .secrets
        .iter()
        .filter_map(|grant| grant.placeholder.as_ref());
    let authority = standins.next().map(|standin| standin.authority.as_str());
    let added = [authority, Some(keeper.surrounding.ca.as_str())];
    let added: String = added.into_iter().flatten().collect();
    if added.is_empty() {
        return match fs::remove_dir_all(&place) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    }
    fs::create_dir_all(&place)?;
    let mut bundle = roots::bundle();
    if !bundle.is_empty() && !bundle.ends_with(b"\n") {
        bundle.push(b'\n');
    }
    bundle.extend(added.as_bytes());
    fs::write(place.join("ca.pem"), &added)?;
    fs::write(
        place.join("java.jks"),
        java_store(&holm_proxy::gateway::certificates(&bundle)),
    )?;
    fs::write(place.join("bundle.pem"), &bundle)?;
    plan.bundles = roots::covered();
    let variables =
        BUNDLE_VARIABLES.map(|name| (name.to_owned(), format!("{AUTHORITY}/bundle.pem")));
    keeper.environment.extend(variables);
    let extra = (EXTRA_VARIABLE.to_owned(), format!("{AUTHORITY}/ca.pem"));
    let java = format!(
        "-Djavax.net.ssl.trustStore={AUTHORITY}/java.jks -Djavax.net.ssl.trustStoreType=JKS \
         -Djavax.net.ssl.trustStorePassword={JAVA_PASSWORD}"
    );
    keeper
        .environment
        .extend([extra, (JAVA_VARIABLE.to_owned(), java)]);
    Ok(())
}

/// Java's own format (JKS), which every Java reads.
fn java_store(certificates: &[Vec<u8>]) -> Vec<u8> {
    let mut store = Vec::new();
    store.extend(0xfeed_feed_u32.to_be_bytes());
    store.extend(2_u32.to_be_bytes());
    store.extend((certificates.len() as u32).to_be_bytes());
    let text = |store: &mut Vec<u8>, text: &str| {
        store.extend((text.len() as u16).to_be_bytes());
        store.extend(text.as_bytes());
    };
    for (number, certificate) in certificates.iter().enumerate() {
        // A trusted certificate, its name, and an unused time.
        store.extend(2_u32.to_be_bytes());
        text(&mut store, &format!("holm-{number}"));
        store.extend(0_u64.to_be_bytes());
        text(&mut store, "X.509");
        store.extend((certificate.len() as u32).to_be_bytes());
        store.extend(certificate);
    }
    let mut digest = Sha1::new();
    for unit in JAVA_PASSWORD.encode_utf16() {
        digest.update(unit.to_be_bytes());
    }
    digest.update(b"Mighty Aphrodite");
    digest.update(&store);
    store.extend(digest.finalize());
    store
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_what_java_says_it_is() {
        let empty = java_store(&[]);
        assert_eq!(&empty[..12], b"\xfe\xed\xfe\xed\0\0\0\x02\0\0\0\0");
        assert_eq!(empty.len(), 12 + 20);
        let one = java_store(&[vec![1, 2, 3]]);
        assert_eq!(&one[12..16], [0, 0, 0, 2]);
        assert_eq!(&one[16..24], b"\0\x06holm-0");
        assert_eq!(&one[32..46], b"\0\x05X.509\0\0\0\x03\x01\x02\x03");
    }
}
