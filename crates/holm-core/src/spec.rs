//! The stored description of what a workspace should be, resolved once at creation.
//!
//! It contains everything a driver needs to make the workspace real, again and again, without the
//! user's checkout, the user's configuration or the clock.

mod checking;
mod images;
mod moving;
mod ready;
mod secret;
pub mod word;

pub use checking::{Check, CheckFor};
pub use images::BuiltImage;
pub use moving::{Manner, Move, Owed};
pub use ready::{Probe, Ready};
pub use secret::{Secret, SecretSource};

use crate::config::{DriverName, EgressMode, OnAssign, Policy, Restart};
use crate::container::Container;
use crate::dev_container::DevContainer;
use crate::image_build::ImageBuild;
use crate::image_reference::{ImageDigest, ImageReference};
use crate::layer::LayerKey;
use crate::trash::BaseKey;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use utoipa::ToSchema;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceSpec {
    #[serde(default)]
    pub version: Version,
    pub id: String,
    pub project_id: String,
    /// Which driver makes it real. Workspaces of releases that had one driver do not say it.
    #[serde(default, with = "word")]
    pub driver: DriverName,
    /// The label at creation, which names the branch inside. The store has the current label.
    pub label: String,
    /// The path of the code inside.
    pub root: PathBuf,
    /// `$HOME` inside, and the host's directory that contains the toolchains.
    pub home: PathBuf,
    pub code: Code,
    /// Relative to `root`.
    pub protected_paths: Vec<String>,
    /// Programs inside may create user namespaces.
    pub nested: bool,
    pub environment: Environment,
    /// `[env]`: variables of every program inside that holm does not run for itself. Those of services
    /// are in [`Service::env`].
    #[serde(default)]
    pub env: Vec<(String, String)>,
    /// Host directories that are visible read-only at the same path (`[toolchains] paths`).
    pub toolchains: Vec<PathBuf>,
    /// Files of the user's home to copy at creation (`[home] copy`), absolute.
    pub home_copies: Vec<PathBuf>,
    pub limits: SpecLimits,
    /// Empty for a workspace that was created before networks existed.
    #[serde(default)]
    pub network: Network,
    /// Long-running programs of the workspace, by name.
    #[serde(default)]
    pub services: Vec<Service>,
    /// Parts that the user allowed to be missing (`--allow-degraded`).
    pub allow_degraded: Vec<String>,
    /// What the client sent, as files that the daemon received.
    pub brought: Brought,
    /// The shared layers below the workspace's own files.
    #[serde(default)]
    pub layers: Layers,
    #[serde(default)]
    pub purpose: Purpose,
    #[serde(default)]
    pub caches: Vec<Cache>,
    #[serde(default)]
    pub volumes: Vec<Volume>,
    /// Volumes that `holm.toml` no longer declares. They are not mounted; their data stays for when
    /// they are declared again.
    #[serde(default)]
    pub retired_volumes: Vec<Volume>,
    /// How often the tree was recreated.
    #[serde(default)]
    pub generation: u64,
    /// The origin of the tree, if it is not the commit.
    #[serde(default)]
    pub origin: Option<Origin>,
    #[serde(default)]
    pub snapshots: Vec<Snapshot>,
    /// Whether it sees the trees of the project's other workspaces, and they see its own.
    #[serde(default)]
    pub siblings: Siblings,
    /// The project's agents.
    #[serde(default)]
    pub agents: Vec<Agent>,
    /// A move under way; kept until all its steps are done.
    #[serde(default)]
    pub moving: Option<Move>,
    /// Declared secrets; the values are stored elsewhere, sealed.
    #[serde(default)]
    pub secrets: Vec<Secret>,
    /// The project's checks.
    #[serde(default)]
    pub checks: Vec<Check>,
    /// `[review] required`: `fetch`, `apply` and `merge` take only approved trees.
    #[serde(default)]
    pub review_required: bool,
    /// `[review] check`: every turn that a run records is checked.
    #[serde(default)]
    pub check_runs: bool,
    /// The Compose files that its services come from, with the files that they name, by their paths below the root.
    #[serde(default)]
    pub compose_files: Vec<String>,
    /// Where programs of people and agents run; `None`: in the workspace's own root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dev_container: Option<DevContainer>,
    /// `None`: the workspace was created before this was stored.
    #[serde(default)]
    pub declared: Option<Declared>,
}

