//! Rooms: a service of the workspace that runs in the root of an image.
//!
//! A room has a mount namespace of its own and shares all other namespaces with the workspace. A service of a Compose
//! file also has a network namespace and a host name of its own. A room is made by a role of
//! its own, because only fresh processes enter namespaces. The role builds the root ([`root`]), then starts the room's
//! init as a child of the keeper and ends. Init runs the code of this program without executing a file: no file of the
//! image is read or run before the seal, and an image needs no library for it.

mod fill;
mod held;
mod members;
mod mounts;
mod paths;
mod root;
mod users;

pub use members::{Leaving, signal_members};

use crate::cgroup::Group;
use crate::launch::{self, Renames, Rights, SealPlan, Writable, shares};
use crate::open_files;
use crate::sys;
use crate::sys::clone::{SIBLING, Side, clone_into};
use crate::system::Kernel;
use holm_core::image_users::User;
use holm_core::sub_ids::SubIds;
use holm_keeper::init;
use holm_keeper::plan::{LaunchFailure, Part, Stepped};
use holm_keeper::room::{RoomInit, RoomPlan};
use root::Entered;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getpid, pidfd_open,
    pidfd_send_signal, set_child_subreaper, set_dumpable_behavior, waitid,
};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The hidden first argument of a process that makes a room.
pub const ROLE: &str = "__room";

/// The name of its process, and of the room's init.
const NAME: &str = "holm-room";

/// How long the making of a room may say nothing, also on a slow disk.
const MADE_WITHIN: Duration = Duration::from_secs(30);

/// How often it says that it copies files.
const SAID_EVERY: Duration = Duration::from_secs(2);

/// What the role is told on its stdin.
#[derive(Serialize, Deserialize)]
pub struct Order {
    pub room: RoomPlan,
    /// Where the tree is in the workspace.
    pub tree: PathBuf,
    /// Its writable layer on the host.
    pub upper: PathBuf,
    /// Protected paths of the tree, if they are in force.
    pub protected: Vec<String>,
    /// Names of the secret files that the room shows.
    pub secrets: Vec<String>,
    pub seal: SealPlan,
    /// The limit of open files that programs start with.
    pub open_files: u64,
    /// The ranges of ids of the workspace.
    pub sub_ids: Option<SubIds>,
}

/// The workspace that the room belongs to.
pub struct Site<'a> {
    pub program: &'a Path,
    pub init: BorrowedFd<'a>,
    /// The network namespace of the room; `None`: the workspace's.
    pub network: Option<BorrowedFd<'a>>,
    pub group: Option<&'a Group>,
}

/// What the role joins.
struct Namespaces {
    /// The workspace's init, which is in all of its namespaces.
    init: OwnedFd,
    /// The room's own network.
    network: Option<OwnedFd>,
}

/// What the role and the init that it becomes tell the keeper. Each is one line on stdout, which init closes.
#[derive(Serialize, Deserialize)]
enum Report {
    /// The process that becomes init, as the keeper names it.
    Started {
        pid: i32,
    },
    /// It copies files into a volume, which may take long.
    Copying,
    Sealed {
        home: String,
        user: Option<User>,
        /// The mount namespace, as `/proc` names it.
        namespace: PathBuf,
    },
    Failed(LaunchFailure),
}

/// Makes a room and waits until its init is sealed. The room ends with the calling thread.
pub fn make(site: &Site<'_>, order: &Order) -> io::Result<RoomInit> {
    let (link, link_inside) = UnixStream::pair()?;
    let mut passed = vec![site.init.try_clone_to_owned()?, OwnedFd::from(link_inside)];
    if let Some(network) = site.network {
        passed.push(network.try_clone_to_owned()?);
    }
    let mut command = Command::new(site.program);
    // Programs inside see the name: it must not be a path of the host.
    command.arg0(NAME).arg(ROLE);
    for descriptor in &passed {
        command.arg(descriptor.as_raw_fd().to_string());
    }
    command
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    sys::command::pass(&mut command, passed);
    let mut child = command.spawn()?;
    // The closure that passes them has the copies of this process.
    drop(command);
    let mut said = Vec::new();
    let conversed = converse(&mut child, site, order, &mut said);
    if conversed.is_err() {
        // It may hang. An error means that it has ended.
        let _ = child.kill();
    }
    // It ends when it has started init.
    let _ = child.wait();
    hear(conversed, &said, link)
}

