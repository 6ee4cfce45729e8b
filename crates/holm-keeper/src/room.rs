//! A room: the root of one image in which a service of the workspace runs. The driver plans it, the platform makes it
//! ([`Platform::make_room`](crate::platform::Platform::make_room)), the keeper starts the service's program in it.

use holm_core::container::Mount;
use holm_core::image_users::User;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// What the room of one service consists of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoomPlan {
    pub service: String,
    /// Unpacked layers of the image on the host, top first. All rooms share them and none can change them.
    pub layers: Vec<PathBuf>,
    /// The directory of the service's own files on the host. Its parent exists.
    pub own: PathBuf,
    /// Where the room shows the workspace's tree.
    pub tree: Option<PathBuf>,
    /// Paths of the volumes that the room shows, the same as in the workspace.
    pub volumes: Vec<PathBuf>,
    /// What a Compose file mounts, in this order.
    #[serde(default)]
    pub mounts: Vec<Mount>,
    /// Where the workspace shows its volumes, by their names.
    #[serde(default)]
    pub places: BTreeMap<String, PathBuf>,
    /// The service whose network namespace it joins, by its index in the plan. `None`: the workspace's.
    #[serde(default)]
    pub network: Option<u32>,
    /// `None`: the workspace's.
    #[serde(default)]
    pub hostname: Option<String>,
    /// The text of `/etc/hosts`. `None`: the workspace's.
    #[serde(default)]
    pub hosts: Option<String>,
    /// Our program for helpers, which the room shows as the workspace does. `None`: the service needs none.
    #[serde(default)]
    pub helper: Option<PathBuf>,
    /// The tree that the room is for, if programs of people run in it: the room shows all of `/run/holm`.
    #[serde(default)]
    pub home_of: Option<u64>,
    /// Programs can write only to mounts.
    #[serde(default)]
    pub is_read_only: bool,
    /// Directories that the image expects: its working directory and its `VOLUME`s. Missing ones are created.
    pub directories: Vec<PathBuf>,
    /// Its programs have the users of the image, with the workspace's ranges of ids.
    #[serde(default)]
    pub has_users: bool,
    pub start: ImageStart,
}

/// How the program of an image starts and ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageStart {
    pub entrypoint: Vec<String>,
    pub command: Vec<String>,
    pub environment: Vec<(String, String)>,
    /// As the image writes it.
    pub user: Option<String>,
    /// Further groups of it, by names or numbers.
    #[serde(default)]
    pub groups: Vec<String>,
    /// Absolute.
    pub directory: Option<String>,
    pub stop_signal: i32,
}

/// What is sent to the processes of a room.
#[derive(Clone, Copy, Debug)]
pub enum RoomSignal<'a> {
    Kill,
    /// To the processes that are not stopped.
    Stop,
    /// To these processes, if they are still in the room. A program may have stopped others itself.
    Continue(&'a BTreeSet<i32>),
}

/// The first process of a room. It is a child of the keeper and is not reaped before its end is handled, so pid and
/// pidfd stay valid.
pub struct RoomInit {
    pub pidfd: OwnedFd,
    pub pid: i32,
    pub link: UnixStream,
    /// `$HOME` of the image's user.
    pub home: String,
    /// What the service starts as. `None`: as the room's only user.
    pub user: Option<User>,
    /// How the platform recognises processes of the room.
    pub namespace: PathBuf,
}
