//! What a keeper and an init need of the machine that takes more than processes, files and sockets. A
//! driver implements both traits; nothing else in this crate depends on how a workspace is isolated.

use crate::room::{RoomInit, RoomPlan, RoomSignal};
use crate::wire::{Domain, Mounted, Pair};
use holm_core::egress::Policy;
use holm_core::image_users::User;
use holm_proxy::gateway::{Grant, LookupFailure, Process, Tcp};
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::process::Command;

/// One running workspace, for its keeper.
pub trait Platform: Send + Sync {
    /// Whether init is frozen: then it neither answers nor dies.
    fn is_frozen(&self) -> bool;

    /// Lets everything inside go on that is frozen.
    fn thaw(&self);

    /// How many processes the kernel has killed since the start because the memory limit was reached.
    fn memory_kills(&self) -> u64;

    /// The names of resources that programs inside cannot get more of right now.
    fn exhausted(&self) -> Vec<String>;

    /// How many bytes of disk the workspace takes. Slow.
    fn disk_usage(&self) -> io::Result<u64>;

    /// Copies of descriptors that an init has open under these numbers.
    fn take_descriptors(&self, init: BorrowedFd<'_>, numbers: &[i32]) -> io::Result<Vec<OwnedFd>>;

    /// Makes a room and starts its init. The room ends with the calling thread. `secrets` names the secret files that
    /// the room shows.
    fn make_room(&self, plan: &RoomPlan, secrets: &[String]) -> io::Result<RoomInit>;

    /// Signals each process of a room but its init for which the signal has an effect, and returns their pids.
    fn signal_room(&self, room: &RoomInit, signal: RoomSignal<'_>) -> io::Result<Vec<i32>>;

    /// Connects to a port of the workspace's loopback interface.
    fn dial(&self, port: u16) -> io::Result<OwnedFd>;

    /// The TCP ports that the workspace's loopback interface answers on.
    fn listening(&self) -> io::Result<BTreeSet<u16>>;

    /// Asks the host's resolver. Blocks.
    fn look_up(&self, name: &str) -> Result<Vec<IpAddr>, LookupFailure>;

    /// Takes connections out of the kernel's rules and adds others, in one step.
    fn change_grants(&self, taken: &[Grant], given: &[Grant]) -> io::Result<()>;

    /// Replaces the kernel's rules, and what is granted beside them, in one step.
    fn replace_rules(&self, policy: &Policy, granted: &[Grant]) -> io::Result<()>;

    /// Waits until the kernel has refused packets, and says which. An error is one of the socket.
    fn refusals(&self, socket: &OwnedFd) -> io::Result<Vec<Refused>>;

    /// Which process inside has the connection from `client` that was meant for `asked`.
    fn process_of(&self, client: SocketAddr, asked: SocketAddr) -> Option<Process>;

    /// Copies directories that the workspace wrote.
    fn copy(&self, pairs: &[Pair]) -> io::Result<()>;

    /// Mounts a volume over its place inside.
    fn mount(&self, mounted: &Mounted) -> io::Result<()>;

    /// Readable when [`Self::attend`] has something to do; `None`: never.
    fn source(&self) -> Option<OwnedFd>;

    /// Does what became due. Called by the keeper's main thread.
    fn attend(&self);

    /// Removes what the platform made for this run; every process inside has ended.
    fn remove(&self);
}

/// Where a packet was to go that the kernel refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    pub address: IpAddr,
    /// Of TCP and UDP.
    pub port: Option<u16>,
    pub tcp: Tcp,
}

/// What init and the first process of a run ask of the system and Rust's libraries have no safe call for.
pub trait System {
    /// Takes over a descriptor that was left open for this process. Each number may be given once.
    fn inherited(&self, number: i32) -> OwnedFd;

    /// Raises the limits of this process that programs it starts do not inherit.
    fn raise_limits(&self);

    /// A descriptor that these signals are read from; they are blocked from then on.
    fn signals(&self, signals: &[i32]) -> io::Result<OwnedFd>;

    /// Sends a signal to every process inside but init.
    fn signal_all(&self, signal: i32) -> io::Result<()>;

    /// Sends a signal to a process group.
    fn signal_group(&self, leader: i32, signal: i32) -> io::Result<()>;

    /// Sends a signal to one process.
    fn signal_one(&self, pid: i32, signal: i32) -> io::Result<()>;

    /// The program begins with default signals, whatever this process blocks.
    fn reset_signals(&self, command: &mut Command);

    /// The program leads a session of its own, with the limits that this process was started with, in its
    /// domain, and has the terminal on its stdin as controlling terminal if it is to have one.
    fn prepare(&self, command: &mut Command, terminal: Terminal, domain: Domain) -> io::Result<()>;

    /// The program starts as this user of a room, who gets its standard streams.
    fn become_user(&self, command: &mut Command, user: User);

    /// The new process does this work instead of executing the program, and ends with its code. It has its three
    /// streams and no other descriptor.
    fn instead_of_executing(&self, command: &mut Command, work: Work);
}

/// What a process does that executes nothing.
pub type Work = Box<dyn Fn(&dyn System) -> u8 + Send + Sync>;

/// Whether a program gets the terminal on its stdin as its controlling terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terminal {
    None,
    Controlling,
}

/// A signal in a descriptor of [`System::signals`] is a record of this size that begins with its number.
const RECORD: usize = 128;

/// Reads the signals that came; none is fine.
pub fn read_signals(signals: BorrowedFd<'_>) -> io::Result<Vec<i32>> {
    use rustix::io::Errno;
    let mut records = [0_u8; RECORD * 16];
    let length = match rustix::io::read(signals, &mut records) {
        Ok(length) => length,
        Err(Errno::AGAIN | Errno::INTR) => 0,
        Err(error) => return Err(error.into()),
    };
    let records = records[..length].chunks_exact(RECORD);
    Ok(records
        .map(|record| i32::from_ne_bytes([record[0], record[1], record[2], record[3]]))
        .collect())
}
