//! How a run finds out that its service is ready: a process inside that asks until it is, or a text
//! in the log.

use crate::inside::{COMMAND, HTTP, TCP};
use holm_engine::spec::{Probe, Service};
use std::io::PipeReader;
use std::time::{Duration, Instant};

/// A process that asked and was ended from outside is started again after this.
const AGAIN: Duration = Duration::from_secs(1);

pub struct Probing {
    probe: Probe,
    pub asking: Option<Asking>,
}

pub enum Asking {
    /// The process, and where its exit code comes.
    Now {
        pid: i32,
        exit: PipeReader,
    },
    Later(Instant),
}

// === impl Probing ===

impl Probing {
    /// `None`: there is nothing to find out.
    pub fn of(service: &Service) -> Option<Self> {
        let probe = service.ready.as_ref()?.probe.clone();
        Some(Self {
            probe,
            asking: None,
        })
    }

    /// The arguments of the process that asks.
    pub fn question(&self) -> Option<Vec<String>> {
        match &self.probe {
            Probe::Http { path, port } => {
                Some(vec![HTTP.to_owned(), port.to_string(), path.clone()])
            }
            Probe::Tcp { port } => Some(vec![TCP.to_owned(), port.to_string()]),
            Probe::Command { command } => Some(vec![COMMAND.to_owned(), command.clone()]),
            Probe::Log { .. } => None,
        }
    }

    /// The text that is waited for.
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

    /// What the process that asked found. One that did not get to the end is asked again.
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