/// The version of the stored form. Specs that were stored before it was written down are of the first,
/// which is the only one so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Version;

#[derive(Debug, thiserror::Error)]
#[error("version {0} of a workspace's specification; this holm reads version {VERSION}")]
pub struct UnknownVersion(u32);

const VERSION: u32 = 1;

/// Settings of `holm.toml` at creation that only a new workspace takes over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declared {
    pub name: Option<String>,
    pub root: Option<String>,
    pub driver: String,
    pub include: Vec<String>,
    /// By volume name.
    pub seed_inputs: BTreeMap<String, Vec<String>>,
}

/// `isolation` of `[project]`: both workspaces must have it to see each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Siblings {
    #[default]
    Hidden,
    Shown,
}

/// What the initial tree and volumes are copied from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// The id of a workspace.
    pub workspace: String,
    /// The label in its branch name.
    pub label: String,
    /// The key of one of its snapshots; `None`: its current state.
    pub snapshot: Option<String>,
    /// Volumes that are copied; others start with their seed.
    pub volumes: Vec<Volume>,
}

/// A named, immutable copy of a workspace's code and volumes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    pub name: String,
    /// The random name of its files.
    pub key: String,
    /// RFC 3339.
    pub created_at: String,
    /// The workspace's spec at that time, without snapshots.
    pub spec: Box<WorkspaceSpec>,
}

/// A persistent data directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Volume {
    pub name: String,
    /// Its path inside.
    pub path: PathBuf,
    #[serde(with = "crate::spec::word")]
    pub policy: Policy,
    /// For a shared one: only one workspace at a time runs with it.
    pub single: bool,
    /// The initial content of a fork; `None`: empty.
    pub seed: Option<Seed>,
    /// How often it was reset.
    pub generation: u64,
    /// The key of the snapshot that it starts from instead of the seed.
    #[serde(default)]
    pub snapshot: Option<String>,
}

/// The initial content of a volume, which can be rebuilt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seed {
    /// The key of its layer.
    pub key: String,
    pub commands: Vec<String>,
    /// The service whose first start makes it, in place of commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// Other code built it, and this workspace must not.
    #[serde(default)]
    pub borrowed: bool,
}

/// A download cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    pub name: String,
    /// Its path inside.
    pub path: PathBuf,
    #[serde(with = "crate::spec::word")]
    pub policy: Policy,
    /// The key of its initial layer.
    pub snapshot: Option<String>,
}

/// Layers below the base, which therefore cover no tracked file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layers {
    pub setup: Option<Setup>,
    /// The key of the checkout's build output; below the setup layer.
    pub warm: Option<String>,
    /// Why the setup failed whose files the workspace has (`up --keep`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// A layer that can be rebuilt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    pub key: String,
    pub commands: Vec<String>,
    /// Patterns of the input files; `None`: known manifests and lock files.
    #[serde(default)]
    pub inputs: Option<Vec<String>>,
    /// Other code built it, and this workspace must not.
    #[serde(default)]
    pub borrowed: bool,
    /// Files of the user that the commands get, as `holm.toml` names them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// What the commands get of the user's own: names, and digests with a key of this installation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub given: Vec<(String, String)>,
    /// In [`Purpose::Setup`]: the id of the workspace that needs the layer. Its secrets and uploads count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// Why the commands run although an earlier workspace had their result, for progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
}

