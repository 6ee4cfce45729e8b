//! A deliberately small driver without isolation: a keeper and an init as plain processes in a directory,
//! reached over TCP on loopback. It exists to prove that nothing in `holm-keeper` needs namespaces; it is not
//! a product.
//!
//! `plain keeper` takes a [`Plan`] on stdin and writes the port that it is reached at to `port` in the
//! workspace's directory. The other roles are those of holm.

#![allow(clippy::unwrap_used)]

use holm_core::egress::Policy;
use holm_core::image_users::User;
use holm_core::isolation::Isolation;
use holm_keeper::keeper::{self, Init, Keeper, Launched, Sockets};
use holm_keeper::plan::{LaunchFailure, Part, Plan, Stepped};
use holm_keeper::platform::{Platform, Refused, System, Terminal, Work};
use holm_keeper::room::{RoomInit, RoomPlan, RoomSignal};
use holm_keeper::wire::{Domain, Mounted, Pair};
use holm_keeper::{files, init, inside};
use holm_linux::system::Kernel;
use holm_proxy::gateway::{Grant, LookupFailure, Process};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

fn main() {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let (role, rest) = arguments.split_first().expect("a role");
    if role == "keeper" {
        keeper::main(set_up);
    }
    if role == "bridge" {
        carry(rest[0].clone().into(), Path::new(&rest[1])).unwrap();
        return;
    }
    if role == "init" {
        init::main(b"0", &PlainSystem);
    }
    if role == inside::ROLE {
        inside::main(rest);
    }
    if role == holm_core::files::ROLE {
        files::main(rest[0].as_bytes());
    }
}

fn set_up() -> Result<Keeper, LaunchFailure> {
    let plan: Plan = keeper::read_plan()?;
    let dirs = plan.directories();
    let sockets = Sockets::open(&dirs)?;
    let (link, link_inside) = UnixStream::pair().step(Part::Other, "make the link to init")?;
    // The link is its stdin: nothing else of this process has to be inherited.
    let child = Command::new(&plan.program)
        .arg("init")
        .stdin(OwnedFd::from(link_inside))
        .stdout(Stdio::null())
        .spawn()
        .step(Part::Other, "start init")?;
    let pid = child.id().cast_signed();
    keeper::write_start(&dirs, pid).step(Part::Other, "write down the start")?;
    let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty());
    let handed =
        keeper::receive_hello(&link, |_| Err(unsupported())).step(Part::Other, "hear from init")?;
    bridge(&plan.socket, &plan.dir.join("port")).step(Part::Other, "listen")?;
    Keeper::start(Launched {
        init: Init {
            pidfd: pidfd.step(Part::Other, "hold on to init")?,
            pid,
        },
        plan,
        sockets,
        link,
        handed,
        isolation: Isolation::default(),
        platform: Arc::new(Plain::default()),
    })
}

/// Starts the process that [carries](carry) connections. It outlives this one, so that the last words of a keeper are
/// not lost, and ends when its stdin closes.
fn bridge(socket: &Path, port: &Path) -> io::Result<()> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg("bridge")
        .args([socket, port])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut ready = child.stdout.take().ok_or_else(unsupported)?;
    ready.read_exact(&mut [0])?;
    // Open for as long as this process lives.
    std::mem::forget(child.stdin.take());
    Ok(())
}

/// Joins every connection on a TCP port to one of the control socket.
fn carry(socket: PathBuf, port: &Path) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let fresh = port.with_extension("new");
    fs::write(&fresh, listener.local_addr()?.port().to_string())?;
    fs::rename(fresh, port)?;
    println!();
    let outward: Arc<Mutex<Vec<JoinHandle<()>>>> = Arc::default();
    let added = Arc::clone(&outward);
    thread::spawn(move || {
        for client in listener.incoming() {
            let (Ok(client), Ok(keeper)) = (client, UnixStream::connect(&socket)) else {
                continue;
            };
            let (mut from, mut to) = (client.try_clone().unwrap(), keeper.try_clone().unwrap());
            thread::spawn(move || {
                let _ = io::copy(&mut from, &mut to);
                let _ = to.shutdown(std::net::Shutdown::Write);
            });
            let (mut from, mut to) = (keeper, client);
            let carrying = thread::spawn(move || {
                let _ = io::copy(&mut from, &mut to);
                let _ = to.shutdown(std::net::Shutdown::Write);
            });
            added.lock().unwrap().push(carrying);
        }
    });
    // Until the keeper is gone.
    io::stdin().read_to_end(&mut Vec::new())?;
    for carrying in outward.lock().unwrap().drain(..) {
        let _ = carrying.join();
    }
    Ok(())
}

fn unsupported() -> io::Error {
    io::ErrorKind::Unsupported.into()
}

