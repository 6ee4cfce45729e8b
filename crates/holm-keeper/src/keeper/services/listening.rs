//! Notices that a ready service stopped listening: a file watcher survives the crash of the program that it
//! restarts. Called with the ports that [`watch`](super::super::watch) looks at for the daemon anyway.

use super::{Message, Services, Supervisor};
use holm_core::service::Event;
use holm_core::spec::{Probe, Service};
use std::time::Duration;

/// The ports that ready services were probed on, and those of services that were ready in this run.
#[derive(Default)]
pub struct Guarded {
    ready: Vec<u16>,
    lost: Vec<u16>,
    /// Ports of ready services that the last look did not find. One look is not enough, because it may be
    /// older than the successful probe.
    missed: Vec<u16>,
}

// === impl Guarded ===

impl Guarded {
    pub fn set(&mut self, fresh: Self) {
        self.missed.retain(|port| fresh.ready.contains(port));
        (self.ready, self.lost) = (fresh.ready, fresh.lost);
    }

    /// Whether the state of a service has to change.
    fn differs(&mut self, listening: &[u16]) -> bool {
        let is_silent = |port: &&u16| !listening.contains(port);
        let missed: Vec<u16> = self.ready.iter().filter(is_silent).copied().collect();
        let is_silent_again = missed.iter().any(|port| self.missed.contains(port));
        self.missed = missed;
        is_silent_again || self.lost.iter().any(|port| listening.contains(port))
    }
}

// === impl Services ===

impl Services {
    /// Compares the services with the ports that are listened on now.
    pub fn compare(&self, listening: &[u16]) {
        if self.state().guarded.differs(listening) {
            // Fails only without a supervisor.
            let _ = self.messages.send(Message::Listening(listening.to_vec()));
        }
    }
}

// === impl Supervisor ===

impl Supervisor {
    pub(super) fn guarded(&self) -> Guarded {
        let mut guarded = Guarded::default();
        for (index, current) in self.runs.iter().enumerate() {
            let (life, port) = (self.graph.life(index), self.probed_port(&current.service));
            guarded.ready.extend(port.filter(|_| life.is_ready()));
            guarded.lost.extend(port.filter(|_| life.is_lost()));
        }
        guarded
    }

    pub(super) fn compare(&mut self, listening: &[u16], now: Duration) {
        for index in 0..self.runs.len() {
            let Some(port) = self.probed_port(&self.runs[index].service) else {
                continue;
            };
            let life = self.graph.life(index);
            if !listening.contains(&port) {
                self.graph.handle(index, Event::Silent { port }, now);
            } else if life.is_lost() {
                self.graph.handle(index, Event::Probed, now);
            }
        }
    }

    /// The keeper itself listens on the ports of `[shared]`, which say nothing about programs.
    fn probed_port(&self, service: &Service) -> Option<u16> {
        let port = match service.ready.as_ref()?.probe {
            Probe::Http { port, .. } | Probe::Tcp { port } => port,
            Probe::Log { .. }
            | Probe::Command { .. }
            | Probe::Program { .. }
            | Probe::Lifecycle => return None,
        };
        let mut shared = self.registry.plan.network.shared.iter();
        shared.all(|shared| shared.port != port).then_some(port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_looks_show_that_a_port_is_silent_and_one_that_it_is_back() {
        let of = |ready: &[u16], lost: &[u16]| Guarded {
            ready: ready.to_vec(),
            lost: lost.to_vec(),
            missed: Vec::new(),
        };
        let mut guarded = of(&[3000], &[]);
        assert!(!guarded.differs(&[3000]));
        assert!(!guarded.differs(&[]), "it may be older than the probe");
        assert!(!guarded.differs(&[3000, 4000]));
        assert!(!guarded.differs(&[4000]));
        assert!(guarded.differs(&[4000]));
        guarded.set(of(&[], &[3000]));
        assert!(!guarded.differs(&[4000]));
        assert!(guarded.differs(&[3000]));
    }
}
