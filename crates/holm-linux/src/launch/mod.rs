//! Starts a workspace: one clone with all namespaces, the new root, the seal, then init.
//!
//! Called by the keeper while it has one thread. Everything after the clone happens in the child,
//! which is PID 1 of its namespace from the start and becomes init by executing it. No other
//! process of the workspace exists before the seal is complete.

mod absent;
pub use plan::{LaunchPlan, SealPlan};
pub use root::{NewRoot, attach, clone_tree, copy_mount, detached, filesystem, overlay, pin};
pub use seal::{Renames, Rights, Sealed, Writable, seal};
mod beneath;
mod ca_bundle;
mod devices;
mod etc;
pub mod network;
mod plan;
mod proc;
mod root;
mod seal;
mod secrets;
mod services;
pub mod shares;
mod shown;
mod tree;

use crate::cgroup::Group;
use crate::{sub_ids, sys};
use holm_core::sub_ids::OwnIds;
use holm_keeper::descriptors::{self, Left};
use holm_keeper::plan::{LaunchFailure, Part, Stepped};
use holm_keeper::process::how_ended;
use holm_keeper::wire::{Defence, FromInit};
use network::Doorways;
use rustix::process::{Signal, pidfd_send_signal};
use shares::Shares;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use tree::Tree;

/// The keeper's handles of a running workspace.
pub struct Launched {
    pub pidfd: OwnedFd,
    pub pid: i32,
    /// To init.
    pub link: UnixStream,
    /// Whether Landlock is in force.
    pub landlock: bool,
}

/// The name of init's process; its one argument is the number of the link's descriptor.
pub const INIT_NAME: &str = "holm-init";

/// An empty directory of this name marks a directory of the tree that exists only for an absent
/// protected path.
pub const PROTECTED_WITHIN: &str = ".holm-protected";

/// Creates the workspace and starts its init. The caller must have one thread only. `meanwhile` runs here while the
/// first process, whose pid it gets, prepares itself.
pub fn start<T>(
    plan: &LaunchPlan,
    group: Option<&Group>,
    meanwhile: impl FnOnce(i32) -> Result<T, LaunchFailure>,
) -> Result<(Launched, T), LaunchFailure> {
    let (link, link_inside) = UnixStream::pair().step(Part::Other, "make the link to init")?;
    let (mut report, report_inside) = io::pipe().step(Part::Other, "make the report pipe")?;
    let entrances = group
        .map_or(Ok(Vec::new()), Group::entrances)
        .step(Part::Other, "open the control group")?;
    // Read before the clone: afterwards the kernel returns the overflow uid, and limits of the new
    // namespace.
    let host = HostSide {
        user: sub_ids::own(),
        entrances,
        shares: Shares::of_one(plan),
    };
    let (mapped, mut say_mapped) = io::pipe().step(Part::User, "make the pipe for the ids")?;
    let together = shares::Together::begin(plan);
    let side =
        sys::clone::clone_into(sys::clone::NAMESPACES).step(Part::User, "make the namespaces")?;
    drop(together);
    match side {
        sys::clone::Side::Child => {
            drop((link, report, say_mapped));
            let failure = match become_init(plan, host, link_inside, &report_inside, mapped) {
                Ok(never) => match never {},
                Err(failure) => failure,
            };
            // If the keeper is gone, there is no process left to inform.
            let _ = tell(&report_inside, &Report::Failed(failure));
            std::process::exit(1);
        }
        sys::clone::Side::Parent { pidfd, pid } => {
            let own = host.user;
            drop((link_inside, report_inside, host, mapped));
            if let Some(ids) = &plan.sub_ids {
                // If this fails, the first process ends, because it reads the end of the pipe.
                sub_ids::map(pid, ids, own).step(Part::User, "map the ranges of ids")?;
                say_mapped
                    .write_all(&[1])
                    .step(Part::User, "say that the ids are mapped")?;
            }
            drop(say_mapped);
            let done = meanwhile(pid).inspect_err(|_| {
                // It would also die with this process, which has to clean up first.
                let _ = pidfd_send_signal(&pidfd, Signal::KILL);
            })?;
            let mut output = String::new();
            // The pipe closes when init is executed, or after the failure was written.
            report
                .read_to_string(&mut output)
                .step(Part::Other, "hear from the first process")?;
            let Some(last) = output.lines().last() else {
                let ended = io::Error::other(format!("it {}", how_ended(&pidfd)));
                return Err(ended).step(Part::Other, "hear from the first process");
            };
            match serde_json::from_str(last).map_err(io::Error::from) {
                Ok(Report::Sealed { landlock }) => {
                    let launched = Launched {
                        pidfd,
                        pid,
                        link,
                        landlock,
                    };
                    Ok((launched, done))
                }
                Ok(Report::Failed(failure)) => Err(failure),
                Err(error) => Err(error).step(Part::Other, "understand the first process"),
            }
        }
    }
}

