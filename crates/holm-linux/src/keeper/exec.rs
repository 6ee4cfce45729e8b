//! Starting one command inside for a client; [`super::session`] goes on from there.

use super::connection::say;
use super::registry::{Registry, Started};
use super::session::{Running, Session};
use crate::wire::{Answer, Exec, Spawn};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The source of a port that `holm.toml` names.
const DECLARED: &str = "declared";

/// Runs the command until it ends or the keeper does.
pub fn run(stream: UnixStream, registry: &Registry, exec: Exec) -> io::Result<()> {
    // Open before the command begins: its client may lose the daemon at any moment from now on.
    let door = exec.key.map(|key| registry.doors.open(key)).transpose()?;
    let (exit, exit_inside) = io::pipe()?;
    let spawn = Spawn {
        sequence: 0,
        argv: exec.argv,
        env: environment(
            registry,
            exec.terminal.as_ref().map(|t| t.term.as_str()),
            exec.env,
        ),
        cwd: directory(registry, exec.cwd),
        terminal: exec.terminal.map(|terminal| (terminal.rows, terminal.cols)),
        domain: registry.secrets.domain(None),
    };
    let (started, stdio) = if spawn.terminal.is_some() {
        (registry.start(spawn, &[], exit_inside)?, None)
    } else {
        let (stdin, ours_in) = io::pipe()?;
        let (ours_out, stdout) = io::pipe()?;
        let (ours_err, stderr) = io::pipe()?;
        let theirs = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
        let started = registry.start(spawn, &theirs, exit_inside)?;
        (
            started,
            Some((ours_in.into(), ours_out.into(), ours_err.into())),
        )
    };
    let (pid, terminal) = match started {
        Started::Running { pid, terminal } => (pid, terminal.filter(is_terminal)),
        Started::Not { code, cause } => return say(&stream, &Answer::NotStarted { code, cause }),
    };
    let (stdin, stdout, stderr) = match (stdio, &terminal) {
        (Some((stdin, stdout, stderr)), _) => (stdin, stdout, Some(stderr)),
        (None, Some(master)) => (master.try_clone()?, master.try_clone()?, None),
        (None, None) => return Err(io::Error::other("init passed no terminal")),
    };
    let running = Running {
        pid,
        terminal,
        stdin,
        stdout,
        stderr,
        exit,
    };
    let time = exec.timeout_ms.map(Duration::from_millis);
    Session::new(registry, stream, running, (time, exec.masking), door)?.run()
}

/// Whether init passed what it was asked for. It may be anybody's by now, and what is read from
/// something else may never come.
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

/// `HOLM_URL_<NAME>` of every declared port that has a URL.
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
