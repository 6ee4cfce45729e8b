//! The protocols between daemon, keeper and init. Versioned: a keeper lives longer than the daemon
//! that started it, so every message names its protocol version.
//!
//! Daemon and keeper: frames of length, channel and payload on the control socket. Keeper and init:
//! length-prefixed JSON with attached descriptors. Messages of init are hostile input: lengths are
//! bounded and nothing is trusted.

mod defence;
mod frame;
mod secrets;

pub use defence::{Defence, switched_off};
pub use frame::{control_frame, frame, read_control, send_answer, take_frame};

use holm_core::egress::Carried;
use holm_core::exec::{ExecRequest, Resume};
use holm_core::image_users::User;
use holm_core::isolation::Isolation;
use holm_core::route::PortAddress;
use holm_core::run::{RunOrder, RunSeen};
use holm_core::service::Wish;
use holm_core::service::status::{ServiceStatus, Services};
use holm_core::session::protocol::{
    Attach, AttachMessage, Session, SessionNotice, SessionRequest, SessionResponse,
};
use holm_core::spec::{Egress, Service, WorkspaceSpec};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

pub use secrets::{Domain, Grant, GrantSource, RenewalAnswer, RenewalRequest, SignIn, Standin};

/// The version of this protocol. With any version a keeper answers `status`, `stop` and `relabel`,
/// whose form never changes; a command needs the same version.
pub const VERSION: u32 = 1;

/// The longest payload of a frame; arguments and environment of a command fit.
pub const MAX_FRAME: usize = 4 * 1024 * 1024;

/// The channels of frames.
pub mod channel {
    pub const CONTROL: u8 = 0;
    pub const STDIN: u8 = 1;
    pub const STDOUT: u8 = 2;
    pub const STDERR: u8 = 3;
}

/// A directory, and where its copy is to be; that has a parent, and nothing is there yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    pub from: PathBuf,
    pub to: PathBuf,
}

/// A cache or a volume: its path inside, the writable directory on the host, and the layer below.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Mounted {
    pub inside: PathBuf,
    pub own: PathBuf,
    pub below: Option<Below>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VolumeMount {
    pub name: String,
    pub generation: u64,
    pub mount: Mounted,
    /// Locked by the keeper while it lives, if only one workspace at a time may have it.
    pub lock: Option<PathBuf>,
}

/// A layer, and overlayfs's work directory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Below {
    pub layer: PathBuf,
    pub work: PathBuf,
}

/// A volume that may have been begun anew.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Renewal {
    pub volume: VolumeMount,
    /// The services that name its place.
    pub users: Vec<String>,
}

/// A request of the daemon on the control socket, as the first frame.
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
    Exec(ExecRequest),
    /// Reconnects to a command by its key, after the daemon died.
    Resume(Resume),
    /// Answered with `Run` at once and at every change, until it has ended. A run with this id is
    /// not started twice.
    Run(RunOrder),
    /// Answered in the same way.
    WatchRun {
        run: String,
    },
    /// Answered with `Done` when ending has begun.
    CancelRun {
        run: String,
    },
    /// Answered with `Dialled` and a connected socket of the workspace's network.
    Dial {
        port: u16,
    },
    /// The same for a client that cannot receive descriptors: answered with `Dialled`; then the connection
    /// itself carries the bytes.
    Connect {
        port: u16,
    },
    /// Answered with `Listening` at once and at every change.
    WatchPorts,
    /// Answered with `Seen` at once, at every change, and for each empty control frame of the client. Keepers of
    /// the release before refuse it: the client asks for `Status` each time instead.
    Watch,
    /// The addresses of the ports, for `holm here`.
    #[serde(rename = "set_ports")]
    SetPorts(Vec<PortAddress>),
    SetEgress(Egress),
    /// Replaces the variables of `[env]`, for programs that start from now on.
    SetEnv(Vec<(String, String)>),
    /// Answered with `Services` at once and at every change.
    WatchServices,
    /// Answered with `Done` when it has begun.
    Service {
        name: String,
        wish: Wish,
    },
    /// Answered with `Done` when the copy, as of one instant, is complete.
    Copy(Vec<Pair>),
    /// Answered with `Done` when they are mounted and their services are started again.
    RenewVolumes(Vec<Renewal>),
    /// The tree has another commit: the services' reactions, and the new values for `holm here`.
    /// Answered with `Done` when the reactions have begun.
    React {
        wishes: Vec<(String, Wish)>,
        code: CodeSeen,
    },
    /// Answered with `Done` when the changes have begun.
    SetServices(Vec<Service>),
    /// Replaces the secrets. Answered with `Done` when files are in place.
    SetSecrets(Vec<Grant>),
    /// Replaces the sign-in of an agent, for a run or session that is about to start, or (without a holder)
    /// for those that have it. Answered with `Done`.
    SetSignIns {
        agent: String,
        sign_ins: Vec<SignIn>,
        #[serde(default)]
        holder: Option<String>,
    },
    /// The holder did not start. Answered with `Done`.
    EndSignIns {
        holder: String,
    },
    /// Answered with `Session`.
    Session(SessionRequest),
    /// Answered with `AttachMessage`s; drawing sequences come as stdout, keys go as stdin.
    AttachSession(Attach),
    /// Answered with `SessionNotice` for each unacknowledged one; the daemon acknowledges with the
    /// number of the last that it has stored.
    WatchSessions,
    /// What is written down about the workspace; answered as the query says.
    Records(Query),
    /// Answered with `Dialled`; then the connection itself carries the bytes.
    DialOut {
        host: String,
        port: u16,
    },
}

