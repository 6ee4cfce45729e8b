//! Finds out when a service is ready: a helper inside that probes, or a text in the log.

use super::image::in_shell;
use crate::inside::{COMMAND, HTTP, TCP};
use holm_core::spec::{Probe, Service};
use std::io::PipeReader;
use std::time::{Duration, Instant};

/// A probe that was killed is started again after this.
const AGAIN: Duration = Duration::from_secs(1);

pub struct Probing {
    probe: Probe,
    pub asking: Option<Asking>,
}

pub enum Asking {
    /// The process, and the pipe with its exit code.
    Now {
        pid: i32,
        exit: PipeReader,
    },
    Later(Instant),
}

// === impl Probing ===

impl Probing {
    /// `None`: there is nothing to probe.
    pub fn of(service: &Service) -> Option<Self> {
        let probe = service.ready.as_ref()?.probe.clone();
        Some(Self {
            probe,
            asking: None,
        })
    }

    /// The arguments of the helper.
    pub fn question(&self) -> Option<Vec<String>> {
        match &self.probe {
            Probe::Http { path, port } => {
                Some(vec![HTTP.to_owned(), port.to_string(), path.clone()])
            }
            Probe::Tcp { port } => Some(vec![TCP.to_owned(), port.to_string()]),
            Probe::Command { command } => Some(vec![COMMAND.to_owned(), command.clone()]),
            Probe::Log { .. } | Probe::Program { .. } => None,
        }
    }

    /// The program that a service with a root of its own runs there.
    pub fn program(&self) -> Option<Vec<String>> {
        match &self.probe {
            Probe::Command { command } => Some(in_shell(command)),
            Probe::Program { argv } => Some(argv.clone()),
            _ => None,
        }
    }

    /// The text to wait for.
    pub fn text(&self) -> Option<&str> {
        match &self.probe {
            Probe::Log { text } => Some(text),
            _ => None,
        }
    }

    pub fn is_due(&mut self) -> bool {
        match &self.asking {
            Some(Asking::Later(time)) => *time <= Instant::now(),
            _ => false,
        }
    }

    pub fn ask_later(&mut self) {
        self.asking = Some(Asking::Later(Instant::now() + AGAIN));
    }

    /// The result of the helper. An unfinished one is started again.
    pub fn has_succeeded(&mut self) -> bool {
        let Some(Asking::Now { exit, .. }) = &self.asking else {
            return false;
        };
        let mut code = [0];
        let is_good = rustix::io::read(exit, &mut code) == Ok(1) && code[0] == 0;
        if !is_good {
            self.ask_later();
        }
        is_good
    }
}