/// Messages of the first process to the keeper before it becomes init. The last one counts.
#[derive(serde::Serialize, serde::Deserialize)]
enum Report {
    Sealed { landlock: bool },
    Failed(LaunchFailure),
}

fn tell(mut pipe: &io::PipeWriter, report: &Report) -> io::Result<()> {
    let mut line = serde_json::to_vec(report)?;
    line.push(b'\n');
    pipe.write_all(&line)
}

/// Data of the host that the child needs, read before the clone.
struct HostSide {
    user: OwnIds,
    /// Of the control group.
    entrances: Vec<File>,
    shares: Shares,
}

/// The child's whole life before init.
fn become_init(
    plan: &LaunchPlan,
    host: HostSide,
    link: UnixStream,
    report: &io::PipeWriter,
    mapped: io::PipeReader,
) -> Result<Never, LaunchFailure> {
    sys::process::die_with_parent().step(Part::Other, "ask to die with the keeper")?;
    enter_group(host.entrances).step(Part::Other, "enter the control group")?;
    let mapped = match &plan.sub_ids {
        None => map_user(host.user),
        Some(_) => await_mapping(mapped),
    };
    mapped.step(Part::User, "map the user into the namespace")?;
    number_processes_anew().step(Part::Other, "choose where process numbers begin")?;
    // A process is forked for it, which only a process with one thread may do.
    let tree = match &plan.sub_ids {
        Some(_) if plan.keeper.has(Defence::OwnTree) => Some(tree::of_one_user(plan, host.user)?),
        _ => None,
    };
    let (doorways, root, secret_files) = make_parts(plan, &host.shares, tree)?;
    root.freeze()?;
    let leaving = root.enter()?;

    rustix::system::sethostname(plan.keeper.label.as_bytes())
        .step(Part::Other, "set the host name")?;
    let seal_plan = plan.seal();
    let Sealed { landlock, renames } = seal(
        &seal_plan,
        Writable::Own(plan),
        Renames::Reported,
        Rights::None,
    )?;
    leaving.finish()?;
    let handed = [
        (FromInit::Renames, renames),
        (FromInit::SecretFiles, secret_files),
    ];
    for (message, descriptor) in handed {
        let descriptors: Vec<_> = descriptor.into_iter().collect();
        if !descriptors.is_empty() {
            hand_over(plan, &link, message, descriptors)
                .step(Part::Other, "hand over what init must not have")?;
        }
    }
    doorways
        .hand_over(plan, &link)
        .step(Part::Other, "hand over the network")?;
    // Last, because sending descriptors is easier with the keeper's own limit.
    shares::limit_open_files(&seal_plan).step(Part::Other, "limit the open files")?;
    tell(report, &Report::Sealed { landlock }).step(Part::Other, "report to the keeper")?;
    execute_init(plan, &link).step(Part::Other, "execute init")
}

/// Makes the network on a second thread while this one mounts: neither needs the other, and both wait for the kernel.
/// The second thread has ended when this returns, before anything is sealed.
fn make_parts(
    plan: &LaunchPlan,
    shares: &Shares,
    tree: Option<Tree>,
) -> Result<(Doorways, NewRoot, Option<OwnedFd>), LaunchFailure> {
    std::thread::scope(|scope| {
        let network = std::thread::Builder::new()
            .spawn_scoped(scope, || network::make(plan))
            .step(Part::Network, "start to make the network")?;
        let mounted = mount(plan, shares, tree);
        let ended = || io::Error::other("it ended early");
        let doorways = network.join().map_err(|_| ended());
        let doorways = doorways.step(Part::Network, "make the network")??;
        let (root, secret_files) = mounted?;
        Ok((doorways, root, secret_files))
    })
}

