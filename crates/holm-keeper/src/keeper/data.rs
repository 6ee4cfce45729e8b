//! Operations on the data of a running workspace: consistent copies, and replacing volumes while
//! everything else runs. Called for the daemon's [`Op::Copy`](crate::wire::Op) and
//! [`Op::RenewVolumes`](crate::wire::Op); an operation is completed even if the daemon dies.

use super::services;
use super::{Registry, Started};
use crate::inside::{self, HOLD, RELEASE, STILL, USES};
use crate::stdio::NOTHING;
use crate::wire::{Answer, Defence, Domain, Pair, Renewal, Spawn, StdStream};
use holm_core::service::State;
use holm_core::service::Wish;
use holm_core::service::status::ServiceStatus;
use std::fs::File;
use std::io::{self, PipeReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// A service gets ten seconds to end, and is killed then.
const ENDED_WITHIN: Duration = Duration::from_secs(20);
/// For processes that it started.
const GRACE: Duration = Duration::from_secs(5);

/// Copies directories while all processes inside are stopped.
pub fn copy(registry: &Registry, pairs: &[Pair]) -> Answer {
    // No process is started meanwhile: it would not be stopped.
    let _held = registry.hold_starts();
    let copy = || registry.platform().copy(pairs);
    let copied = if registry.plan.has(Defence::Stillness) {
        // Programs of the workspace cannot stop those of rooms.
        let held = registry.rooms.hold(registry);
        held.and_then(|()| Stillness::begin(registry))
            .and_then(|stillness| {
                let copied = copy();
                stillness.end()?;
                copied
            })
    } else {
        copy()
    };
    registry.rooms.release(registry);
    if copied.is_err() {
        // If the holding process was killed, the processes have to be continued here.
        release(registry);
    }
    match copied {
        Ok(()) => Answer::Done,
        Err(error) => Answer::Failed {
            errno: error.raw_os_error(),
            cause: error.to_string(),
        },
    }
}

/// All processes inside are stopped while this exists.
struct Stillness {
    /// Closing it continues the processes.
    hold: File,
    exit: PipeReader,
}

// === impl Stillness ===

impl Stillness {
    fn begin(registry: &Registry) -> io::Result<Self> {
        let (exit, exit_inside) = io::pipe()?;
        let streams = [StdStream::Pipe, StdStream::Pipe, StdStream::Nothing];
        let ends = match registry.start_while_held(inside(registry, HOLD, streams), exit_inside)? {
            Started::Running { ends, .. } => ends,
            Started::Not { cause, .. } => return Err(io::Error::other(cause)),
        };
        let mut ends = ends.into_iter().map(File::from);
        let (Some(hold), Some(mut said)) = (ends.next(), ends.next()) else {
            return Err(io::Error::other("init passed no streams"));
        };
        let mut word = vec![0; STILL.len()];
        let is_still = said.read_exact(&mut word).is_ok() && word == STILL;
        if is_still {
            Ok(Self { hold, exit })
        } else {
            Err(io::Error::other("something inside does not stand still"))
        }
    }

    /// Returns when the processes were continued.
    fn end(mut self) -> io::Result<()> {
        drop(self.hold);
        let mut code = [1];
        self.exit.read_exact(&mut code)?;
        match code {
            [0] => Ok(()),
            _ => Err(io::Error::other("what held everything still was killed")),
        }
    }
}

fn release(registry: &Registry) {
    let Ok((mut exit, exit_inside)) = io::pipe() else {
        return;
    };
    let started = registry.start_while_held(inside(registry, RELEASE, NOTHING), exit_inside);
    if matches!(started, Ok(Started::Running { .. })) {
        // The exit itself matters, not its code.
        let _ = exit.read(&mut [0]);
    }
}

/// Our own program inside.
fn inside(registry: &Registry, word: &str, streams: [StdStream; 3]) -> Spawn {
    let helper = registry.plan.helper.as_os_str();
    let argv = [helper, inside::ROLE.as_ref(), word.as_ref()].map(|word| word.as_bytes().to_vec());
    Spawn {
        sequence: 0,
        argv: argv.to_vec(),
        env: Vec::new(),
        cwd: b"/".to_vec(),
        terminal: None,
        domain: Domain::Shared,
        streams: Some(streams),
        is_run: false,
        user: None,
    }
}

/// Mounts reset volumes. Services that use one are stopped before and started afterwards.
pub fn renew(registry: &Registry, renewals: Vec<Renewal>) -> Answer {
    for renewal in renewals {
        let volume = &renewal.volume;
        let mut mounted = registry.plan.volumes.iter();
        let Some(mounted) = mounted.find(|mounted| mounted.name == volume.name) else {
            // Declared since the start, so the next start mounts it.
            continue;
        };
        if registry.generation(&volume.name) == Some(volume.generation) {
            continue;
        }
        let inside = &volume.mount.inside;
        if mounted.mount.inside != *inside {
            let (from, to) = (mounted.mount.inside.display(), inside.display());
            return Answer::Refused(format!("the volume moves from {from} to {to}"));
        }
        if inside.parent() == Some(Path::new("/")) {
            let text = format!("{} is at the top, which is sealed", inside.display());
            return Answer::Refused(text);
        }
        let caches = registry.plan.caches.iter().map(|cache| &cache.inside);
        let volumes = registry
            .plan
            .volumes
            .iter()
            .map(|other| &other.mount.inside);
        let mut others = caches.chain(volumes).filter(|other| *other != inside);
        if let Some(other) = others.find(|other| other.starts_with(inside)) {
            let text = format!("{} would hide {}", inside.display(), other.display());
            return Answer::Refused(text);
        }
        if let Err(error) = renew_one(registry, &renewal) {
            return Answer::Failed {
                errno: error.raw_os_error(),
                cause: format!("cannot begin the volume {} anew: {error}", volume.name),
            };
        }
    }
    Answer::Done
}

fn renew_one(registry: &Registry, renewal: &Renewal) -> io::Result<()> {
    let volume = &renewal.volume;
    let users = users(registry, renewal);
    let is_user = |service: &&ServiceStatus| users.iter().any(|user| user.name == service.name);
    let wish = |user: &ServiceStatus, wish| match registry.services() {
        Some(services) => services.wish(&user.name, wish),
        None => Answer::Done,
    };
    for user in &users {
        wish(user, Wish::Stop);
    }
    let all_ended = |reported: &[ServiceStatus]| {
        let mut theirs = reported.iter().filter(is_user);
        theirs.all(|service| service.pid.is_none())
    };
    let ended = registry
        .services()
        .is_none_or(|services| services.wait_until(ENDED_WITHIN, all_ended));
    let in_workspace = users.iter().filter(|user| !is_in_room(registry, user));
    for user in in_workspace {
        // Processes that the program started may end after it. A room ends with all of its processes.
        services::end_all(registry, &user.name, user.pid.unwrap_or(0), GRACE);
    }
    let renewed = if ended {
        registry.platform().mount(&volume.mount)
    } else {
        Err(io::Error::other("a service that uses it does not end"))
    };
    if renewed.is_ok() {
        registry.set_generation(&volume.name, volume.generation);
    }
    for user in &users {
        wish(user, Wish::Start);
    }
    renewed
}

/// The services that name the path, or have files there open. A stopped service stays stopped.
fn users(registry: &Registry, renewal: &Renewal) -> Vec<ServiceStatus> {
    let Some(services) = registry.services() else {
        return Vec::new();
    };
    let reported = services.snapshot().services.into_iter();
    let wanted = reported.filter(|service| service.state != State::Stopped.as_str());
    let place = &renewal.volume.mount.inside;
    let used = wanted.filter(|service| {
        let is_named = renewal.users.contains(&service.name);
        is_named || (!is_in_room(registry, service) && has_open(registry, service, place))
    });
    used.collect()
}

/// Whether its init, and not that of the workspace, knows its processes. A room shows only volumes that its service names.
fn is_in_room(registry: &Registry, service: &ServiceStatus) -> bool {
    registry.room_plan(&service.name).is_some()
}

fn has_open(registry: &Registry, service: &ServiceStatus, place: &Path) -> bool {
    let (Some(pid), Ok(path)) = (
        service.pid,
        String::from_utf8(place.as_os_str().as_bytes().to_vec()),
    ) else {
        return false;
    };
    let arguments = vec![USES.to_owned(), service.name.clone(), pid.to_string(), path];
    let Some(at) = registry.present_place() else {
        return false;
    };
    let asked = services::helper(registry, &at, arguments, Vec::new(), Domain::Shared);
    let Ok((_, mut exit)) = asked else {
        return false;
    };
    let mut code = [1];
    exit.read_exact(&mut code).is_ok() && code == [0]
}
