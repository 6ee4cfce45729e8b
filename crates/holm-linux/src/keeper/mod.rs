//! The process outside that keeps one workspace. It starts the workspace, receives messages of
//! init, serves the control socket and the guest socket, and ends with init; init ends with it.
//!
//! Not a tokio program: it has one thread when it creates the namespaces and when it is idle, and
//! one more per watched command. It never trusts init.

mod asker;
mod connection;
mod culprit;
mod data;
mod exec;
mod guest;
mod guest_api;
mod here;
mod inward;
mod isolation;
mod kept;
mod limits;
mod listening;
mod moving;
mod outside;
mod quiet;
mod reached;
pub mod record;
mod registry;
mod runs;
mod secrets;
mod services;
mod session;
mod sessions;
mod uses;
mod waiting;

use crate::cgroup::{self, Group};
use crate::launch::{self, Launched, descriptors};
use crate::layout::WorkspaceDirs;
use crate::machine;
use crate::open_files;
use crate::sys;
use crate::wire::{
    Defence, Doorway, FromInit, Incarnation, LastRun, LaunchAnswer, LaunchFailure, LaunchPlan,
    Part, ToInit, VERSION,
};
pub use inward::dial_directly;
pub use limits::DISK;
use limits::Limits;
use moving::Moving;
use outside::Outside;
use registry::{Init, Registry};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use secrets::Secrets;
pub use secrets::keep_from_dumps;
use sessions::Sessions;
pub use sessions::ended as ended_sessions;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use zeroize::Zeroize;

/// The name of the network in `--allow-degraded`.
const EGRESS: &str = "egress";

/// How long init may take for one message before it counts as broken.
const INIT_PATIENCE: Duration = Duration::from_secs(10);

/// The role: the plan comes on stdin, one answer goes to stdout, stderr is the log. The optional
/// argument is the limit of open files for programs inside.
pub fn main(files: &OsStr) -> ! {
    open_files::raise_from(files);
    let code = match set_up() {
        Ok(keeper) => {
            answer(&LaunchAnswer::Ready);
            keeper.serve()
        }
        Err(failure) => {
            complain!("cannot start: {failure}");
            answer(&LaunchAnswer::Failed(failure));
            1
        }
    };
    std::process::exit(code)
}

struct Keeper {
    directories: WorkspaceDirs,
    registry: Arc<Registry>,
    link: UnixStream,
    control: UnixListener,
    guest: UnixListener,
    api: UnixListener,
    moving: Moving,
    /// One keeper per upper layer: held until this process ends.
    _lock: File,
    /// The same for volumes that only one workspace at a time may have.
    _volumes: Vec<File>,
}

/// Sends the answer as one line and closes stdout, so that the daemon does not wait for more.
fn answer(answer: &LaunchAnswer) {
    let mut line = serde_json::to_vec(answer).unwrap_or_default();
    line.push(b'\n');
    // If the daemon is gone, the next one finds the socket.
    let _ = io::stdout().write_all(&line);
    let _ = io::stdout().flush();
    if let Ok(null) = File::options().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&null);
    }
}

fn set_up() -> Result<Keeper, LaunchFailure> {
    use launch::Stepped;
    let mut text = Vec::new();
    keep_from_dumps();
    io::stdin()
        .read_to_end(&mut text)
        .step(Part::Other, "read the plan")?;
    let mut plan: LaunchPlan = serde_json::from_slice(&text)
        .map_err(io::Error::from)
        .step(Part::Other, "read the plan")?;
    text.zeroize();
    plan.machine = machine::addresses();
    if plan.has(Defence::ClosedDescriptors) {
        sys::process::close_from(3).step(Part::Other, "close what was inherited")?;
    }
    // The daemon may be in a terminal's session, whose end must not reach the workspace.
    let _ = rustix::process::setsid();
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    std::env::set_current_dir("/").step(Part::Other, "go to /")?;

    let directories = WorkspaceDirs {
        dir: plan.dir.clone(),
        socket: plan.socket.clone(),
    };
    // Never created here: if it is missing, the workspace was undone while this process started.
    let lock = File::options()
        .write(true)
        .read(true)
        .open(directories.lock())
        .step(Part::Other, "open the lock")?;
    if !sys::lock::try_lock(&lock).step(Part::Other, "take the lock")? {
        let taken = io::Error::other("another keeper has it");
        return Err(taken).step(Part::Other, "take the lock");
    }
    let volumes = take_volumes(&plan)?;
    let control = listen(&directories.socket).step(Part::Other, "open the control socket")?;
    let guest = listen(&directories.guest().join("guest.sock"))
        .step(Part::Other, "open the guest socket")?;
    let api =
        listen(&directories.guest().join("api.sock")).step(Part::Other, "open the guest socket")?;
    write_last_run(&directories, None, None).step(Part::Other, "write down the start")?;
    let sockets = Sockets {
        control,
        guest,
        api,
    };
    let started = limits::make(&plan, &directories)
        .and_then(|group| start(plan, &directories, group, sockets, (lock, volumes)));
    if let Err(failure) = &started {
        // A partial start must be cleaned up; the original failure is reported.
        let _ = cgroup::sweep(&directories, limits::PATIENCE);
        let _ = write_not_started(&directories, &failure.to_string());
    }
    started
}

