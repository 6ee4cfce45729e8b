//! The stored form of a workspace's move to another commit.

use super::BuiltImage;
use crate::moves::Reaction;
use serde::{Deserialize, Serialize};

/// A move to another commit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Move {
    pub commit: String,
    /// The name as the user typed it; `None` for a commit id.
    pub ref_name: Option<String>,
    /// Names the refs inside that keep the earlier state.
    pub at: String,
    pub manner: Manner,
    /// Lines of a shallow clone's `shallow` file.
    pub shallow: Vec<String>,
    /// The tree has the commit.
    pub is_there: bool,
    pub owed: Owed,
    /// The images of services that were built for the commit. When the tree has the commit, the services get them and
    /// the workspace restarts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<BuiltImage>,
}

/// How to handle uncommitted changes and own commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Manner {
    /// Refuse if there are uncommitted changes.
    Refuse,
    /// Stash uncommitted changes.
    Stash,
    /// As `Refuse`, and also refuse if there are commits that the new one does not contain.
    Forward,
}

/// The steps that follow a switch of the tree.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Owed {
    /// `setup` runs in place first.
    pub set_up: bool,
    /// The reaction of each service, by name.
    #[serde(with = "crate::spec::word::reactions")]
    pub reactions: Vec<(String, Reaction)>,
}
