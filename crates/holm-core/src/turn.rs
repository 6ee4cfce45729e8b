//! Turns: the tree of a workspace as it was at one moment. This module has the words; the server records
//! them and the store keeps them.

use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::ToSchema;

/// A part of the daemon's refusal to let a commit leave. git prints that text without its code, and the client
/// recognises it by this.
pub const UNAPPROVED: &str = "is not approved, and";

/// Why a turn was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TurnCause {
    /// A run ended.
    Run,
    /// A session wrote nothing for a while, after it had.
    Session,
    Stop,
    /// A person or a command of a person asked for it.
    Mark,
}

/// The number of a turn as a person types it: `@3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TurnNumber(pub u64);

/// What the layer that programs inside write has and what git inside recorded, where the two differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Discrepancy {
    /// Bytes that are not UTF-8 are written `\xNN`.
    pub path: String,
    pub kind: DiscrepancyKind,
}

/// The first matters most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiscrepancyKind {
    /// It changed while the turn was recorded.
    Moving,
    /// The layer has too many entries to be listed, so nothing was compared and hidden files are not known.
    Uncompared,
    /// The file has other content than git inside recorded, or git did not record it.
    Differs,
    /// git recorded a change that the layer does not have.
    Invented,
    /// Ignored only by a rule that was added inside.
    Hidden,
    /// A repository of its own inside the tree; its files are not recorded.
    Nested,
    /// It could not be read: a directory without permission, a socket, a device.
    Unread,
    /// So large that its content was not compared.
    TooLarge,
    /// There are more discrepancies than are stored; the path says how many.
    Unlisted,
}

// === impl TurnCause ===

impl TurnCause {
    pub const ALL: [Self; 4] = [Self::Run, Self::Session, Self::Stop, Self::Mark];

    pub fn as_str(self) -> &'static str {
        match self {
            TurnCause::Run => "run",
            TurnCause::Session => "session",
            TurnCause::Stop => "stop",
            TurnCause::Mark => "mark",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.as_str() == text)
    }
}

// === impl TurnNumber ===

impl TurnNumber {
    /// Parses `@3`.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix('@')?;
        let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
        is_plain.then(|| digits.parse().ok().map(Self)).flatten()
    }

    /// Splits `WS@3` into the text that names a workspace and the turn.
    pub fn split(text: &str) -> Option<(&str, Self)> {
        let place = text.rfind('@')?;
        Some((&text[..place], Self::parse(&text[place..])?))
    }
}

impl fmt::Display for TurnNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.0)
    }
}

/// Added and removed lines: `+184 −88`, without what is 0.
pub fn numbers(added: u64, removed: u64) -> String {
    match (added, removed) {
        (0, 0) => String::new(),
        (added, 0) => format!("+{added}"),
        (0, removed) => format!("−{removed}"),
        (added, removed) => format!("+{added} −{removed}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_typed_as_a_number_behind_an_at() {
        for (text, expected) in [
            ("@3", Some(3)),
            ("@120", Some(120)),
            ("3", None),
            ("@", None),
            ("@0", None),
            ("@03", None),
            ("@-1", None),
            ("@+1", None),
            ("@99999999999999999999999", None),
        ] {
            let number = TurnNumber::parse(text).map(|number| number.0);
            assert_eq!(number, expected, "{text}");
        }
        let split = TurnNumber::split("shop/fix@2");
        assert_eq!(split, Some(("shop/fix", TurnNumber(2))));
        assert_eq!(TurnNumber::split("fix"), None);
        assert_eq!(TurnNumber::split("fix@x"), None);
    }
}
