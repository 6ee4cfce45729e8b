//! The typed content of a project's `holm.toml`. Every value is valid.
//!
//! The parser builds it; trust and the engine use it. Names are checked, words are enums, durations
//! and sizes are numbers, and references between parts exist.

mod matching;
pub mod network;
pub mod path;
pub mod value;

pub use network::{
    Address, Destination, HostHeader, HostPattern, InvalidDestination, InvalidProxy,
    InvalidWebhook, ProxyUrl, WebhookUrl,
};
pub use path::{InvalidPath, Pattern, Place, ProtectedPath, Root};
pub use value::{
    InvalidDuration, InvalidSize, InvalidVariable, Name, Variable, display_size, parse_duration,
    parse_size, rough_size,
};

use crate::ProjectName;
use crate::container::Container;
use crate::dev_container::DevContainer;
use crate::image_build::ImageBuild;
use crate::image_reference::ImageReference;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::time::Duration;
use utoipa::ToSchema;

/// The whole file. The default is a project without a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProjectConfig {
    pub project: Project,
    pub ports: BTreeMap<Name, Port>,
    /// Variables of every program inside, with references resolved.
    pub env: BTreeMap<Variable, String>,
    pub services: BTreeMap<Name, Service>,
    pub volumes: BTreeMap<Name, Volume>,
    pub shared: BTreeMap<Name, Shared>,
    pub caches: BTreeMap<Name, Cache>,
    pub secrets: BTreeMap<Variable, Secret>,
    pub egress: Egress,
    pub limits: Limits,
    pub agents: BTreeMap<Name, Agent>,
    pub checks: BTreeMap<Name, Check>,
    /// `fetch`, `apply` and `merge` take only approved trees.
    pub review_required: bool,
    /// Every turn that a run records is checked.
    pub check_runs: bool,
    /// What the Compose files and `devcontainer.json` ask of the host, and what holm says of them.
    pub compose: ComposeRemarks,
    /// Where programs of people and agents run.
    pub dev_container: Option<DevContainer>,
}

/// What was found in Compose files besides services.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ComposeRemarks {
    /// Their paths below the root, with the files that they name.
    pub files: Vec<String>,
    pub requests: Vec<crate::compose::Request>,
    pub warnings: Vec<crate::compose::Remark>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Project {
    pub name: Option<ProjectName>,
    /// `None`: the repository's own path.
    pub root: Option<Root>,
    /// Shell commands that run inside.
    pub setup: Vec<String>,
    /// `None`: known manifests and lock files.
    pub setup_inputs: Option<Vec<Pattern>>,
    /// Files of `include` and of the user's `[home] copy` that `setup` gets too.
    pub setup_files: Vec<Place>,
    pub include: Vec<Pattern>,
    pub protected_paths: Vec<ProtectedPath>,
    pub isolation: Scope,
    pub driver: DriverName,
    pub nested: bool,
    /// Compose files; later ones override earlier ones.
    pub compose: Vec<String>,
    /// The `devcontainer.json` whose container is the root of people's and agents' programs.
    pub devcontainer: Option<String>,
}

/// Where a workspace that sees its siblings finds their trees.
pub const SIBLINGS: &str = "/workspaces";

/// Which workspaces of the project a workspace can read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Only itself.
    #[default]
    Workspace,
    /// Also the trees of its siblings, read-only.
    Project,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DriverName {
    #[default]
    Linux,
    Docker,
    Kubernetes,
}

/// One of `[ports]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    pub port: NonZeroU16,
    /// The `Host` that previews show to the server. `None`: as its service's program needs it.
    pub host: Option<HostHeader>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// A shell command. Empty: the command of its image.
    pub run: String,
    /// `None`: it runs in the workspace's own root.
    pub image: Option<Image>,
    /// `None`: ready as soon as it runs.
    pub ready: Option<Ready>,
    pub depends_on: Vec<Name>,
    pub restart: Restart,
    pub on_assign: OnAssign,
    pub build: Option<String>,
    /// Empty: every change rebuilds.
    pub rebuild_when: Vec<Pattern>,
    pub env: BTreeMap<Variable, String>,
}

/// The image that a service runs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    pub reference: ImageReference,
    /// What it is built from. Until a client has computed the key, `reference` is a name that no image has.
    pub build: Option<ImageBuild>,
    /// Where its programs see the tree.
    pub tree: Option<Root>,
    pub volumes: Vec<Name>,
    /// What a Compose file adds.
    pub container: Option<Container>,
}

/// When a service counts as ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready {
    pub probe: Probe,
    pub timeout: Duration,
}

// === impl Ready ===

impl Ready {
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// A GET of `path` succeeds.
    Http { path: String, port: NonZeroU16 },
    /// The port accepts connections.
    Tcp { port: NonZeroU16 },
    /// The text appears in the service's log.
    Log { text: String },
    /// The shell command exits with 0.
    Command { command: String },
    /// The program in the service's own root exits with 0.
    Program { argv: Vec<String> },
    /// The commands of a Dev Container that its programs wait for have ended.
    Lifecycle,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Restart {
    No,
    #[default]
    OnFailure,
    Always,
}

/// What a service does when its workspace moves to another commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnAssign {
    None,
    Hot,
    #[default]
    Restart,
    Rebuild,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    pub path: Place,
    pub policy: Policy,
    pub seed: Vec<String>,
    /// The service of a Compose file whose first start makes the seed.
    pub first_start: Option<Name>,
    pub seed_inputs: Vec<Pattern>,
    /// For a shared volume: only one workspace at a time may run with it.
    pub single: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Starts empty, for one workspace.
    Isolated,
    /// Starts as a copy-on-write copy of its seed.
    Fork,
    /// One volume for all workspaces of the project.
    Shared,
}

