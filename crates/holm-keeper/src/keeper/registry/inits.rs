//! The inits that the keeper has links to: that of the workspace, and those of rooms.

use super::Registry;
use crate::descriptors::send;
use crate::keeper::rooms::Room;
use crate::room::RoomPlan;
use crate::wire::ToInit;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::PoisonError;

/// Which init started a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InitNumber(pub u64);

/// The init that a message comes from or goes to.
#[derive(Clone, Copy)]
pub enum InitOf<'a> {
    Workspace,
    Room(&'a Room),
}

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
