//! Starting one command inside for a client; [`super::relay`] goes on from there.

use super::program::{NO_TERMINAL, directory, environment, is_terminal, three};
use super::quiet::Quiet;
use super::relay::{Options, Relay, Running};
use super::secrets::Receiver;
use super::{Registry, Started};
use crate::descriptors::is_too_many;
use crate::stdio::PIPES;
use crate::wire::{Answer, Spawn, send_answer};
use holm_core::exec::ExecRequest;
use std::io;
use std::os::unix::net::UnixStream;
use std::time::Duration;

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
        is_run: false,
        user: None,
        limits: Vec::new(),
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