/// Gives the role its order and collects its reports in `said`. What it makes is the workspace's from the beginning, and
/// counts as such.
fn converse(
    child: &mut Child,
    site: &Site<'_>,
    order: &Order,
    said: &mut Vec<u8>,
) -> io::Result<()> {
    if let Some(group) = site.group {
        group.take_in(child.id())?;
    }
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(&serde_json::to_vec(order)?)?;
    }
    match child.stdout.take() {
        Some(stdout) => read_until_closed(stdout, MADE_WITHIN, said),
        None => Ok(()),
    }
}

/// Reads until all writers have closed the pipe. An error of kind `TimedOut` means that they said nothing for too long.
fn read_until_closed(
    mut pipe: impl Read + AsFd,
    patience: Duration,
    said: &mut Vec<u8>,
) -> io::Result<()> {
    let mut chunk = [0; 4096];
    let mut until = Instant::now() + patience;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec {
            tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        let mut sources = [PollFd::new(&pipe, PollFlags::IN)];
        match poll(&mut sources, Some(&left)) {
            Ok(0) => {
                let seconds = MADE_WITHIN.as_secs();
                let cause = format!("its room is not there after {seconds} s");
                return Err(io::Error::new(io::ErrorKind::TimedOut, cause));
            }
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        match pipe.read(&mut chunk)? {
            0 => return Ok(()),
            length => said.extend_from_slice(&chunk[..length]),
        }
        until = Instant::now() + patience;
    }
}

/// Understands the reports of the role and of init, which come in any order. Ends an init that did not get ready.
fn hear(conversed: io::Result<()>, said: &[u8], link: UnixStream) -> io::Result<RoomInit> {
    let (mut started, mut sealed, mut failure) = (None, None, conversed.err());
    for line in said.split(|byte| *byte == b'\n') {
        match serde_json::from_slice(line) {
            Ok(Report::Started { pid }) => started = Some(pid),
            Ok(Report::Sealed {
                home,
                user,
                namespace,
            }) => sealed = Some((home, user, namespace)),
            Ok(Report::Failed(error)) => {
                failure.get_or_insert(io::Error::other(format!("cannot {error}")));
            }
            // After the last line, or the rest of one whose writer was killed.
            Ok(Report::Copying) | Err(_) => {}
        }
    }
    let init = started.and_then(Pid::from_raw);
    let init = init.map(|pid| pidfd_open(pid, PidfdFlags::empty()));
    let init = started.zip(init.transpose()?);
    match (init, sealed, failure) {
        (Some((pid, pidfd)), Some((home, user, namespace)), None) => Ok(RoomInit {
            pidfd,
            pid,
            link,
            home,
            user,
            namespace,
        }),
        (init, _, failure) => {
            if let Some((_, pidfd)) = init {
                // If it failed by itself, it is ending.
                let _ = pidfd_send_signal(&pidfd, Signal::KILL);
                let _ = waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED);
            }
            let early = || io::Error::other("the process that makes its room ended early");
            Err(failure.unwrap_or_else(early))
        }
    }
}

/// The role. The arguments are the numbers of descriptors: the workspace's init, the link of the new one, and its network
/// if it has its own.
pub fn main() -> ! {
    let mut numbers = std::env::args()
        .skip(2)
        .filter_map(|text| text.parse().ok());
    let (Some(init), Some(link)) = (numbers.next(), numbers.next()) else {
        std::process::exit(2)
    };
    let link = sys::process::inherited(link);
    let workspace = Namespaces {
        init: sys::process::inherited(init),
        network: numbers.next().map(sys::process::inherited),
    };
    let code = match build(workspace, link) {
        Ok(pid) => tell(&Report::Started { pid }).is_err().into(),
        Err(failure) => {
            // If the keeper is gone, there is no process left to inform.
            let _ = tell(&Report::Failed(failure));
            1
        }
    };
    std::process::exit(code)
}

/// Tells now and then that files are copied.
fn copying() -> impl FnMut() {
    let mut next = Instant::now() + SAID_EVERY;
    move || {
        if Instant::now() >= next {
            next = Instant::now() + SAID_EVERY;
            // If the keeper is gone, this process ends anyway.
            let _ = tell(&Report::Copying);
        }
    }
}

/// One system call, so that lines of two processes do not mix.
fn tell(report: &Report) -> io::Result<()> {
    let mut line = serde_json::to_vec(report)?;
    line.push(b'\n');
    io::stdout().write_all(&line)?;
    io::stdout().flush()
}