/// The purpose of a workspace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Purpose {
    #[default]
    Work,
    /// To build a setup layer, temporarily.
    Setup(Setup),
    /// To build a seed for its only volume, temporarily.
    Seed(Seed),
    /// To run a check, temporarily.
    Check(CheckFor),
}

/// The origin of the tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Code {
    /// `None`: the repository has no commit yet.
    pub commit: Option<String>,
    /// The name as the user typed it (`main`, `v1.2`); `None` for a commit id.
    pub ref_name: Option<String>,
    /// `sha1` or `sha256`.
    #[serde(deserialize_with = "crate::spec::word::object_format")]
    pub object_format: String,
    pub user_name: Option<String>,
    pub user_email: Option<String>,
    pub remotes: Vec<Remote>,
    /// Lines of a shallow clone's `shallow` file.
    pub shallow: Vec<String>,
    /// Paths of `root` that `git status` must not show (an uncommitted `AGENTS.md`, included
    /// files).
    pub excluded: Vec<String>,
    /// The base of the overlay, if the workspace was moved to another commit since.
    #[serde(default)]
    pub base: Option<BaseCommit>,
}

/// The commit of a base; `None` is the empty one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaseCommit {
    pub commit: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Remote {
    pub name: String,
    /// Without credentials.
    pub url: String,
    pub fetch: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Environment {
    pub path: String,
    pub lang: Option<String>,
    pub tz: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpecLimits {
    pub memory_bytes: Option<u64>,
    pub cpus: Option<f64>,
    pub processes: Option<u64>,
    pub disk_bytes: Option<u64>,
    /// Limits that `holm.toml` sets explicitly: these are enforced or refused.
    pub required: Vec<String>,
}

/// Ports, egress and names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Declared in `[ports]`.
    pub ports: Vec<DeclaredPort>,
    pub egress: Egress,
    pub shared: Vec<Shared>,
    /// Names that resolve to the workspace itself: its services.
    pub names: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeclaredPort {
    pub name: String,
    pub port: u16,
    /// Of its address; workspaces of earlier releases do not say it.
    #[serde(default = "http")]
    pub scheme: String,
    /// The `Host` that previews show to the server, if not their own.
    #[serde(default)]
    pub host: Option<String>,
}

fn http() -> String {
    crate::address::HTTP.to_owned()
}

/// The egress policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Egress {
    #[serde(with = "crate::spec::word")]
    pub mode: EgressMode,
    /// Each a [`Destination`](crate::config::Destination).
    pub allow: Vec<String>,
}

/// A service of the host, and its port inside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shared {
    pub name: String,
    /// An [`Address`](crate::config::Address).
    pub address: String,
    pub port: u16,
}

/// One of `[agents]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agent {
    pub name: String,
    pub command: Vec<String>,
    pub timeout_ms: Option<u64>,
    /// A person approved that it gets the credentials that the user gives to this name.
    pub approved: bool,
}

/// One of `[services]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    pub name: String,
    /// A shell command. Empty: the command of its image.
    pub run: String,
    /// The image whose root it runs in; `None`: the workspace's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ServiceImage>,
    /// `None`: ready as soon as it runs.
    pub ready: Option<Ready>,
    pub depends_on: Vec<String>,
    #[serde(with = "crate::spec::word")]
    pub restart: Restart,
    #[serde(with = "crate::spec::word")]
    pub on_assign: OnAssign,
    pub build: Option<String>,
    pub rebuild_when: Vec<String>,
    /// Its own variables and those of `[env]` that it does not set itself.
    pub env: Vec<(String, String)>,
    /// The port it listens on, if configured.
    pub port: Option<u16>,
}

/// The image of a service, and what of the workspace its programs see.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceImage {
    /// As `holm.toml` names it.
    pub reference: ImageReference,
    /// The manifest that this name had when the workspace was created.
    pub manifest: ImageDigest,
    /// The path of the tree in it; `None`: its programs do not see the tree.
    pub tree: Option<PathBuf>,
    /// Names of volumes that its programs see.
    pub volumes: Vec<String>,
    /// What it is built from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<ImageBuild>,
    /// What a Compose file adds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<Container>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Brought {
    /// A tar archive to unpack into the tree.
    pub include_tar: Option<PathBuf>,
    pub dirty: Option<Dirty>,
}

