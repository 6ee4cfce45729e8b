//! What a browser shows besides its cookie: codes and tickets that work once, and the secrets of tabs.
//!
//! All of it is in memory. After a restart of the daemon a page gets a new secret with its cookie. Only digests are
//! kept, and each list is bounded: the oldest entry gives way.

use holm_core::TokenId;
use holm_core::token::{is_same, random_secret};
use sha2::{Digest, Sha256};
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// Secrets that work once, each with a value that it stands for.
pub struct OneUse<T>(VecDeque<Entry<T>>);

struct Entry<T> {
    digest: [u8; 32],
    ends: Instant,
    value: T,
}

/// The secrets of the tabs of each browser.
#[derive(Default)]
pub struct Tabs(HashMap<TokenId, VecDeque<[u8; 32]>>);

/// Unused secrets of one kind. A page asks for a ticket right before it uses it.
const MOST: usize = 256;

/// Open tabs of one browser.
const MOST_TABS: usize = 64;

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

// === impl OneUse ===

impl<T> Default for OneUse<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> OneUse<T> {
    /// Makes a secret that can be used until `lasts` has passed.
    pub fn add(&mut self, value: T, lasts: Duration, now: Instant) -> String {
        self.0.retain(|entry| entry.ends > now);
        if self.0.len() >= MOST {
            self.0.pop_front();
        }
        let secret = random_secret();
        self.0.push_back(Entry {
            digest: digest(&secret),
            ends: now + lasts,
            value,
        });
        secret
    }

    /// Uses a secret up.
    pub fn take(&mut self, secret: &str, now: Instant) -> Option<T> {
        let digest = digest(secret);
        let at = self
            .0
            .iter()
            .position(|entry| is_same(&entry.digest, &digest))?;
        let entry = self.0.remove(at)?;
        (entry.ends > now).then_some(entry.value)
    }
}

// === impl Tabs ===

impl Tabs {
    pub fn add(&mut self, browser: &TokenId) -> String {
        let tabs = self.0.entry(browser.clone()).or_default();
        if tabs.len() >= MOST_TABS {
            tabs.pop_front();
        }
        let secret = random_secret();
        tabs.push_back(digest(&secret));
        secret
    }

    pub fn has(&self, browser: &TokenId, secret: &str) -> bool {
        let digest = digest(secret);
        let tabs = self.0.get(browser);
        tabs.is_some_and(|tabs| tabs.iter().any(|tab| is_same(tab, &digest)))
    }

    pub fn forget(&mut self, browser: &TokenId) {
        self.0.remove(browser);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_works_once_and_not_too_late() {
        let now = Instant::now();
        let lasts = Duration::from_secs(30);
        let mut codes = OneUse::default();
        let [first, second] = [1, 2].map(|value| codes.add(value, lasts, now));
        assert_eq!(codes.take("nothing", now), None);
        assert_eq!(codes.take(&first, now), Some(1));
        assert_eq!(codes.take(&first, now), None);
        assert_eq!(codes.take(&second, now + lasts), None);
        assert_eq!(codes.take(&second, now), None, "a late try uses it up");
    }

    #[test]
    fn the_oldest_gives_way() {
        let now = Instant::now();
        let mut codes = OneUse::default();
        let secrets: Vec<_> = (0..=MOST)
            .map(|value| codes.add(value, Duration::from_secs(9), now))
            .collect();
        assert_eq!(codes.take(&secrets[0], now), None);
        assert_eq!(codes.take(&secrets[MOST], now), Some(MOST));
        let (browser, mut tabs) = (TokenId::random(), Tabs::default());
        let secrets: Vec<_> = (0..=MOST_TABS).map(|_| tabs.add(&browser)).collect();
        assert!(!tabs.has(&browser, &secrets[0]));
        assert!(tabs.has(&browser, &secrets[1]));
        assert!(!tabs.has(&TokenId::random(), &secrets[1]));
        tabs.forget(&browser);
        assert!(!tabs.has(&browser, &secrets[1]));
    }
}
