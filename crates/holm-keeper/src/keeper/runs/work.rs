//! One run, from its first process to the end of its last: message, output record, time limit,
//! cancellation. It has its own thread.

use super::{Assignment, Held};
use crate::inside::{END_RUN, RUN_MARK};
use crate::keeper::place::Place;
use crate::keeper::secrets::Receiver;
use crate::keeper::services::{self, Marked};
use crate::keeper::waiting::Waiting;
use crate::keeper::{KILLED, Registry, Started};
use crate::keeper::{limits, program};
use crate::runs::Stream;
use crate::runs::write::Writer;
use crate::stdio::PIPES;
use crate::wire::Spawn;
use holm_core::run::{RunEnd, RunEnding};
use holm_secrets::mask::Masker;
use rustix::event::PollFlags;
use rustix::io::Errno;
use std::io::{self, PipeReader};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const CHUNK: usize = 64 * 1024;
/// The capacity of a pipe: everything that was printed before the end is in it.
const MOST_LEFT_BEHIND: usize = 1024 * 1024;
const TIMED_OUT: u8 = 124;
/// A shell's code for an interrupted program.
const CANCELLED: u8 = 130;

/// How much is recorded at once, and then per second, because all workspaces share the disk.
const BURST: u64 = 64 << 20;
const EACH_SECOND: u64 = 256 << 20;
const PAUSE: Duration = Duration::from_millis(20);

struct Work<'a> {
    registry: &'a Arc<Registry>,
    held: &'a Held,
    run: String,
    place: Place,
    pid: i32,
    record: Writer,
    /// For output that goes to the record.
    maskers: [Masker; 2],
    stdin: Option<OwnedFd>,
    /// The part of the message that is not written yet.
    message: Vec<u8>,
    written: usize,
    outputs: [Option<OwnedFd>; 2],
    exit: PipeReader,
    cancelled: PipeReader,
    begun: Instant,
    deadline: Instant,
    /// Do not read before this time.
    not_before: Option<Instant>,
    memory_kills: u64,
    ending: Option<Ending>,
}

/// Its processes are being ended.
struct Ending {
    how: RunEnding,
    /// Returns whether none is left.
    ender: std::thread::JoinHandle<bool>,
}

#[derive(Default)]
struct Ready {
    exited: bool,
    stdin: bool,
    outputs: [bool; 2],
    cancelled: bool,
}

/// Runs to the end and reports it.
pub(super) fn carry_out(registry: &Arc<Registry>, held: &Held, assignment: Assignment) {
    let end = match begin(registry, held, assignment) {
        Ok(Begun::Running(mut work)) => match work.work() {
            Ok(end) => end,
            Err(error) => {
                complain!("a run cannot be followed: {error}");
                // No later request could end it.
                services::end_tree(registry, &work.place, &marked(&work.run, work.pid));
                ended(
                    255,
                    RunEnding::Exited,
                    Some(format!("holm lost it: {error}")),
                )
            }
        },
        Ok(Begun::Not { code, cause }) => ended(code, RunEnding::NotStarted, Some(cause)),
        Err(error) => ended(126, RunEnding::NotStarted, Some(error.to_string())),
    };
    held.tell(|seen| seen.end = Some(end));
}

enum Begun<'a> {
    Running(Box<Work<'a>>),
    Not { code: u8, cause: String },
}

