//! The keeper's process: takes over a running workspace, serves its sockets until init ends, and writes
//! down how it ended.

use super::activity::Activity;
use super::link::{Handed, receive_message};
use super::outside::Outside;
use super::secrets::{Secrets, keep_from_dumps};
use super::sessions::Sessions;
use super::{Init, InitOf, Parts, Registry};
use super::{connection, guest, guest_api, here, limits, services};
use crate::directories::{self, WorkspaceDirs};
use crate::plan::{LaunchAnswer, LaunchFailure, Part, Plan, Stepped};
use crate::platform::Platform;
use crate::wire::{Incarnation, LastRun};
use holm_core::isolation::Isolation;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use zeroize::Zeroize;

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
        let ending_link = link.try_clone().step(Part::Other, "set up the link")?;
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
            ending_link,
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

/// Whether the other side of the link is gone, with or without having read everything.
fn is_closed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset
    )
}
