//! What a workspace was asked to be, resolved once at creation and stored with it.
//!
//! Everything a driver needs to make the workspace real, again and again, without asking the
//! user's checkout, the user's configuration or the clock.

use holm_core::config::{DriverName, EgressMode, Inject, OnAssign, Policy, Restart};
use holm_core::layer::LayerKey;
use holm_core::moves::Reaction;
use holm_core::trash::BaseKey;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceSpec {
    pub id: String,
    pub project_id: String,
    /// Which driver makes it real. Workspaces of releases that had one driver do not say it.
    #[serde(default, with = "crate::word")]
    pub driver: DriverName,
    /// The label at creation; names the branch inside. Display names are in the store.
    pub label: String,
    /// Where the code is inside.
    pub root: PathBuf,
    /// `$HOME` inside, and the host's directory that toolchains are taken from.
    pub home: PathBuf,
    pub code: Code,
    /// Relative to `root`.
    pub protected_paths: Vec<String>,
    /// Programs inside may make user namespaces.
    pub nested: bool,
    pub environment: Environment,
    /// Host directories that are visible read-only at the same path (`[toolchains] paths`).
    pub toolchains: Vec<PathBuf>,
    /// Files of the user's home to copy at creation (`[home] copy`), absolute.
    pub home_copies: Vec<PathBuf>,
    pub limits: Limits,
    /// A workspace that was made before there was a network has none.
    #[serde(default)]
    pub network: Network,
    /// Long-running programs of the workspace, by name.
    #[serde(default)]
    pub services: Vec<Service>,
    /// Parts that the user allowed to be missing (`--allow-degraded`).
    pub allow_degraded: Vec<String>,
    /// What the client sent along, as files that the daemon received.
    pub brought: Brought,
    /// What lies below the workspace's own files and is shared with others.
    #[serde(default)]
    pub layers: Layers,
    #[serde(default)]
    pub purpose: Purpose,
    #[serde(default)]
    pub caches: Vec<Cache>,
    #[serde(default)]
    pub volumes: Vec<Volume>,
    /// Volumes that `holm.toml` declares no more. They are not mounted; their data stays, and is
    /// there again when they are declared again.
    #[serde(default)]
    pub retired_volumes: Vec<Volume>,
    /// Counts how often the tree was made anew.
    #[serde(default)]
    pub generation: u64,
    /// What the tree is made of, if not of the commit.
    #[serde(default)]
    pub origin: Option<Origin>,
    #[serde(default)]
    pub snapshots: Vec<Snapshot>,
    /// Whether it sees the trees of other workspaces of the project, and they its own.
    #[serde(default)]
    pub siblings: Siblings,
    /// How the project's agents are called.
    #[serde(default)]
    pub agents: Vec<Agent>,
    /// On its way to another commit; kept until everything that belongs to that is done.
    #[serde(default)]
    pub moving: Option<Move>,
    /// What it may be given; the values are elsewhere, sealed.
    #[serde(default)]
    pub secrets: Vec<Secret>,
    /// `None`: of a workspace that was made before this was kept.
    #[serde(default)]
    pub declared: Option<Declared>,
}

/// What `holm.toml` said when the workspace was made that only a new workspace takes over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declared {
    pub name: Option<String>,
    pub root: Option<String>,
    pub driver: String,
    pub include: Vec<String>,
    /// By the name of a volume.
    pub seed_inputs: BTreeMap<String, Vec<String>>,
}

/// A declared secret, without its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Secret {
    pub name: String,
    pub source: SecretSource,
    #[serde(with = "crate::word")]
    pub inject: Inject,
    /// Names of services, `runs`, `sessions`.
    pub to: Vec<String>,
    /// How long a value is given for, in milliseconds.
    pub ttl_ms: Option<u64>,
    /// For a placeholder: where it may be used, as in `holm.toml`.
    #[serde(default)]
    pub hosts: Vec<String>,
}

