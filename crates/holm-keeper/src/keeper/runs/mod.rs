//! The runs that the keeper holds: each has its own thread, which continues when the daemon dies.
//! Watchers get every change; the output is in the run's record, outside of the workspace. Called
//! by [`super::connection`].

mod work;

use super::Registry;
use crate::runs::write::{ROOM, Writer};
use crate::runs::{self, directory};
use crate::wire::{Answer, send_answer};
use holm_core::run::{RunOrder, RunSeen};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::HashMap;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Concurrent runs; each has a thread, and pipes.
const MOST: usize = 64;
/// How often to check whether the watcher is still there.
const LOOK: Duration = Duration::from_secs(1);

/// Running ones, by id.
#[derive(Default)]
pub struct Runs(Mutex<HashMap<String, Arc<Held>>>);

pub struct Held {
    directory: PathBuf,
    seen: Mutex<RunSeen>,
    changed: Condvar,
    /// The pid inside of its first process; 0 until there is one.
    leader: AtomicI32,
    /// A byte to it cancels the run.
    cancel: Mutex<PipeWriter>,
}

/// What the thread of a run works with.
struct Assignment {
    order: RunOrder,
    /// A byte from it cancels the run.
    cancelled: PipeReader,
    record: Writer,
}

// === impl Runs ===

impl Runs {
    fn held(&self) -> MutexGuard<'_, HashMap<String, Arc<Held>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The run whose first process has this pid inside.
    pub fn begun_with(&self, pid: i32) -> Option<String> {
        let held = self.held();
        let mut runs = held.iter();
        let found = runs.find(|(_, held)| held.leader.load(Ordering::SeqCst) == pid);
        found.map(|(run, _)| run.clone())
    }

    fn find(&self, run: &str) -> Option<Arc<Held>> {
        self.held().get(run).cloned()
    }
}

/// Starts a run, unless it exists, and reports its state until it has ended.
pub fn begin(stream: &UnixStream, registry: &Arc<Registry>, order: RunOrder) -> io::Result<()> {
    let run = order.run.clone();
    match taken_up(registry, order) {
        Ok(Some(held)) => watch_held(stream, &held),
        Ok(None) => watch(stream, registry, &run),
        Err(error) => send_answer(stream, &Answer::Refused(error.to_string())),
    }
}

/// `None`: a run with this id exists or existed.
fn taken_up(registry: &Arc<Registry>, order: RunOrder) -> io::Result<Option<Arc<Held>>> {
    let directory = directory(&registry.plan.dir, &order.run);
    let (cancelled, cancel) = io::pipe()?;
    let held = Arc::new(Held {
        directory: directory.clone(),
        seen: Mutex::new(RunSeen {
            started_ms: work::now_ms(),
            ..RunSeen::default()
        }),
        changed: Condvar::new(),
        leader: AtomicI32::new(0),
        cancel: Mutex::new(cancel),
    });
    {
        let mut all = registry.runs.held();
        if all.contains_key(&order.run) || runs::seen(&directory)?.is_some() {
            return Ok(None);
        }
        if all.len() >= MOST {
            let why = format!("{MOST} runs are under way in it");
            return Err(io::Error::other(why));
        }
        all.insert(order.run.clone(), Arc::clone(&held));
    }
    let run = order.run.clone();
    let begun = begin_record(&held).and_then(|record| {
        let assignment = Assignment {
            order,
            cancelled,
            record,
        };
        spawn(registry, &held, assignment)
    });
    if let Err(error) = begun {
        registry.runs.held().remove(&run);
        return Err(error);
    }
    Ok(Some(held))
}

/// Creates every file of a run before the daemon hears of its start: the daemon then has the disk write its own record,
/// and creating a file meanwhile would wait for the disk.
fn begin_record(held: &Held) -> io::Result<Writer> {
    let directory = &held.directory;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)?;
    let record = Writer::begin(directory, ROOM)?;
    runs::store(directory, &held.seen())?;
    Ok(record)
}

fn spawn(registry: &Arc<Registry>, held: &Arc<Held>, assignment: Assignment) -> io::Result<()> {
    let (registry, held) = (Arc::clone(registry), Arc::clone(held));
    let thread = std::thread::Builder::new().stack_size(256 * 1024);
    thread.spawn(move || {
        let run = assignment.order.run.clone();
        // The keeper's shutdown waits for this thread's records.
        let talking = registry.talk(usize::MAX);
        work::carry_out(&registry, &held, assignment);
        registry.end_sign_ins(&run);
        registry.runs.held().remove(&run);
        held.changed.notify_all();
        drop(talking);
    })?;
    Ok(())
}

/// Reports the state of a run, at once and at every change, until it has ended.
pub fn watch(stream: &UnixStream, registry: &Registry, run: &str) -> io::Result<()> {
    if let Some(held) = registry.runs.find(run) {
        return watch_held(stream, &held);
    }
    let written = runs::seen(&directory(&registry.plan.dir, run))?;
    match written.filter(|seen| seen.end.is_some()) {
        Some(seen) => send_answer(stream, &Answer::Run(Box::new(seen))),
        None => send_answer(
            stream,
            &Answer::Refused("it knows nothing of this run".to_owned()),
        ),
    }
}

fn watch_held(stream: &UnixStream, held: &Held) -> io::Result<()> {
    let mut reported: Option<RunSeen> = None;
    loop {
        let seen = held.wait_for_change(reported.as_ref());
        match seen {
            Some(seen) => {
                send_answer(stream, &Answer::Run(Box::new(seen.clone())))?;
                if seen.end.is_some() {
                    return Ok(());
                }
                reported = Some(seen);
            }
            None if is_gone(stream) => return Ok(()),
            None => {}
        }
    }
}

/// Starts to end every process of a run.
pub fn cancel(registry: &Registry, run: &str) -> Answer {
    match registry.runs.find(run) {
        Some(held) => {
            let mut cancel = held.cancel.lock().unwrap_or_else(PoisonError::into_inner);
            // A run that has just ended does not need it.
            let _ = cancel.write_all(&[0]);
            Answer::Done
        }
        None => Answer::Refused("it knows nothing of this run".to_owned()),
    }
}

/// Whether the peer has closed the connection.
fn is_gone(stream: &UnixStream) -> bool {
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let source = stream.as_fd();
    let mut sources = [PollFd::new(&source, PollFlags::IN)];
    // A watcher sends nothing, so readable means closed.
    poll(&mut sources, Some(&now)).is_ok_and(|ready| ready > 0)
}

// === impl Held ===

impl Held {
    fn seen(&self) -> RunSeen {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, RunSeen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_for_change(&self, reported: Option<&RunSeen>) -> Option<RunSeen> {
        let seen = self.lock();
        let is_same = |seen: &mut RunSeen| reported == Some(&*seen);
        let (seen, _) = self
            .changed
            .wait_timeout_while(seen, LOOK, is_same)
            .unwrap_or_else(PoisonError::into_inner);
        (reported != Some(&*seen)).then(|| seen.clone())
    }

    /// Changes the state and informs watchers; at the end it is also stored for the next daemon.
    fn tell(&self, change: impl FnOnce(&mut RunSeen)) {
        let mut seen = self.lock();
        let mut next = seen.clone();
        change(&mut next);
        if next.end.is_some()
            && let Err(error) = runs::store(&self.directory, &next)
        {
            complain!("the end of a run cannot be written down: {error}");
        }
        *seen = next;
        self.changed.notify_all();
    }
}
