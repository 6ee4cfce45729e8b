//! PID 1 inside. Single-threaded and small: starts programs that the keeper requests with the
//! descriptors it passes, reaps, reports exits. It has no more rights than the agent.

mod spawn;

use crate::descriptors::{receive, send};
use crate::platform::{System, read_signals};
use crate::wire::{FromInit, ToInit, VERSION};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, WaitOptions, WaitStatus, set_dumpable_behavior, wait};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

/// The role; the argument is the number of the link's descriptor. Ends, and with it the whole workspace,
/// when the keeper is gone.
pub fn main(link_number: &[u8], system: &dyn System) -> ! {
    let number = std::str::from_utf8(link_number)
        .ok()
        .and_then(|text| text.parse().ok());
    let Some(number) = number else {
        std::process::exit(2)
    };
    let link = UnixStream::from(system.inherited(number));
    std::process::exit(i32::from(run(&link, system).is_err()))
}

fn run(link: &UnixStream, system: &dyn System) -> io::Result<()> {
    // Others of the same user cannot trace this process or read its memory and environment.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    system.raise_limits();
    rustix::io::fcntl_setfd(link, rustix::io::FdFlags::CLOEXEC)?;
    let children = system.signals(&[libc::SIGCHLD])?;
    send(link, &FromInit::Hello { version: VERSION }, &[])?;
    let mut terminating = false;
    loop {
        let mut sources = [
            PollFd::new(link, PollFlags::IN),
            PollFd::new(&children, PollFlags::IN),
        ];
        match poll(&mut sources, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let [asked, ended] = sources.map(|source| !source.revents().is_empty());
        if asked {
            let Some((message, descriptors)) = receive::<ToInit>(link)? else {
                return Ok(());
            };
            match message {
                ToInit::Spawn(spawn) => spawn::spawn(link, spawn, descriptors, system)?,
                // It may have ended meanwhile; its exit is reported anyway.
                ToInit::Signal { pid, signal } => drop(system.signal_group(pid, signal)),
                ToInit::Close { numbers } => {
                    let left = numbers.into_iter().map(|number| system.inherited(number));
                    left.for_each(drop);
                }
                ToInit::Terminate => {
                    terminating = true;
                    // An error means that no process is left.
                    let _ = system.signal_all(libc::SIGTERM);
                }
            }
        }
        if ended {
            // The descriptor only wakes; several exits may have become one signal.
            let _ = read_signals(children.as_fd());
        }
        if reap(link)? == Left::Nobody && terminating {
            send(link, &FromInit::Empty, &[])?;
            terminating = false;
        }
    }
}

/// Whether init still has children.
#[derive(PartialEq, Eq)]
enum Left {
    Nobody,
    Somebody,
}

/// Reports every child that ended. Orphans are reaped too; the keeper knows which processes it
/// requested.
fn reap(link: &UnixStream) -> io::Result<Left> {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => {
                let pid = pid.as_raw_nonzero().get();
                send(
                    link,
                    &FromInit::Exited {
                        pid,
                        code: shell_code(status),
                    },
                    &[],
                )?;
            }
            Ok(None) => return Ok(Left::Somebody),
            Err(Errno::CHILD) => return Ok(Left::Nobody),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The exit code as in a shell.
fn shell_code(status: WaitStatus) -> u8 {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => 128u8.saturating_add(signal as u8),
        (None, None) => 255,
    }
}