/// Where the value of a secret is from. All but stored ones are read by the user's own client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum SecretSource {
    Env(String),
    /// As it is written in `holm.toml`.
    File(String),
    Command(Vec<String>),
    Stored,
}

/// `isolation` of `[project]`: both sides have to show, or neither sees anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Siblings {
    #[default]
    Hidden,
    Shown,
}

/// Where the first content of a tree and of volumes is copied from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// The id of a workspace.
    pub workspace: String,
    /// What its branch is called.
    pub label: String,
    /// The key of one of its snapshots; `None`: as it is when it is copied.
    pub snapshot: Option<String>,
    /// Volumes that are copied; others begin with their seed.
    pub volumes: Vec<Volume>,
}

/// A named, immutable copy of a workspace's code and volumes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    pub name: String,
    /// Names its files; random.
    pub key: String,
    /// RFC 3339.
    pub created_at: String,
    /// What the workspace was asked to be at that time; without snapshots.
    pub spec: Box<WorkspaceSpec>,
}

/// Named persistent data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Volume {
    pub name: String,
    /// Where it is inside.
    pub path: PathBuf,
    #[serde(with = "crate::word")]
    pub policy: Policy,
    /// Of a shared one: only one workspace at a time runs with it.
    pub single: bool,
    /// What a fork begins with; `None`: it begins empty.
    pub seed: Option<Seed>,
    /// Counts how often it was begun anew.
    pub generation: u64,
    /// The key of a snapshot of the workspace that it is begun with, in place of the seed.
    #[serde(default)]
    pub snapshot: Option<String>,
}

/// The first content of a volume, which can be made again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seed {
    /// Of the layer that it is kept in.
    pub key: String,
    pub commands: Vec<String>,
    /// Others made it, and what is in this workspace must not.
    #[serde(default)]
    pub borrowed: bool,
}

/// A live workspace is brought to another commit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Move {
    pub commit: String,
    /// As the user sees it, or `None` for a bare commit.
    pub ref_name: Option<String>,
    /// Names the refs inside that keep what was there before.
    pub at: String,
    pub manner: Manner,
    /// Lines of a shallow clone's `shallow` file.
    pub shallow: Vec<String>,
    /// The tree has the commit.
    pub is_there: bool,
    pub owed: Owed,
}

/// What becomes of changes that are not committed, and of commits of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Manner {
    /// Changes are a reason not to move.
    Refuse,
    /// Changes become a stash.
    Stash,
    /// As `Refuse`, and so are commits that the new one does not have.
    Forward,
}

/// What has to follow a switch of the tree.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Owed {
    /// The set-up runs in place first.
    pub set_up: bool,
    /// What each service does, by its name.
    #[serde(with = "crate::word::reactions")]
    pub reactions: Vec<(String, Reaction)>,
}

/// A directory of downloads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    pub name: String,
    /// Where it is inside.
    pub path: PathBuf,
    #[serde(with = "crate::word")]
    pub policy: Policy,
    /// The key of the layer that it begins with.
    pub snapshot: Option<String>,
}

/// Layers below the base, which therefore cover nothing that git tracks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layers {
    pub setup: Option<Setup>,
    /// The key of what was taken of a checkout; below that of the set-up.
    pub warm: Option<String>,
}

/// A layer that can be made again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    pub key: String,
    pub commands: Vec<String>,
    /// Patterns of the files that it depends on; `None`: known manifests and lock files.
    #[serde(default)]
    pub inputs: Option<Vec<String>>,
    /// Others made it, and what is in this workspace must not.
    #[serde(default)]
    pub borrowed: bool,
}

/// What a workspace is for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Purpose {
    #[default]
    Work,
    /// To make a layer, and to be thrown away.
    Setup(Setup),
    /// To make what its only volume begins with elsewhere, and to be thrown away.
    Seed(Seed),
}

