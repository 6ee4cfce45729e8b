//! Workspaces on the wire.
//!
//! - `GET  /workspaces` → [`WorkspaceList`], `?trash=true`: those in the trash; `GET /names` →
//!   [`NameList`]
//! - `POST /workspaces` ([`NewWorkspace`]) → [`MadeWorkspace`], for programs
//! - `POST /projects/{id}/workspaces` ([`CreateWorkspace`]) → JSON Lines of [`CreateEvent`], the
//!   last of
//!   which is `workspace` or `error`, for clients that have prepared the project
//! - `GET  /workspaces/{id}` → [`Workspace`]; `PATCH` ([`Rename`]) → [`Workspace`]
//! - `DELETE /workspaces/{id}?force=true` → [`Workspace`]
//! - `POST /workspaces/{id}/start|stop|restart|restore` → [`Workspace`]
//! - `POST /workspaces/{id}/cancel` → `{}`: cancels a creation, answers when it is undone
//! - `POST /uploads` (raw body) → [`Upload`]

use crate::error::ErrorDetail;
use crate::inbox::InboxItem;
use crate::numbers::WorkspaceNumbers;
use crate::run::Run;
use holm_core::compose::ComposeFiles;
use holm_core::config::Limits;
use holm_core::image_build::ImageBuild;
use holm_core::image_reference::ImageReference;
use holm_core::isolation::Isolation;
use holm_core::reference::Candidate;
use holm_core::service::status::ServiceStatus;
use holm_core::session::protocol::Session;
use holm_core::spec::Remote;
use holm_core::{ProjectId, WorkspaceId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Workspace {
    #[schema(value_type = WorkspaceId)]
    pub id: String,
    pub label: String,
    pub project: String,
    #[schema(value_type = ProjectId)]
    pub project_id: String,
    pub owner: String,
    /// creating running stopped failed removed
    pub state: String,
    #[schema(required)]
    pub reason: Option<String>,
    #[serde(rename = "ref")]
    #[schema(required)]
    pub reference: Option<String>,
    #[schema(required)]
    pub commit: Option<String>,
    pub created_at: String,
    pub last_used_at: String,
    /// Only in lists: when its keeper told its state, services and isolation, if nothing changed for some seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_at: Option<String>,
    pub driver: String,
    pub root: String,
    /// The commit of HEAD inside; null when unknown.
    #[serde(default)]
    #[schema(required)]
    pub head: Option<String>,
    /// The branch of HEAD inside; null when detached or unknown.
    #[serde(default)]
    #[schema(required)]
    pub branch: Option<String>,
    /// Whether there were uncommitted changes at the last look; null when unknown.
    #[schema(required)]
    pub dirty: Option<bool>,
    pub ports: Vec<Port>,
    pub services: Vec<ServiceStatus>,
    /// Services whose images are built from Dockerfiles of the project.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub builds: Vec<ServiceBuild>,
    /// Where programs of people and agents run, if not in the workspace's own root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<Container>,
    pub volumes: Vec<Volume>,
    /// Paths below the root that cannot be changed, moved or created inside.
    #[serde(default)]
    pub protected_paths: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub snapshots: Vec<Snapshot>,
    pub limits: Limits,
    pub isolation: Isolation,
    /// Only for `up`: whether this call created it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<bool>,
    /// Only for `up` of an existing workspace: whether this call started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<bool>,
    /// Only for `up`: milliseconds until it was ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ms: Option<u64>,
    /// Only in the trash: when it was removed, when it will be deleted, and its disk use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The keys of its layers.
    #[serde(default)]
    pub layers: Vec<String>,
    /// Files that were not copied and services that were not started, with the command to do so;
    /// actions taken because the workspace was idle; a warning when the disk is nearly full.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The machine's policy file, if there is one.
    #[serde(default)]
    #[schema(required)]
    pub policy: Option<String>,
    /// Its resource use; only on request, as for `show`.
    #[serde(default)]
    #[schema(required)]
    pub numbers: Option<Box<WorkspaceNumbers>>,
}

/// A Dev Container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Container {
    /// The path of `devcontainer.json` below the root.
    pub file: String,
    /// The service whose root it is.
    pub service: String,
    #[schema(required)]
    pub image: Option<String>,
    /// Where programs start.
    pub folder: String,
    #[schema(required)]
    pub user: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Port {
    pub name: String,
    pub port: u16,
    #[schema(required)]
    pub host_port: Option<u16>,
    #[schema(required)]
    pub url: Option<String>,
    pub canonical: bool,
    /// declared discovered
    pub source: String,
    /// Whether a program inside listens on it now.
    #[serde(default)]
    pub listening: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Volume {
    pub name: String,
    pub policy: String,
    #[schema(required)]
    pub bytes: Option<u64>,
}

/// A named, immutable copy of a workspace's code and volumes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Snapshot {
    pub name: String,
    pub created_at: String,
}

/// `POST /workspaces/{id}/snapshots`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TakeSnapshot {
    pub name: String,
}