/// Takes the locks of volumes that only one workspace at a time may have. Each lock file names its
/// holder.
fn take_volumes(plan: &LaunchPlan) -> Result<Vec<File>, LaunchFailure> {
    use launch::Stepped;
    let mut taken = Vec::new();
    for volume in &plan.volumes {
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
            .and_then(|()| writeln!(file, "{}", plan.id))
            .step(Part::Volume, &volume.name)?;
        taken.push(file);
    }
    Ok(taken)
}

/// The keeper's listening sockets.
struct Sockets {
    control: UnixListener,
    guest: UnixListener,
    api: UnixListener,
}

/// Everything from the first process on.
fn start(
    mut plan: LaunchPlan,
    directories: &WorkspaceDirs,
    group: Option<Group>,
    sockets: Sockets,
    (lock, volumes): (File, Vec<File>),
) -> Result<Keeper, LaunchFailure> {
    use launch::Stepped;
    let Launched {
        pidfd,
        pid,
        link,
        landlock,
    } = launch::start(&plan, group.as_ref())?;
    link.set_read_timeout(Some(INIT_PATIENCE))
        .step(Part::Other, "set up the link")?;
    link.set_write_timeout(Some(INIT_PATIENCE))
        .step(Part::Other, "set up the link")?;
    let Handed {
        renames,
        doorways,
        secret_files,
    } = hear_hello(&link, pidfd.as_fd()).step(Part::Other, "hear from init")?;
    let writer = link.try_clone().step(Part::Other, "set up the link")?;
    // If this keeper is killed, the daemon can wait for the end of its init.
    write_last_run(directories, None, Incarnation::of(pid))
        .step(Part::Other, "write down the start")?;
    // First, so that no other part has a copy of the values.
    let secrets = Secrets::new(&mut plan, secret_files, landlock)?;
    let outside = Outside::new(&plan, pid, directories.egress(), doorways);
    outside.set_placeholders(secrets.placeholders());
    let mut isolation = isolation::observe(pid, landlock, &plan, group.as_ref());
    if !outside.has_rules() {
        isolation.degraded.push(EGRESS.to_owned());
    }
    let limits = Limits::new(group);
    let init = Init { pidfd, pid };
    let registry = Arc::new(Registry::new(
        plan,
        isolation,
        limits,
        init,
        outside,
        (writer, Sessions::load(directories), secrets),
    ));
    registry.secrets.watch(&registry);
    let moving = Moving::new(renames, directories, &registry)
        .step(Part::Other, "finish interrupted moves")?;
    limits::watch_disk(&registry, directories).step(Part::Other, "watch the disk")?;
    services::start(&registry, directories).step(Part::Other, "start the services")?;
    here::write(&registry);
    Ok(Keeper {
        directories: directories.clone(),
        registry,
        link,
        control: sockets.control,
        guest: sockets.guest,
        api: sockets.api,
        moving,
        _lock: lock,
        _volumes: volumes,
    })
}

/// Descriptors that the launcher handed over.
#[derive(Default)]
struct Handed {
    /// Reports rename calls.
    renames: Option<OwnedFd>,
    doorways: Vec<(Doorway, OwnedFd)>,
    /// The writable mount for secret files.
    secret_files: Option<OwnedFd>,
}

/// Receives the first messages: the descriptors, then that init runs.
fn hear_hello(link: &UnixStream, init: BorrowedFd<'_>) -> io::Result<Handed> {
    let mut handed = Handed::default();
    loop {
        let heard = match descriptors::receive(link)? {
            Some((FromInit::Left { numbers, message }, _)) => {
                let taken = descriptors::take_left(init, &numbers)?;
                // Before init starts any program, so that no program inside ever has them.
                descriptors::send(link, &ToInit::Close { numbers }, &[])?;
                Some((*message, taken))
            }
            heard => heard,
        };
        match heard {
            Some((FromInit::Renames, descriptors)) => {
                handed.renames = descriptors.into_iter().next();
            }
            Some((FromInit::SecretFiles, descriptors)) => {
                handed.secret_files = descriptors.into_iter().next();
            }
            Some((FromInit::Doorway(doorway), descriptors)) => {
                let sockets = descriptors.into_iter().map(|socket| (doorway, socket));
                handed.doorways.extend(sockets);
            }
            Some((FromInit::Hello { version: VERSION }, _)) => return Ok(handed),
            _ => return Err(io::Error::other("it did not say hello")),
        }
    }
}

/// Binds through the directory's descriptor, because a socket's path is limited to 107 bytes.
fn listen(path: &Path) -> io::Result<UnixListener> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    };
    match std::fs::remove_file(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let directory = launch::open_directory(parent)?;
    UnixListener::bind(launch::descriptor_path(&directory).join(name))
}