/// What the tree starts from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Code {
    /// `None`: the repository has no commit yet.
    pub commit: Option<String>,
    /// As the user sees it (`main`, `v1.2`), or `None` for a bare commit.
    pub ref_name: Option<String>,
    /// `sha1` or `sha256`.
    #[serde(deserialize_with = "crate::word::object_format")]
    pub object_format: String,
    pub user_name: Option<String>,
    pub user_email: Option<String>,
    pub remotes: Vec<Remote>,
    /// Lines of a shallow clone's `shallow` file.
    pub shallow: Vec<String>,
    /// Paths of `root` that git status must not show (an uncommitted `AGENTS.md`, included files).
    pub excluded: Vec<String>,
    /// What the tree rests on, where the workspace was moved to another commit since.
    #[serde(default)]
    pub base: Option<BaseCommit>,
}

/// The commit of a base; `None` is the empty one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaseCommit {
    pub commit: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
pub struct Limits {
    pub memory_bytes: Option<u64>,
    pub cpus: Option<f64>,
    pub processes: Option<u64>,
    pub disk_bytes: Option<u64>,
    /// Names of limits that `holm.toml` wrote down: these are enforced or refused.
    pub required: Vec<String>,
}

/// What leads in and out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Declared in `[ports]`.
    pub ports: Vec<DeclaredPort>,
    pub egress: Egress,
    pub shared: Vec<Shared>,
    /// Names that mean the workspace itself: its services.
    pub names: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeclaredPort {
    pub name: String,
    pub port: u16,
}

/// Where the gateway may go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Egress {
    #[serde(with = "crate::word")]
    pub mode: EgressMode,
    /// Each a [`Destination`](holm_core::config::Destination).
    pub allow: Vec<String>,
}

/// A service of the host, and where it appears inside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shared {
    pub name: String,
    /// An [`Address`](holm_core::config::Address).
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
    /// A person approved that it gets what the user gives to an agent of this name.
    pub approved: bool,
}

/// One of `[services]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    pub name: String,
    /// A shell command.
    pub run: String,
    /// `None`: ready as soon as it runs.
    pub ready: Option<Ready>,
    pub depends_on: Vec<String>,
    #[serde(with = "crate::word")]
    pub restart: Restart,
    #[serde(with = "crate::word")]
    pub on_assign: OnAssign,
    pub build: Option<String>,
    pub rebuild_when: Vec<String>,
    pub env: Vec<(String, String)>,
    /// Where it listens, as far as the configuration says.
    pub port: Option<u16>,
}

/// When a service counts as ready.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ready {
    pub probe: Probe,
    pub timeout_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Probe {
    Http { path: String, port: u16 },
    Tcp { port: u16 },
    Log { text: String },
    Command { command: String },
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Brought {
    /// A tar of files to lay into the tree.
    pub include_tar: Option<PathBuf>,
    pub dirty: Option<Dirty>,
}

/// The uncommitted state of the checkout, as objects that only this workspace gets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dirty {
    pub pack: PathBuf,
    /// The tree of everything in the checkout that is not ignored.
    pub worktree_tree: String,
    /// The tree of the index.
    pub index_tree: String,
    /// Paths of the index that have no content yet, which a tree cannot say.
    #[serde(default)]
    pub intended: Vec<String>,
}

// === impl WorkspaceSpec ===

impl WorkspaceSpec {
    /// The keys of the layers below its tree and its home, top first.
    pub fn tree_layers(&self) -> impl Iterator<Item = LayerKey> {
        let setup = self.layers.setup.as_ref().map(|setup| &setup.key);
        let keys = setup.into_iter().chain(&self.layers.warm);
        keys.map(|key| self.layer(key))
    }

    /// The keys of all layers that it and its snapshots need.
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

    /// The volumes that begin with something.
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

// === impl Code ===

impl Code {
    /// The commit of the base that the tree rests on.
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
