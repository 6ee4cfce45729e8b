//! Files of a workspace's tree, on the wire. Every route takes `?path=` below the project's root,
//! percent-encoded byte by byte (`%ff` is a byte that is not UTF-8). Routes that take a directory
//! use the root without it.
//!
//! - `GET /workspaces/{id}/files` → a directory as [`FileList`] (`after`, `limit`), a file as its
//!   bytes
//!   (`offset`, `length`, `mask`); a parameter of one of the two refuses the other
//! - `PUT /workspaces/{id}/files` (the bytes; `mode`, `parents`) → [`FileEntry`]
//! - `DELETE /workspaces/{id}/files` (`recursive`) → [`FileDone`]
//! - `GET /workspaces/{id}/files/stat` → [`FileEntry`]
//! - `GET /workspaces/{id}/files/search` (`pattern`, `regex`, `limit`) → [`FileMatches`]
//! - `GET /workspaces/{id}/files/archive` → a directory as tar
//! - `PUT /workspaces/{id}/files/archive` (a tar archive) → [`FileDone`]

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Raw bytes, for the schema of bodies that are not JSON.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
pub struct RawBytes(pub Vec<u8>);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FileList {
    /// Sorted by the bytes of their names.
    pub entries: Vec<FileEntry>,
    /// There are more; use the last name as `after`.
    pub more: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FileEntry {
    /// Bytes that are not UTF-8 are written `\xNN`; then `name_bytes` has the exact name.
    pub name: String,
    /// file directory link other
    pub kind: String,
    pub size: u64,
    /// In octal (`0644`).
    pub mode: String,
    pub modified: String,
    /// The target of a symlink, which is not followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_bytes: Option<Vec<u8>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_bytes: Option<Vec<u8>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FileMatches {
    pub matches: Vec<FileMatch>,
    /// There are more matches than the limit.
    pub more: bool,
    /// Files and directories that could not be read or are too large.
    pub skipped: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FileMatch {
    /// Below the project's root, written as [`FileEntry::name`] is.
    pub path: String,
    /// From 1.
    pub line: u64,
    /// The line, or the beginning of a long one.
    pub text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<Vec<u8>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FileDone {
    /// Written as [`FileEntry::name`] is.
    pub path: String,
}
