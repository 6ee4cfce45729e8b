//! The inits that the keeper has links to: that of the workspace, and those of rooms.

use super::{InitNumber, InitOf, KILLED, Registry, Running, Started, Starting, State};
use crate::descriptors::send;
use crate::room::RoomPlan;
use crate::wire::{FromInit, ToInit};
use std::io::{self, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::PoisonError;

// === impl Registry ===

impl Registry {
    /// The plan of a service's room; `None`: the service runs in the workspace itself.
    pub fn room_plan(&self, service: &str) -> Option<RoomPlan> {
        let mut rooms = self.plan.rooms.iter();
        rooms.find(|room| room.service == service).cloned()
    }

    pub(super) fn send_to(
        &self,
        init: InitOf<'_>,
        message: &ToInit,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        match init {
            InitOf::Workspace => {
                let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
                send(&writer, message, descriptors)
            }
            InitOf::Room(room) => room.send(message, descriptors),
        }
    }

    /// Handles one message of an init. Invalid ones are dropped.
    pub fn handle(&self, from: InitOf<'_>, message: FromInit, descriptors: Vec<OwnedFd>) {
        let (message, descriptors) = match message {
            FromInit::Left { numbers, message } => self.take_left(from, numbers, *message),
            message => (message, descriptors),
        };
        let by = from.number();
        let mut state = self.state();
        let ends = matches!(
            message,
            FromInit::NotSpawned { .. } | FromInit::Exited { .. }
        );
        match message {
            FromInit::Hello { .. }
            | FromInit::Left { .. }
            | FromInit::Renames
            | FromInit::Doorway(_)
            | FromInit::SecretFiles => {}
            FromInit::Spawned { sequence, pid } => {
                if let Some(starting) = state.take_starting(by, sequence) {
                    let running = Running {
                        exit: starting.exit,
                        purpose: starting.purpose,
                        has_terminal: starting.has_terminal,
                    };
                    state.running.insert((by, pid), running);
                    let ends = descriptors;
                    let _ = starting.reply.send(Started::Running { pid, ends });
                }
            }
            FromInit::NotSpawned {
                sequence,
                code,
                cause,
                directory,
            } => {
                if let Some(starting) = state.take_starting(by, sequence) {
                    let _ = starting.reply.send(Started::Not {
                        code,
                        cause,
                        directory,
                    });
                }
            }
            FromInit::Exited { pid, code } => {
                if code == KILLED {
                    // Perhaps an OOM kill, which is logged.
                    self.memory_kills.update_count();
                    self.watchers.wake();
                }
                if let Some(mut running) = state.running.remove(&(by, pid)) {
                    let _ = running.exit.write_all(&[code]);
                    if let InitOf::Room(_) = from {
                        self.changed.notify_all();
                    }
                }
            }
            // No room is asked to terminate.
            FromInit::Empty if by != InitNumber::WORKSPACE => {}
            FromInit::Empty => {
                state.empty = true;
                self.changed.notify_all();
            }
        }
        if ends && state.starting.is_empty() && state.running.is_empty() {
            self.activity.end_if_alone(self.init.pid);
        }
    }
}

// === impl State ===

impl State {
    /// The start that waits for this answer of this init.
    fn take_starting(&mut self, by: InitNumber, sequence: u64) -> Option<Starting> {
        let is_its = self
            .starting
            .get(&sequence)
            .is_some_and(|start| start.by == by);
        is_its.then(|| self.starting.remove(&sequence)).flatten()
    }
}

// === impl InitNumber ===

impl InitNumber {
    pub const WORKSPACE: Self = Self(0);
}

// === impl InitOf ===

impl InitOf<'_> {
    pub(super) fn number(self) -> InitNumber {
        match self {
            Self::Workspace => InitNumber::WORKSPACE,
            Self::Room(room) => room.number(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Purpose;
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn attack_202_an_init_answers_only_for_starts_that_were_asked_of_it() {
        let (reply, _answer) = mpsc::channel();
        let (_exit, exit) = std::io::pipe().unwrap();
        let starting = Starting {
            by: InitNumber::WORKSPACE,
            reply,
            exit,
            purpose: Purpose::Command,
            has_terminal: false,
        };
        let mut state = State::default();
        state.starting.insert(7, starting);
        assert!(state.take_starting(InitNumber(1), 7).is_none());
        assert!(state.take_starting(InitNumber::WORKSPACE, 8).is_none());
        assert!(state.take_starting(InitNumber::WORKSPACE, 7).is_some());
        assert!(state.starting.is_empty());
    }
}
