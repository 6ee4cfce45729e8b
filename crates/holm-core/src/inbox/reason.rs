//! Why a workspace needs a person, and how the inbox groups these reasons.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Why a workspace needs a person, the most urgent first.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[schema(as = InboxReason)]
pub enum Reason {
    /// A session rang, or a program called `notify`.
    Question,
    /// Egress or policy said no.
    Refused,
    /// Memory, disk, another resource or a time limit was used up.
    Limit,
    /// An agent's session has neither written output nor used the CPU for ten minutes.
    Stalled,
    /// The workspace, a service, a run or a check failed, or holm could not record a turn.
    Failed,
    /// Another live workspace of the project changed the same lines.
    Conflict,
    /// A run ended with changes that no person has looked at.
    Ready,
    /// An agent answered review comments.
    Comment,
}

/// The parts of the inbox, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    Waiting,
    Broken,
    Ready,
}

// === impl Reason ===

impl Reason {
    pub const ALL: [Self; 8] = [
        Self::Question,
        Self::Refused,
        Self::Limit,
        Self::Stalled,
        Self::Failed,
        Self::Conflict,
        Self::Ready,
        Self::Comment,
    ];
    /// Its words, in the same order.
    pub const WORDS: [&'static str; 8] = [
        "question", "refused", "limit", "stalled", "failed", "conflict", "ready", "comment",
    ];

    pub fn as_str(self) -> &'static str {
        Self::WORDS[self as usize]
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == text)
    }

    pub fn group(self) -> Group {
        match self {
            Self::Question | Self::Refused | Self::Limit | Self::Stalled => Group::Waiting,
            Self::Failed | Self::Conflict => Group::Broken,
            Self::Ready | Self::Comment => Group::Ready,
        }
    }

    /// What the next command is for.
    pub fn purpose(self) -> &'static str {
        match self {
            Self::Question => "answer it",
            Self::Refused | Self::Limit | Self::Stalled => "look at it",
            Self::Failed => "see why",
            Self::Conflict => "compare it",
            Self::Ready | Self::Comment => "read it",
        }
    }
}

// === impl Group ===

impl Group {
    pub const ALL: [Self; 3] = [Self::Waiting, Self::Broken, Self::Ready];

    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "Waiting for you",
            Self::Broken => "Broken",
            Self::Ready => "Ready to read",
        }
    }

    /// For pipes.
    pub fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Broken => "broken",
            Self::Ready => "ready",
        }
    }

    pub fn glyph(self) -> &'static str {
        match self {
            Self::Waiting => "◆",
            Self::Broken => "✗",
            Self::Ready => "●",
        }
    }
}
