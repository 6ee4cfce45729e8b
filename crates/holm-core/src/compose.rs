//! The stack that Compose files describe, after merge and interpolation, in one normal form.
//!
//! `holm-config` reads the files into these types. Every field has the name of its key in the
//! specification. Paths below the project's root are relative to it; all others are absolute, begin with
//! `~`, or begin with `..`, and each of them is one of the [`Request`]s that a person has to approve.

mod interpolate;
mod short;

pub use interpolate::{InterpolationError, interpolate};
pub use short::{ShortError, mount, port_range, ports};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Compose files as a client read them, for the daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ComposeFiles {
    /// The absolute path of the project's root, which absolute paths of the files may name.
    pub root: String,
    /// The user's home directory, which `~` names.
    pub home: String,
    /// By their path below the root.
    pub files: BTreeMap<String, String>,
    /// Variables of the user that the files name.
    pub environment: BTreeMap<String, String>,
    /// Digests of the Dockerfiles that images are built from, by their path below the root.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub dockerfiles: BTreeMap<String, String>,
}

/// The files, read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    pub stack: Stack,
    /// Keys that have no effect, and variables without a value.
    pub warnings: Vec<Remark>,
    /// What the files ask of the host. Without approval, the caller must not act on these keys.
    pub requests: Vec<Request>,
    /// Services that no active profile selects.
    pub inactive: Vec<String>,
}

/// A sentence about a place in a file. Lines and columns count from 1.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Remark {
    pub file: String,
    pub line: usize,
    pub column: usize,
    pub words: String,
}

/// One request to the host, with its place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Request {
    pub at: Remark,
    /// `services.web.privileged`.
    pub key: String,
    /// The value in one line: another value is another request.
    pub value: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Stack {
    pub name: Option<String>,
    pub services: BTreeMap<String, Service>,
    pub networks: BTreeMap<String, Network>,
    pub volumes: BTreeMap<String, Volume>,
    pub secrets: BTreeMap<String, Material>,
    pub configs: BTreeMap<String, Material>,
}

/// Durations are milliseconds and sizes are bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Service {
    pub image: Option<String>,
    pub build: Option<Build>,
    pub command: Option<Vec<String>>,
    pub entrypoint: Option<Vec<String>>,
    /// `None`: the caller's environment has no value either.
    pub environment: BTreeMap<String, Option<String>>,
    /// Files outside of the root, whose variables are not in `environment`.
    pub env_file: Vec<EnvFile>,
    pub label_file: Vec<String>,
    pub labels: BTreeMap<String, Option<String>>,
    pub ports: Vec<Port>,
    pub expose: Vec<String>,
    pub volumes: Vec<Mount>,
    pub tmpfs: Vec<String>,
    pub volumes_from: Vec<String>,
    pub depends_on: BTreeMap<String, Dependency>,
    pub healthcheck: Option<Healthcheck>,
    pub networks: BTreeMap<String, Attachment>,
    /// `none`, `host`, `service:NAME` or `container:NAME`.
    pub network_mode: Option<String>,
    pub links: Vec<String>,
    /// Another name of the service in its networks.
    pub container_name: Option<String>,
    pub hostname: Option<String>,
    pub domainname: Option<String>,
    pub extra_hosts: BTreeMap<String, Vec<String>>,
    pub dns: Vec<String>,
    pub dns_opt: Vec<String>,
    pub dns_search: Vec<String>,
    pub secrets: Vec<Grant>,
    pub configs: Vec<Grant>,
    pub user: Option<String>,
    pub group_add: Vec<String>,
    pub working_dir: Option<String>,
    pub restart: Option<String>,
    pub stop_signal: Option<String>,
    pub stop_grace_period: Option<u64>,
    pub init: bool,
    pub tty: bool,
    pub stdin_open: bool,
    pub read_only: bool,
    pub shm_size: Option<u64>,
    pub ulimits: BTreeMap<String, Ulimit>,
    pub cpus: Option<f64>,
    pub mem_limit: Option<u64>,
    pub pids_limit: Option<i64>,
    pub deploy: Option<Deploy>,
    pub scale: Option<u64>,
    pub develop: Option<Develop>,
    pub pre_start: Vec<Hook>,
    pub post_start: Vec<Hook>,
    pub pre_stop: Vec<Hook>,
    pub platform: Option<String>,
    pub pull_policy: Option<String>,
    pub profiles: Vec<String>,
    pub cap_add: Vec<String>,
    pub cap_drop: Vec<String>,
    pub devices: Vec<Device>,
    pub privileged: bool,
    pub security_opt: Vec<String>,
    pub sysctls: BTreeMap<String, Option<String>>,
    pub ipc: Option<String>,
    pub pid: Option<String>,
    pub uts: Option<String>,
    pub userns_mode: Option<String>,
    pub cgroup: Option<String>,
    pub device_cgroup_rules: Vec<String>,
    pub gpus: Vec<DeviceRequest>,
    pub provider: Option<Provider>,
    pub use_api_socket: bool,
}

/// The program of the host that provides the service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Provider {
    #[serde(rename = "type")]
    pub kind: String,
    pub options: BTreeMap<String, Vec<String>>,
}

