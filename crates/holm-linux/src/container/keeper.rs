//! The keeper of a workspace in a container. It is the first process of a container of its own, which shares the network
//! namespace of the workspace: it makes the packet rules and the gateway's addresses there, waits for the workspace's
//! init, and then serves like every keeper.

use super::user::become_user;
use crate::keeper::culprit::Culprits;
use crate::keeper::listening::Listening;
use crate::keeper::{inward, look_up, open_log, refusals, take_volumes};
use crate::launch::{LaunchPlan, network, own_places};
use crate::netlink::tables;
use crate::{copier, measure, open_files, sys};
use holm_core::config::Inject;
use holm_core::egress::Policy;
use holm_core::isolation::{Isolation, LimitsInForce};
use holm_keeper::container::{InitOrder, InitReport, KEEPER_GROUP, LINK};
use holm_keeper::descriptors;
use holm_keeper::guest::SECRET_FILES;
use holm_keeper::keeper::{self, Handed, Init, Keeper, Launched, Sockets};
use holm_keeper::plan::{LaunchFailure, Part, Stepped};
use holm_keeper::platform::{Pids, Platform, Refused};
use holm_keeper::process::{self, place_of, read_proc_text};
use holm_keeper::room::{RoomInit, RoomPlan, RoomSignal};
use holm_keeper::wire::{Defence, Doorway, Mounted, Pair};
use holm_proxy::gateway::{Grant, LookupFailure, Process};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::thread::CapabilitySet;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// An engine starts the workspace's container at the same time.
const PATIENCE: Timespec = Timespec {
    tv_sec: 60,
    tv_nsec: 0,
};

/// Init, as its own `/proc` names it.
const INIT: i32 = 1;

/// To change the network, and to look at processes of the workspace.
const RIGHTS: CapabilitySet = CapabilitySet::NET_ADMIN
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::SYS_PTRACE);

/// The role: the plan comes on stdin.
pub fn main() -> ! {
    sys::memory::one_heap();
    open_files::raise();
    keeper::main(set_up)
}

fn set_up() -> Result<Keeper, LaunchFailure> {
    become_user(RIGHTS).step(Part::Other, "become the user of the workspace's files")?;
    // The keeper's own limits, and its memory, are the engine's business; what it may do was decided above.
    let plan: LaunchPlan = keeper::read_plan()?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    std::env::set_current_dir("/").step(Part::Other, "go to /")?;
    let directories = plan.keeper.directories();
    let lock = File::options()
        .write(true)
        .read(true)
        .open(directories.lock())
        .step(Part::Other, "open the lock")?;
    open_log(&directories).step(Part::Other, "open the log")?;
    if !sys::lock::try_lock(&lock).step(Part::Other, "take the lock")? {
        let taken = io::Error::other("another keeper has it");
        return Err(taken).step(Part::Other, "take the lock");
    }
    let mut locks = take_volumes(&plan)?;
    locks.push(lock);
    let started = start(plan, locks).and_then(Keeper::start);
    if let Err(failure) = &started {
        // The original failure is reported.
        let _ = keeper::write_not_started(&directories, &failure.to_string());
    }
    started
}

fn start(plan: LaunchPlan, locks: Vec<File>) -> Result<Launched, LaunchFailure> {
    let directories = plan.keeper.directories();
    // Before any program of the workspace exists.
    let mut doorways = network::make_beside(&plan.keeper, KEEPER_GROUP)?;
    let link = meet_init(&directories.guest().join(LINK))?;
    let order = InitOrder {
        writable: own_places(&plan),
        without: plan.keeper.without.clone(),
    };
    descriptors::send(&link, &order, &[]).step(Part::Other, "send init its order")?;
    let (landlock, pidfd) = hear_report(&link)?;
    let secret_files = secret_files(&plan).step(Part::Mount, "open the place of secrets")?;
    keeper::receive_hello(&link, |_| Err(io::ErrorKind::Unsupported.into()))
        .step(Part::Other, "hear from init")?;
    // The init of a container is not named by a pid that others could look for.
    keeper::write_start(&directories, 0).step(Part::Other, "write down the start")?;
    let sockets = Sockets::open(&directories)?;
    let (mut rules, mut culprits) = (None, None);
    let mut others = Vec::new();
    for (doorway, socket) in doorways.drain(..) {
        match doorway {
            Doorway::Rules => rules = Some(Mutex::new(socket)),
            Doorway::Diagnosis => culprits = Some(Culprits::below_init(socket, INIT)),
            _ => others.push((doorway, socket)),
        }
    }
    let isolation = observe(landlock, &plan, rules.is_some());
    let platform = Container {
        program: plan.programs.roles().to_owned(),
        directory: directories.dir.clone(),
        listening: Listening::default(),
        rules,
        culprits,
        _locks: locks,
    };
    Ok(Launched {
        plan: plan.keeper,
        sockets,
        init: Init { pidfd, pid: INIT },
        link,
        handed: Handed {
            renames: None,
            doorways: others,
            secret_files,
        },
        isolation,
        platform: Arc::new(platform),
    })
}

