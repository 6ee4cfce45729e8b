//! The keeper of a workspace of namespaces: makes it run and gives `holm_keeper` what that needs of the
//! kernel. One thread until init runs, because namespaces are made and entered with one thread only.

mod culprit;
mod inward;
mod isolation;
mod limits;
mod listening;
mod moving;
mod reached;

use crate::cgroup::{self, Group};
use crate::launch::{self, LaunchPlan, SealPlan};
use crate::machine;
use crate::netlink::packet::{self, TCP};
use crate::netlink::tables;
use crate::open_files;
use crate::room::{self, Leaving, Order, Site};
use crate::sys;
use crate::sys::lookup::{self, Looked};
use crate::{copier, measure, remount};
use culprit::Culprits;
use holm_core::container::Attachment;
use holm_core::egress::Policy;
use holm_core::spec::Service;
use holm_core::sub_ids::SubIds;
use holm_keeper::complain;
use holm_keeper::descriptors::MAX_DESCRIPTORS;
use holm_keeper::directories::WorkspaceDirs;
use holm_keeper::keeper::{self, Handed, Init, Keeper, Launched, Sockets};
use holm_keeper::plan::{LaunchFailure, Part, Stepped};
use holm_keeper::platform::{Platform, Refused};
use holm_keeper::room::{RoomInit, RoomPlan, RoomSignal};
use holm_keeper::wire::{Defence, Doorway, Mounted, Pair};
use holm_proxy::gateway::{Grant, LookupFailure, Process, Tcp};
use inward::Stock;
use listening::{Listening, PublishingService};
use moving::Moving;
use reached::Reached;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, recv};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The hidden first argument of a keeper.
pub const ROLE: &str = "__keeper";

/// The name of the network in `--allow-degraded`.
const EGRESS: &str = "egress";

/// The role: the plan comes on stdin. The argument, if there is one, is the limit of open files for
/// programs inside.
pub fn main(files: &OsStr) -> ! {
    sys::memory::one_heap();
    open_files::raise_from(files);
    keeper::main(set_up)
}

/// How the daemon starts this role; the plan goes to its stdin. It may come much later.
pub fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .arg(ROLE)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command.arg(open_files::inherited().to_string());
    command
}

fn set_up() -> Result<Keeper, LaunchFailure> {
    let mut plan: LaunchPlan = keeper::read_plan()?;
    plan.keeper.machine = machine::addresses();
    if plan.keeper.has(Defence::ClosedDescriptors) {
        sys::process::close_from(3).step(Part::Other, "close what was inherited")?;
    }
    // The daemon may be in a terminal's session, whose end must not reach the workspace.
    let _ = rustix::process::setsid();
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    std::env::set_current_dir("/").step(Part::Other, "go to /")?;

    let directories = plan.keeper.directories();
    // Never created here: if it is missing, the workspace was undone while this process started.
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
    let started = limits::make(&plan, &directories)
        .and_then(|group| start(plan, group, locks))
        .and_then(Keeper::start);
    if let Err(failure) = &started {
        // A partial start must be cleaned up; the original failure is reported.
        let _ = cgroup::sweep(&directories, limits::PATIENCE);
        let _ = keeper::write_not_started(&directories, &failure.to_string());
    }
    started
}

/// From here on stderr is the workspace's log.
fn open_log(directories: &WorkspaceDirs) -> io::Result<()> {
    let log = File::options()
        .create(true)
        .append(true)
        .open(directories.keeper_log())?;
    rustix::stdio::dup2_stderr(&log)?;
    Ok(())
}

/// Takes the locks of volumes that only one workspace at a time may have. Each lock file names its
/// holder.
fn take_volumes(plan: &LaunchPlan) -> Result<Vec<File>, LaunchFailure> {
    let mut taken = Vec::new();
    for volume in &plan.keeper.volumes {
        let Some(path) = &volume.lock else { continue };
        let open = File::options().read(true).write(true).open(path);
        let mut file = open.step(Part::Volume, &volume.name)?;
        if !sys::lock::try_lock(&file).step(Part::Volume, &volume.name)? {
            let mut holder = String::new();
            let said = file.read_to_string(&mut holder);
            let holder = said.ok().map(|_| holder.trim().to_owned());
            let holder = holder.filter(|holder| !holder.is_empty());
            let taken = io::Error::other(holder.unwrap_or_else(|| "another one".to_owned()));
            return Err(taken).step(Part::VolumeTaken, &volume.name);
        }
        file.set_len(0)
            .and_then(|()| writeln!(file, "{}", plan.keeper.id))
            .step(Part::Volume, &volume.name)?;
        taken.push(file);
    }
    Ok(taken)
}