/// The uncommitted state of the checkout, as objects that only this workspace gets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dirty {
    pub pack: PathBuf,
    /// The tree of all files in the checkout that are not ignored.
    pub worktree_tree: String,
    /// The tree of the index.
    pub index_tree: String,
    /// Paths with `git add --intent-to-add`, which a tree cannot express.
    #[serde(default)]
    pub intended: Vec<String>,
}

// === impl Service ===

impl Service {
    /// What a Compose file says of it.
    pub fn container(&self) -> Option<&Container> {
        self.image.as_ref()?.container.as_ref()
    }
}

// === impl WorkspaceSpec ===

impl WorkspaceSpec {
    /// The layers below its tree and its home, top first.
    pub fn tree_layers(&self) -> impl Iterator<Item = LayerKey> {
        let setup = self.layers.setup.as_ref().map(|setup| &setup.key);
        // The checkout's build output may be the setup layer itself.
        let warm = self
            .layers
            .warm
            .as_ref()
            .filter(|warm| Some(*warm) != setup);
        let keys = setup.into_iter().chain(warm);
        keys.map(|key| self.layer(key))
    }

    /// All layers that it and its snapshots need.
    pub fn layer_keys(&self) -> impl Iterator<Item = LayerKey> {
        let snapshots = self.snapshots.iter();
        let theirs = snapshots.flat_map(|snapshot| snapshot.spec.own_layer_keys());
        self.own_layer_keys().chain(theirs)
    }

    /// The bases that it and its snapshots need.
    pub fn base_keys(&self) -> impl Iterator<Item = BaseKey> {
        let snapshots = self.snapshots.iter().map(|snapshot| &*snapshot.spec);
        let all = std::iter::once(self).chain(snapshots);
        all.map(|spec| BaseKey {
            project: spec.project_id.clone(),
            commit: spec.code.base_commit().map(str::to_owned),
        })
    }

    fn own_layer_keys(&self) -> impl Iterator<Item = LayerKey> {
        let caches = self.caches.iter();
        let snapshots = caches.filter_map(|cache| cache.snapshot.as_ref());
        let snapshots = snapshots.map(|key| self.layer(key));
        let seeds = self.seeds().map(|(_, seed)| self.layer(&seed.key));
        self.tree_layers().chain(snapshots).chain(seeds)
    }

    /// The volumes with a seed.
    pub fn seeds(&self) -> impl Iterator<Item = (&Volume, &Seed)> {
        let volumes = self.volumes.iter();
        volumes.filter_map(|volume| Some((volume, volume.seed.as_ref()?)))
    }

    pub fn layer(&self, key: &str) -> LayerKey {
        LayerKey {
            project: self.project_id.clone(),
            key: key.to_owned(),
        }
    }
}

// === impl Version ===

impl TryFrom<u32> for Version {
    type Error = UnknownVersion;

    fn try_from(version: u32) -> Result<Self, UnknownVersion> {
        if version == VERSION {
            Ok(Version)
        } else {
            Err(UnknownVersion(version))
        }
    }
}

impl From<Version> for u32 {
    fn from(Version: Version) -> u32 {
        VERSION
    }
}

// === impl Code ===

impl Code {
    /// The commit of the overlay's base.
    pub fn base_commit(&self) -> Option<&str> {
        match &self.base {
            Some(base) => base.commit.as_deref(),
            None => self.commit.as_deref(),
        }
    }
}

// === impl Egress ===

impl Default for Egress {
    fn default() -> Self {
        Self {
            mode: EgressMode::None,
            allow: Vec::new(),
        }
    }
}
