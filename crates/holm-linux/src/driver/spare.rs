//! Keeper processes: the one that a launch talks to, and one spare that already runs and waits for its plan.
//!
//! Starting a program takes longer than handing it a plan. After each launch the driver therefore starts the next
//! keeper. A spare belongs to no workspace: it has read nothing, holds no lock, and ends when its stdin closes, which
//! also happens when the daemon dies.

use crate::keeper;
use crate::programs::Programs;
use holm_keeper::process::read_proc;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use tokio::process::{Child, Command};

/// At most one spare.
#[derive(Default)]
pub struct Spare(Mutex<Option<Waiting>>);

struct Waiting {
    child: Child,
    inherited: Inherited,
}

/// What a keeper has from the moment of its start. A spare that has something else than a new keeper would have is
/// not used.
#[derive(PartialEq, Eq)]
struct Inherited {
    /// Device and inode.
    program: (u64, u64),
    limits: Vec<u8>,
    groups: Vec<u8>,
}

// === impl Spare ===

impl Spare {
    /// A keeper that waits for its plan: the spare, or a new one.
    pub fn take(&self, programs: &Programs) -> io::Result<Child> {
        let waiting = self.lock().take();
        if let Some(Waiting {
            mut child,
            inherited,
        }) = waiting
        {
            let is_alive = matches!(child.try_wait(), Ok(None));
            if is_alive && Inherited::now(programs.roles()).is_ok_and(|now| now == inherited) {
                return Ok(child);
            }
            // Dropping the child closes its stdin, which ends it.
        }
        start(programs)
    }

    /// Starts the next spare if there is none. Without a spare the next launch takes a little longer.
    pub fn refill(&self, programs: &Programs) {
        let mut waiting = self.lock();
        if waiting.is_some() {
            return;
        }
        let made = Inherited::now(programs.roles()).and_then(|inherited| {
            Ok(Waiting {
                child: start(programs)?,
                inherited,
            })
        });
        match made {
            Ok(made) => *waiting = Some(made),
            Err(error) => tracing::warn!(%error, "cannot start a spare keeper"),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Inherited ===

impl Inherited {
    fn now(program: &Path) -> io::Result<Self> {
        let metadata = std::fs::metadata(program)?;
        Ok(Self {
            program: (metadata.dev(), metadata.ino()),
            limits: read_proc("/proc/self/limits")?,
            groups: read_proc("/proc/self/cgroup")?,
        })
    }
}

fn start(programs: &Programs) -> io::Result<Child> {
    Command::from(keeper::command(programs.roles())).spawn()
}
