//! The digest of a text: of what a person approves, and of files whose content an approval covers.

use sha2::{Digest, Sha256};
use std::fmt::Write;

/// Identifies a text.
pub fn digest_of(text: &str) -> String {
    let hash = Sha256::digest(text);
    hash.iter()
        .fold(String::with_capacity(64), |mut text, byte| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}
