//! Workspaces on the wire.
//!
//! - `GET  /workspaces` → [`WorkspaceList`], `?trash=true`: of what is in the trash; `GET /names` → [`NameList`]
//! - `POST /workspaces` ([`NewWorkspace`]) → [`MadeWorkspace`], for programs
//! - `POST /projects/{id}/workspaces` ([`CreateWorkspace`]) → JSON Lines of [`CreateEvent`], the last of
//!   which is `workspace` or `error`, for clients that prepared everything
//! - `GET  /workspaces/{id}` → [`Workspace`]; `PATCH` ([`Rename`]) → [`Workspace`]
//! - `DELETE /workspaces/{id}?force=true` → [`Workspace`]
//! - `POST /workspaces/{id}/start|stop|restart|restore` → [`Workspace`]
//! - `POST /workspaces/{id}/cancel` → `{}`: ends a creation, answers when it is undone
//! - `POST /uploads` (raw body) → [`Upload`]

use crate::error::ErrorDetail;
use crate::id::{ProjectId, WorkspaceId};
use crate::numbers::WorkspaceNumbers;
use serde::{Deserialize, Serialize};
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
    pub driver: String,
    pub root: String,
    /// The commit that HEAD inside leads to now; null when that is not known.
    #[serde(default)]
    #[schema(required)]
    pub head: Option<String>,
    /// The branch that HEAD inside is on now; null when it is on none, or that is not known.
    #[serde(default)]
    #[schema(required)]
    pub branch: Option<String>,
    /// True when uncommitted changes were seen last; null when it is not known whether there are any.
    #[schema(required)]
    pub dirty: Option<bool>,
    pub ports: Vec<Port>,
    pub services: Vec<Service>,
    pub volumes: Vec<Volume>,
    /// Paths below the root that cannot be changed, moved or created inside.
    #[serde(default)]
    pub protected_paths: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub snapshots: Vec<Snapshot>,
    pub limits: Limits,
    pub isolation: Isolation,
    /// Only of `up`: whether this call made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<bool>,
    /// Only of `up`: how long it took until it was ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ms: Option<u64>,
    /// Only in the trash: when it was removed, when it will be deleted, what it takes of the disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The keys of the layers that it begins with.
    #[serde(default)]
    pub layers: Vec<String>,
    /// What was not brought or started, and the command that would; what was done or not done
    /// because nobody used it; that the disk is nearly full.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The file of the machine's policy, where one is in force.
    #[serde(default)]
    #[schema(required)]
    pub policy: Option<String>,
    /// What it takes of the machine; only where it was asked for, as `show` does.
    #[serde(default)]
    #[schema(required)]
    pub numbers: Option<Box<WorkspaceNumbers>>,
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
pub struct Service {
    pub name: String,
    pub state: String,
    #[schema(required)]
    pub pid: Option<u32>,
    pub restarts: u32,
    #[schema(required)]
    pub port: Option<u16>,
    #[schema(required)]
    pub reason: Option<String>,
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
    /// Left out, a pleasant one is made up.
    #[serde(default)]
    pub label: Option<String>,
    /// The name of a snapshot; left out: as it is now.
    #[serde(default)]
    pub at: Option<String>,
}

/// `POST /workspaces/{id}/reset`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Reset {
    /// Only this volume.
    #[serde(default)]
    pub volume: Option<String>,
    /// The name of a snapshot; left out: as it began.
    #[serde(default)]
    pub at: Option<String>,
    /// Unsaved work does not stand in the way; a snapshot keeps it.
    #[serde(default)]
    pub force: bool,
}

/// What was asked for; what holds is in [`Isolation`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Limits {
    #[schema(required)]
    pub memory: Option<u64>,
    #[schema(required)]
    pub cpus: Option<f64>,
    #[schema(required)]
    pub processes: Option<u64>,
    #[schema(required)]
    pub disk: Option<u64>,
}

/// What is in force. All false when the workspace does not run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Isolation {
    pub user: bool,
    pub mount: bool,
    pub pid: bool,
    pub net: bool,
    pub ipc: bool,
    pub seccomp: bool,
    pub no_new_privs: bool,
    pub landlock: bool,
    /// `v1`, `v2` or null.
    #[schema(required)]
    pub cgroup: Option<String>,
    pub limits: LimitsInForce,
    pub degraded: Vec<String>,
    /// Processes that the kernel killed since the start because the limit of memory was reached.
    #[serde(default)]
    pub oom_kills: u64,
    /// What programs inside cannot get any more of right now, of what the kernel counts for all programs
    /// of the user together: `descriptors_in_flight`, `inotify_instances` and the like.
    #[serde(default)]
    pub limits_reached: Vec<String>,
}

