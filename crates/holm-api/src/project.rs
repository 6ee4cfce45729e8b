//! Projects, trust, and sending a repository's objects to the daemon.
//!
//! - `GET  /projects` → [`ProjectList`]; `POST /projects` ([`NewProject`]) → [`MadeProject`];
//!   `PATCH /projects/{id}` ([`ChangeProject`]) → [`Project`]; `DELETE /projects/{id}` → [`Project`]
//! - `POST /projects/sync` ([`Sync`]) → [`SyncAnswer`], or `project_elsewhere` (409)
//! - `GET  /projects/{id}/refs?find=` → [`Starts`]: refs of the user's repository, for a person who chooses one
//! - `GET  /projects/{id}/trust` → [`TrustQuestions`]; `POST` ([`TrustAnswer`]) approves them
//! - `POST /projects/{id}/refs` ([`Refs`]) → [`Project`]: after the objects were linked
//! - `GET  /projects/{id}/receive-pack` → WebSocket whose binary messages are the bytes of git's
//!   receive-pack, for clients that cannot link; the client's text message [`PACK_EOF`] ends its
//!   side, the server closes with 1000 when it went well and sends an error body as text otherwise
//! - `POST /projects/{id}/trees` ([`TreeName`]) → [`TreePlace`]; `PUT /projects/{id}/trees`
//!   ([`TreeBrought`]) → [`TreePlace`]: a layer that the client provides, by filling the directory or by an upload
//! - `POST /trust/check` ([`TrustCheck`]) → [`TrustReport`]; `POST /trust` ([`TrustApprove`]) →
//!   [`TrustApprove`]

use holm_core::ProjectId;
use holm_core::compose::ComposeFiles;
use holm_core::git_settings::GitSetting;
use holm_core::layer::{FileDate, InstalledLock};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The client's message on the receive-pack socket that ends its input.
pub const PACK_EOF: &str = "eof";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Project {
    #[schema(value_type = ProjectId)]
    pub id: String,
    pub name: String,
    /// The main work tree of the repository, where it was last seen.
    pub path: String,
    pub created_at: String,
    /// The number of live workspaces.
    pub workspaces: u64,
    /// Protected in every workspace of the project, besides the paths in its holm.toml.
    #[serde(default)]
    pub protected_paths: Vec<String>,
    /// The project's own setting; null: holm.toml decides.
    #[serde(default)]
    #[schema(required)]
    pub isolation: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ProjectList {
    pub projects: Vec<Project>,
    /// Set if there are more projects; use it as `after`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// `POST /projects`: a repository of the daemon's user, by its `path` or `url`. With only a `name`,
/// an empty repository is created below the first source folder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewProject {
    /// An absolute path of a known project, or below a source folder.
    #[serde(default)]
    pub path: Option<String>,
    /// https or ssh; cloned below the first source folder, unless it exists.
    #[serde(default)]
    pub url: Option<String>,
    /// The name of a new directory.
    #[serde(default)]
    pub name: Option<String>,
    /// Stored with the project: `workspace`, or `project`, which a person has to approve.
    #[serde(default)]
    pub isolation: Option<String>,
    /// Stored with the project: protected in every workspace created from now on, besides the paths
    /// in holm.toml.
    #[serde(default)]
    pub protected_paths: Vec<String>,
}

/// `PATCH /projects/{id}`: settings for all workspaces that are created or reloaded from now on.
/// Omitted fields stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeProject {
    /// Paths to protect, besides those in holm.toml.
    #[serde(default)]
    pub protect: Vec<String>,
    /// Paths to stop protecting, unless holm.toml names them.
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
    /// Whether the project is new.
    #[serde(default)]
    pub created: bool,
    /// What the user still has to do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Registers a repository and asks whether the daemon has a commit.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ProjectSync)]
pub struct Sync {
    /// `holm.projectId` of the repository, if it has one.
    #[schema(value_type = Option<ProjectId>)]
    pub project_id: Option<String>,
    /// The preferred name (from holm.toml or the directory); the daemon makes it valid and unique. Without it, only a
    /// known project is registered again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The main work tree.
    pub path: String,
    /// The common git directory and its identity on disk.
    pub git_dir: String,
    pub device: u64,
    pub inode: u64,
    /// The client checked that the id's earlier repository is gone, so this one was moved here.
    pub moved: bool,
    pub object_format: String,
    /// The commit that the client needs, if any.
    pub commit: Option<String>,
    /// A digest of all refs that would be sent.
    pub refs_digest: String,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SyncAnswer {
    pub project: Project,
    /// The daemon lacks the commit or has other refs: send objects and refs.
    pub needed: bool,
    /// The daemon's object directory, if the client may hard-link into it (same user, same
    /// machine).
    #[schema(required)]
    pub objects_dir: Option<String>,
    /// The files of the commit, if the daemon has them at hand. Otherwise the client reads them itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<CommitFiles>,
}

/// The files that holm reads of a commit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CommitFiles {
    /// The text of holm.toml.
    #[schema(required)]
    pub holm_toml: Option<String>,
    pub has_agents_md: bool,
    /// The paths of its submodules.
    pub submodules: Vec<String>,
    /// Whether files of it are stored by git-lfs.
    pub has_lfs: bool,
}

/// Where a workspace can start: refs of the user's repository, and the state of its checkout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Starts {
    /// The path of the checkout.
    pub checkout: String,
    /// The branch that is checked out; `None`: detached.
    #[schema(required)]
    pub branch: Option<String>,
    /// How many files differ from the last commit. `None`: the repository's own settings would run programs to find out.
    #[schema(required)]
    pub uncommitted: Option<usize>,
    /// Lines of these files; 0 where `uncommitted` is `None`.
    #[serde(default)]
    #[schema(required)]
    pub added: u64,
    #[serde(default)]
    #[schema(required)]
    pub removed: u64,
    /// Settings files of the checkout that git ignores and that no workspace gets unless `include` names them.
    #[serde(default)]
    #[schema(required)]
    pub not_brought: Vec<String>,
    /// The newest first.
    pub refs: Vec<Start>,
}