/// Everything that the workspace will see, and the place of secret files, if there are any.
fn mount(
    plan: &LaunchPlan,
    shares: &Shares,
    tree: Option<Tree>,
) -> Result<(NewRoot, Option<OwnedFd>), LaunchFailure> {
    let root = NewRoot::mount(plan)?;
    root.show_system(plan)?;
    devices::make(&root, shares)?;
    root.make_run(plan)?;
    let secret_files = secrets::mount(&root, plan)?;
    etc::mount(&root, plan)?;
    root.make_places(plan)?;
    ca_bundle::mount(&root, plan)?;
    let tree = match tree {
        Some(tree) => tree,
        None => Tree::make(plan)?,
    };
    tree.mount(&root, plan)?;
    root.mount_caches(plan)?;
    root.mount_volumes(plan)?;
    root.show_siblings(plan)?;
    proc::mount(&root, plan, shares)?;
    Ok((root, secret_files))
}

/// Passes descriptors to the keeper and closes them here.
fn hand_over(
    plan: &LaunchPlan,
    link: &UnixStream,
    message: FromInit,
    descriptors: Vec<OwnedFd>,
) -> io::Result<()> {
    if !plan.keeper.has(Defence::TakenDescriptors) {
        let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
        return descriptors::send(link, &message, &borrowed);
    }
    descriptors::send_or_leave(link, message, descriptors, Left::AcrossExec)
}

/// Has no value: the process was replaced.
enum Never {}

fn execute_init(plan: &LaunchPlan, link: &UnixStream) -> io::Result<Never> {
    rustix::io::fcntl_setfd(link, rustix::io::FdFlags::empty())?;
    Err(Command::new(&plan.keeper.helper)
        .arg0(INIT_NAME)
        .arg(link.as_raw_fd().to_string())
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .exec())
}

/// First of all, so that no process of the workspace is ever outside its group. Its cgroup
/// namespace begins here: it cannot name the directory above, which has the limits.
fn enter_group(entrances: Vec<File>) -> io::Result<()> {
    for mut entrance in entrances {
        entrance.write_all(b"0")?;
    }
    sys::process::own_cgroup_namespace()
}

/// The user is mapped to itself: with any other map git's index does not match `lstat`, and files
/// of an unmapped group cannot be copied up.
pub(crate) fn map_user(own: OwnIds) -> io::Result<()> {
    let OwnIds { user, group } = own;
    write("/proc/self/setgroups", "deny")?;
    write("/proc/self/gid_map", &format!("{group} {group} 1"))?;
    write("/proc/self/uid_map", &format!("{user} {user} 1"))
}

/// The keeper maps the user and its ranges of ids.
fn await_mapping(mut mapped: io::PipeReader) -> io::Result<()> {
    mapped.read_exact(&mut [0])
}

/// Starts pids at another number at each start. A pid file of a killed process would otherwise name
/// a process of this run, and a database that finds such a file refuses to start.
fn number_processes_anew() -> io::Result<()> {
    const LAST: &str = "/proc/sys/kernel/ns_last_pid";
    // The kernel assigns no lower pids after wrapping.
    const LOWEST: u32 = 300;
    if !Path::new(LAST).exists() {
        return Ok(());
    }
    let highest = std::fs::read_to_string("/proc/sys/kernel/pid_max")?;
    let highest: u32 = highest.trim().parse().map_err(io::Error::other)?;
    let mut random = [0; 4];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    // Not near the end, so that pids rarely wrap.
    let range = (highest / 4 * 3).saturating_sub(LOWEST).max(1);
    let last = LOWEST + u32::from_ne_bytes(random) % range;
    write(LAST, &last.to_string())
}

fn write(path: &str, text: &str) -> io::Result<()> {
    File::options()
        .write(true)
        .open(path)?
        .write_all(text.as_bytes())
}