/// Builds the root and starts init in it; returns init's pid. Init itself does not return from here.
fn build(workspace: Namespaces, link: OwnedFd) -> Result<i32, LaunchFailure> {
    // Programs of the workspace see this process as soon as it is in their pid namespace, and are the same user.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .step(Part::Other, "keep others from looking into it")?;
    sys::process::die_with_parent().step(Part::Other, "ask to die with the keeper")?;
    let own = workspace.network.iter();
    for descriptor in [&workspace.init, &link].into_iter().chain(own) {
        rustix::io::fcntl_setfd(descriptor, rustix::io::FdFlags::CLOEXEC)
            .step(Part::Other, "keep its descriptors")?;
    }
    let mut text = Vec::new();
    io::stdin()
        .read_to_end(&mut text)
        .step(Part::Other, "read the plan of the room")?;
    let order: Order = serde_json::from_slice(&text)
        .map_err(io::Error::from)
        .step(Part::Other, "read the plan of the room")?;
    open_files::raise_for(order.open_files);
    let entered = root::enter(&order, &workspace)?;
    drop(workspace);
    let side = clone_into(SIBLING).step(Part::Other, "start the init of the room")?;
    match side {
        Side::Parent { pid, .. } => Ok(pid),
        Side::Child => {
            let failure = match become_init(&order.seal, entered, link) {
                Ok(never) => match never {},
                Err(failure) => failure,
            };
            let _ = tell(&Report::Failed(failure));
            std::process::exit(1)
        }
    }
}

enum Never {}

/// The user is root there. Its groups of the host do not exist.
fn become_root(namespace: OwnedFd) -> io::Result<()> {
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::User))?;
    sys::process::leave_groups()
}

fn become_init(plan: &SealPlan, entered: Entered, link: OwnedFd) -> Result<Never, LaunchFailure> {
    // The keeper's thread that asked for the room is the parent.
    sys::process::die_with_parent().step(Part::Other, "ask to die with the keeper")?;
    // Orphans in the room become children of its init, which can be found by that.
    set_child_subreaper(Some(getpid())).step(Part::Other, "adopt orphans")?;
    let namespace =
        std::fs::read_link("/proc/self/ns/mnt").step(Part::Proc, "find its mount namespace")?;
    // Whether Landlock is in force is a matter of kernel and plan, which are the workspace's: `show` tells its state.
    let Entered { home, users } = entered;
    let (user, rights) = match users {
        None => (None, Rights::None),
        Some((user, namespace)) => {
            become_root(namespace).step(Part::User, "become root of the room")?;
            (Some(user), Rights::RoomRoot)
        }
    };
    launch::seal(plan, Writable::Everything, Renames::Unreported, rights)?;
    shares::limit_open_files(plan).step(Part::Other, "limit the open files")?;
    let null = File::options().read(true).write(true).open("/dev/null");
    let null = null.step(Part::Mount, "open /dev/null")?;
    let report = Report::Sealed {
        home,
        user,
        namespace,
    };
    tell(&report).step(Part::Other, "report to the keeper")?;
    // The keeper reads until stdout is closed.
    rustix::stdio::dup2_stdin(&null)
        .and_then(|()| rustix::stdio::dup2_stdout(&null))
        .step(Part::Other, "leave its standard streams")?;
    drop(null);
    init::main(link.into_raw_fd().to_string().as_bytes(), &Kernel)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_read_until_the_pipe_closes_or_the_time_is_up() {
        let (pipe, mut writer) = io::pipe().unwrap();
        writer.write_all(b"half a line").unwrap();
        let mut said = Vec::new();
        let error = read_until_closed(&pipe, Duration::ZERO, &mut said).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(writer);
        read_until_closed(&pipe, MADE_WITHIN, &mut said).unwrap();
        assert_eq!(said, b"half a line");
    }

    #[test]
    fn an_init_that_is_not_ready_in_time_is_ended() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = child.id().cast_signed();
        let said = format!("{{\"Started\":{{\"pid\":{pid}}}}}\n{{\"Seal");
        let (link, _) = UnixStream::pair().unwrap();
        let late = Err(io::Error::from(io::ErrorKind::TimedOut));
        let error = hear(late, said.as_bytes(), link).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(child.wait().is_err(), "it is reaped");
    }
}