/// Devices by their properties, not by their paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DeviceRequest {
    pub capabilities: Vec<String>,
    pub driver: Option<String>,
    /// A number or `all`.
    pub count: Option<String>,
    pub device_ids: Vec<String>,
    pub options: BTreeMap<String, Option<String>>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Build {
    pub context: String,
    pub dockerfile: Option<String>,
    pub dockerfile_inline: Option<String>,
    pub args: BTreeMap<String, Option<String>>,
    pub target: Option<String>,
    pub labels: BTreeMap<String, Option<String>>,
    pub additional_contexts: BTreeMap<String, Option<String>>,
    pub network: Option<String>,
    pub platforms: Vec<String>,
    pub tags: Vec<String>,
    pub secrets: Vec<Grant>,
    pub ssh: Vec<String>,
    pub extra_hosts: BTreeMap<String, Vec<String>>,
    pub no_cache: bool,
    pub pull: bool,
    pub privileged: bool,
    pub entitlements: Vec<String>,
    pub shm_size: Option<u64>,
    pub ulimits: BTreeMap<String, Ulimit>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Port {
    /// In the container.
    pub target: u16,
    /// A port or a range; holm makes a route for it on loopback.
    pub published: Option<String>,
    pub host_ip: Option<String>,
    pub protocol: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MountKind {
    Bind,
    #[default]
    Volume,
    Tmpfs,
    Image,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Mount {
    #[serde(rename = "type")]
    pub kind: MountKind,
    pub source: Option<String>,
    pub target: String,
    pub read_only: bool,
    /// Do not copy the image's files into a new volume.
    pub nocopy: bool,
    pub subpath: Option<String>,
    /// Of a tmpfs.
    pub size: Option<u64>,
    pub mode: Option<String>,
    /// Of a bind mount: create a source that does not exist.
    pub create_host_path: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EnvFile {
    pub path: String,
    pub required: bool,
    pub format: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Condition {
    #[default]
    #[serde(rename = "service_started")]
    Started,
    #[serde(rename = "service_healthy")]
    Healthy,
    #[serde(rename = "service_completed_successfully")]
    Completed,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Dependency {
    pub condition: Condition,
    pub restart: bool,
    pub required: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Healthcheck {
    /// Begins with `CMD`, `CMD-SHELL` or `NONE`.
    pub test: Vec<String>,
    pub interval: Option<u64>,
    pub timeout: Option<u64>,
    pub start_period: Option<u64>,
    pub start_interval: Option<u64>,
    pub retries: Option<u64>,
    pub disable: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Attachment {
    pub aliases: Vec<String>,
    pub ipv4_address: Option<String>,
    pub ipv6_address: Option<String>,
}

/// A secret or config in a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Grant {
    pub source: String,
    pub target: Option<String>,
    pub uid: Option<String>,
    pub gid: Option<String>,
    pub mode: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ulimit {
    pub soft: i64,
    pub hard: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Deploy {
    pub replicas: Option<u64>,
    pub resources: Resources,
    pub restart_policy: Option<RestartPolicy>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Resources {
    pub limits: Amounts,
    pub reservations: Amounts,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Amounts {
    pub cpus: Option<f64>,
    pub memory: Option<u64>,
    pub pids: Option<i64>,
    pub devices: Vec<DeviceRequest>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RestartPolicy {
    pub condition: Option<String>,
    pub delay: Option<u64>,
    pub max_attempts: Option<u64>,
    pub window: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Develop {
    pub watch: Vec<Watch>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Watch {
    pub path: String,
    /// `rebuild`, `restart`, `sync`, `sync+restart` or `sync+exec`.
    pub action: String,
    pub target: Option<String>,
    pub ignore: Vec<String>,
    pub include: Vec<String>,
    pub exec: Option<Hook>,
    pub initial_sync: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Hook {
    /// Of `pre_start`: another image than the service's.
    pub image: Option<String>,
    pub command: Vec<String>,
    pub user: Option<String>,
    pub working_dir: Option<String>,
    pub environment: BTreeMap<String, Option<String>>,
    pub privileged: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Network {
    pub name: Option<String>,
    pub driver: Option<String>,
    pub external: bool,
    pub internal: bool,
    pub labels: BTreeMap<String, Option<String>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Volume {
    pub name: Option<String>,
    pub driver: Option<String>,
    pub driver_opts: BTreeMap<String, Option<String>>,
    pub external: bool,
    pub labels: BTreeMap<String, Option<String>>,
}

/// The content of a secret or config.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Material {
    pub name: Option<String>,
    pub file: Option<String>,
    /// A variable of the caller.
    pub environment: Option<String>,
    pub content: Option<String>,
    pub external: bool,
    pub labels: BTreeMap<String, Option<String>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Device {
    pub source: String,
    pub target: Option<String>,
    pub permissions: Option<String>,
}

// === impl ComposeFiles ===

impl ComposeFiles {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

// === impl EnvFile ===

impl Default for EnvFile {
    fn default() -> Self {
        Self {
            path: String::new(),
            required: true,
            format: None,
        }
    }
}

// === impl Dependency ===

impl Default for Dependency {
    fn default() -> Self {
        Self {
            condition: Condition::Started,
            restart: false,
            required: true,
        }
    }
}
