//! Helper processes inside for services, and the environments of programs.

use crate::inside::{self, MARK};
use crate::keeper::place::{Place, Variables};
use crate::keeper::{Registry, Started};
use crate::stdio::NOTHING;
use crate::wire::{Domain, Spawn};
use holm_core::spec::Service;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, PipeReader};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);
/// How often to retry ending processes.
const TRIES: usize = 5;
const PAUSE: Duration = Duration::from_millis(20);

/// The environment at a place, the service's additions, and its name, which marks its processes.
pub fn environment(registry: &Registry, place: &Place, service: &Service) -> Variables {
    let bytes = |(name, value): &(String, String)| (name.clone().into(), value.clone().into());
    let mut added: Vec<(Vec<u8>, Vec<u8>)> = service.env.iter().map(bytes).collect();
    added.push((MARK.into(), service.name.clone().into()));
    place.environment(registry, None, added)
}

/// Starts our own program inside; its exit code comes on the pipe.
pub fn helper(
    registry: &Registry,
    place: &Place,
    arguments: Vec<String>,
    env: Variables,
    domain: Domain,
) -> io::Result<(i32, PipeReader)> {
    let (exit, exit_inside) = io::pipe()?;
    let helper = registry.plan.helper.as_os_str().as_bytes().to_vec();
    let ours = [helper, inside::ROLE.as_bytes().to_vec()];
    let spawn = Spawn {
        sequence: 0,
        argv: ours
            .into_iter()
            .chain(arguments.into_iter().map(String::into_bytes))
            .collect(),
        env,
        cwd: b"/".to_vec(),
        terminal: None,
        domain,
        streams: Some(NOTHING),
        is_run: false,
        user: None,
    };
    match registry.start_behind(place, spawn, exit_inside)? {
        Started::Running { pid, .. } => Ok((pid, exit)),
        Started::Not { cause, .. } => Err(io::Error::other(cause)),
    }
}

/// A program whose processes have a mark in their environment.
pub struct Marked<'a> {
    /// Of the helper that ends them.
    pub verb: &'a str,
    pub name: &'a str,
    /// The first process.
    pub pid: i32,
}

/// Ends all processes of a run, or of a program that holm itself runs; returns whether none is
/// left. The helper is a process inside too, so it may fail to start where there are too many.
pub fn end_tree(registry: &Registry, place: &Place, program: &Marked<'_>) -> bool {
    let Marked { verb, name, pid } = *program;
    for _ in 0..TRIES {
        let argv = [verb, name, &pid.to_string(), &GRACE.as_millis().to_string()];
        let argv = argv.map(str::to_owned).to_vec();
        let env = place.environment(registry, None, Vec::new());
        match helper(registry, place, argv, env, Domain::Shared) {
            Ok((_, exit)) => {
                let mut code = [1];
                let read = rustix::io::read(&exit, &mut code);
                if read == Ok(1) && code[0] == 0 {
                    return true;
                }
            }
            Err(error) => complain!("{name} cannot be ended: {error}"),
        }
        if registry.has_ended() {
            return true;
        }
        std::thread::sleep(PAUSE);
    }
    registry.signal_at(place, pid, libc::SIGKILL);
    false
}

/// The peer sends nothing on this connection, so readable means closed.
pub fn has_hung_up(stream: &UnixStream) -> bool {
    let mut sources = [PollFd::new(stream, PollFlags::IN)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    matches!(poll(&mut sources, Some(&now)), Ok(1..))
}