/// Nothing is limited, and the network is the machine's.
#[derive(Default)]
struct Plain {
    polled: AtomicU32,
}

impl Platform for Plain {
    fn is_frozen(&self) -> bool {
        false
    }

    fn thaw(&self) {}

    fn memory_kills(&self) -> u64 {
        0
    }

    fn exhausted(&self) -> Vec<String> {
        Vec::new()
    }

    fn disk_usage(&self) -> io::Result<u64> {
        Ok(0)
    }

    fn make_room(&self, _: &RoomPlan, _: &[String]) -> io::Result<RoomInit> {
        Err(unsupported())
    }

    fn signal_room(&self, _: &RoomInit, _: RoomSignal<'_>) -> io::Result<Vec<i32>> {
        Err(unsupported())
    }

    fn take_descriptors(&self, _: BorrowedFd<'_>, _: &[i32]) -> io::Result<Vec<OwnedFd>> {
        Err(unsupported())
    }

    fn dial(&self, port: u16) -> io::Result<OwnedFd> {
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map(OwnedFd::from)
    }

    /// Of the whole machine.
    fn listening(&self) -> io::Result<BTreeSet<u16>> {
        const LISTENS: &str = "0A";
        let table = fs::read_to_string("/proc/net/tcp")?;
        let rows = table.lines().map(|line| line.split_whitespace());
        let ports = rows.filter_map(|mut row| {
            let (_, port) = row.nth(1)?.split_once(':')?;
            (row.nth(1)? == LISTENS).then(|| u16::from_str_radix(port, 16).ok())?
        });
        Ok(ports.collect())
    }

    fn look_up(&self, name: &str) -> Result<Vec<IpAddr>, LookupFailure> {
        let found = (name, 0).to_socket_addrs();
        let found = found.map_err(|_| LookupFailure::Failed)?;
        Ok(found.map(|address| address.ip()).collect())
    }

    fn change_grants(&self, _: &[Grant], _: &[Grant]) -> io::Result<()> {
        Err(unsupported())
    }

    fn replace_rules(&self, _: &Policy, _: &[Grant]) -> io::Result<()> {
        Err(unsupported())
    }

    fn refusals(&self, _: &OwnedFd) -> io::Result<Vec<Refused>> {
        Err(unsupported())
    }

    fn process_of(&self, _: SocketAddr, _: SocketAddr) -> Option<Process> {
        None
    }

    fn copy(&self, _: &[Pair]) -> io::Result<()> {
        Err(unsupported())
    }

    fn mount(&self, _: &Mounted) -> io::Result<()> {
        Err(unsupported())
    }

    /// It hangs up at once. A keeper that polled it again would not sleep any more.
    fn source(&self) -> Option<OwnedFd> {
        // A signal may interrupt the first polls.
        let before = self.polled.fetch_add(1, Ordering::Relaxed);
        assert!(before < 20, "the keeper polls a source that hung up");
        Some(io::pipe().unwrap().0.into())
    }

    fn attend(&self) {}

    fn remove(&self) {}
}

/// As on linux, but there is no namespace that keeps a signal to everybody from the rest of the machine.
struct PlainSystem;

impl System for PlainSystem {
    fn inherited(&self, number: i32) -> OwnedFd {
        Kernel.inherited(number)
    }

    fn raise_limits(&self) {}

    fn signals(&self, signals: &[i32]) -> io::Result<OwnedFd> {
        Kernel.signals(signals)
    }

    /// To the groups of init's own children.
    fn signal_all(&self, signal: i32) -> io::Result<()> {
        let own = std::process::id();
        let children = fs::read_to_string(format!("/proc/{own}/task/{own}/children"))?;
        for child in children
            .split_whitespace()
            .filter_map(|pid| pid.parse().ok())
        {
            // It may have ended meanwhile.
            let _ = Kernel.signal_group(child, signal);
        }
        Ok(())
    }

    fn signal_group(&self, leader: i32, signal: i32) -> io::Result<()> {
        Kernel.signal_group(leader, signal)
    }

    fn signal_one(&self, pid: i32, signal: i32) -> io::Result<()> {
        Kernel.signal_one(pid, signal)
    }

    fn reset_signals(&self, command: &mut Command) {
        Kernel.reset_signals(command);
    }

    fn prepare(&self, command: &mut Command, terminal: Terminal, _: Domain) -> io::Result<()> {
        Kernel.prepare(command, terminal, Domain::Shared)
    }

    fn become_user(&self, command: &mut Command, user: User) {
        Kernel.become_user(command, user);
    }

    fn instead_of_executing(&self, command: &mut Command, work: Work) {
        Kernel.instead_of_executing(command, work);
    }
}
