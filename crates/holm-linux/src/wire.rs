//! What daemon, keeper and init say to each other, and how it is framed. Versioned: a keeper lives
//! longer than the daemon that started it, so every message says which protocol it speaks.
//!
//! Daemon and keeper: frames of length, channel and payload on the control socket. Keeper and
//! init: length-prefixed JSON with descriptors attached. What comes from init is hostile input:
//! lengths are bounded and nothing in it is believed.

mod defence;
mod frame;
mod secrets;

pub use defence::{Defence, switched_off};
pub use frame::{control_frame, frame, read_control, take_frame};

use crate::cgroup;
use crate::copier::Pair;
use crate::guests::GuestDoor;
use holm_engine::Isolation;
use holm_engine::driver::{Carried, ToldPort};
use holm_engine::exec::Masking;
use holm_engine::run::{RunOrder, RunSeen};
use holm_engine::service::{ServiceStatus, Services};
use holm_engine::session::{Ask, Attach, SessionNotice, Told, Word};
use holm_engine::spec::{Egress, Network, Service};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::path::PathBuf;

pub use secrets::{Domain, Form, Grant, Standin};

/// The version of everything in this file. Whatever the versions, a keeper answers `status`, `stop`
/// and `relabel`, whose form never changes; a command needs the same one.
pub const VERSION: u32 = 1;

/// The longest payload of one frame; arguments and environment of a command fit.
pub const MAX_FRAME: usize = 4 * 1024 * 1024;

/// What a frame carries.
pub mod channel {
    pub const CONTROL: u8 = 0;
    pub const STDIN: u8 = 1;
    pub const STDOUT: u8 = 2;
    pub const STDERR: u8 = 3;
}

/// Everything the keeper needs to make a workspace run; sent on its stdin.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LaunchPlan {
    pub version: u32,
    pub id: String,
    pub label: String,
    /// Where the code is inside.
    pub root: PathBuf,
    pub home: PathBuf,
    /// Read-only layers of the tree on the host, top first.
    pub layers: Vec<PathBuf>,
    /// The same of home; none: it is the workspace's own directory.
    #[serde(default)]
    pub home_layers: Vec<PathBuf>,
    /// Mounted after everything else.
    #[serde(default)]
    pub caches: Vec<Mounted>,
    /// Mounted after these.
    #[serde(default)]
    pub volumes: Vec<VolumeMount>,
    /// The project's shared git objects on the host.
    pub objects: PathBuf,
    /// The workspace's own directory on the host.
    pub dir: PathBuf,
    pub socket: PathBuf,
    /// Our own program on the host, as a path: the running one belongs to another mount namespace.
    pub program: PathBuf,
    /// Host paths that are visible read-only at the same path.
    pub shown: Vec<PathBuf>,
    /// Relative to `root`.
    pub protected: Vec<String>,
    pub nested: bool,
    pub environment: Vec<(String, String)>,
    /// The most processes are kept by RLIMIT_NPROC, too.
    pub limits: cgroup::Limits,
    /// In bytes; measured by the keeper.
    pub disk: Option<u64>,
    /// Where the workspace's control groups may be made.
    pub groups: Option<cgroup::Place>,
    /// Names of limits without which nothing is started.
    pub required: Vec<String>,
    /// Names of limits that the project wrote down and that the user goes without if need be.
    pub forgone: Vec<String>,
    /// What leads in and out.
    #[serde(default)]
    pub network: Network,
    /// Started by the keeper as soon as the workspace runs.
    #[serde(default)]
    pub services: Vec<Service>,
    /// Names of services that have to be built before they are started.
    #[serde(default)]
    pub unbuilt: Vec<String>,
    /// Declared secrets, each with its value where there is one.
    #[serde(default)]
    pub secrets: Vec<Grant>,
    /// The directory of the record of what happens to them.
    #[serde(default)]
    pub audit: PathBuf,
    /// Host files that show another list of trusted certificates inside.
    #[serde(default)]
    pub bundles: Vec<PathBuf>,
    /// The machine's own addresses; the keeper looks.
    #[serde(default)]
    pub machine: Vec<IpAddr>,
    /// The directory of siblings' trees on the host, if they are shown.
    #[serde(default)]
    pub siblings: Option<PathBuf>,
    /// What `holm here` says, but for what changes.
    pub here: serde_json::Value,
    /// Where the daemon takes what programs inside ask of it.
    #[serde(default)]
    pub guests: Option<GuestDoor>,
    /// Defences that a test switched off to show what they hold back.
    pub without: Vec<Defence>,
}

/// A cache or a volume: where it is inside, what is written on the host, and what lies below that.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Mounted {
    pub inside: PathBuf,
    pub own: PathBuf,
    pub below: Option<Below>,
}

/// A volume as it is mounted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VolumeMount {
    pub name: String,
    pub generation: u64,
    pub mount: Mounted,
    /// Held by the keeper for as long as it lives, when one workspace at a time may have it.
    pub lock: Option<PathBuf>,
}