/// The commit of the tree.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CodeSeen {
    pub reference: Option<String>,
    pub commit: Option<String>,
}

/// The keeper's answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Status(Box<Status>),
    Run(Box<RunSeen>),
    Done,
    Started,
    /// The client can reconnect to the command.
    Kept,
    /// The client has reconnected: how many bytes of stdin have arrived, and how many of them the
    /// command has read.
    Resumed {
        received: u64,
        taken: u64,
    },
    StdinTaken(u64),
    Exit(u8),
    /// The command could not be started; the code is a shell's.
    NotStarted {
        code: u8,
        cause: String,
    },
    Refused(String),
    /// The request failed.
    Failed {
        errno: Option<i32>,
        cause: String,
    },
    /// The connection is made, or why not.
    Dialled,
    NotDialled {
        errno: i32,
    },
    /// The listening ports inside, sorted.
    Listening(Vec<u16>),
    Seen(Box<WatchReport>),
    Services(Services),
    Session(SessionResponse),
    #[serde(rename = "session_word")]
    AttachMessage(AttachMessage),
    SessionNotice(SessionNotice),
    /// There is no such record.
    Missing,
    /// There is more of the record at the moment.
    More,
    /// Where the lines of the egress record ended that came before this.
    Egress(Option<EgressPlace>),
}

/// A question about what is written down. `Failed` says why it cannot be read.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Query {
    /// Answered with `Services`, as they were when that was last written down.
    Services,
    /// Answered with `Session`: those that there were, all of them ended.
    Sessions,
    /// Answered with `Run` or `Missing`.
    Run { run: String },
    /// Deletes the record of a run that has ended. Answered with `Done`.
    ForgetRun { run: String },
    /// Answered with lines as stdout, then `Egress`.
    Egress(EgressFrom),
    /// Whether this is the secret with which the keeper of the last start connects guests to the daemon. Answered
    /// with `Done` or `Missing`.
    GuestSecret { secret: String },
    /// Answered with a piece as stdout, then `More` or `Done`; and again for each empty control frame of the
    /// client. A line is a service's name, a space, and the line of its log.
    Logs(LogQuery),
    /// Answered in the same way, with pieces as they are in the record.
    RunOutput {
        run: String,
        /// The cursor behind which to begin.
        after: u64,
    },
}

/// Which lines of logs are wanted.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LogQuery {
    pub services: Vec<String>,
    /// Since the epoch.
    pub since_us: Option<u64>,
    /// At most so many from the end, of each service.
    pub last: Option<usize>,
}

/// Which lines of the egress record are wanted.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EgressFrom {
    /// So many from the end.
    Last(usize),
    /// None of those that there are.
    End,
    /// Those behind a place; `None`: behind the beginning of the newest file.
    After(Option<EgressPlace>),
}

/// A place in the egress record: a file and how far it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EgressPlace {
    pub inode: u64,
    pub read: u64,
}

/// What a keeper tells a client that watches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WatchReport {
    pub status: Status,
    /// The listening ports inside, sorted.
    pub listening: Vec<u16>,
    /// The oldest first; a keeper of an earlier release does not say.
    #[serde(default)]
    pub sessions: Option<Vec<Session>>,
    /// How many of the client's questions came before this.
    pub answered: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    pub version: u32,
    pub id: String,
    pub isolation: Isolation,
    /// Why nothing can be done inside, although the keeper answers.
    #[serde(default)]
    pub trouble: Option<String>,
    /// Init is ending, and the keeper will say why in a moment.
    #[serde(default)]
    pub is_init_ending: bool,
    /// Why the keeper is ending it, if so.
    #[serde(default)]
    pub ending: Option<String>,
    /// The number of running commands.
    #[serde(default)]
    pub commands: usize,
    #[serde(default)]
    pub services: Vec<ServiceStatus>,
    /// The copy of holm that it runs; an older keeper does not say.
    #[serde(default)]
    pub program: Option<PathBuf>,
    /// The mounted volumes with their generations.
    #[serde(default)]
    pub volumes: Vec<(String, u64)>,
    /// By the gateway; an older keeper does not say.
    #[serde(default)]
    pub carried: Option<Carried>,
}

