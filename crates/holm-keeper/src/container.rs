//! What a driver of containers and our own programs in its containers agree on: the names of the roles, the places in
//! the engine's volume, and the order to start a workspace's two containers.
//!
//! One volume of the engine has all files of an installation, in the layout of the Linux driver. The *store* is the
//! container that works on them. Keepers see the whole volume, a workspace only its own parts of it.

use crate::plan::{LaunchAnswer, SurroundingNetwork};
use crate::wire::{Defence, Grant};
use holm_core::config::Limits;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The role of the first process of the store.
pub const STORE_ROLE: &str = "__container-store";
/// The role that joins its stdin and stdout to the store's socket.
pub const RELAY_ROLE: &str = "__container-relay";
/// The role of the first process of a keeper's container.
pub const KEEPER_ROLE: &str = "__container-keeper";
/// The role of the first process of a workspace's container, before it becomes init.
pub const INIT_ROLE: &str = "__container-init";

/// Where the store and keepers see the volume.
pub const VOLUME: &str = "/holm";
/// The programs that the daemon copied into the volume.
pub const PROGRAMS: &str = "/holm/bin";
/// The data directory of the layout in the volume.
pub const DATA: &str = "/holm/data";
/// The directory of sockets.
pub const RUN: &str = "/holm/run";
/// What the daemon uploads, by random names.
pub const INCOMING: &str = "/holm/data/incoming";

/// The user and the group of all programs and files of workspaces.
pub const USER: u32 = 1000;
/// The group of keepers. No program of a workspace has it, so it tells a keeper's connections from theirs.
pub const KEEPER_GROUP: u32 = 0;

/// The store's socket.
pub fn store_socket() -> PathBuf {
    Path::new(RUN).join("store.sock")
}

/// The name of the socket by which init finds its keeper, in the directory that a workspace sees as `/run/holm`.
pub const LINK: &str = "link.sock";

/// Whom the first line of a connection to the store is for. What follows belongs to that protocol.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hello {
    /// The driver in the store; one call follows.
    Driver,
    /// The keeper of this workspace.
    Keeper(String),
    /// The records of this workspace.
    Records(String),
    /// The next program inside that calls the daemon. The answer comes with it.
    Guest,
}

/// What the daemon gives to an action: the store has neither the vault nor the user's settings.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Given {
    pub grants: Vec<Grant>,
    pub surrounding: SurroundingNetwork,
    /// Addresses of the daemon's machine.
    #[serde(default)]
    pub machine: Vec<std::net::IpAddr>,
    pub without: Vec<Defence>,
}

/// Has the daemon start the containers of a workspace.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Start {
    pub id: String,
    pub label: String,
    /// For the keeper's stdin. It may contain secrets.
    pub plan: serde_json::Value,
    /// The keeper's program in the volume.
    pub keeper: PathBuf,
    /// Init's program, as the workspace sees it.
    pub init: PathBuf,
    /// Parents come first.
    pub shown: Vec<Shown>,
    /// Where files of secrets are, in the memory of the engine's machine.
    pub secret_files: Option<SecretFiles>,
    pub limits: Limits,
    /// Names of limits without which nothing is started.
    pub required: Vec<String>,
}

/// The place of secret files, inside and for the keeper.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SecretFiles {
    pub inside: PathBuf,
    pub keeper: PathBuf,
}

/// What a workspace sees at `to`. The other paths are below [`VOLUME`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    pub to: PathBuf,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A file or directory.
    Place { from: PathBuf, access: Access },
    /// An overlay, top layer first. Without writable directories it is read-only.
    Overlay {
        layers: Vec<PathBuf>,
        writable: Option<Writable>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    Read,
    Write,
}

/// The directories that an overlay writes to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Writable {
    pub upper: PathBuf,
    pub work: PathBuf,
}

/// The daemon's answer to [`Start`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Started {
    /// The keeper's own answer.
    Answered(LaunchAnswer),
    /// The engine did not start the containers.
    Failed(String),
}

/// The keeper's first message to the first process of the workspace.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InitOrder {
    /// Where programs may write.
    pub writable: Vec<PathBuf>,
    pub without: Vec<Defence>,
}

/// Its answer, with two descriptors: `/proc` of the workspace, and the process itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InitReport {
    Sealed { landlock: bool },
    Failed(crate::plan::LaunchFailure),
}
