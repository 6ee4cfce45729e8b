//! Bringing work back, on the wire.
//!
//! - `POST /workspaces/{id}/capture` ([`Capture`]) → JSON Lines of [`CaptureEvent`], the last of
//!   which is `captured` or `error`: writes the working tree as git objects inside
//! - `GET  /workspaces/{id}/changes` → [`ChangeList`]: against the commit it started from
//! - `GET  /workspaces/{id}/diff` → a patch, as `git diff` writes it
//!
//! `changes` and `diff` take `?tree=` of an earlier [`Captured`], and capture again without it.
//! Clients fetch the objects with `git upload-pack`, which they run by `exec`.

use crate::error::ErrorDetail;
use holm_core::capture::Depth;
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

/// The state of a workspace's tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Captured {
    /// The commit that the workspace started from.
    #[schema(required)]
    pub start: Option<String>,
    /// The tree of `up --dirty`, if it was used.
    #[schema(required)]
    pub dirty_start: Option<String>,
    /// The commit of HEAD inside; `None` before the first commit.
    #[schema(required)]
    pub head: Option<String>,
    /// The tree of all files that are not ignored; from [`Depth::Tree`] on.
    #[schema(required)]
    pub tree: Option<String>,
    /// A commit of that tree on top of `start`, with [`Depth::State`].
    #[schema(required)]
    pub state: Option<String>,
    /// How many files differ from `head`, and the first few.
    pub uncommitted: u64,
    pub uncommitted_names: Vec<String>,
    /// Nested repositories that are not submodules; `tree` does not contain them.
    pub nested: Vec<String>,
    /// Files that could not be read.
    pub unread: Vec<String>,
    /// The number of stashes; not determined for `tree`.
    #[serde(default)]
    pub stashes: u64,
    /// The first few refs whose commits neither `head` nor the user's repository has; not
    /// determined for `tree`.
    #[serde(default)]
    pub aside: Vec<String>,
}

/// One line of the response to `POST /workspaces/{id}/capture`.
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
    /// The earlier path of a renamed file.
    #[schema(required)]
    pub from: Option<String>,
    pub binary: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<Vec<u8>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_bytes: Option<Vec<u8>>,
}