/// Waits for the one connection of init. The socket is gone before any other program runs inside.
fn meet_init(place: &Path) -> Result<UnixStream, LaunchFailure> {
    let _ = std::fs::remove_file(place);
    let listener = UnixListener::bind(place).step(Part::Other, "listen for init")?;
    let mut sources = [PollFd::new(&listener, PollFlags::IN)];
    let came = rustix::io::retry_on_intr(|| poll(&mut sources, Some(&PATIENCE)));
    let met = match came {
        Ok(0) => Err(io::Error::other("it does not come")),
        Ok(_) => listener.accept().map(|(link, _)| link),
        Err(error) => Err(error.into()),
    };
    let removed = std::fs::remove_file(place);
    let link = met.step(Part::Other, "meet init")?;
    removed.step(Part::Other, "close the way to init")?;
    Ok(link)
}

/// From here on this process looks at the processes of the workspace's own `/proc`.
fn hear_report(link: &UnixStream) -> Result<(bool, OwnedFd), LaunchFailure> {
    let heard: Option<(InitReport, Vec<OwnedFd>)> =
        descriptors::receive(link).step(Part::Other, "hear from the first process")?;
    let (report, handed) = heard
        .ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))
        .step(Part::Other, "hear from the first process")?;
    let landlock = match report {
        InitReport::Sealed { landlock } => landlock,
        InitReport::Failed(failure) => return Err(failure),
    };
    let [proc, pidfd]: [OwnedFd; 2] = handed
        .try_into()
        .map_err(|_| io::Error::other("it does not say where its processes are"))
        .step(Part::Other, "hear from the first process")?;
    process::look_below(PathBuf::from(format!("/proc/self/fd/{}", proc.as_raw_fd())));
    // Open for as long as this process lives: every look goes through it.
    std::mem::forget(proc);
    Ok((landlock, pidfd))
}

/// `None`: no secret is a file.
fn secret_files(plan: &LaunchPlan) -> io::Result<Option<OwnedFd>> {
    let mut grants = plan.keeper.secrets.iter();
    if !grants.any(|grant| grant.form == Inject::File) {
        return Ok(None);
    }
    let name = Path::new(SECRET_FILES).file_name().unwrap_or_default();
    let place = plan.keeper.directories().guest().join(name);
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(Some(openat(CWD, place, flags, Mode::empty())?))
}

/// What is in force, as the kernel says of init. The daemon adds the limits, which are the engine's.
fn observe(landlock: bool, plan: &LaunchPlan, has_rules: bool) -> Isolation {
    let status = read_proc_text(place_of(INIT, "status")).unwrap_or_default();
    let field = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(str::trim)
    };
    let differs = |name: &str| {
        let inside = std::fs::read_link(place_of(INIT, &format!("ns/{name}")));
        let own = std::fs::read_link(format!("/proc/self/ns/{name}"));
        // What cannot be read is not claimed.
        matches!((inside, own), (Ok(inside), Ok(own)) if inside != own)
    };
    let users = read_proc_text(place_of(INIT, "uid_map")).unwrap_or_default();
    let mut users = users.split_whitespace();
    // Users of the machine's own namespace are mapped to themselves.
    let own_users = !matches!((users.next(), users.next()), (Some("0"), Some("0")));
    let is_none = |name: &str| field(name).is_some_and(|set| set.bytes().all(|byte| byte == b'0'));
    let mut degraded = Vec::new();
    let mut missing = |part: &str| degraded.push(part.to_owned());
    if !landlock {
        missing("landlock");
    }
    if !has_rules {
        missing("egress");
    }
    if !is_none("CapBnd") || !is_none("CapEff") {
        missing("capabilities");
    }
    if !own_users {
        missing("user");
    }
    let kept = plan.keeper.kept_by_engine.clone().unwrap_or_default();
    let limits = LimitsInForce {
        disk: plan.keeper.disk.map(|_| "measured".to_owned()),
        ..kept.limits
    };
    let by = [
        ("memory", &limits.memory),
        ("cpus", &limits.cpus),
        ("processes", &limits.processes),
        ("disk", &limits.disk),
    ];
    let unkept = by.iter().filter(|(_, by)| by.is_none());
    let unkept = unkept.map(|(name, _)| (*name).to_owned());
    degraded.extend(unkept.filter(|name| plan.keeper.forgone.contains(name)));
    Isolation {
        user: own_users,
        mount: differs("mnt"),
        pid: differs("pid"),
        // The keeper is in it, too; the machine is not, because the engine made it for the two.
        net: has_rules,
        ipc: differs("ipc"),
        seccomp: field("Seccomp") == Some("2"),
        no_new_privs: field("NoNewPrivs") == Some("1"),
        landlock,
        cgroup: kept.cgroup,
        limits,
        degraded,
        oom_kills: 0,
        limits_reached: Vec::new(),
        protected: Some(if plan.keeper.has(Defence::Protection) {
            plan.protected.clone()
        } else {
            Vec::new()
        }),
    }
}

