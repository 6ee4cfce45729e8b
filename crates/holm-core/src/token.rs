//! An access token: `holm_<id>_<secret>`. The id finds its record, the secret proves it.
//!
//! Invariant: only [`Bearer::text`] prints the secret.

use crate::TokenId;
use crate::id::{is_random, random};
use std::fmt;

/// A token with its secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Bearer {
    pub id: TokenId,
    secret: String,
}

/// What holds a token, which decides where it counts and what it may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A program that uses the API.
    Program,
    /// A program that may approve trees, too.
    Approver,
    /// A browser that is signed in to the dashboard. Its token counts only as its cookie, with the proof of a tab.
    Browser,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a token's name is 1 to {LONGEST_NAME} characters without control characters")]
pub struct InvalidName;

/// 260 random bits cannot be guessed, so a fast hash is enough.
const SECRET: usize = 52;

/// Longer texts are refused unread.
const LONGEST_TEXT: usize = 128;

const LONGEST_NAME: usize = 40;

// === impl Bearer ===

impl Bearer {
    pub fn random() -> Self {
        Self {
            id: TokenId::random(),
            secret: random::<SECRET>(),
        }
    }

    /// Parses a token as printed; `None` for everything else.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > LONGEST_TEXT {
            return None;
        }
        let (id, secret) = text.strip_prefix("holm_")?.split_once('_')?;
        let id = TokenId::parse(id).ok()?;
        is_random(secret, SECRET).then(|| Self {
            id,
            secret: secret.to_owned(),
        })
    }

    /// The whole token, shown once.
    pub fn text(&self) -> String {
        format!("holm_{}_{}", self.id, self.secret)
    }
}

impl fmt::Debug for Bearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bearer({})", self.id)
    }
}

// === impl Holder ===

impl Holder {
    /// What the holder may do besides using the API, as stored and shown; empty: nothing.
    pub const fn right(self) -> &'static str {
        match self {
            Holder::Program => "",
            Holder::Approver => "approve",
            Holder::Browser => "dashboard",
        }
    }

    pub fn of_right(text: &str) -> Option<Self> {
        let all = [Holder::Program, Holder::Approver, Holder::Browser];
        all.into_iter().find(|holder| holder.right() == text)
    }
}

/// A secret of the same strength without an id.
pub fn random_secret() -> String {
    random::<SECRET>()
}

/// Checks a token's name.
pub fn check_name(name: &str) -> Result<(), InvalidName> {
    let length = name.chars().count();
    let is_plain = !name.chars().any(char::is_control);
    if (1..=LONGEST_NAME).contains(&length) && is_plain {
        Ok(())
    } else {
        Err(InvalidName)
    }
}

/// Compares digests in constant time.
pub fn is_same(left: &[u8; 32], right: &[u8; 32]) -> bool {
    let pairs = left.iter().zip(right);
    let difference = pairs.fold(0, |found, (left, right)| found | (left ^ right));
    std::hint::black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_was_printed_and_in_no_other_form() {
        let bearer = Bearer::random();
        let text = bearer.text();
        assert_eq!(Bearer::parse(&text), Some(bearer.clone()));
        assert!(!format!("{bearer:?}").contains(&bearer.secret));
        for wrong in [
            "",
            "holm_",
            "holm__",
            &text[1..],
            &text[..text.len() - 1],
            &format!("{text}0"),
            &format!(" {text}"),
            &text.to_uppercase(),
            &text.replace("holm_t", "holm_w"),
            &"x".repeat(100_000),
        ] {
            assert_eq!(Bearer::parse(wrong), None, "{wrong}");
        }
        assert_ne!(random_secret(), random_secret());
    }

    #[test]
    fn digests_are_compared_whole() {
        let mut other = [7; 32];
        assert!(is_same(&[7; 32], &other));
        for place in [0, 15, 31] {
            other[place] ^= 128;
            assert!(!is_same(&[7; 32], &other), "{place}");
            other[place] ^= 128;
        }
    }

    #[test]
    fn names() {
        for good in ["ci", "my laptop", "é", &"x".repeat(40)] {
            assert_eq!(check_name(good), Ok(()), "{good}");
        }
        for wrong in ["", "a\nb", "\u{1b}[2J", &"x".repeat(41)] {
            assert_eq!(check_name(wrong), Err(InvalidName), "{wrong:?}");
        }
    }
}