/// A volume that may have been begun anew.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Renewal {
    pub volume: VolumeMount,
    /// The services that name its place.
    pub users: Vec<String>,
}

/// A layer, and what overlayfs needs beside the writable one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Below {
    pub layer: PathBuf,
    pub work: PathBuf,
}

/// The keeper's one answer on its stdout.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaunchAnswer {
    Ready,
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

/// What the daemon asks on the control socket, as the first frame.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Request {
    pub version: u32,
    pub op: Op,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    Status,
    Stop {
        grace_ms: u64,
    },
    Relabel {
        label: String,
    },
    Exec(Exec),
    /// Of a client whose daemon died: the rest of a command that has a key.
    Resume(Resume),
    /// Answered with `Run` at once and at every change, until it has ended. One that is under way is
    /// not begun again.
    Run(RunOrder),
    /// Answered in the same way.
    WatchRun {
        run: String,
    },
    /// Answered with `Done` when it is being ended.
    CancelRun {
        run: String,
    },
    /// Answered with `Dialled` and a connected socket of the workspace's network.
    Dial {
        port: u16,
    },
    /// Answered with `Listening` at once and at every change.
    WatchPorts,
    /// How the ports are reached, for whoever asks inside.
    TellPorts(Vec<ToldPort>),
    SetEgress(Egress),
    /// Answered with `Services` at once and at every change.
    WatchServices,
    /// Answered with `Done` when it is under way.
    Service {
        name: String,
        wish: ServiceWish,
    },
    /// Answered with `Done` when it is copied, as of one instant.
    Copy(Vec<Pair>),
    /// Answered with `Done` when they are mounted and what uses them is started again.
    RenewVolumes(Vec<Renewal>),
    /// The tree has another commit: what services do about it, and what `holm here` says from now on.
    /// Answered with `Done` when it is under way.
    React {
        wishes: Vec<(String, ServiceWish)>,
        code: CodeSeen,
    },
    /// Answered with `Done` when what follows of it is under way.
    SetServices(Vec<Service>),
    /// These are the secrets from now on. Answered with `Done` when files are in place.
    SetSecrets(Vec<Grant>),
    /// Answered with `Session`.
    Session(Ask),
    /// Answered with `SessionWord`s; what to draw comes as stdout, keys go as stdin.
    AttachSession(Attach),
    /// Answered with `SessionNotice` for each that nobody wrote down yet; the daemon answers with the
    /// number of the last that it has written down.
    WatchSessions,
    /// Answered with `Dialled`; then the connection itself carries the bytes.
    DialOut {
        host: String,
        port: u16,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceWish {
    Start,
    Stop,
    Restart,
    Rebuild,
}

/// Where the tree is.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CodeSeen {
    pub reference: Option<String>,
    pub commit: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Exec {
    pub argv: Vec<Vec<u8>>,
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    pub cwd: Option<Vec<u8>>,
    pub terminal: Option<Terminal>,
    pub timeout_ms: Option<u64>,
    /// Of a program that holm itself runs: see [`ExecRequest::quiet`](holm_engine::exec::ExecRequest::quiet).
    #[serde(default)]
    pub quiet_ms: Option<u64>,
    /// A secret of the client's, by which it can come back. What it has of the output it says
    /// ([`ExecControl::Taken`]), after the keeper said that it listens to that ([`Answer::Kept`]).
    #[serde(default)]
    pub key: Option<String>,
    #[serde(default)]
    pub masking: Masking,
}

/// The key of a command, and how many bytes of its output the client has.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Resume {
    pub key: String,
    pub stdout: u64,
    pub stderr: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Terminal {
    pub term: String,
    pub rows: u16,
    pub cols: u16,
}

/// What may follow an `exec` request.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecControl {
    StdinEof,
    Resize {
        rows: u16,
        cols: u16,
    },
    Signal(i32),
    Hangup,
    /// How many bytes of the output the client has, since the beginning.
    Taken {
        stdout: u64,
        stderr: u64,
    },
}

