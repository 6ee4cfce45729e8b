//! The rooms of the workspace's services: one per running service of an image. A room is made for each run of its
//! service and ends with it, so it always shows the volumes and secrets of that moment. Its files stay.
//!
//! Each room has a thread, which is the parent of the room's init: it hears from that init until the end, and reaps it.
//! Messages of a room are hostile, like those of the workspace's init.

use super::link::{receive_hello, receive_message};
use super::{InitNumber, InitOf, Registry};
use crate::descriptors::send;
use crate::room::{RoomInit, RoomPlan, RoomSignal};
use crate::wire::ToInit;
use holm_core::image_users::User;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};
use std::collections::{BTreeMap, BTreeSet};
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
    /// The processes that the keeper has stopped for a copy.
    held: Mutex<BTreeSet<i32>>,
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
            .try_for_each(|room| room.settle(registry, RoomSignal::Stop))
    }

    /// Continues the processes that [`hold`](Self::hold) stopped, and none that a program stopped itself.
    pub fn release(&self, registry: &Registry) {
        let open: Vec<_> = self.open().values().cloned().collect();
        for room in open {
            let held = std::mem::take(&mut *room.held());
            let signal = RoomSignal::Continue(&held);
            if let Err(error) = registry.platform().signal_room(&room.init, signal) {
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
    /// Makes the room of a service and starts its init. Refused while the kernel cannot end the processes of an earlier
    /// run: two rooms must not write the same files.
    pub fn open(
        registry: &Arc<Registry>,
        plan: RoomPlan,
        secrets: Vec<String>,
    ) -> io::Result<Arc<Self>> {
        if registry.rooms.find(&plan.service).is_some() {
            return Err(io::Error::other("programs of its last run do not end"));
        }
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
            held: Mutex::default(),
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
        // With `nested`, processes outside of the room's mount namespace are found as descendants of its init.
        self.kill_all(registry);
        reap(&self.init);
        // Init may have started processes until it was killed.
        self.kill_all(registry);
        registry.end_init(self.number);
    }

    /// Kills every process of the room, then ends it. Returns when that is done, or takes too long.
    pub fn end(&self, registry: &Registry) {
        self.kill_all(registry);
        // Its init ends when the link closes.
        let _ = self.init.link.shutdown(Shutdown::Both);
        let is_open = |has_ended: &mut bool| !*has_ended;
        let waited = self
            .ended
            .wait_timeout_while(self.has_ended(), PATIENCE, is_open);
        let (has_ended, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if !*has_ended {
            let seconds = PATIENCE.as_secs();
            complain!("a room does not end within {seconds} s");
        }
    }

    fn kill_all(&self, registry: &Registry) {
        if let Err(error) = self.settle(registry, RoomSignal::Kill) {
            complain!("programs of a room do not end: {error}");
        }
    }

    /// Signals all processes of the room but its init until the signal has no effect on any of them.
    fn settle(&self, registry: &Registry, signal: RoomSignal<'_>) -> io::Result<()> {
        let begun = Instant::now();
        // A second look finds processes that were started during the first one.
        let mut quiet_looks = 0;
        while quiet_looks < 2 {
            let signalled = registry.platform().signal_room(&self.init, signal)?;
            if signalled.is_empty() {
                quiet_looks += 1;
                continue;
            }
            if matches!(signal, RoomSignal::Stop) {
                self.held().extend(signalled);
            }
            quiet_looks = 0;
            if begun.elapsed() > PATIENCE {
                return Err(io::ErrorKind::TimedOut.into());
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Kills the process group of a program that the keeper started in the room.
    pub fn kill_group(&self, pid: i32) {
        let signal = libc::SIGKILL;
        // A broken link ends the room anyway.
        let _ = self.send(&ToInit::Signal { pid, signal }, &[]);
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

    pub fn is_open(&self) -> bool {
        !*self.has_ended()
    }

    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.init.pidfd.as_fd()
    }

    /// `$HOME` of the image's user.
    pub fn home(&self) -> &str {
        &self.init.home
    }

    /// What the service starts as. `None`: as the room's only user.
    pub fn user(&self) -> Option<&User> {
        self.init.user.as_ref()
    }

    fn held(&self) -> MutexGuard<'_, BTreeSet<i32>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
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
