//! Starting one command inside for a client; [`super::relay`] goes on from there.

use super::connection::send_answer;
use super::quiet::Quiet;
use super::registry::{Registry, Started};
use super::relay::{Options, Relay, Running};
use super::secrets::Receiver;
use crate::descriptors::is_too_many;
use crate::stdio::PIPES;
use crate::wire::{Answer, Spawn};
use holm_core::exec::ExecRequest;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The source of a port that `holm.toml` names.
const DECLARED: &str = "declared";

/// Runs the command until it ends or the keeper does.
pub fn run(stream: UnixStream, registry: &Registry, exec: ExecRequest) -> io::Result<()> {
    // Registered before the command starts: its client may lose the daemon at any moment from now
    // on.
    let door = exec.key.map(|key| registry.doors.open(key)).transpose()?;
    let (exit, exit_inside) = io::pipe()?;
    let has_terminal = exec.terminal.is_some();
    let quiet = exec.quiet_ms.map(Duration::from_millis).map(Quiet::new);
    let mut added = if exec.with_env {
        registry.env()
    } else {
        Vec::new()
    };
    let receiver = exec.is_setup.then_some(Receiver::Setup);
    let given = registry.secrets.due(receiver);
    added.extend(given.variables);
    added.extend(exec.env);
    added.extend(quiet.as_ref().map(Quiet::mark));
    let spawn = Spawn {
        sequence: 0,
        argv: exec.argv,
        env: environment(
            registry,
            exec.terminal.as_ref().map(|t| t.term.as_str()),
            added,
        ),
        cwd: directory(registry, exec.cwd),
        terminal: exec.terminal.map(|terminal| (terminal.rows, terminal.cols)),
        domain: registry.secrets.domain(receiver),
        streams: (!has_terminal).then_some(PIPES),
    };
    let started = match registry.start(spawn, exit_inside) {
        // Any other error means that init is gone: the client gets an error of holm, not the exit code of a
        // command that never ran.
        Err(error) if is_too_many(&error) => Started::not(&error),
        started => started?,
    };
    let (pid, ends) = match started {
        Started::Running { pid, ends } => (pid, ends),
        Started::Not { code, cause, .. } => {
            return send_answer(&stream, &Answer::NotStarted { code, cause });
        }
    };
    registry.secrets.note_given(receiver, given.received, pid);
    let (terminal, stdin, stdout, stderr) = if has_terminal {
        let master = ends.into_iter().next().filter(is_terminal);
        let master = master.ok_or_else(|| io::Error::other(NO_TERMINAL))?;
        let (stdin, stdout) = (master.try_clone()?, master.try_clone()?);
        (Some(master), stdin, stdout, None)
    } else {
        let [stdin, stdout, stderr] = three(ends)?;
        (None, stdin, stdout, Some(stderr))
    };
    let running = Running {
        pid,
        terminal,
        stdin,
        stdout,
        stderr,
        exit,
    };
    let options = Options {
        time: exec.timeout_ms.map(Duration::from_millis),
        quiet,
        masking: exec.masking,
    };
    Relay::new(registry, stream, running, options, door)?.run()
}

/// Init did not pass the requested terminal, or the kernel did not allow it.
pub(super) const NO_TERMINAL: &str = "init passed no terminal";

/// The ends of all three streams.
pub(super) fn three(ends: Vec<OwnedFd>) -> io::Result<[OwnedFd; 3]> {
    let not_three = |_| io::Error::other("init passed other streams than it was asked for");
    ends.try_into().map_err(not_three)
}

/// Whether init really passed a terminal. Init may be under a guest's control, and reading from
/// another kind of descriptor could block forever.
pub(super) fn is_terminal(master: &OwnedFd) -> bool {
    const MASTER: (u32, u32) = (5, 2);
    rustix::fs::fstat(master).is_ok_and(|found| {
        let kind = rustix::fs::FileType::from_raw_mode(found.st_mode);
        let device = (
            rustix::fs::major(found.st_rdev),
            rustix::fs::minor(found.st_rdev),
        );
        kind == rustix::fs::FileType::CharacterDevice && device == MASTER
    })
}

/// The workspace's own environment, then what the request adds.
pub(super) fn environment(
    registry: &Registry,
    term: Option<&str>,
    added: Vec<(Vec<u8>, Vec<u8>)>,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut environment: Vec<(Vec<u8>, Vec<u8>)> = registry
        .plan
        .environment
        .iter()
        .map(|(name, value)| (name.clone().into_bytes(), value.clone().into_bytes()))
        .collect();
    environment.push((
        b"HOLM_WORKSPACE_LABEL".to_vec(),
        registry.label().into_bytes(),
    ));
    environment.extend(urls(registry));
    environment.push((b"TERM".to_vec(), term.unwrap_or("dumb").as_bytes().to_vec()));
    environment.extend(added);
    environment
}

/// `HOLM_URL_<NAME>` for every declared port with a URL.
fn urls(registry: &Registry) -> Vec<(Vec<u8>, Vec<u8>)> {
    let declared = registry.ports().into_iter();
    let declared = declared.filter(|port| port.source == DECLARED);
    let urls = declared.filter_map(|port| {
        let name = port.name.to_ascii_uppercase().replace('-', "_");
        Some((
            format!("HOLM_URL_{name}").into_bytes(),
            port.url?.into_bytes(),
        ))
    });
    urls.collect()
}

pub(super) fn directory(registry: &Registry, asked: Option<Vec<u8>>) -> Vec<u8> {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let root = &registry.plan.root;
    let path = match asked {
        Some(asked) => root.join(std::ffi::OsString::from_vec(asked)),
        None => root.clone(),
    };
    path.as_os_str().as_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attack_182_only_a_terminal_is_taken_for_one() {
        let (pipe, _) = io::pipe().unwrap();
        assert!(!is_terminal(&pipe.into()));
        for (path, expect) in [
            ("/dev/null", false),
            ("/proc/self/exe", false),
            ("/dev/ptmx", true),
        ] {
            let file = std::fs::File::open(path).unwrap();
            assert_eq!(is_terminal(&file.into()), expect, "{path}");
        }
    }
}
