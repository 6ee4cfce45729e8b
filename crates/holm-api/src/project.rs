//! Projects, trust, and sending a repository's objects to the daemon.
//!
//! - `GET  /projects` → [`ProjectList`]; `POST /projects` ([`NewProject`]) → [`MadeProject`];
//!   `PATCH /projects/{id}` ([`ChangeProject`]) → [`Project`]; `DELETE /projects/{id}` → [`Project`]
//! - `POST /projects/sync` ([`Sync`]) → [`SyncAnswer`], or `project_elsewhere` (409)
//! - `POST /projects/{id}/refs` ([`Refs`]) → [`Project`]: after the objects were linked
//! - `GET  /projects/{id}/receive-pack` → WebSocket whose binary messages are the bytes of git's
//!   receive-pack, for clients that cannot link; the client's text message [`PACK_EOF`] ends its
//!   side, the server closes with 1000 when it went well and sends an error body as text otherwise
//! - `POST /projects/{id}/trees` ([`TreeName`]) → [`TreePlace`]; `PUT /projects/{id}/trees`
//!   ([`TreeBrought`]) → [`TreePlace`]: a layer that the client brings, by filling the directory or by
//!   an upload
//! - `POST /trust/check` ([`TrustCheck`]) → [`TrustReport`]; `POST /trust` ([`TrustApprove`]) →
//!   [`TrustApprove`]

use crate::id::ProjectId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What the client says on the receive-pack socket when it has nothing more to send.
pub const PACK_EOF: &str = "eof";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Project {
    #[schema(value_type = ProjectId)]
    pub id: String,
    pub name: String,
    /// Where the repository was last seen (its main work tree).
    pub path: String,
    pub created_at: String,
    /// Live workspaces.
    pub workspaces: u64,
    /// Protected in every workspace of the project, besides those that its holm.toml names.
    #[serde(default)]
    pub protected_paths: Vec<String>,
    /// What the project itself was asked to have; null: its holm.toml says.
    #[serde(default)]
    #[schema(required)]
    pub isolation: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ProjectList {
    pub projects: Vec<Project>,
    /// There are more than were asked for: `after` takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// `POST /projects`: a repository of the daemon's user, by its `path` or `url`; only a `name` makes a new,
/// empty one below the first source folder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewProject {
    /// A directory of a known project, or below a source folder; absolute.
    #[serde(default)]
    pub path: Option<String>,
    /// https or ssh; cloned below the first source folder, unless it is there.
    #[serde(default)]
    pub url: Option<String>,
    /// What the directory is called, if it is made.
    #[serde(default)]
    pub name: Option<String>,
    /// Kept with the project: `workspace`, or `project`, which a person has to approve.
    #[serde(default)]
    pub isolation: Option<String>,
    /// Kept with the project: protected in every workspace that is made from now on, besides those
    /// that holm.toml names.
    #[serde(default)]
    pub protected_paths: Vec<String>,
}

/// `PATCH /projects/{id}`: what is asked of all workspaces that are made or reloaded from now on. What is
/// left out stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeProject {
    /// Paths that are protected, besides those that holm.toml names.
    #[serde(default)]
    pub protect: Vec<String>,
    /// Paths that no longer are, unless holm.toml names them.
    #[serde(default)]
    pub unprotect: Vec<String>,
    /// `workspace`, or `project`, which a person has to approve.
    #[serde(default)]
    pub isolation: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MadeProject {
    #[serde(flatten)]
    pub project: Project,
    /// Whether it was not known before.
    #[serde(default)]
    pub created: bool,
    /// What is left to do for the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// "This repository is here; do you know it, and do you have this commit?"
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ProjectSync)]
pub struct Sync {
    /// `holm.projectId` of the repository, if it has one.
    #[schema(value_type = Option<ProjectId>)]
    pub project_id: Option<String>,
    /// The wish for a name (holm.toml's or the directory's); made valid and unique by the daemon.
    pub name: String,
    /// The main work tree.
    pub path: String,
    /// The common git directory and what identifies it on disk.
    pub git_dir: String,
    pub device: u64,
    pub inode: u64,
    /// The client looked: the id's earlier repository is gone, so this one has moved here.
    pub moved: bool,
    pub object_format: String,
    /// The commit that is wanted, if any.
    pub commit: Option<String>,
    /// A digest of all refs that would be sent.
    pub refs_digest: String,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SyncAnswer {
    pub project: Project,
    /// The commit or the refs are not there as the client has them: send objects and refs.
    pub needed: bool,
    /// The daemon's object directory, when the client may link into it (same user, same machine).
    #[schema(required)]
    pub objects_dir: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Refs {
    /// (name, object id): branches, tags, remote-tracking branches, and the wanted commit.
    pub refs: Vec<(String, String)>,
    pub commit: Option<String>,
    pub shallow: Vec<String>,
    pub digest: String,
}

/// What a `holm.toml`, or a repository's own git configuration, asks of the host.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TrustCheck {
    #[schema(value_type = ProjectId)]
    pub project_id: String,
    pub config: Option<String>,
    /// The patterns of `.worktreeinclude`: asked for like `project.include`.
    #[serde(default)]
    pub worktree_include: Vec<String>,
    /// Settings of the repository's own git configuration. With any, the check is about these alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<GitSetting>,
}

/// A setting of a repository's own git configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GitSetting {
    pub key: String,
    pub value: String,
    /// The submodule whose setting it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submodule: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TrustReport {
    pub asks: Vec<Ask>,
    /// Identifies exactly these asks.
    pub digest: String,
    pub approved: bool,
    /// When something was last approved for this project, whatever it was.
    #[schema(required)]
    pub approved_at: Option<String>,
    /// What is different since then; all of it where nothing was.
    pub changes: Vec<AskChange>,
}

/// How one ask differs from what was approved last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AskChange {
    pub change: ChangeKind,
    pub key: String,
    /// Of the ask as it is now; of one that was removed, as it was.
    pub words: String,
    /// Of one that was changed, as it was.
    #[schema(required)]
    pub before: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    Added,
    Removed,
    Changed,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Ask {
    /// The key in holm.toml (`project.include`), or `git` and the name of a setting of git.
    pub key: String,
    /// In plain words.
    pub words: String,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TrustApprove {
    #[schema(value_type = ProjectId)]
    pub project_id: String,
    /// What the check said. Approved is only what the content below asks for, if it has this digest.
    pub digest: String,
    pub config: Option<String>,
    #[serde(default)]
    pub worktree_include: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<GitSetting>,
}

/// What a client brings of its side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum TreeName {
    /// Build output of the checkout.
    Warm,
    /// A snapshot of a cache: its name, and where it is inside.
    Cache { name: String, path: String },
}

/// Where a tree goes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TreePlace {
    /// It is there already, whole; nothing is to be brought.
    pub is_present: bool,
    /// What it is called until it is brought.
    #[schema(required)]
    pub name: Option<String>,
    /// An empty directory that a client of the same user may fill.
    #[schema(required)]
    pub directory: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TreeBrought {
    pub tree: TreeName,
    pub name: String,
    /// An upload: a tar. `None`: the directory was filled.
    pub upload: Option<String>,
    /// When the checkout's files were changed, so that build tools find them as old as they are.
    #[serde(default)]
    pub dates: Vec<FileDate>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FileDate {
    pub path: String,
    /// The id of the content that it has.
    pub object: String,
    pub seconds: i64,
    pub nanoseconds: u32,
}
