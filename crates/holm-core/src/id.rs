//! Ids: the only keys of holm. Random, opaque, immutable, never reused.
//!
//! A [`WorkspaceId`] and a [`Label`](crate::Label) do not convert into each other:
//!
//! ```compile_fail
//! use holm_core::{Label, WorkspaceId};
//! let label = Label::parse("fix-login").unwrap();
//! let id: WorkspaceId = label.into();
//! ```
//!
//! ```compile_fail
//! use holm_core::{Label, WorkspaceId};
//! fn remove(id: &WorkspaceId) {}
//! remove(&Label::parse("fix-login").unwrap());
//! ```

use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::ToSchema;

/// Base32 without look-alikes (no `i l o u`), in order of value.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The random characters after an id's prefix: 60 bits.
const RANDOM_LEN: usize = 12;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {what}: `{prefix}` and 12 of 0-9a-z without i, l, o, u")]
pub struct NotAnId {
    text: String,
    what: &'static str,
    prefix: char,
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $what:literal) => {
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
        #[serde(try_from = "String")]
        $(#[$doc])*
        pub struct $name(String);

        impl $name {
            /// A new id from the system's random source.
            pub fn random() -> Self {
                Self(random_text($prefix))
            }

            /// Parses an id as printed, without trimming or case folding.
            pub fn parse(text: &str) -> Result<Self, NotAnId> {
                if has_id_shape(text, $prefix) {
                    Ok(Self(text.to_owned()))
                } else {
                    Err(NotAnId { text: text.to_owned(), what: $what, prefix: $prefix })
                }
            }
        }

        crate::checked_text!($name);

        impl TryFrom<String> for $name {
            type Error = NotAnId;

            fn try_from(text: String) -> Result<Self, NotAnId> {
                Self::parse(&text)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id!(
    /// The id of a workspace: `w` and 12 of 0-9a-z without i, l, o and u.
    #[schema(pattern = "^w[0-9a-hjkmnp-tv-z]{12}$", example = "w4k9m2x7c0qa1")]
    WorkspaceId,
    'w',
    "a workspace id"
);
id!(
    /// The id of a project: `p` and 12 of 0-9a-z without i, l, o and u.
    #[schema(pattern = "^p[0-9a-hjkmnp-tv-z]{12}$", example = "p7d3k9v2n5te8")]
    ProjectId,
    'p',
    "a project id"
);
id!(
    /// The id of a run: `r` and 12 of 0-9a-z without i, l, o and u.
    #[schema(pattern = "^r[0-9a-hjkmnp-tv-z]{12}$", example = "r4k9m2x7c0qa1")]
    RunId,
    'r',
    "a run id"
);

id!(
    /// The id of a session: `s` and 12 of 0-9a-z without i, l, o and u.
    #[schema(pattern = "^s[0-9a-hjkmnp-tv-z]{12}$", example = "s5w2j8r4y6fb3")]
    SessionId,
    's',
    "a session id"
);

id!(
    /// The id of a token: `t` and 12 of 0-9a-z without i, l, o and u.
    #[schema(pattern = "^t[0-9a-hjkmnp-tv-z]{12}$", example = "t7d3k9v2n5te8")]
    TokenId,
    't',
    "a token id"
);
id!(
    /// The id of a request, in its response and in the audit record.
    RequestId,
    'q',
    "a request id"
);

/// Whether `text` looks like an id of the kind that starts with `prefix`.
pub(crate) fn has_id_shape(text: &str, prefix: char) -> bool {
    text.strip_prefix(prefix)
        .is_some_and(|rest| is_random(rest, RANDOM_LEN))
}

/// Whether `text` could be the beginning of a workspace id.
pub(crate) fn is_id_prefix(text: &str) -> bool {
    text.len() >= 2
        && text.len() <= RANDOM_LEN + 1
        && text.starts_with('w')
        && text.bytes().skip(1).all(|byte| ALPHABET.contains(&byte))
}

fn random_text(prefix: char) -> String {
    let mut text = String::with_capacity(RANDOM_LEN + 1);
    text.push(prefix);
    text.push_str(&random::<RANDOM_LEN>());
    text
}

/// Random characters of the alphabet, five bits each.
pub(crate) fn random<const LENGTH: usize>() -> String {
    let mut bytes = [0u8; LENGTH];
    // The random source does not fail on supported kernels. Without it no id can be made, so
    // stopping is better than continuing.
    getrandom::fill(&mut bytes).expect("the system's random source");
    let letters = bytes.iter().map(|byte| ALPHABET[usize::from(byte & 31)]);
    letters.map(char::from).collect()
}

/// Whether `text` is `length` characters of the alphabet.
pub(crate) fn is_random(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| ALPHABET.contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_can_be_read_and_nothing_else() {
        let id = WorkspaceId::random();
        assert_eq!(WorkspaceId::parse(id.as_str()), Ok(id.clone()));
        for wrong in [
            "",
            "w",
            "w123",
            "p0123456789ab",
            "w0123456789aB",
            "w0123456789al",
            " w0123456789ab",
        ] {
            assert!(WorkspaceId::parse(wrong).is_err(), "{wrong}");
        }
        assert!(ProjectId::parse(id.as_str()).is_err());
    }

    #[test]
    fn ids_do_not_repeat() {
        let many: std::collections::HashSet<_> =
            (0..10_000).map(|_| WorkspaceId::random()).collect();
        assert_eq!(many.len(), 10_000);
    }
}
