//! A token as programs carry it: `holm_<id>_<secret>`. The id finds its record, the secret proves it.
//!
//! What must stay true: the secret is printed by [`Bearer::text`] and by nothing else.

use crate::TokenId;
use crate::id::{is_random, random};
use std::fmt;

/// A token with its secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Bearer {
    pub id: TokenId,
    secret: String,
}

/// What a token may be called.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a token's name is 1 to {LONGEST_NAME} characters without control characters")]
pub struct InvalidName;

/// 260 random bits: nobody guesses it, so its digest needs no slow function.
const SECRET: usize = 52;

/// Longer ones are not read at all.
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

    /// Reads a token as it was printed; `None` for everything else.
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

    /// The whole token, as it is shown once.
    pub fn text(&self) -> String {
        format!("holm_{}_{}", self.id, self.secret)
    }
}

impl fmt::Debug for Bearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bearer({})", self.id)
    }
}

/// Another secret of the same strength, for whoever needs no id beside it.
pub fn random_secret() -> String {
    random::<SECRET>()
}

/// Checks what somebody called a token.
pub fn check_name(name: &str) -> Result<(), InvalidName> {
    let length = name.chars().count();
    let is_plain = !name.chars().any(char::is_control);
    match (1..=LONGEST_NAME).contains(&length) && is_plain {
        true => Ok(()),
        false => Err(InvalidName),
    }
}

/// Whether two digests are the same, in a time that does not tell where they differ.
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
