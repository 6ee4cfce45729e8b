//! The first process of a run: it starts the command and adopts orphans (child subreaper), so that
//! the whole process tree of a run can be found and ended, however its processes detached
//! themselves and whatever they did to their environment. It is a fork of init that executes
//! nothing: a program of its own would delay each run by half a millisecond.
//!
//! It exits with the command and its code; background processes go to init and live on. After
//! SIGTERM it stays until nothing is left below it.

use crate::platform::{System, read_signals};
use crate::process::{Children, reap};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, getpid, set_child_subreaper, set_dumpable_behavior};
use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

const CANNOT_EXECUTE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// The command of a run.
pub struct HeldRun {
    pub argv: Vec<OsString>,
    /// All of its environment.
    pub env: Vec<(OsString, OsString)>,
}

// === impl HeldRun ===

impl HeldRun {
    /// Runs the command to its end in this process, and returns its code.
    pub fn to_end(&self, system: &dyn System) -> u8 {
        match self.try_to_end(system) {
            Ok(code) => code,
            Err(error) => {
                eprintln!("holm: {error}");
                CANNOT_EXECUTE
            }
        }
    }

    fn try_to_end(&self, system: &dyn System) -> io::Result<u8> {
        set_child_subreaper(Some(getpid()))?;
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        let signals = system.signals(&[libc::SIGCHLD, libc::SIGTERM])?;
        let Some((program, arguments)) = self.argv.split_first() else {
            return Ok(NOT_FOUND);
        };
        let mut command = Command::new(program);
        // In its own process group: signals to that group do not reach this process.
        command.args(arguments).process_group(0);
        // This process was not executed, so it has the environment of init.
        let variables = self.env.iter().map(|(name, value)| (name, value));
        command.env_clear().envs(variables);
        system.reset_signals(&mut command);
        let child = match command.spawn() {
            Ok(child) => child.id() as i32,
            Err(error) => {
                let program = program.to_string_lossy();
                let (code, why) = match error.kind() {
                    io::ErrorKind::NotFound => (NOT_FOUND, "command not found".to_owned()),
                    _ => (CANNOT_EXECUTE, error.to_string()),
                };
                eprintln!("holm: {program}: {why}");
                return Ok(code);
            }
        };
        close_streams();
        let (mut code, mut is_ending) = (None, false);
        loop {
            match poll(&mut [PollFd::new(&signals, PollFlags::IN)], None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            is_ending |= read_signals(signals.as_fd())?.contains(&libc::SIGTERM);
            let left = reap(|pid, ended| {
                if pid == child {
                    code = Some(ended);
                }
                Ok(())
            })?;
            match (code, left) {
                (Some(code), Children::None) => return Ok(code),
                (Some(code), Children::Some) if !is_ending => return Ok(code),
                (None, Children::None) => return Ok(CANNOT_EXECUTE),
                _ => {}
            }
        }
    }
}

/// Only the command has the streams, so that they end with it.
fn close_streams() {
    let Ok(null) = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
    else {
        return;
    };
    let _ = rustix::stdio::dup2_stdin(&null);
    let _ = rustix::stdio::dup2_stdout(&null);
    let _ = rustix::stdio::dup2_stderr(&null);
}
