//! The process outside that keeps one workspace. It hears from init, serves the control socket and the
//! guest socket, and dies when init dies; init dies when it dies. The driver's launcher makes the workspace
//! and then hands it over ([`Launched`]).
//!
//! Not a tokio program: it has one thread when it makes the namespaces, one when it is idle, and
//! one more per command that somebody watches. It never trusts init.

mod activity;
mod asker;
mod connection;
mod data;
mod dial;
mod exec;
mod guest;
mod guest_api;
mod here;
mod kept;
mod limits;
mod outside;
mod ports;
mod quiet;
mod record;
mod registry;
mod relay;
mod renewal;
mod rooms;
mod runs;
mod secrets;
mod services;
mod sessions;
mod sign_ins;
mod uses;
mod waiting;
mod watch;

use crate::descriptors;
use crate::directories::{self, WorkspaceDirs};
use crate::plan::{LaunchAnswer, LaunchFailure, Part, Plan, Stepped};
use crate::platform::Platform;
use crate::wire::{Defence, Doorway, FromInit, Incarnation, LastRun, ToInit, VERSION};
use activity::Activity;
use holm_core::isolation::Isolation;
pub use limits::DISK;
use outside::Outside;
pub use outside::policy;
pub use registry::Init;
use registry::{InitOf, Parts, Registry};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use secrets::Secrets;
pub use secrets::keep_from_dumps;
use serde::de::DeserializeOwned;
use sessions::Sessions;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use zeroize::Zeroize;

/// How long init may take for one message before it is taken for broken.
const INIT_PATIENCE: Duration = Duration::from_secs(10);

