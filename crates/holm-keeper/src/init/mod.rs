//! PID 1 inside, and the first process of a room. Single-threaded and small: starts programs that the keeper requests with the
//! descriptors it passes, reaps, reports exits. It has no more rights than the agent.

mod spawn;

use crate::descriptors::{receive, send};
use crate::platform::{System, read_signals};
use crate::process::{Children, reap};
use crate::wire::{FromInit, ToInit, VERSION};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

/// The role; the argument is the number of the link's descriptor. Ends, and with PID 1 the whole workspace,
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
                ToInit::SignalOne { pid, signal } => drop(system.signal_one(pid, signal)),
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
        // The keeper knows which processes it requested.
        let left = reap(|pid, code| send(link, &FromInit::Exited { pid, code }, &[]))?;
        if left == Children::None && terminating {
            send(link, &FromInit::Empty, &[])?;
            terminating = false;
        }
    }
}
