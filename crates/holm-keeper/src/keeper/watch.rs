//! Tells a daemon how the workspace is: at once, whenever something changed, and whenever the daemon asks. The
//! daemon answers its own clients from what it was told, so that listing workspaces asks no keeper.
//!
//! What the keeper learns by an event (services, volumes, the start and end of a session or its call for attention, the
//! keeper's own end) wakes the thread of this connection ([`Watchers::wake`]). Listening ports, bytes carried and what else
//! changes in sessions are looked at a few times a second. Whether init stands still
//! and which limits are reached is looked at only for a question, because that may take a process.

use super::Registry;
use super::ports;
use crate::wire::{Answer, WatchReport, send_answer, take_frame};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The threads that tell daemons of changes.
#[derive(Default)]
pub struct Watchers(Mutex<Vec<Arc<OwnedFd>>>);

/// One of these threads.
struct Watcher<'a> {
    watchers: &'a Watchers,
    bell: Arc<OwnedFd>,
    /// Whether a program other than init ran before the last look.
    is_active: bool,
}

/// What ended a wait.
#[derive(PartialEq, Eq)]
enum Woken {
    /// The client or the workspace is gone.
    Over,
    /// Something changed, or the client asks.
    Called,
    /// It is time to look.
    Tick,
}

/// Tells a client until it or the workspace is gone.
pub fn watch(stream: &UnixStream, registry: &Registry) -> io::Result<()> {
    let mut watcher = registry.watchers.join()?;
    let mut questions = Questions::default();
    let mut reported = WatchReport {
        listening: watcher.look(registry)?,
        status: registry.status(),
        sessions: Some(registry.sessions().list()),
        answered: 0,
    };
    send_answer(stream, &Answer::Seen(Box::new(reported.clone())))?;
    loop {
        let woken = watcher.wait(stream, registry, &mut questions)?;
        if woken == Woken::Over {
            return Ok(());
        }
        let listening = watcher.look(registry)?;
        let carried = Some(registry.outside().carried());
        let sessions = Some(registry.sessions().list());
        let is_as_before = listening == reported.listening
            && carried == reported.status.carried
            && sessions == reported.sessions;
        if woken == Woken::Tick && is_as_before {
            continue;
        }
        let seen = WatchReport {
            listening,
            status: if questions.count > reported.answered {
                registry.status()
            } else {
                registry.status_since(&reported.status)
            },
            sessions,
            answered: questions.count,
        };
        if is_news(&reported, &seen) {
            send_answer(stream, &Answer::Seen(Box::new(seen.clone())))?;
            reported = seen;
        }
    }
}

/// The number of commands is no news: they begin and end all the time, and only a daemon that is about to stop
/// the workspace wants to know it.
fn is_news(reported: &WatchReport, seen: &WatchReport) -> bool {
    let mut seen = seen.clone();
    seen.status.commands = reported.status.commands;
    *reported != seen
}

/// What the client has sent.
#[derive(Default)]
struct Questions {
    incoming: Vec<u8>,
    count: u64,
}

// === impl Questions ===

impl Questions {
    /// Reads what has come; false when the client is gone.
    fn receive(&mut self, stream: &UnixStream) -> io::Result<bool> {
        let mut chunk = [0; 256];
        match rustix::io::read(stream, &mut chunk)? {
            0 => return Ok(false),
            length => self.incoming.extend(&chunk[..length]),
        }
        while take_frame(&mut self.incoming)?.is_some() {
            self.count += 1;
        }
        Ok(true)
    }
}

// === impl Watchers ===

impl Watchers {
    fn join(&self) -> io::Result<Watcher<'_>> {
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        self.all().push(Arc::clone(&bell));
        Ok(Watcher {
            watchers: self,
            bell,
            is_active: true,
        })
    }

    /// Something changed that a status says.
    pub fn wake(&self) {
        for bell in self.all().iter() {
            // Fails only when the count is at its maximum, and then the bell rings anyway.
            let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
        }
    }

    fn all(&self) -> MutexGuard<'_, Vec<Arc<OwnedFd>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Watcher ===

impl Watcher<'_> {
    /// The listening ports. A program that ends during the look is followed by another look.
    fn look(&mut self, registry: &Registry) -> io::Result<Vec<u16>> {
        self.is_active = registry.activity.is_possible();
        let listening = ports::look(registry)?;
        if let Some(services) = registry.services() {
            services.compare(&listening);
        }
        Ok(listening)
    }

    fn wait(
        &self,
        stream: &UnixStream,
        registry: &Registry,
        questions: &mut Questions,
    ) -> io::Result<Woken> {
        let init = registry.init();
        let mut sources = vec![
            PollFd::new(stream, PollFlags::IN),
            PollFd::new(&init, PollFlags::IN),
            PollFd::new(&*self.bell, PollFlags::IN),
        ];
        // Nothing changes by itself while only init runs, so without activity the next program is waited for.
        if !self.is_active {
            let activity = registry.activity.descriptor();
            sources.push(PollFd::new(activity, PollFlags::IN));
        }
        match poll(&mut sources, self.is_active.then_some(&ports::EVERY)) {
            Ok(0) | Err(Errno::INTR) => return Ok(Woken::Tick),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let [asks, has_ended, rings] = [0, 1, 2].map(|at| !sources[at].revents().is_empty());
        if has_ended || (asks && !questions.receive(stream)?) {
            return Ok(Woken::Over);
        }
        if rings {
            // Only resets the count.
            let _ = rustix::io::read(&*self.bell, &mut [0; 8]);
        }
        Ok(Woken::Called)
    }
}

impl Drop for Watcher<'_> {
    fn drop(&mut self) {
        let mut all = self.watchers.all();
        all.retain(|bell| !Arc::ptr_eq(bell, &self.bell));
    }
}
