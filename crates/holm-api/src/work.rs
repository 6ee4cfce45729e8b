//! Work that comes back, on the wire.
//!
//! - `POST /workspaces/{id}/capture` ([`Capture`]) → JSON Lines of [`CaptureEvent`], the last of
//!   which is `captured` or `error`: the working tree, as objects inside
//! - `GET  /workspaces/{id}/changes` → [`ChangeList`]: against the commit it started from
//! - `GET  /workspaces/{id}/diff` → a patch, as `git diff` writes it
//!
//! `changes` and `diff` take `?tree=` of an earlier [`Captured`], and capture anew without it. The
//! objects themselves are fetched by `git upload-pack`, which a client runs by `exec`.

use crate::error::ErrorDetail;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Capture {
    /// Commit everything inside first, with this message.
    #[serde(default)]
    pub commit: Option<String>,
    #[serde(default)]
    pub depth: Depth,
}

/// How much is made objects of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Depth {
    /// Nothing: what HEAD leads to, and which files are not committed.
    Head,
    /// The tree.
    #[default]
    Tree,
    /// The tree, and a commit of it that can be fetched.
    State,
}

/// The state of a workspace's tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Captured {
    /// The commit that the workspace started from.
    #[schema(required)]
    pub start: Option<String>,
    /// The tree that `up --dirty` brought, if it did.
    #[schema(required)]
    pub dirty_start: Option<String>,
    /// What HEAD inside leads to; `None` before the first commit.
    #[schema(required)]
    pub head: Option<String>,
    /// The tree of everything that is not ignored; from [`Depth::Tree`] on.
    #[schema(required)]
    pub tree: Option<String>,
    /// A commit of that tree on top of `start`, with [`Depth::State`].
    #[schema(required)]
    pub state: Option<String>,
    /// How many files are not as in `head`, and the first few.
    pub uncommitted: u64,
    pub uncommitted_names: Vec<String>,
    /// Repositories in the tree that git does not know as submodules; they are not in `tree`.
    pub nested: Vec<String>,
    /// What could not be read.
    pub unread: Vec<String>,
    /// How many stashes there are; with a depth of `tree` it is not asked.
    #[serde(default)]
    pub stashes: u64,
    /// The first few refs whose commits neither `head` nor the user's repository has; with a depth of
    /// `tree` it is not asked.
    #[serde(default)]
    pub aside: Vec<String>,
}

/// One line of the answer to `POST /workspaces/{id}/capture`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CaptureEvent {
    Progress { step: String, done: u64, total: u64 },
    Captured(Box<Captured>),
    Error(ErrorDetail),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChangeList {
    pub changes: Vec<Change>,
}

/// One changed file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Change {
    /// Bytes that are not UTF-8 are written `\xNN`; then `path_bytes` has the exact name.
    pub path: String,
    /// create update delete rename
    pub operation: String,
    /// Only of a rename: the earlier path.
    #[schema(required)]
    pub from: Option<String>,
    pub binary: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<Vec<u8>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_bytes: Option<Vec<u8>>,
}
