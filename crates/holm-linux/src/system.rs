//! The system calls that init and the first process of a run make by way of [`crate::sys`].

use crate::domain;
use crate::open_files;
use crate::sys;
use holm_core::image_users::User;
use holm_keeper::platform::{System, Terminal, Work};
use holm_keeper::wire::Domain;
use std::io;
use std::os::fd::OwnedFd;
use std::process::Command;

pub struct Kernel;

impl System for Kernel {
    fn inherited(&self, number: i32) -> OwnedFd {
        sys::process::inherited(number)
    }

    fn raise_limits(&self) {
        open_files::raise();
    }

    fn signals(&self, signals: &[i32]) -> io::Result<OwnedFd> {
        sys::signal::descriptor(signals)
    }

    fn signal_all(&self, signal: i32) -> io::Result<()> {
        sys::signal::everyone(signal)
    }

    fn signal_group(&self, leader: i32, signal: i32) -> io::Result<()> {
        sys::signal::group(leader, signal)
    }

    fn signal_one(&self, pid: i32, signal: i32) -> io::Result<()> {
        sys::signal::one(pid, signal)
    }

    fn reset_signals(&self, command: &mut Command) {
        sys::command::with_default_signals(command);
    }

    fn prepare(&self, command: &mut Command, terminal: Terminal, domain: Domain) -> io::Result<()> {
        sys::command::in_own_session(command, terminal);
        open_files::as_inherited(command);
        if let Some(rules) = domain::rules(domain)? {
            sys::command::restricted(command, rules);
        }
        Ok(())
    }

    fn become_user(&self, command: &mut Command, user: User) {
        sys::command::as_user(command, user);
    }

    fn instead_of_executing(&self, command: &mut Command, work: Work) {
        sys::command::instead_of_executing(command, move || work(&Kernel));
    }
}