/// A workspace in a container, as its keeper needs it.
struct Container {
    /// The program of our helpers.
    program: PathBuf,
    directory: PathBuf,
    listening: Listening,
    /// Changes the kernel's rules.
    rules: Option<Mutex<OwnedFd>>,
    culprits: Option<Culprits>,
    /// One upper, one keeper, and the same of volumes: held until this process ends.
    _locks: Vec<File>,
}

fn unsupported() -> io::Error {
    io::ErrorKind::Unsupported.into()
}

// === impl Container ===

impl Container {
    fn with_rules(&self, change: impl FnOnce(&OwnedFd) -> io::Result<()>) -> io::Result<()> {
        let rules = self.rules.as_ref().ok_or_else(unsupported)?;
        change(&rules.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Platform for Container {
    fn pids(&self) -> Pids {
        Pids::OfAnotherNamespace
    }

    /// The engine can pause a container, and the driver asks it whether it did.
    fn is_frozen(&self) -> bool {
        false
    }

    fn thaw(&self) {}

    /// The engine counts them.
    fn memory_kills(&self) -> u64 {
        0
    }

    fn exhausted(&self) -> Vec<String> {
        Vec::new()
    }

    fn disk_usage(&self) -> io::Result<u64> {
        let output = measure::command(&self.program, &self.directory, None).output()?;
        measure::understand(&output.stdout)
    }

    fn take_descriptors(&self, _: BorrowedFd<'_>, _: &[i32]) -> io::Result<Vec<OwnedFd>> {
        Err(unsupported())
    }

    fn make_room(&self, _: &RoomPlan, _: &[String]) -> io::Result<RoomInit> {
        Err(unsupported())
    }

    fn signal_room(&self, _: &RoomInit, _: RoomSignal<'_>) -> io::Result<Vec<i32>> {
        Err(unsupported())
    }

    fn dial(&self, port: u16) -> io::Result<OwnedFd> {
        inward::dial_here(port)
    }

    fn listening(&self) -> io::Result<BTreeSet<u16>> {
        self.listening.look_here()
    }

    fn look_up(&self, name: &str) -> Result<Vec<IpAddr>, LookupFailure> {
        look_up(name)
    }

    fn change_grants(&self, taken: &[Grant], given: &[Grant]) -> io::Result<()> {
        self.with_rules(|rules| tables::grant(rules, taken, given))
    }

    fn replace_rules(&self, policy: &Policy, granted: &[Grant]) -> io::Result<()> {
        self.with_rules(|rules| tables::replace(rules, policy, granted))
    }

    fn refusals(&self, socket: &OwnedFd) -> io::Result<Vec<Refused>> {
        refusals(socket)
    }

    fn process_of(&self, client: SocketAddr, asked: SocketAddr) -> Option<Process> {
        self.culprits.as_ref()?.find(client, asked)
    }

    fn copy(&self, pairs: &[Pair]) -> io::Result<()> {
        copier::run(&self.program, pairs, None)
    }

    /// The engine mounts when it starts the container. The driver restarts the workspace instead.
    fn mount(&self, _: &Mounted) -> io::Result<()> {
        Err(unsupported())
    }

    fn source(&self) -> Option<OwnedFd> {
        None
    }

    fn attend(&self) {}

    fn remove(&self) {}
}
