//! The digest that stands for what a person approved, and what the user's settings give anyway.
//!
//! Called by `up`, `trust` and the daemon. The decision itself is in `holm_core::trust`.

use super::user::UserConfig;
use holm_core::config::ProtectedPath;
use holm_core::trust::{Ask, Baseline, canonical};
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// Identifies exactly these asks.
pub fn digest(asks: &[Ask]) -> String {
    let hash = Sha256::digest(canonical(asks));
    hash.iter()
        .fold(String::with_capacity(64), |mut text, byte| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

/// What a project of this user gets without asking. `protected_before` is what was in force for
/// the project until now, if anything was.
pub fn baseline(user: &UserConfig, protected_before: Option<Vec<ProtectedPath>>) -> Baseline {
    let agents = user.agents.iter();
    let with_credentials =
        agents.filter(|(_, agent)| !agent.env.is_empty() || !agent.files.is_empty());
    Baseline {
        egress: user.egress.clone(),
        limits: user.limits.clone(),
        agents_with_credentials: with_credentials.map(|(name, _)| name.clone()).collect(),
        protected_before,
        isolation: None,
    }
}

#[cfg(test)]
#[path = "trust_tests.rs"]
mod tests;