/// By what each limit is kept, or null.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LimitsInForce {
    #[schema(required)]
    pub memory: Option<String>,
    #[schema(required)]
    pub cpus: Option<String>,
    #[schema(required)]
    pub processes: Option<String>,
    #[schema(required)]
    pub disk: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkspaceList {
    pub workspaces: Vec<Workspace>,
    /// There are more than were asked for: `after` takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// What concerns all of them: that the disk is nearly full.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What a live workspace is called: enough to find the one that a person means.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Name {
    #[schema(value_type = WorkspaceId)]
    pub id: String,
    pub label: String,
    pub project: String,
    #[schema(value_type = ProjectId)]
    pub project_id: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NameList {
    pub names: Vec<Name>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Rename {
    pub label: String,
}

/// `POST /workspaces`: the words of `holm up`. One of `project`, `path` and `url` names the project.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewWorkspace {
    /// The name or the id of a known project.
    #[serde(default)]
    pub project: Option<String>,
    /// A directory of a known project, or below a source folder; absolute.
    #[serde(default)]
    pub path: Option<String>,
    /// Cloned below the first source folder, unless it is there.
    #[serde(default)]
    pub url: Option<String>,
    /// Left out, a pleasant one is made up. A live workspace with this label is started and returned.
    #[serde(default)]
    pub label: Option<String>,
    /// A branch, tag or commit; left out: the checkout's commit.
    #[serde(default)]
    pub from: Option<String>,
    /// Take the uncommitted state of the checkout along.
    #[serde(default)]
    pub dirty: bool,
    /// Ignored files and directories of the checkout to take along.
    #[serde(default)]
    pub include: Vec<String>,
    /// Make the ignored build output of the checkout the project's first layer, once.
    #[serde(default)]
    pub warm: bool,
    /// Answer when the services are ready; true when left out.
    #[serde(default)]
    pub wait: Option<bool>,
    /// Go on without what holm.toml asks of the host, instead of refusing.
    #[serde(default)]
    pub untrusted: bool,
    /// Parts of the isolation that may be missing.
    #[serde(default)]
    pub allow_degraded: Vec<String>,
    /// Make it although the declared limits are more than the machine has.
    #[serde(default)]
    pub force: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MadeWorkspace {
    #[serde(flatten)]
    pub workspace: Workspace,
    /// It was made, and this is wrong with it: a service is not ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<ErrorDetail>,
}

/// Everything the daemon needs to make a workspace. The project and its objects were sent before.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateWorkspace {
    /// `None`: make up a pleasant one.
    pub label: Option<String>,
    /// A live workspace with this label is started and returned instead of refused.
    pub reuse: bool,
    /// `None`: the repository has no commit yet.
    pub commit: Option<String>,
    /// The default branch, or the branch of the checkout, contains the commit: what `setup` and seeds make
    /// of it is for every workspace with the same inputs.
    #[serde(default)]
    pub contained: bool,
    /// As the user sees it (`main`).
    #[serde(rename = "ref")]
    pub reference: Option<String>,
    /// The default of `project.root`: the main work tree's path.
    pub default_root: String,
    /// The client's home directory: `$HOME` inside, and where its toolchains are.
    pub home: String,
    /// The text of `holm.toml` at the starting commit (of the checkout with `--dirty`).
    pub config: Option<String>,
    /// The patterns of `.worktreeinclude`, which count as `project.include` for trust.
    #[serde(default)]
    pub worktree_include: Vec<String>,
    /// Go on without what `config` asks of the host, instead of refusing.
    pub untrusted: bool,
    pub allow_degraded: Vec<String>,
    /// Make it although the declared limits are more than the machine has.
    #[serde(default)]
    pub force: bool,
    pub user_name: Option<String>,
    pub user_email: Option<String>,
    pub remotes: Vec<Remote>,
    pub shallow: Vec<String>,
    pub path: String,
    pub lang: Option<String>,
    pub tz: Option<String>,
    /// An upload: a tar of files for the tree.
    pub include: Option<String>,
    /// Paths of the tree that git status inside must not show.
    pub excluded: Vec<String>,
    pub dirty: Option<Dirty>,
    /// What `POST /secrets/handover` answered: values that it is given from the start.
    #[serde(default)]
    pub handover: Option<String>,
    /// What the client did not bring; returned in the answer's `notes`.
    pub notes: Vec<String>,
    /// A request of the daemon's own that the client carries out.
    #[serde(default)]
    pub errand: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Remote {
    pub name: String,
    pub url: String,
    pub fetch: Vec<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Dirty {
    /// An upload: a pack.
    pub pack: String,
    pub worktree_tree: String,
    pub index_tree: String,
    /// Paths that git was told of without their content (`git add --intent-to-add`).
    #[serde(default)]
    pub intended: Vec<String>,
    /// What the checkout has instead of the commit's files.
    #[serde(default)]
    pub changed: Vec<ChangedFile>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangedFile {
    pub path: String,
    /// The id of its content; `None`: it is deleted.
    pub object: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Upload {
    pub upload: String,
}

/// One line of the answer to `POST /projects/{id}/workspaces`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CreateEvent {
    /// The id is taken; the creation can be cancelled by it.
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
