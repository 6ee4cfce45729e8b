//! Starting one command inside for a client; [`super::relay`] goes on from there.

use super::place::Place;
use super::program::{NO_TERMINAL, is_terminal, three};
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

/// As a shell says that a command cannot be started.
const CANNOT_START: u8 = 126;

/// Runs the command until it ends or the keeper does.
pub fn run(stream: UnixStream, registry: &Registry, exec: ExecRequest) -> io::Result<()> {
    let place = match place(registry, &exec) {
        Ok(place) => place,
        Err(error) => {
            let (code, cause) = (CANNOT_START, error.to_string());
            return send_answer(&stream, &Answer::NotStarted { code, cause });
        }
    };
    // Registered before the command starts: its client may lose the daemon at any moment.
    let door = exec.key.map(|key| registry.doors.open(key)).transpose()?;
    let (exit, exit_inside) = io::pipe()?;
    let has_terminal = exec.terminal.is_some();
    let quiet = exec.quiet_ms.map(Duration::from_millis).map(Quiet::new);
    let declared = exec.with_env.then(|| registry.env());
    let mut added = declared.unwrap_or_default();
    let receiver = exec.is_setup.then_some(Receiver::Setup);
    let given = registry.secrets.due(receiver);
    added.extend(given.variables);
    added.extend(exec.env);
    added.extend(quiet.as_ref().map(Quiet::mark));
    let spawn = Spawn {
        sequence: 0,
        argv: if exec.attaches {
            attached(registry, &place, exec.argv)
        } else {
            exec.argv
        },
        env: place.environment(
            registry,
            exec.terminal.as_ref().map(|t| t.term.as_str()),
            added,
        ),
        cwd: place.directory(registry, exec.cwd),
        terminal: exec.terminal.map(|terminal| (terminal.rows, terminal.cols)),
        domain: registry.secrets.domain(receiver),
        streams: (!has_terminal).then_some(PIPES),
        is_run: false,
        user: place.user(),
        limits: Vec::new(),
    };
    let started = match registry.start_at(&place, spawn, exit_inside) {
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
        place,
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

/// Programs that holm runs for itself need the workspace's own root, and its git.
fn place(registry: &Registry, exec: &ExecRequest) -> io::Result<Place> {
    if exec.with_env || exec.is_setup || exec.is_at_home {
        registry.place()
    } else {
        Ok(Place::Workspace)
    }
}

/// The commands for a person who opens a shell run in its terminal, before the shell.
fn attached(registry: &Registry, place: &Place, argv: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let container = registry.plan.dev_container.as_ref();
    let script = container.and_then(|it| it.attach_script(|word| place.filled(word)));
    let Some(script) = script else {
        return argv;
    };
    let words = ["/bin/sh", "-c", &script, "sh"].map(|word| word.as_bytes().to_vec());
    words.into_iter().chain(argv).collect()
}
