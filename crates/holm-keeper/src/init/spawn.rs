//! Starts one program, with pipes from the keeper or with a terminal of this workspace.

use crate::descriptors::{Left, send, send_or_leave};
use crate::inside::HeldRun;
use crate::platform::{System, Terminal};
use crate::stdio;
use crate::wire::{FromInit, Spawn};
use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, accessat, open};
use rustix::io::Errno;
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// As in a shell.
const CANNOT_EXECUTE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Why no program was started; see [`FromInit::NotSpawned`].
struct Refusal {
    code: u8,
    cause: String,
    directory: Option<i32>,
}

pub fn spawn(
    link: &UnixStream,
    spawn: Spawn,
    descriptors: Vec<OwnedFd>,
    system: &dyn System,
) -> io::Result<()> {
    let sequence = spawn.sequence;
    match start(spawn, descriptors, system) {
        Ok((pid, ends)) => {
            let spawned = FromInit::Spawned { sequence, pid };
            send_or_leave(link, spawned, ends, Left::InInit)
        }
        Err(Refusal {
            code,
            cause,
            directory,
        }) => {
            let refused = FromInit::NotSpawned {
                sequence,
                code,
                cause,
                directory,
            };
            send(link, &refused, &[])
        }
    }
}

/// Returns the process, and the keeper's ends of its streams.
fn start(
    spawn: Spawn,
    descriptors: Vec<OwnedFd>,
    system: &dyn System,
) -> Result<(i32, Vec<OwnedFd>), Refusal> {
    let refused = |code, cause| Refusal {
        code,
        cause,
        directory: None,
    };
    let cannot = |error: io::Error| refused(CANNOT_EXECUTE, error.to_string());
    let argv: Vec<_> = spawn.argv.into_iter().map(OsString::from_vec).collect();
    let env = spawn.env.into_iter();
    let env: Vec<_> = env
        .map(|(name, value)| (OsString::from_vec(name), OsString::from_vec(value)))
        .collect();
    let Some((program, arguments)) = argv.split_first() else {
        return Err(refused(NOT_FOUND, "no command".to_owned()));
    };
    let directory = PathBuf::from(OsString::from_vec(spawn.cwd));
    if let Err(error) = require_enterable(&directory) {
        return Err(Refusal {
            code: CANNOT_EXECUTE,
            cause: format!("cannot go to {}: {error}", directory.display()),
            directory: Some(error.raw_os_error()),
        });
    }
    let shown = program.to_string_lossy().into_owned();
    let mut command = Command::new(program);
    command.args(arguments).current_dir(directory).env_clear();
    command.envs(env.iter().map(|(name, value)| (name, value)));
    let (terminal, ends) = match spawn.terminal {
        Some((rows, cols)) => {
            let (master, slave) = open_terminal(rows, cols).map_err(cannot)?;
            let copy = || slave.try_clone().map(Stdio::from).map_err(cannot);
            command.stdin(copy()?).stdout(copy()?).stderr(copy()?);
            (Terminal::Controlling, vec![master])
        }
        None => {
            let (theirs, ends) = match spawn.streams {
                Some(streams) => {
                    let made = stdio::make(streams).map_err(cannot)?;
                    (made.theirs, made.ours)
                }
                None => (descriptors, Vec::new()),
            };
            let [stdin, stdout, stderr]: [OwnedFd; 3] = theirs
                .try_into()
                .map_err(|_| refused(CANNOT_EXECUTE, "no descriptors".to_owned()))?;
            command.stdin(stdin).stdout(stdout).stderr(stderr);
            (Terminal::None, ends)
        }
    };
    let prepared = system.prepare(&mut command, terminal, spawn.domain);
    prepared.map_err(cannot)?;
    if let Some(user) = spawn.user {
        system.become_user(&mut command, user);
    }
    if spawn.is_run {
        // Last, because nothing after it is called.
        let run = HeldRun { argv, env };
        let work = Box::new(move |system: &dyn System| run.to_end(system));
        system.instead_of_executing(&mut command, work);
    }
    match command.spawn() {
        // Init reaps every child itself, so this handle is not waited on.
        Ok(child) => Ok((child.id() as i32, ends)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(refused(NOT_FOUND, format!("{shown}: command not found")))
        }
        Err(error) => Err(refused(CANNOT_EXECUTE, format!("{shown}: {error}"))),
    }
}

/// Whether a program can be started in the directory, which need not be readable.
fn require_enterable(directory: &Path) -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    drop(open(directory, flags, Mode::empty())?);
    accessat(CWD, directory, Access::EXEC_OK, AtFlags::EACCESS)
}

/// A terminal of this workspace's own devpts: a terminal of the host would not be a tty inside.
fn open_terminal(rows: u16, cols: u16) -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags)?;
    unlockpt(&master)?;
    let terminal = ioctl_tiocgptpeer(&master, flags)?;
    tcsetwinsize(
        &master,
        Winsize {
            ws_row: rows,
            ws_col: cols,
            ws_xpixel: 0,
            ws_ypixel: 0,
        },
    )?;
    Ok((master, terminal))
}