/// How a run of the keeper started and ended; a file beside the workspace.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LastRun {
    pub boot_id: String,
    /// `None`: the keeper was killed.
    pub ended: Option<String>,
    /// Init, once it exists.
    #[serde(default)]
    pub init: Option<Incarnation>,
}

/// Identifies a process: pids are reused, but a pid with its start time within one boot is unique.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incarnation {
    pub pid: i32,
    /// In clock ticks since boot, as in `/proc/<pid>/stat`.
    pub started: u64,
}

/// Messages of the keeper to init.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToInit {
    /// Descriptors: stdin, stdout, stderr; none with a terminal.
    Spawn(Spawn),
    /// To a process group.
    Signal { pid: i32, signal: i32 },
    /// To one process that this init started.
    SignalOne { pid: i32, signal: i32 },
    /// SIGTERM to all, and report when none is left.
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
    /// Stdin, stdout and stderr of a program without a terminal. Only sent where descriptors cannot
    /// be sent: then init creates them, and the keeper gets the other ends.
    #[serde(default)]
    pub streams: Option<[StdStream; 3]>,
    /// The program is that of a run: a first process of holm's own starts it and holds what it leaves behind.
    #[serde(default)]
    pub is_run: bool,
    /// `None`: the user that init is.
    #[serde(default)]
    pub user: Option<User>,
}

/// The target of one of the three streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StdStream {
    /// To the keeper.
    Pipe,
    /// To `/dev/null`.
    Nothing,
}

/// Messages of init to the keeper.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromInit {
    /// Sent by the launcher before init runs. Descriptor: the rename listener.
    Renames,
    /// Sent by the launcher before init runs. Descriptor: a socket of the workspace's network.
    Doorway(Doorway),
    /// Sent by the launcher before init runs. Descriptor: the writable mount for secret files.
    SecretFiles,
    Hello {
        version: u32,
    },
    /// A message whose descriptors the kernel did not send, because the user's programs have too
    /// many in flight. They stay open in init under these numbers until the keeper sends `Close`.
    Left {
        numbers: Vec<i32>,
        message: Box<FromInit>,
    },
    /// Descriptors: the terminal's master, or the keeper's ends of the pipes that init created.
    Spawned {
        sequence: u64,
        pid: i32,
    },
    NotSpawned {
        sequence: u64,
        code: u8,
        cause: String,
        /// The errno, if the directory cannot be entered.
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
    /// For queries about listeners inside (NETLINK_SOCK_DIAG).
    Diagnosis,
    /// Accepts every outgoing connection.
    Gateway,
    /// Receives DNS questions over UDP.
    Questions,
    /// Receives DNS questions over TCP.
    LongQuestions,
    /// Changes the kernel's rules.
    Rules,
    /// Receives the kernel's refusals.
    Refusals,
    /// Listens for a service of `[shared]`, by its index.
    Shared(u32),
    /// The network namespace of a service, by its index in the plan. Not a socket.
    Namespace(u32),
    /// For queries about listeners in that namespace.
    Listeners(u32),
}

// === impl Status ===

impl Status {
    /// Whether a volume of an earlier generation is mounted. An unmounted volume comes with the next start.
    pub fn is_outdated(&self, spec: &WorkspaceSpec) -> bool {
        let mut wanted = spec.volumes.iter();
        wanted.any(|volume| {
            let mut mounted = self.volumes.iter();
            mounted
                .any(|(name, generation)| *name == volume.name && *generation != volume.generation)
        })
    }
}

// === impl Doorway ===

impl Doorway {
    /// Whether it belongs to the gateway, which a machine may lack.
    pub fn is_outward(self) -> bool {
        !matches!(
            self,
            Doorway::Diagnosis | Doorway::Shared(_) | Doorway::Namespace(_) | Doorway::Listeners(_)
        )
    }
}

/// The version that the daemon speaks. Tests change it (`HOLM_TEST_WIRE=2`).
pub fn spoken_version() -> u32 {
    if !cfg!(debug_assertions) {
        return VERSION;
    }
    let asked = std::env::var("HOLM_TEST_WIRE").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(VERSION)
}