/// The role: `set_up` makes the workspace run; one answer goes to stdout, stderr is the log.
pub fn main(set_up: impl FnOnce() -> Result<Keeper, LaunchFailure>) -> ! {
    let code = match set_up() {
        Ok(keeper) => {
            answer(&LaunchAnswer::Ready(Box::new(
                keeper.registry.known_status(),
            )));
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

/// Reads the plan, which comes on stdin and may have secrets in it.
pub fn read_plan<T: DeserializeOwned>() -> Result<T, LaunchFailure> {
    let mut text = Vec::new();
    keep_from_dumps();
    io::stdin()
        .read_to_end(&mut text)
        .step(Part::Other, "read the plan")?;
    if text.is_empty() {
        // The daemon ended before it had a workspace for this process.
        std::process::exit(0);
    }
    let plan = serde_json::from_slice(&text)
        .map_err(io::Error::from)
        .step(Part::Other, "read the plan")?;
    text.zeroize();
    Ok(plan)
}

/// Where others reach the keeper.
pub struct Sockets {
    control: UnixListener,
    guest: UnixListener,
    api: UnixListener,
}

/// A workspace whose init runs, as its launcher hands it over.
pub struct Launched {
    pub plan: Plan,
    pub sockets: Sockets,
    pub init: Init,
    /// To init.
    pub link: UnixStream,
    pub handed: Handed,
    /// What is in force.
    pub isolation: Isolation,
    pub platform: Arc<dyn Platform>,
}

pub struct Keeper {
    directories: WorkspaceDirs,
    registry: Arc<Registry>,
    link: UnixStream,
    sockets: Sockets,
}

/// The answer is one line, and stdout is closed behind it so that nobody waits for more.
fn answer(answer: &LaunchAnswer) {
    let mut line = serde_json::to_vec(answer).unwrap_or_default();
    line.push(b'\n');
    // A daemon that is gone does not matter: the next one finds the socket.
    let _ = io::stdout().write_all(&line);
    let _ = io::stdout().flush();
    if let Ok(null) = File::options().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&null);
    }
}

/// What the launcher handed over.
#[derive(Default)]
pub struct Handed {
    /// Where renames are told.
    pub renames: Option<OwnedFd>,
    pub doorways: Vec<(Doorway, OwnedFd)>,
    /// Where secrets are put as files.
    pub secret_files: Option<OwnedFd>,
}

/// The first words on the link: what is handed over, then that init is there. `take` takes descriptors from
/// init that the kernel did not send.
pub fn receive_hello(
    link: &UnixStream,
    take: impl Fn(&[i32]) -> io::Result<Vec<OwnedFd>>,
) -> io::Result<Handed> {
    link.set_read_timeout(Some(INIT_PATIENCE))?;
    link.set_write_timeout(Some(INIT_PATIENCE))?;
    let mut handed = Handed::default();
    loop {
        let message = match descriptors::receive(link)? {
            Some((FromInit::Left { numbers, message }, _)) => {
                let taken = take(&numbers)?;
                // Before init starts anything, so that nothing inside ever has them.
                descriptors::send(link, &ToInit::Close { numbers }, &[])?;
                Some((*message, taken))
            }
            message => message,
        };
        match message {
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

/// Binds by way of the directory's descriptor: a socket's path may have 107 bytes only.
fn listen(path: &Path) -> io::Result<UnixListener> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    };
    match std::fs::remove_file(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let directory = directories::open_directory(parent)?;
    UnixListener::bind(directories::descriptor_path(&directory).join(name))
}

/// The last run is one that did not come about, so nobody is told how an earlier one ended.
pub fn write_not_started(directories: &WorkspaceDirs, why: &str) -> io::Result<()> {
    write_last_run(
        directories,
        Some(format!("could not be started: {why}")),
        None,
    )
}

/// Writes down that the workspace runs. If its keeper dies, others wait for the end of this init.
pub fn write_start(directories: &WorkspaceDirs, init: i32) -> io::Result<()> {
    write_last_run(directories, None, Incarnation::of(init))
}

/// Writes down how the workspace runs, or how it ended.
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

// === impl Sockets ===

impl Sockets {
    pub fn open(directories: &WorkspaceDirs) -> Result<Self, LaunchFailure> {
        let guest = directories.guest();
        Ok(Self {
            control: listen(&directories.socket).step(Part::Other, "open the control socket")?,
            guest: listen(&guest.join("guest.sock")).step(Part::Other, "open the guest socket")?,
            api: listen(&guest.join("api.sock")).step(Part::Other, "open the guest socket")?,
        })
    }
}

// === impl Keeper ===

impl Keeper {
    /// Takes over a workspace whose init runs, and starts its services.
    pub fn start(launched: Launched) -> Result<Self, LaunchFailure> {
        let Launched {
            mut plan,
            sockets,
            init,
            link,
            handed,
            isolation,
            platform,
        } = launched;
        let directories = plan.directories();
        let writer = link.try_clone().step(Part::Other, "set up the link")?;
        // First, so that nobody else has a copy of the values.
        let secrets = Secrets::new(&mut plan, handed.secret_files, isolation.landlock)?;
        let outside = Outside::new(&plan, &platform, handed.doorways);
        outside.set_placeholders(secrets.placeholders());
        let registry = Arc::new(Registry::new(Parts {
            plan,
            isolation,
            init,
            platform,
            outside,
            writer,
            sessions: Sessions::load(&directories),
            secrets,
            activity: Activity::new().step(Part::Other, "watch the programs inside")?,
        }));
        registry.secrets.watch(&registry);
        limits::watch_disk(&registry).step(Part::Other, "watch the disk")?;
        services::start(&registry, &directories).step(Part::Other, "start the services")?;
        Ok(Self {
            directories,
            registry,
            link,
            sockets,
        })
    }

    /// Serves until init ends; returns the keeper's exit code.
    fn serve(self) -> i32 {
        let registry = Arc::clone(&self.registry);
        // The daemon has its answer by now. No program is started before this is written.
        here::write(&registry);
        let init = registry.init();
        let mut outgoing = registry.outside().sources();
        let mut is_platform_open = true;
        let reason = loop {
            let platform = is_platform_open
                .then(|| registry.platform().source())
                .flatten();
            let mut sources = vec![
                PollFd::new(&init, PollFlags::IN),
                PollFd::new(&self.link, PollFlags::IN),
                PollFd::new(&self.sockets.control, PollFlags::IN),
                PollFd::new(&self.sockets.guest, PollFlags::IN),
                PollFd::new(&self.sockets.api, PollFlags::IN),
            ];
            sources.extend(outgoing.iter().map(|door| PollFd::new(door, PollFlags::IN)));
            let before_platform = sources.len();
            sources.extend(platform.iter().map(|own| PollFd::new(own, PollFlags::IN)));
            match poll(&mut sources, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => break format!("the keeper cannot wait: {error}"),
            }
            let events = sources
                .get(before_platform)
                .map_or(PollFlags::empty(), PollFd::revents);
            let is_platform_due = events.contains(PollFlags::IN);
            // The platform's source hangs up when the last process inside is gone. If the keeper went on polling
            // it until init is reaped, each poll would return at once.
            is_platform_open &= is_platform_due || events.is_empty();
            let is_ready = |number: usize| !sources[number].revents().is_empty();
            let [init_ended, init_sent, daemon_calls, guest_calls, api_calls] =
                [0, 1, 2, 3, 4].map(is_ready);
            let connects_out = (5..before_platform).any(is_ready);
            drop(sources);
            if init_sent && let Err(error) = self.receive() {
                self.registry.kill();
                if !init_ended && !is_closed(&error) {
                    break format!("init spoke nonsense: {error}");
                }
                // The link closes a moment before init has ended, so waiting for its end is short.
                break self.registry.how_init_ended();
            }
            if init_ended {
                break self.registry.how_init_ended();
            }
            if daemon_calls && let Ok((stream, _)) = self.sockets.control.accept() {
                connection::serve(stream, &self.registry);
            }
            if connects_out {
                self.registry.outside().wake();
                outgoing.clear();
            }
            if is_platform_due {
                registry.platform().attend();
            }
            if guest_calls && let Ok((stream, _)) = self.sockets.guest.accept() {
                guest::serve(stream, &self.registry);
            }
            if api_calls && let Ok((stream, _)) = self.sockets.api.accept() {
                guest_api::serve(stream, &self.registry);
            }
        };
        self.finish(&reason)
    }

    /// One message of init. The pidfd also reports the end of the stream.
    fn receive(&self) -> io::Result<()> {
        let (message, descriptors) = receive_message(&self.registry, &self.link)?;
        self.registry
            .handle(InitOf::Workspace, message, descriptors);
        Ok(())
    }

    fn finish(self, reason: &str) -> i32 {
        // Every process of the workspace is gone with init; this makes sure of init.
        self.registry.kill();
        self.registry.outside().finish();
        let stopped = self.registry.was_asked_to_stop();
        let memory_kills = self.registry.memory_kills();
        let reason = match self.registry.why_ended() {
            Some(why) => why,
            None if stopped => "stopped",
            None if memory_kills.has_just_killed() => limits::MEMORY,
            None => reason,
        };
        if !stopped {
            complain!("ended: {reason}");
        }
        if let Err(error) = write_last_run(&self.directories, Some(reason.to_owned()), None) {
            complain!("cannot write down the end: {error}");
        }
        self.registry.platform().remove();
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

/// One message of an init. The end of the stream is an error.
fn receive_message(registry: &Registry, link: &UnixStream) -> io::Result<(FromInit, Vec<OwnedFd>)> {
    let longest = if registry.plan.has(Defence::ShortMessages) {
        descriptors::MAX_MESSAGE
    } else {
        usize::MAX
    };
    let received = descriptors::receive_within(link, longest)?;
    received.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))
}

/// Whether the other side of the link is gone, with or without having read everything.
fn is_closed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset
    )
}