/// Everything from the first process on.
fn start(
    plan: LaunchPlan,
    group: Option<Group>,
    locks: Vec<File>,
) -> Result<Launched, LaunchFailure> {
    let directories = plan.keeper.directories();
    let meanwhile = |pid: i32| {
        keeper::write_start(&directories, pid).step(Part::Other, "write down the start")?;
        Sockets::open(&directories)
    };
    let (launched, sockets) = launch::start(&plan, group.as_ref(), meanwhile)?;
    let launch::Launched {
        pidfd,
        pid,
        link,
        landlock,
    } = launched;
    let mut handed = keeper::receive_hello(&link, |numbers| take(pidfd.as_fd(), numbers))
        .step(Part::Other, "hear from init")?;
    let mut isolation = isolation::observe(pid, landlock, &plan, group.as_ref());
    let workspace = Workspace {
        tree: plan.keeper.root.clone(),
        protected: if plan.keeper.has(Defence::Protection) {
            plan.protected.clone()
        } else {
            Vec::new()
        },
        seal: plan.seal(),
        sub_ids: plan.sub_ids,
        program: plan.programs.roles().to_owned(),
        directories,
        init: pidfd.try_clone().step(Part::Other, "hold on to init")?,
        pid,
        group,
    };
    let platform = Linux::new(workspace, &mut handed, &plan.keeper.services, locks)
        .step(Part::Other, "finish interrupted moves")?;
    if platform.rules.is_none() {
        isolation.degraded.push(EGRESS.to_owned());
    }
    Ok(Launched {
        plan: plan.keeper,
        sockets,
        init: Init { pidfd, pid },
        link,
        handed,
        isolation,
        platform: Arc::new(platform),
    })
}

/// Takes descriptors out of the process that left them. The process may close them afterwards.
fn take(process: BorrowedFd<'_>, numbers: &[i32]) -> io::Result<Vec<OwnedFd>> {
    let numbers = numbers.iter().take(MAX_DESCRIPTORS);
    numbers
        .map(|number| sys::process::descriptor_of(process, *number))
        .collect()
}

/// The processes of a workspace, and what limits them.
struct Workspace {
    /// The program of our helpers on the host.
    program: PathBuf,
    directories: WorkspaceDirs,
    /// Where the tree is inside.
    tree: PathBuf,
    /// Protected paths of the tree, if they are in force.
    protected: Vec<String>,
    /// How rooms are sealed.
    seal: SealPlan,
    sub_ids: Option<SubIds>,
    init: OwnedFd,
    pid: i32,
    /// `None`: the machine has none for us.
    group: Option<Group>,
}

/// A running workspace of namespaces, as its keeper needs it.
struct Linux {
    workspace: Workspace,
    stock: Stock,
    listening: Listening,
    reached: Reached,
    moving: Mutex<Moving>,
    /// Changes the kernel's rules.
    rules: Option<Mutex<OwnedFd>>,
    culprits: Option<Culprits>,
    /// The network namespaces of services, by their index in the plan.
    networks: BTreeMap<u32, OwnedFd>,
    publishing: Vec<PublishingService>,
    /// One upper, one keeper, and the same of volumes: held until this process ends.
    _locks: Vec<File>,
}

/// The service of the plan that publishes ports.
fn publishing_service(
    services: &[Service],
    index: u32,
    diagnosis: OwnedFd,
) -> Option<PublishingService> {
    let service = services.get(index as usize)?;
    let Attachment::Own(own) = &service.container()?.network else {
        return None;
    };
    Some(PublishingService {
        diagnosis: Mutex::new(diagnosis),
        address: own.address,
        published: own.published.clone(),
    })
}

// === impl Linux ===

impl Linux {
    /// Takes what is the platform's out of `handed`. Moves that were interrupted by the end of an earlier
    /// run are finished first.
    fn new(
        workspace: Workspace,
        handed: &mut Handed,
        services: &[Service],
        locks: Vec<File>,
    ) -> io::Result<Self> {
        let (mut rules, mut culprits, mut others) = (None, None, Vec::new());
        let (mut networks, mut publishing) = (BTreeMap::new(), Vec::new());
        for (doorway, socket) in handed.doorways.drain(..) {
            match doorway {
                Doorway::Rules => rules = Some(Mutex::new(socket)),
                Doorway::Diagnosis => culprits = Some(Culprits::new(socket, workspace.pid)),
                Doorway::Namespace(index) => drop(networks.insert(index, socket)),
                Doorway::Listeners(index) => {
                    publishing.extend(publishing_service(services, index, socket));
                }
                _ => others.push((doorway, socket)),
            }
        }
        handed.doorways = others;
        Ok(Self {
            moving: Mutex::new(Moving::new(handed.renames.take(), &workspace)?),
            workspace,
            stock: Stock::default(),
            listening: Listening::default(),
            reached: Reached::default(),
            rules,
            culprits,
            networks,
            publishing,
            _locks: locks,
        })
    }

