//! The digest of an approval, and what the user's settings grant anyway.
//!
//! Called by `up`, `trust` and the daemon. The decision itself is in `holm_core::trust`.

use super::user::UserConfig;
use holm_core::config::ProtectedPath;
use holm_core::trust::{Ask, Baseline, canonical};
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// Identifies exactly these requests.
pub fn digest(asks: &[Ask]) -> String {
    digest_of(&canonical(asks))
}

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

/// What a project of this user gets without approval. `protected_before` are the protected paths in
/// force until now, if any.
pub fn baseline(user: &UserConfig, protected_before: Option<Vec<ProtectedPath>>) -> Baseline {
    let agents = user.agents.iter();
    let with_credentials =
        agents.filter(|(_, agent)| !agent.env.is_empty() || !agent.files.is_empty());
    Baseline {
        egress: user.egress.clone(),
        limits: user.limits,
        agents_with_credentials: with_credentials.map(|(name, _)| name.clone()).collect(),
        protected_before,
        isolation: None,
    }
}

#[cfg(test)]
#[path = "trust_tests.rs"]
mod tests;
