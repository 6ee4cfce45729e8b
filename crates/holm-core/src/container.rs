//! What a Compose file says of a service beyond what every service has.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;

/// Where the root of a service shows the directories that it watches, each by its number.
const WATCHED: &str = "/run/holm/watched";

/// The service of a Compose file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Container {
    /// The name in the file, which a [`Name`](crate::config::Name) may not have.
    pub name: String,
    /// `None`: the image's.
    pub entrypoint: Option<Vec<String>>,
    /// `None`: the image's, if the entrypoint is the image's too.
    pub command: Option<Vec<String>>,
    pub environment: Vec<(String, String)>,
    pub user: Option<String>,
    /// Further groups of its programs, by names or numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    pub directory: Option<String>,
    pub hostname: Option<String>,
    /// In the order in which they are mounted.
    pub mounts: Vec<Mount>,
    pub read_only: bool,
    pub stop_signal: Option<String>,
    pub stop_grace_ms: Option<u64>,
    pub network: Attachment,
    /// It is done when it has exited with 0, and others wait for that.
    pub is_job: bool,
    /// Services that have to run, but need not be ready, before it starts.
    pub begins_after: Vec<String>,
    /// Run beside the program when it has started.
    #[serde(default)]
    pub post_start: Vec<Hook>,
    /// Run beside the program before it is asked to end.
    #[serde(default)]
    pub pre_stop: Vec<Hook>,
    /// What happens when files of the tree change while it runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watches: Vec<Watch>,
    #[serde(default, skip_serializing_if = "Input::is_nothing")]
    pub input: Input,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<ResourceLimit>,
    /// Settings of its network namespace (`net.…`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctls: BTreeMap<String, String>,
}

/// What its program reads from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// The end of a file.
    #[default]
    Nothing,
    /// An open pipe without input.
    Open,
    /// A terminal without input. Its output goes there, too.
    Terminal,
}

/// A resource limit of each of its processes. The workspace's own limits hold in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResourceLimit {
    pub resource: Resource,
    /// `None`: without a limit.
    pub soft: Option<u64>,
    pub hard: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Resource {
    Cpu,
    Data,
    Fsize,
    Locks,
    Memlock,
    Msgqueue,
    Nofile,
    Nproc,
    Rss,
    Rttime,
    Sigpending,
    Stack,
}

/// A command that runs beside a service's own program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hook {
    pub command: Vec<String>,
    /// `None`: the service's.
    pub directory: Option<String>,
    pub environment: Vec<(String, String)>,
}

/// Files of the tree, and what happens when they change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watch {
    /// The directory that the service's root shows for it ([`Watch::place`]), relative to the root of the tree.
    pub base: PathBuf,
    /// A file or directory, relative to `base`; empty: all of it.
    pub path: PathBuf,
    /// `base` is what the service's image is built from, so its `.dockerignore` counts.
    pub is_context: bool,
    /// Where the service gets copies of the files; `None`: nowhere.
    pub target: Option<PathBuf>,
    /// Copy at the first start, too.
    pub is_initial: bool,
    /// Patterns of `.dockerignore`, relative to `path`.
    pub ignore: Vec<String>,
    /// If there are any, only files that match one count.
    pub include: Vec<String>,
    pub then: AfterChange,
}

/// What follows when the files are copied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum AfterChange {
    Nothing,
    Restart,
    Run(Hook),
    /// The service's image is older than the files.
    Outdated,
}

/// One file or directory that its programs see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mount {
    pub source: Source,
    /// Absolute.
    pub target: PathBuf,
    pub read_only: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Source {
    /// A path relative to the root of the tree; `create`: a missing one becomes a directory.
    Tree { path: PathBuf, create: bool },
    /// A path of the host that a person approved.
    Host(PathBuf),
    /// A volume of the workspace, or a directory in it.
    Volume {
        name: String,
        subpath: Option<PathBuf>,
        /// A new one begins empty, and not with what the image has there.
        #[serde(default)]
        no_copy: bool,
    },
    /// What the image has there, also where another mount would hide it: an anonymous volume.
    Image,
    /// A file system in memory, with a limit in bytes.
    Memory { size: Option<u64> },
    /// A file with this content.
    Text(String),
}

/// The network that its programs are in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Attachment {
    Own(OwnNetwork),
    /// Loopback only.
    Nothing,
    /// That of another service.
    Of(String),
    #[default]
    Workspace,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnNetwork {
    pub address: Ipv4Addr,
    /// The networks of the file that it is in, with its further names there.
    pub networks: BTreeMap<String, Vec<String>>,
    /// All of them are internal: nothing leaves.
    pub is_internal: bool,
    pub published: Vec<Published>,
    /// Further names of other services, each with the service that it means.
    pub links: Vec<(String, String)>,
    /// Further names of addresses.
    pub hosts: Vec<(String, String)>,
}

/// A port of the workspace's loopback interface that leads to the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    pub port: u16,
    pub target: u16,
}

// === impl Input ===

impl Input {
    fn is_nothing(&self) -> bool {
        *self == Self::Nothing
    }
}

// === impl Resource ===

impl Resource {
    /// By its name in a Compose file.
    pub fn named(name: &str) -> Option<Self> {
        const ALL: [(&str, Resource); 12] = [
            ("cpu", Resource::Cpu),
            ("data", Resource::Data),
            ("fsize", Resource::Fsize),
            ("locks", Resource::Locks),
            ("memlock", Resource::Memlock),
            ("msgqueue", Resource::Msgqueue),
            ("nofile", Resource::Nofile),
            ("nproc", Resource::Nproc),
            ("rss", Resource::Rss),
            ("rttime", Resource::Rttime),
            ("sigpending", Resource::Sigpending),
            ("stack", Resource::Stack),
        ];
        let found = ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, resource)| *resource)
    }
}

// === impl Watch ===

impl Watch {
    /// A file that says that the service has run in this root before.
    pub const MARK: &str = "/run/holm/watched-before";

    /// Where the service's root shows the `base` of the watch with this number.
    pub fn place(number: usize) -> PathBuf {
        PathBuf::from(format!("{WATCHED}/{number}"))
    }
}