/// Records that the workspace did not start, so that the end of an earlier run is not reported.
pub fn write_not_started(directories: &WorkspaceDirs, why: &str) -> io::Result<()> {
    write_last_run(
        directories,
        Some(format!("could not be started: {why}")),
        None,
    )
}

fn write_last_run(
    directories: &WorkspaceDirs,
    ended: Option<String>,
    init: Option<Incarnation>,
) -> io::Result<()> {
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?
        .trim()
        .to_owned();
    let last = LastRun {
        boot_id,
        ended,
        init,
    };
    let text = serde_json::to_vec(&last)?;
    let fresh = directories.dir.join("last.json.new");
    std::fs::write(&fresh, text)?;
    std::fs::rename(fresh, directories.last_run())
}

// === impl Keeper ===

impl Keeper {
    /// Runs until init ends; returns the exit code.
    fn serve(mut self) -> i32 {
        let registry = Arc::clone(&self.registry);
        let init = registry.init();
        let mut leaving = registry.outside().sources();
        let reason = loop {
            let moving = self.moving.source();
            let mut sources = vec![
                PollFd::new(&init, PollFlags::IN),
                PollFd::new(&self.link, PollFlags::IN),
                PollFd::new(&self.control, PollFlags::IN),
                PollFd::new(&self.guest, PollFlags::IN),
                PollFd::new(&self.api, PollFlags::IN),
                PollFd::new(&moving, PollFlags::IN),
            ];
            sources.extend(leaving.iter().map(|door| PollFd::new(door, PollFlags::IN)));
            match poll(&mut sources, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => break format!("the keeper cannot wait: {error}"),
            }
            // The rename listener hangs up when the last process inside is gone.
            let moved = sources[5].revents().contains(PollFlags::IN);
            let is_ready = |number: usize| !sources[number].revents().is_empty();
            let [ended, told, asked, asked_inside, called] = [0, 1, 2, 3, 4].map(is_ready);
            let leaves = (6..sources.len()).any(is_ready);
            drop(sources);
            if told && let Err(error) = self.hear() {
                self.registry.kill();
                if !ended && !is_closed(&error) {
                    break format!("init spoke nonsense: {error}");
                }
                // The link closes a moment before init has ended; wait for that.
                break self.registry.how_init_ended();
            }
            if ended {
                break self.registry.how_init_ended();
            }
            if asked && let Ok((stream, _)) = self.control.accept() {
                connection::serve(stream, &self.registry);
            }
            if leaves {
                self.registry.outside().wake();
                leaving.clear();
            }
            if moved {
                self.moving.attend(&registry);
            }
            if asked_inside && let Ok((stream, _)) = self.guest.accept() {
                guest::serve(stream, &self.registry);
            }
            if called && let Ok((stream, _)) = self.api.accept() {
                guest_api::serve(stream, &self.registry);
            }
        };
        self.finish(&reason)
    }

    /// Handles one message of init. The pidfd also reports the end of the stream.
    fn hear(&self) -> io::Result<()> {
        let longest = if self.registry.plan.has(Defence::ShortMessages) {
            descriptors::MAX_MESSAGE
        } else {
            usize::MAX
        };
        match descriptors::receive_within::<FromInit>(&self.link, longest)? {
            Some((message, descriptors)) => {
                self.registry.hear(message, descriptors);
                Ok(())
            }
            None => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
        }
    }

    fn finish(self, reason: &str) -> i32 {
        // Every process of the workspace is gone with init; this makes sure of init.
        self.registry.kill();
        self.registry.outside().finish();
        let stopped = self.registry.was_asked_to_stop();
        let limits = self.registry.limits();
        let reason = match self.registry.why_ended() {
            Some(why) => why,
            None if stopped => "stopped",
            None if limits.has_just_killed() => limits::MEMORY,
            None => reason,
        };
        if !stopped {
            complain!("ended: {reason}");
        }
        if let Err(error) = write_last_run(&self.directories, Some(reason.to_owned()), None) {
            complain!("cannot write down the end: {error}");
        }
        limits.remove(&self.directories);
        if let Some(services) = self.registry.services() {
            services.finish(Duration::ZERO);
        }
        self.registry.end(Duration::from_secs(2));
        if let Some(services) = self.registry.services() {
            services.finish(Duration::from_secs(2));
        }
        let _ = std::fs::remove_file(&self.directories.socket);
        i32::from(!stopped)
    }
}

/// Whether the other side of the link is gone, whether or not it has read everything.
fn is_closed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset
    )
}

/// The command with which the daemon starts this role; the plan goes to its stdin.
pub fn command(program: &Path, log: File) -> Command {
    let mut command = Command::new(program);
    command
        .arg(crate::roles::KEEPER)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log);
    command.arg(open_files::inherited().to_string());
    command
}