fn begin<'a>(
    registry: &'a Arc<Registry>,
    held: &'a Held,
    assignment: Assignment,
) -> io::Result<Begun<'a>> {
    let Assignment {
        order,
        cancelled,
        record,
    } = assignment;
    let memory_kills = registry.memory_kills().update_count();
    let (exit, exit_inside) = io::pipe()?;
    let place = registry.place()?;
    let receiver = Receiver::Run(&order.run).of(order.asker);
    let given = registry.secrets.due(receiver);
    // The last value of a name counts: `[env]`, then secrets, then what the request sets.
    let mut added = [registry.env(), given.variables, order.env].concat();
    added.push((RUN_MARK.into(), order.run.clone().into()));
    let spawn = Spawn {
        sequence: 0,
        argv: order.argv,
        env: place.environment(registry, None, added),
        cwd: place.directory(registry, None),
        terminal: None,
        domain: registry.secrets.domain(receiver),
        streams: Some(PIPES),
        is_run: true,
        user: place.user(),
        limits: Vec::new(),
    };
    let started = registry.start_at(&place, spawn, exit_inside);
    let started = started.unwrap_or_else(|error| Started::not(&error));
    let (pid, ends) = match started {
        Started::Running { pid, ends } => (pid, ends),
        Started::Not { code, cause, .. } => return Ok(Begun::Not { code, cause }),
    };
    held.leader.store(pid, Ordering::SeqCst);
    registry.secrets.note_given(receiver, given.received, pid);
    let masker = || Masker::new(registry.secrets.known());
    let [stdin, stdout, stderr] = program::three(ends)?;
    let outputs = [stdout, stderr];
    for descriptor in outputs.iter().chain([&stdin]) {
        rustix::io::ioctl_fionbio(descriptor, true)?;
    }
    let begun = Instant::now();
    Ok(Begun::Running(Box::new(Work {
        registry,
        held,
        run: order.run,
        place,
        pid,
        record,
        maskers: [masker(), masker()],
        stdin: Some(stdin),
        message: order.message.into_bytes(),
        written: 0,
        outputs: outputs.map(Some),
        exit,
        cancelled,
        begun,
        deadline: begun + Duration::from_millis(order.timeout_ms),
        not_before: None,
        memory_kills,
        ending: None,
    })))
}

// === impl Work ===