    fn rules(&self) -> io::Result<MutexGuard<'_, OwnedFd>> {
        let rules = self.rules.as_ref();
        let rules = rules.ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?;
        Ok(rules.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn moving(&self) -> MutexGuard<'_, Moving> {
        self.moving.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Platform for Linux {
    fn is_frozen(&self) -> bool {
        cgroup::is_frozen(self.workspace.pid)
    }

    fn thaw(&self) {
        if let Some(group) = &self.workspace.group {
            group.thaw();
        }
    }

    fn memory_kills(&self) -> u64 {
        self.workspace.group.as_ref().map_or(0, Group::memory_kills)
    }

    fn exhausted(&self) -> Vec<String> {
        self.reached.look(&self.workspace)
    }

    fn disk_usage(&self) -> io::Result<u64> {
        let Workspace {
            program,
            directories,
            ..
        } = &self.workspace;
        let ids = self.workspace.sub_ids.as_ref();
        let output = measure::command(program, &directories.dir, ids).output()?;
        measure::understand(&output.stdout)
    }

    fn take_descriptors(&self, init: BorrowedFd<'_>, numbers: &[i32]) -> io::Result<Vec<OwnedFd>> {
        take(init, numbers)
    }

    fn make_room(&self, plan: &RoomPlan, secrets: &[String]) -> io::Result<RoomInit> {
        let workspace = &self.workspace;
        let network = plan.network.map(|index| {
            let found = self.networks.get(&index).map(AsFd::as_fd);
            found.ok_or_else(|| io::Error::other("its network does not exist"))
        });
        let site = Site {
            program: &workspace.program,
            init: workspace.init.as_fd(),
            network: network.transpose()?,
            group: workspace.group.as_ref(),
        };
        let order = Order {
            room: plan.clone(),
            tree: workspace.tree.clone(),
            upper: workspace.directories.upper(),
            protected: workspace.protected.clone(),
            secrets: secrets.to_vec(),
            seal: workspace.seal.clone(),
            open_files: open_files::inherited(),
            sub_ids: workspace.sub_ids.filter(|_| plan.has_users),
        };
        room::make(&site, &order)
    }

    fn signal_room(&self, room: &RoomInit, signal: RoomSignal<'_>) -> io::Result<Vec<i32>> {
        let leaving = if self.workspace.seal.nested {
            Leaving::Allowed
        } else {
            Leaving::Forbidden
        };
        room::signal_members(room, signal, leaving)
    }

    fn dial(&self, port: u16) -> io::Result<OwnedFd> {
        self.stock.dial(self.workspace.init.as_fd(), port)
    }

    fn listening(&self) -> io::Result<BTreeSet<u16>> {
        let mut ports = self.listening.look(self.workspace.init.as_fd())?;
        for service in &self.publishing {
            ports.extend(service.look()?);
        }
        Ok(ports)
    }

    fn look_up(&self, name: &str) -> Result<Vec<IpAddr>, LookupFailure> {
        match lookup::look_up(name) {
            Ok(Looked::Found(addresses)) => Ok(addresses),
            Ok(Looked::NoSuchName) => Err(LookupFailure::NoSuchName),
            Ok(Looked::Failed) | Err(_) => Err(LookupFailure::Failed),
        }
    }

    fn change_grants(&self, taken: &[Grant], given: &[Grant]) -> io::Result<()> {
        tables::grant(&*self.rules()?, taken, given)
    }

    fn replace_rules(&self, policy: &Policy, granted: &[Grant]) -> io::Result<()> {
        tables::replace(&*self.rules()?, policy, granted)
    }

    fn refusals(&self, socket: &OwnedFd) -> io::Result<Vec<Refused>> {
        // Without it the wait is only interrupted now and then.
        let _ = set_socket_timeout(socket, Timeout::Recv, None);
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let length = match recv(socket, &mut buffer[..], RecvFlags::empty()) {
                Ok((length, _)) => length,
                // Some were lost in a flood; they were refused all the same.
                Err(Errno::NOBUFS | Errno::INTR | Errno::AGAIN) => continue,
                Err(error) => return Err(error.into()),
            };
            let refused = packet::refusals(&buffer[..length]).into_iter();
            let refused = refused.map(|packet| Refused {
                address: packet.address,
                port: packet.port,
                tcp: match packet.protocol {
                    TCP => Tcp::Yes,
                    _ => Tcp::No,
                },
            });
            return Ok(refused.collect());
        }
    }

    fn process_of(&self, client: SocketAddr, asked: SocketAddr) -> Option<Process> {
        self.culprits.as_ref()?.find(client, asked)
    }

    fn copy(&self, pairs: &[Pair]) -> io::Result<()> {
        let Workspace {
            program, sub_ids, ..
        } = &self.workspace;
        copier::run(program, pairs, sub_ids.as_ref())
    }

    fn mount(&self, mounted: &Mounted) -> io::Result<()> {
        let Workspace { program, init, .. } = &self.workspace;
        remount::run(program, init.as_fd(), mounted)
    }

    fn source(&self) -> Option<OwnedFd> {
        let moving = self.moving();
        moving.source()?.try_clone_to_owned().ok()
    }

    fn attend(&self) {
        self.moving().attend(&self.workspace);
    }

    fn remove(&self) {
        if let Err(error) = cgroup::sweep(&self.workspace.directories, limits::PATIENCE) {
            complain!("the control group stays: {error}");
        }
    }
}