/// A service of the host that workspaces may reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shared {
    pub address: Address,
    /// Where it appears inside.
    pub port: NonZeroU16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    pub path: Place,
    pub policy: Policy,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secret {
    pub from: SecretSource,
    pub inject: Inject,
    pub to: Vec<Receiver>,
    pub hosts: Vec<Destination>,
    pub ttl: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    Env(Variable),
    File(Place),
    Command(Vec<String>),
    /// In holm's vault (`holm secret set`).
    Stored,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Inject {
    #[default]
    Env,
    File,
    Placeholder,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Receiver {
    Service(Name),
    Runs,
    Sessions,
    /// The commands of `setup`.
    Setup,
}

/// The word for [`Receiver::Setup`] in `secrets.*.to`.
pub const SETUP_RECEIVER: &str = "setup";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Egress {
    /// `None`: the user's setting.
    pub mode: Option<EgressMode>,
    pub allow: Vec<Destination>,
}

/// Ordered from narrow to wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EgressMode {
    None,
    Allow,
    Open,
}

/// Requested limits; [`Isolation`](crate::isolation::Isolation) has those in force. `None` in a
/// file: the user's setting, and none at all where the user sets none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(description = "The requested limits; `Isolation` has those in force.")]
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    pub command: Vec<String>,
    pub timeout: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// A shell command.
    pub run: String,
    pub timeout: Duration,
    /// Empty: every change concerns it.
    pub when: Vec<Pattern>,
    pub volumes: CheckVolumes,
}

/// The volumes that a check starts with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CheckVolumes {
    /// As a new workspace gets them.
    #[default]
    Fresh,
    /// A copy of the workspace's volumes as they are now.
    Current,
}

/// The words of an enum as in the file, in the order of the documentation.
pub trait Word: Copy + Sized + 'static {
    const ALL: &'static [(&'static str, Self)];

    fn word(self) -> &'static str;

    fn parse_word(text: &str) -> Option<Self> {
        let mut all = Self::ALL.iter();
        all.find(|(word, _)| *word == text).map(|(_, value)| *value)
    }
}

macro_rules! words {
    ($type:ident: $($word:literal => $variant:ident),*) => {
        impl Word for $type {
            const ALL: &'static [(&'static str, Self)] = &[$(($word, $type::$variant)),*];

            fn word(self) -> &'static str {
                self.as_str()
            }
        }

        impl $type {
            pub fn as_str(self) -> &'static str {
                match self {
                    $($type::$variant => $word,)*
                }
            }
        }
    };
}

words!(Scope: "workspace" => Workspace, "project" => Project);
words!(DriverName: "linux" => Linux, "docker" => Docker, "kubernetes" => Kubernetes);
words!(Restart: "no" => No, "on-failure" => OnFailure, "always" => Always);
words!(OnAssign: "none" => None, "hot" => Hot, "restart" => Restart, "rebuild" => Rebuild);
words!(Policy: "isolated" => Isolated, "fork" => Fork, "shared" => Shared);
words!(Inject: "env" => Env, "file" => File, "placeholder" => Placeholder);
words!(CheckVolumes: "fresh" => Fresh, "current" => Current);
words!(EgressMode: "open" => Open, "allow" => Allow, "none" => None);

// === impl ProjectConfig ===

impl ProjectConfig {
    /// The port of a service: of its readiness check, or the one with its name.
    pub fn service_port(&self, name: &Name) -> Option<NonZeroU16> {
        let service = self.services.get(name)?;
        let asked = service.ready.as_ref().and_then(|ready| match &ready.probe {
            Probe::Http { port, .. } | Probe::Tcp { port } => Some(*port),
            Probe::Log { .. }
            | Probe::Command { .. }
            | Probe::Program { .. }
            | Probe::Lifecycle => None,
        });
        asked.or_else(|| self.ports.get(name).map(|port| port.port))
    }

    /// Names the images that a client has built, by their services.
    pub fn name_built(&mut self, built: &BTreeMap<String, ImageReference>) {
        for (name, service) in &mut self.services {
            let image = service.image.as_mut().filter(|image| image.build.is_some());
            if let (Some(image), Some(reference)) = (image, built.get(name.as_str()))
                && reference.is_built()
            {
                image.reference = reference.clone();
            }
        }
    }

    /// The services whose images are built, with what they are built from.
    pub fn image_builds(&self) -> impl Iterator<Item = (&Name, &ImageBuild)> {
        let services = self.services.iter();
        services.filter_map(|(name, service)| Some((name, service.image.as_ref()?.build.as_ref()?)))
    }

    /// The command of the service that listens on a port.
    pub fn command_on(&self, port: NonZeroU16) -> Option<&str> {
        let mut services = self.services.iter();
        let serving = services.find(|(name, _)| self.service_port(name) == Some(port));
        serving.map(|(_, service)| service.run.as_str())
    }
}

// === impl Receiver ===

impl Receiver {
    pub fn as_str(&self) -> &str {
        match self {
            Receiver::Service(name) => name.as_str(),
            Receiver::Runs => "runs",
            Receiver::Sessions => "sessions",
            Receiver::Setup => SETUP_RECEIVER,
        }
    }
}

// === impl Cache ===

impl Cache {
    /// Whether the data may belong to the user rather than to the project. An absolute path counts
    /// as outside even below `project.root`: the repository chooses that path inside, while the
    /// data comes from the same path on the host. The user's `.git` contains credentials.
    pub fn is_outside(&self) -> bool {
        match &self.path {
            Place::Project(path) => path.split('/').any(|part| part == ".git"),
            Place::Absolute(_) | Place::Home(_) => true,
        }
    }
}
