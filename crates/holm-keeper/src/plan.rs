//! What a keeper is started with, and its one answer.

use crate::descriptors::explain;
use crate::directories::WorkspaceDirs;
use crate::guests::GuestDoor;
use crate::room::RoomPlan;
use crate::wire::{Defence, Grant, Mounted, Status, VolumeMount};
use holm_core::Fault;
use holm_core::dev_container::DevContainer;
use holm_core::isolation::LimitsInForce;
use holm_core::spec::{Network, Service};
use serde::{Deserialize, Serialize};
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

pub use holm_proxy::gateway::Proxy;

/// What a keeper has to know of its workspace, whatever makes it run. The driver adds what it needs itself.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Plan {
    pub version: u32,
    pub id: String,
    pub label: String,
    /// Where the code is inside.
    pub root: PathBuf,
    /// Mounted after everything else.
    #[serde(default)]
    pub caches: Vec<Mounted>,
    /// Mounted after these.
    #[serde(default)]
    pub volumes: Vec<VolumeMount>,
    /// The workspace's own directory on the host.
    pub dir: PathBuf,
    pub socket: PathBuf,
    /// Our own program on the host, as a path: the running one belongs to another mount namespace.
    pub program: PathBuf,
    /// The program of our helpers inside, as it is found there.
    pub helper: PathBuf,
    pub environment: Vec<(String, String)>,
    /// `[env]`: added for every program that holm does not run for itself.
    #[serde(default)]
    pub env: Vec<(String, String)>,
    /// In bytes; measured by the keeper.
    pub disk: Option<u64>,
    /// Names of limits that the project wrote down and that the user goes without if need be.
    pub forgone: Vec<String>,
    /// What leads in and out.
    #[serde(default)]
    pub network: Network,
    /// What the network of this machine needs.
    #[serde(default)]
    pub surrounding: SurroundingNetwork,
    /// Started by the keeper as soon as the workspace runs.
    #[serde(default)]
    pub services: Vec<Service>,
    /// Of the services that run from an image.
    #[serde(default)]
    pub rooms: Vec<RoomPlan>,
    /// Where programs of people and agents run; `None`: in the workspace's own root.
    #[serde(default)]
    pub dev_container: Option<DevContainer>,
    /// Names of services that have to be built before they are started.
    #[serde(default)]
    pub unbuilt: Vec<String>,
    /// Declared secrets, each with its value where there is one.
    #[serde(default)]
    pub secrets: Vec<Grant>,
    /// The directory of the record of what happens to them.
    #[serde(default)]
    pub audit: PathBuf,
    /// The machine's own addresses; the keeper looks.
    #[serde(default)]
    pub machine: Vec<IpAddr>,
    /// Limits that the engine of a container keeps; `None`: the driver keeps them itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_by_engine: Option<KeptByEngine>,
    /// What `holm here` says, but for what changes.
    pub here: serde_json::Value,
    /// Where the daemon takes what programs inside ask of it.
    #[serde(default)]
    pub guests: Option<GuestDoor>,
    /// Defences that a test switched off to show what they hold back.
    pub without: Vec<Defence>,
}

/// What an engine says that it enforces for a workspace's container.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct KeptByEngine {
    pub limits: LimitsInForce,
    /// `v1` or `v2`.
    pub cgroup: Option<String>,
}

/// The network that this machine is in, as the user's settings say.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SurroundingNetwork {
    pub proxy: Option<Proxy>,
    /// Reached without the proxy; each a [`Destination`](holm_core::config::Destination).
    pub no_proxy: Vec<String>,
    /// CA certificates that programs inside trust besides those of the machine (PEM).
    pub ca: String,
}

/// Reads [`SurroundingNetwork`] from the user's settings, when a workspace is started.
pub type NetworkSource = Arc<dyn Fn() -> Result<SurroundingNetwork, Fault> + Send + Sync>;

/// The keeper's one answer on its stdout.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaunchAnswer {
    /// With the first status, so that the daemon need not ask for it.
    Ready(Box<Status>),
    Failed(LaunchFailure),
}

/// Where and why making the workspace failed.
#[derive(Clone, Debug, Serialize, Deserialize, thiserror::Error)]
#[error("{step}: {cause}")]
pub struct LaunchFailure {
    pub part: Part,
    pub step: String,
    pub cause: String,
    pub errno: Option<i32>,
}

/// The part of the isolation that a failed step belongs to, so that the way to get it can be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    User,
    Network,
    /// The rules that hold what leaves.
    Egress,
    Mount,
    Overlay,
    Proc,
    Seccomp,
    NoNewPrivileges,
    ProtectedPath,
    /// The step is the name of a limit that cannot be kept.
    Limit,
    /// The step is the name of a volume that another workspace has; the cause is its id.
    VolumeTaken,
    /// The step is the name of a volume that cannot be mounted.
    Volume,
    /// Secrets cannot be kept from the workspace's other programs.
    Secrets,
    Other,
}

// === impl Plan ===

impl Plan {
    pub fn directories(&self) -> WorkspaceDirs {
        WorkspaceDirs {
            dir: self.dir.clone(),
            socket: self.socket.clone(),
        }
    }

    /// Whether a defence is in force. In a release build all are, whatever the plan says.
    pub fn has(&self, defence: Defence) -> bool {
        defence.is_in_force(&self.without)
    }
}

/// Names the step that failed and the part of the isolation that it belongs to.
pub trait Stepped<T> {
    fn step(self, part: Part, step: &str) -> Result<T, LaunchFailure>;
}

impl<T, E: Into<io::Error>> Stepped<T> for Result<T, E> {
    fn step(self, part: Part, step: &str) -> Result<T, LaunchFailure> {
        self.map_err(|error| {
            let error: io::Error = error.into();
            LaunchFailure {
                part,
                step: step.to_owned(),
                cause: explain(&error),
                errno: error.raw_os_error(),
            }
        })
    }
}