/// A branch, tag or remote-tracking branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Start {
    pub name: String,
    pub commit: String,
    pub at: String,
    /// The first line of its message.
    pub subject: String,
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

/// Asks which permissions a `holm.toml`, or a repository's own git configuration, requests.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TrustCheck {
    #[schema(value_type = ProjectId)]
    pub project_id: String,
    pub config: Option<String>,
    /// The Compose files that `config` names.
    #[serde(default, skip_serializing_if = "ComposeFiles::is_empty")]
    pub compose: ComposeFiles,
    /// The patterns of `.worktreeinclude`, which need approval like `project.include`.
    #[serde(default)]
    pub worktree_include: Vec<String>,
    /// Settings of the repository's own git configuration. If there are any, only these are
    /// checked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<GitSetting>,
}

/// What a project's checkout requests, in `holm.toml` and in the repository's own git configuration. Only what requests anything.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TrustQuestions {
    pub questions: Vec<TrustReport>,
}

/// `POST /projects/{id}/trust`: a person's approval of exactly the requests that were shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TrustAnswer {
    pub digests: Vec<String>,
    /// As in `GET`.
    #[serde(default)]
    pub from: Option<String>,
    #[serde(default)]
    pub at: Option<String>,
    #[serde(default)]
    pub dirty: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TrustReport {
    pub asks: Vec<Ask>,
    /// Identifies exactly these requests.
    pub digest: String,
    pub approved: bool,
    /// When the user last approved a request of this project.
    #[schema(required)]
    pub approved_at: Option<String>,
    /// Differences from the last approval, or all requests if there was none.
    pub changes: Vec<AskChange>,
}

/// How one request differs from the last approval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AskChange {
    pub change: ChangeKind,
    pub key: String,
    /// The request now, or the earlier one if it was removed.
    pub words: String,
    /// The earlier text of a request that changed.
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
    /// The key in holm.toml (`project.include`), or `git` and the name of a git setting.
    pub key: String,
    /// In plain words.
    pub words: String,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TrustApprove {
    #[schema(value_type = ProjectId)]
    pub project_id: String,
    /// The digest of the check. The approval is valid only if the content below has this digest.
    pub digest: String,
    pub config: Option<String>,
    /// The Compose files that `config` names.
    #[serde(default, skip_serializing_if = "ComposeFiles::is_empty")]
    pub compose: ComposeFiles,
    #[serde(default)]
    pub worktree_include: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<GitSetting>,
    /// A decision about a known agent's sign-in, instead of everything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sign_in: Option<SignInDecision>,
}

/// Whether an agent's sign-in may be used in workspaces of a project.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SignInDecision {
    pub agent: String,
    pub allowed: bool,
}

/// A tree that the client provides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum TreeName {
    /// Build output of the checkout.
    Warm,
    /// A snapshot of a cache: its name and its path inside.
    Cache { name: String, path: String },
}

/// Where to put a tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TreePlace {
    /// The daemon has the tree already.
    pub is_present: bool,
    /// Its temporary name.
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
    /// An uploaded tar archive. `None`: the directory was filled.
    pub upload: Option<String>,
    /// Modification times of the checkout's files, so that build tools consider their output up to
    /// date.
    #[serde(default)]
    pub dates: Vec<FileDate>,
    /// Lock files of the checkout whose packages are all in the tree.
    #[serde(default)]
    pub installed: Vec<InstalledLock>,
}