impl Work<'_> {
    fn work(&mut self) -> io::Result<RunEnd> {
        loop {
            let ready = self.wait()?;
            if ready.stdin {
                self.write_message();
            }
            for index in 0..self.outputs.len() {
                if ready.outputs[index] {
                    self.read(index)?;
                }
            }
            if ready.exited {
                return self.finish();
            }
            if ready.cancelled && self.ending.is_none() {
                self.begin_to_end(RunEnding::Cancelled)?;
            }
            if self.ending.is_none() && Instant::now() >= self.deadline {
                self.begin_to_end(RunEnding::TimedOut)?;
            }
        }
    }

    fn wait(&self) -> io::Result<Ready> {
        let now = Instant::now();
        let paused = self.not_before.filter(|time| *time > now);
        let mut waiting = Waiting::<Ready>::new();
        waiting.add(&self.exit, PollFlags::IN, |ready| ready.exited = true);
        if let Some(stdin) = &self.stdin {
            waiting.add(stdin, PollFlags::OUT, |ready| ready.stdin = true);
        }
        if paused.is_none() {
            if let Some(pipe) = &self.outputs[0] {
                waiting.add(pipe, PollFlags::IN, |ready| ready.outputs[0] = true);
            }
            if let Some(pipe) = &self.outputs[1] {
                waiting.add(pipe, PollFlags::IN, |ready| ready.outputs[1] = true);
            }
        }
        let deadline = self.ending.is_none().then_some(self.deadline);
        if self.ending.is_none() {
            waiting.add(&self.cancelled, PollFlags::IN, |ready| {
                ready.cancelled = true;
            });
        }
        waiting.wait([paused, deadline].into_iter().flatten().min())
    }

    fn write_message(&mut self) {
        let Some(stdin) = &self.stdin else { return };
        while self.written < self.message.len() {
            match rustix::io::write(stdin, &self.message[self.written..]) {
                Ok(length) => self.written += length,
                Err(Errno::AGAIN | Errno::INTR) => return,
                // The program closed its stdin.
                Err(_) => break,
            }
        }
        self.stdin = None;
        self.message = Vec::new();
    }

    /// Reads what is available of one output; returns the number of bytes.
    fn read(&mut self, index: usize) -> io::Result<usize> {
        let Some(pipe) = &self.outputs[index] else {
            return Ok(0);
        };
        let mut chunk = vec![0; CHUNK];
        let length = match rustix::io::read(pipe, &mut chunk) {
            Err(Errno::AGAIN | Errno::INTR) => return Ok(0),
            Ok(0) | Err(_) => {
                self.outputs[index] = None;
                return Ok(0);
            }
            Ok(length) => length,
        };
        let stream = [Stream::Stdout, Stream::Stderr][index];
        let masker = &mut self.maskers[index];
        masker.set_known(&self.registry.secrets.known());
        let masked = masker.take(&chunk[..length]);
        self.record.write(stream, now_ms(), &masked)?;
        let cursor = self.record.cursor();
        self.held.tell(|seen| seen.length = cursor);
        let elapsed = self.begun.elapsed().as_millis() as u64;
        let is_much = cursor > BURST + EACH_SECOND / 1000 * elapsed;
        self.not_before = is_much.then(|| Instant::now() + PAUSE);
        Ok(length)
    }

    /// Another thread ends the processes, while this one still reads their output.
    fn begin_to_end(&mut self, how: RunEnding) -> io::Result<()> {
        let (registry, run, pid) = (Arc::clone(self.registry), self.run.clone(), self.pid);
        let place = self.place.clone();
        let thread = std::thread::Builder::new().stack_size(128 * 1024);
        let end = move || services::end_tree(&registry, &place, &marked(&run, pid));
        let ender = thread.spawn(end)?;
        self.ending = Some(Ending { how, ender });
        Ok(())
    }

    /// The first process has ended: its output is in the pipes. Later output of background
    /// processes is discarded.
    fn finish(&mut self) -> io::Result<RunEnd> {
        let mut code = [0];
        let read = rustix::io::read(&self.exit, &mut code)?;
        let code = if read == 0 { 255 } else { code[0] };
        for index in 0..self.outputs.len() {
            let mut left = MOST_LEFT_BEHIND;
            while left > 0 {
                match self.read(index)? {
                    0 => break,
                    length => left = left.saturating_sub(length),
                }
            }
            let stream = [Stream::Stdout, Stream::Stderr][index];
            let rest = self.maskers[index].finish();
            self.record.write(stream, now_ms(), &rest)?;
        }
        let registry = self.registry;
        let is_over = registry.was_asked_to_stop() || registry.why_ended().is_some();
        if let Some(Ending { how, ender }) = self.ending.take() {
            let are_gone = ender.join().unwrap_or(false);
            let code = match how {
                RunEnding::TimedOut => TIMED_OUT,
                _ => CANCELLED,
            };
            let rest = (!are_gone && !is_over).then(|| {
                "some of its processes could not be ended; `holm stop` ends them".to_owned()
            });
            return Ok(ended(code, how, rest));
        }
        if registry.why_ended() == Some(limits::DISK) {
            let why = "the workspace was stopped: it takes more disk than its limit";
            return Ok(ended(code, RunEnding::Died, Some(why.to_owned())));
        }
        if registry.was_asked_to_stop() {
            return Ok(ended(code, RunEnding::Stopped, None));
        }
        if registry.has_ended() {
            return Ok(ended(code, RunEnding::Died, None));
        }
        let is_short = code == KILLED && registry.memory_kills().update_count() > self.memory_kills;
        let why = is_short.then(|| "killed: the workspace reached its limit of memory".to_owned());
        Ok(ended(code, RunEnding::Exited, why))
    }
}

fn marked(run: &str, pid: i32) -> Marked<'_> {
    Marked {
        verb: END_RUN,
        name: run,
        pid,
    }
}

fn ended(code: u8, how: RunEnding, cause: Option<String>) -> RunEnd {
    RunEnd {
        at_ms: now_ms(),
        code,
        how,
        cause,
    }
}

pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as i64)
}