/// `GET /workspaces/{id}/snapshots`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SnapshotList {
    pub snapshots: Vec<Snapshot>,
}

/// `POST /workspaces/{id}/fork`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Fork {
    /// Default: a generated label.
    #[serde(default)]
    pub label: Option<String>,
    /// The name of a snapshot; default: the current state.
    #[serde(default)]
    pub at: Option<String>,
}

/// `POST /workspaces/{id}/reset`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Reset {
    /// Reset only this volume.
    #[serde(default)]
    pub volume: Option<String>,
    /// The name of a snapshot; default: the initial state.
    #[serde(default)]
    pub at: Option<String>,
    /// Reset despite unsaved work, which a snapshot preserves.
    #[serde(default)]
    pub force: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkspaceList {
    pub workspaces: Vec<Workspace>,
    /// The sessions that run in them; an older daemon does not say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<Session>,
    /// The runs under way in them; an older daemon does not say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<Run>,
    /// What needs a person in them, the most urgent first; an older daemon does not say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<InboxItem>,
    /// Set if there are more workspaces; use it as `after`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Remarks about all of them: the disk is nearly full.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NameList {
    pub names: Vec<Candidate>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Rename {
    pub label: String,
}

/// `POST /workspaces`: the parameters of `holm up`. One of `project`, `path` and `url` names the
/// project.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewWorkspace {
    /// The name or the id of a known project.
    #[serde(default)]
    pub project: Option<String>,
    /// An absolute path of a known project, or below a source folder.
    #[serde(default)]
    pub path: Option<String>,
    /// Cloned below the first source folder, unless it exists.
    #[serde(default)]
    pub url: Option<String>,
    /// Default: a generated label. A live workspace with this label is started and returned.
    #[serde(default)]
    pub label: Option<String>,
    /// A branch, tag or commit; default: the checkout's commit.
    #[serde(default)]
    pub from: Option<String>,
    /// A turn of another workspace (`ID@2`) instead of `from`: its commit, and its files uncommitted.
    #[serde(default)]
    pub at: Option<String>,
    /// Include the uncommitted state of the checkout.
    #[serde(default)]
    pub dirty: bool,
    /// Ignored files and directories of the checkout to copy.
    #[serde(default)]
    pub include: Vec<String>,
    /// Use the ignored build output of the checkout as the project's first layer, once.
    #[serde(default)]
    pub warm: bool,
    /// Wait until the services are ready; default: true.
    #[serde(default)]
    pub wait: Option<bool>,
    /// Continue without what holm.toml requests from the host, instead of failing.
    #[serde(default)]
    pub untrusted: bool,
    /// The driver, instead of that of holm.toml: `linux` or `docker`.
    #[serde(default)]
    pub driver: Option<String>,
    /// Parts of the isolation that may be missing.
    #[serde(default)]
    pub allow_degraded: Vec<String>,
    /// Create it although the declared limits exceed the machine's resources.
    #[serde(default)]
    pub force: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MadeWorkspace {
    #[serde(flatten)]
    pub workspace: Workspace,
    /// The workspace was created but has a problem: a service is not ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<ErrorDetail>,
}

/// A service whose image is built.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceBuild {
    pub service: String,
    pub build: ImageBuild,
    /// It is built again when the workspace moves to another commit.
    pub is_rebuilt: bool,
    /// If not empty: only when one of these files changed.
    pub rebuild_when: Vec<String>,
}

