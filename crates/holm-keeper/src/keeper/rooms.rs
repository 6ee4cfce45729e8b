//! The rooms of the workspace's services: one per running service of an image. A room is made for each run of its
//! service and ends with it, so it always shows the volumes and secrets of that moment. Its files stay.
//!
//! Each room has a thread, which is the parent of the room's init: it hears from that init until the end, and reaps it.
//! Messages of a room are hostile, like those of the workspace's init.

use super::link::{receive_hello, receive_message};
use super::{InitNumber, InitOf, Registry};
use crate::descriptors::send;
use crate::room::{RoomInit, RoomPlan};
use crate::wire::ToInit;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};
use std::collections::BTreeMap;
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// For the kernel to end killed processes, or to finish their writes.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(2);
const STACK: usize = 256 * 1024;

/// The open rooms, by the name of their service.
pub struct Rooms {
    open: Mutex<BTreeMap<String, Arc<Room>>>,
    /// The number of the next room's init.
    next: AtomicU64,
}

pub struct Room {
    init: RoomInit,
    number: InitNumber,
    writer: Mutex<UnixStream>,
    has_ended: Mutex<bool>,
    ended: Condvar,
}

// === impl Rooms ===

impl Default for Rooms {
    fn default() -> Self {
        Self {
            open: Mutex::default(),
            next: AtomicU64::new(InitNumber::WORKSPACE.0 + 1),
        }
    }
}

impl Rooms {
    /// The room of a service, while it is open.
    pub fn find(&self, service: &str) -> Option<Arc<Room>> {
        self.open().get(service).cloned()
    }

    /// Stops every process in every room. The keeper lets no program start meanwhile.
    pub fn hold(&self, registry: &Registry) -> io::Result<()> {
        let open: Vec<_> = self.open().values().cloned().collect();
        open.iter()
            .try_for_each(|room| room.settle(registry, Signal::STOP))
    }

    /// Continues them.
    pub fn release(&self, registry: &Registry) {
        let open: Vec<_> = self.open().values().cloned().collect();
        for room in open {
            if let Err(error) = registry.platform().signal_room(&room.init, Signal::CONT) {
                complain!("a room cannot be continued: {error}");
            }
        }
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Room>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Room ===

impl Room {
    /// Makes the room of a service and starts its init.
    pub fn open(
        registry: &Arc<Registry>,
        plan: RoomPlan,
        secrets: Vec<String>,
    ) -> io::Result<Arc<Self>> {
        let (reply, made) = mpsc::channel();
        let registry = Arc::clone(registry);
        let thread = std::thread::Builder::new().stack_size(STACK);
        thread.spawn(move || match Self::make(&registry, &plan, &secrets) {
            Ok(room) => {
                let room = Arc::new(room);
                let before = registry
                    .rooms
                    .open()
                    .insert(plan.service.clone(), Arc::clone(&room));
                debug_assert!(before.is_none(), "a service has one room");
                // The run that waits for it lives as long as this process.
                let _ = reply.send(Ok(Arc::clone(&room)));
                room.serve(&registry);
                room.finish(&registry);
                registry.rooms.open().remove(&plan.service);
                *room.has_ended() = true;
                room.ended.notify_all();
            }
            Err(error) => drop(reply.send(Err(error))),
        })?;
        let ended = || io::Error::other("the keeper's thread of the room ended");
        made.recv().unwrap_or_else(|_| Err(ended()))
    }

    fn make(registry: &Registry, plan: &RoomPlan, secrets: &[String]) -> io::Result<Self> {
        let platform = registry.platform();
        let init = platform.make_room(plan, secrets)?;
        let take = |numbers: &[i32]| platform.take_descriptors(init.pidfd.as_fd(), numbers);
        if let Err(error) = receive_hello(&init.link, take) {
            reap(&init);
            return Err(error);
        }
        let writer = match init.link.try_clone() {
            Ok(writer) => writer,
            Err(error) => {
                reap(&init);
                return Err(error);
            }
        };
        Ok(Self {
            number: InitNumber(registry.rooms.next.fetch_add(1, Ordering::Relaxed)),
            init,
            writer: Mutex::new(writer),
            has_ended: Mutex::new(false),
            ended: Condvar::new(),
        })
    }

    /// Hears from the room's init until one of both closes the link, or the init breaks the protocol.
    fn serve(&self, registry: &Registry) {
        let link = &self.init.link;
        loop {
            match poll(&mut [PollFd::new(link, PollFlags::IN)], None) {
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(_) => return,
            }
            match receive_message(registry, link) {
                Ok((message, descriptors)) => {
                    registry.handle(InitOf::Room(self), message, descriptors);
                }
                Err(_) => return,
            }
        }
    }

    /// Nothing of the room is left afterwards, unless the kernel cannot end it.
    fn finish(&self, registry: &Registry) {
        reap(&self.init);
        if let Err(error) = self.settle(registry, Signal::KILL) {
            complain!("programs of a room do not end: {error}");
        }
        registry.end_init(self.number);
    }

    /// Kills every process of the room, then ends it. Returns when that is done.
    pub fn end(&self, registry: &Registry) {
        if let Err(error) = self.settle(registry, Signal::KILL) {
            complain!("programs of a room do not end: {error}");
        }
        // Its init ends when the link closes.
        let _ = self.init.link.shutdown(Shutdown::Both);
        let is_open = |has_ended: &mut bool| !*has_ended;
        let waited = self
            .ended
            .wait_timeout_while(self.has_ended(), PATIENCE, is_open);
        drop(waited);
    }

    /// Sends a signal to all processes of the room but its init until none of them needs it any more.
    fn settle(&self, registry: &Registry, signal: Signal) -> io::Result<()> {
        let begun = Instant::now();
        // A second look finds processes that were started during the first one.
        let mut quiet_looks = 0;
        while quiet_looks < 2 {
            if registry.platform().signal_room(&self.init, signal)? == 0 {
                quiet_looks += 1;
                continue;
            }
            quiet_looks = 0;
            if begun.elapsed() > PATIENCE {
                return Err(io::ErrorKind::TimedOut.into());
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Signals one process that the keeper started in the room.
    pub fn signal(&self, pid: i32, signal: i32) {
        // A broken link ends the room anyway.
        let _ = self.send(&ToInit::SignalOne { pid, signal }, &[]);
    }

    pub fn send(&self, message: &ToInit, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        send(&writer, message, descriptors)
    }

    pub fn number(&self) -> InitNumber {
        self.number
    }

    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.init.pidfd.as_fd()
    }

    /// `$HOME` of the image's user.
    pub fn home(&self) -> &str {
        &self.init.home
    }

    fn has_ended(&self) -> MutexGuard<'_, bool> {
        self.has_ended
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the room's init. The kernel cannot tear down the workspace's pid namespace before that is reaped.
fn reap(init: &RoomInit) {
    // An error means that it is gone already.
    let _ = pidfd_send_signal(&init.pidfd, Signal::KILL);
    let _ = waitid(WaitId::PidFd(init.pidfd.as_fd()), WaitIdOptions::EXITED);
}
