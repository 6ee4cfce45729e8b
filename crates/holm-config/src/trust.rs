//! The digest of an approval, and what the user's settings grant anyway.
//!
//! Called by `up`, `trust` and the daemon. The decision itself is in `holm_core::trust`.

pub use super::digest::digest_of;
use super::user::UserConfig;
use holm_core::config::ProtectedPath;
use holm_core::trust::{Ask, Baseline, canonical};

/// Identifies exactly these requests.
pub fn digest(asks: &[Ask]) -> String {
    digest_of(&canonical(asks))
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