/// Everything the daemon needs to create a workspace. The project and its objects were sent before.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateWorkspace {
    /// `None`: generate a label.
    pub label: Option<String>,
    /// Start and return a live workspace with this label instead of failing.
    pub reuse: bool,
    /// `None`: the repository has no commit yet.
    pub commit: Option<String>,
    /// The default branch, or the branch of the checkout, contains the commit. Then every workspace
    /// with the same inputs may use the layers that `setup` and seeds make from it.
    #[serde(default)]
    pub contained: bool,
    /// The name as the user typed it (`main`).
    #[serde(rename = "ref")]
    pub reference: Option<String>,
    /// The default of `project.root`: the main work tree's path.
    pub default_root: String,
    /// The client's home directory: `$HOME` inside, and the place of its toolchains.
    pub home: String,
    /// The text of `holm.toml` at the starting commit, or in the checkout with `--dirty`.
    pub config: Option<String>,
    /// The Compose files that `config` names.
    #[serde(default, skip_serializing_if = "ComposeFiles::is_empty")]
    pub compose: ComposeFiles,
    /// The images that the client has built, by their services.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, String>)]
    pub built: BTreeMap<String, ImageReference>,
    /// The patterns of `.worktreeinclude`, which need approval like `project.include`.
    #[serde(default)]
    pub worktree_include: Vec<String>,
    /// Continue without what `config` requests from the host, instead of failing.
    pub untrusted: bool,
    /// The driver that the user typed; it replaces that of `config`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    pub allow_degraded: Vec<String>,
    /// Create it although the declared limits exceed the machine's resources.
    #[serde(default)]
    pub force: bool,
    /// Create it without the output of `setup`, which does not run.
    #[serde(default)]
    pub no_setup: bool,
    /// If `setup` fails, keep the workspace, stopped, with the files as `setup` left them. The request still
    /// fails.
    #[serde(default)]
    pub keep: bool,
    pub user_name: Option<String>,
    pub user_email: Option<String>,
    pub remotes: Vec<Remote>,
    pub shallow: Vec<String>,
    pub path: String,
    pub lang: Option<String>,
    pub tz: Option<String>,
    /// An uploaded tar archive with files for the tree.
    pub include: Option<String>,
    /// Paths of the tree that `git status` inside must not show.
    pub excluded: Vec<String>,
    pub dirty: Option<Dirty>,
    /// The response of `POST /secrets/handover`: values that the workspace gets from the start.
    #[serde(default)]
    pub handover: Option<String>,
    /// Files that the client did not copy; returned in the response's `notes`.
    pub notes: Vec<String>,
    /// The id of the daemon's own request that this client carries out.
    #[serde(default)]
    pub errand: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Dirty {
    /// An uploaded pack.
    pub pack: String,
    pub worktree_tree: String,
    pub index_tree: String,
    /// Paths with `git add --intent-to-add`.
    #[serde(default)]
    pub intended: Vec<String>,
    /// Files that differ from the commit.
    #[serde(default)]
    pub changed: Vec<ChangedFile>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangedFile {
    pub path: String,
    /// The object id of its content; `None`: deleted.
    pub object: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Upload {
    pub upload: String,
}

/// One line of the response to `POST /projects/{id}/workspaces`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CreateEvent {
    /// The id is reserved; the creation can be cancelled with it.
    Begun {
        #[schema(value_type = WorkspaceId)]
        id: String,
    },
    Progress {
        step: String,
        done: u64,
        total: u64,
    },
    Workspace(Box<Workspace>),
    Error(ErrorDetail),
}