/// What the keeper answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Status(Box<Status>),
    Run(Box<RunSeen>),
    Done,
    Started,
    /// The command can be come back to.
    Kept,
    /// The client is back: so many bytes of stdin have arrived, and so many of them were taken.
    Resumed {
        received: u64,
        taken: u64,
    },
    StdinTaken(u64),
    Exit(u8),
    /// The command could not be started; the code is what a shell would exit with.
    NotStarted {
        code: u8,
        cause: String,
    },
    Refused(String),
    /// What was asked for was tried.
    Failed {
        errno: Option<i32>,
        cause: String,
    },
    /// Where a connection was asked for: it is there, or why not.
    Dialled,
    NotDialled {
        errno: i32,
    },
    /// The ports that are listened on inside, sorted.
    Listening(Vec<u16>),
    Services(Services),
    Session(Told),
    SessionWord(Word),
    SessionNotice(SessionNotice),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    pub version: u32,
    pub id: String,
    pub isolation: Isolation,
    /// Why nothing can be done inside, although the keeper answers.
    #[serde(default)]
    pub trouble: Option<String>,
    /// Init is ending, and in a moment the keeper says why.
    #[serde(default)]
    pub is_init_ending: bool,
    /// Why the keeper is just ending it, if it is.
    #[serde(default)]
    pub ending: Option<String>,
    /// Commands that are under way.
    #[serde(default)]
    pub commands: usize,
    #[serde(default)]
    pub services: Vec<ServiceStatus>,
    /// The copy of holm that it runs; an older keeper does not say.
    #[serde(default)]
    pub program: Option<PathBuf>,
    /// The volumes that are mounted, and how often each was begun anew.
    #[serde(default)]
    pub volumes: Vec<(String, u64)>,
    /// By the gateway; an older keeper does not say.
    #[serde(default)]
    pub carried: Option<Carried>,
}

/// How a run of the keeper began and ended; a file beside the workspace.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LastRun {
    pub boot_id: String,
    /// `None`: it did not get to say.
    pub ended: Option<String>,
    /// The first process inside, once it is there.
    #[serde(default)]
    pub init: Option<Incarnation>,
}

/// A process that no other one is taken for: numbers are used again, a number and the time of its
/// start within one boot are not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incarnation {
    pub pid: i32,
    /// In clock ticks since the boot, as `/proc/<pid>/stat` has it.
    pub started: u64,
}

/// What the keeper tells init.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToInit {
    /// Descriptors: stdin, stdout, stderr; none with a terminal.
    Spawn(Spawn),
    /// To a process group.
    Signal { pid: i32, signal: i32 },
    /// SIGTERM to all, and say when none is left.
    Terminate,
    /// The keeper has taken these descriptors ([`FromInit::Left`]).
    Close { numbers: Vec<i32> },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Spawn {
    pub sequence: u64,
    pub argv: Vec<Vec<u8>>,
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    pub cwd: Vec<u8>,
    pub terminal: Option<(u16, u16)>,
    #[serde(default)]
    pub domain: Domain,
    /// Stdin, stdout and stderr of a program without a terminal. Init hears of them only where no
    /// descriptors can be sent: then it makes them itself, and the keeper gets the other ends.
    #[serde(default)]
    pub streams: Option<[StdStream; 3]>,
}

/// Where one of the three streams of a program leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StdStream {
    /// To the keeper.
    Pipe,
    /// To `/dev/null`.
    Nothing,
}

/// What init tells the keeper.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromInit {
    /// Said by the launcher before init is there. Descriptor: where renames are told.
    Renames,
    /// Said by the launcher before init is there. Descriptor: a socket of the workspace's network.
    Doorway(Doorway),
    /// Said by the launcher before init is there. Descriptor: where secrets are put as files.
    SecretFiles,
    Hello {
        version: u32,
    },
    /// A message whose descriptors the kernel did not send, because programs of the user have too many
    /// in flight. They stay open in init under these numbers until the keeper says `Close`.
    Left {
        numbers: Vec<i32>,
        message: Box<FromInit>,
    },
    /// Descriptors: the terminal's master, or the keeper's ends of the pipes that init made.
    Spawned {
        sequence: u64,
        pid: i32,
    },
    NotSpawned {
        sequence: u64,
        code: u8,
        cause: String,
        /// The error of the system, if it is that the directory cannot be gone to.
        #[serde(default)]
        directory: Option<i32>,
    },
    Exited {
        pid: i32,
        code: u8,
    },
    Empty,
}

/// A socket of the workspace's network that the keeper holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Doorway {
    /// Tells what listens inside (NETLINK_SOCK_DIAG).
    Diagnosis,
    /// Takes every connection that leaves.
    Gateway,
    /// Takes questions for names, by UDP.
    Questions,
    /// And by TCP.
    LongQuestions,
    /// Changes the kernel's rules.
    Rules,
    /// Tells what the kernel refused.
    Refusals,
    /// Listens for a service of `[shared]`, by its place in the list.
    Shared(u32),
}

// === impl Doorway ===

impl Doorway {
    /// Whether it is of the gateway, which a machine may have to go without.
    pub fn is_outward(self) -> bool {
        !matches!(self, Doorway::Diagnosis | Doorway::Shared(_))
    }
}

// === impl LaunchPlan ===

impl LaunchPlan {
    /// Whether a defence is in force. In a release build all are, whatever the plan says.
    pub fn has(&self, defence: Defence) -> bool {
        !cfg!(debug_assertions) || !self.without.contains(&defence)
    }
}

/// The version that the daemon speaks. Tests have it be another one (`HOLM_TEST_WIRE=2`).
pub fn spoken_version() -> u32 {
    if !cfg!(debug_assertions) {
        return VERSION;
    }
    let asked = std::env::var("HOLM_TEST_WIRE").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(VERSION)
}
