//! Finds out when a service is ready: a helper inside that probes, or a text in the log.

use super::image::in_shell;
use crate::inside::{ANSWER_WITHIN, COMMAND, HTTP, TCP};
use holm_core::spec::{Probe, Service};
use std::io::PipeReader;
use std::time::{Duration, Instant};

/// Between an attempt that failed and the next one: the pause doubles. Most services are ready soon.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

pub struct Probing {
    probe: Probe,
    /// Before the next attempt.
    pause: Duration,
    pub asking: Option<Asking>,
}

pub enum Asking {
    /// The process, and the pipe with its exit code.
    Now {
        pid: i32,
        exit: PipeReader,
        at: Asked,
    },
    Later(Instant),
}

/// What the process is, which decides how it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Our helper, which has a deadline itself.
    Helper,
    /// A command in the service's room.
    Room { until: Instant },
}

// === impl Probing ===

impl Probing {
    /// `None`: there is nothing to probe.
    pub fn of(service: &Service) -> Option<Self> {
        let probe = service.ready.as_ref()?.probe.clone();
        Some(Self {
            probe,
            pause: SHORTEST_PAUSE,
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
            Probe::Log { .. } | Probe::Program { .. } | Probe::Lifecycle => None,
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

    /// When the next attempt begins, or the current one has taken too long.
    pub fn wakes_at(&self) -> Option<Instant> {
        match &self.asking {
            Some(Asking::Later(time)) => Some(*time),
            Some(Asking::Now { at, .. }) => match at {
                Asked::Room { until } => Some(*until),
                Asked::Helper => None,
            },
            None => None,
        }
    }

    pub fn is_due(&self, now: Instant) -> bool {
        matches!(&self.asking, Some(Asking::Later(time)) if *time <= now)
    }

    /// The pid of a command in a room that has taken too long.
    pub fn overdue(&self, now: Instant) -> Option<i32> {
        match &self.asking {
            Some(Asking::Now { pid, at, .. }) => match at {
                Asked::Room { until } => (*until <= now).then_some(*pid),
                Asked::Helper => None,
            },
            _ => None,
        }
    }

    pub fn ask_later(&mut self) {
        self.asking = Some(Asking::Later(Instant::now() + self.pause));
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
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

// === impl Asked ===

impl Asked {
    /// For a command that starts now in a room.
    pub fn room() -> Self {
        let until = Instant::now() + ANSWER_WITHIN;
        Self::Room { until }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_in_a_room_is_overdue_at_its_deadline() {
        let probe = Probe::Log {
            text: String::new(),
        };
        let mut probing = Probing {
            probe,
            pause: SHORTEST_PAUSE,
            asking: None,
        };
        let now = Instant::now();
        assert_eq!(probing.wakes_at(), None);
        let mut ask = |at: Asked| {
            let (exit, _) = std::io::pipe().unwrap();
            let pid = 7;
            probing.asking = Some(Asking::Now { pid, exit, at });
            (probing.wakes_at(), probing.overdue(now))
        };
        assert_eq!(ask(Asked::Helper), (None, None));
        let later = now + Duration::from_secs(1);
        assert_eq!(ask(Asked::Room { until: later }), (Some(later), None));
        assert_eq!(ask(Asked::Room { until: now }), (Some(now), Some(7)));
        probing.asking = Some(Asking::Later(now));
        assert!(probing.is_due(now) && probing.overdue(now).is_none());
        let pauses = [50, 100, 200, 400, 800, 1000, 1000].map(Duration::from_millis);
        for pause in pauses {
            assert_eq!(probing.pause, pause);
            probing.ask_later();
        }
    }
}
