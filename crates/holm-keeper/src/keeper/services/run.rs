//! One run of a service or of its build, in its own thread: ends leftovers of the run before,
//! starts the program, and copies its output to the log until it is closed.
//!
//! Output from before the exit is in the log before the exit is reported. Memory is bounded: unread
//! output stays in the pipe, and the service blocks.

use super::follow;
use super::hooks::Beside;
use super::image::{self, Entered};
use super::lifecycle;
use super::lines::{Lines, Missing};
use super::log::{Log, lock, note};
use super::probe::{Asked, Asking, Probing};
use super::{Mailbox, environment, helper};
use crate::inside::END;
use crate::keeper::place::Place;
use crate::keeper::program::is_terminal;
use crate::keeper::secrets::Receiver;
use crate::keeper::waiting::Waiting;
use crate::keeper::{KILLED, Registry, Started};
use crate::logs::{Stream, append, now};
use crate::stdio::OUTPUTS;
use crate::wire::{Domain, Spawn};
use holm_core::container::Input;
use holm_core::service::{Event, exit_in_words};
use holm_core::spec::Service;
use holm_secrets::mask::Masker;
use rustix::event::PollFlags;
use rustix::io::Errno;
use std::io::{self, PipeReader};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const CHUNK: usize = 64 * 1024;
/// The capacity of a pipe: everything that was printed before the end is in it.
const MOST_LEFT_BEHIND: usize = 1024 * 1024;
/// The grace period for leftovers of an earlier run.
const LEFTOVER_GRACE: Duration = Duration::from_secs(2);

/// Which command is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Serve,
    /// While the old version runs.
    Build,
}

/// The parameters of one run.
pub struct Run {
    pub registry: Arc<Registry>,
    pub service: Arc<Service>,
    pub part: Part,
    pub log: Arc<Mutex<Log>>,
    pub mailbox: Mailbox,
    /// The pid of the run before, if that ran in the workspace itself.
    pub earlier: Option<u32>,
    /// Closed when the next run begins.
    pub leave: PipeReader,
}

/// A running program with its two outputs.
struct Pump {
    run: Run,
    /// The room of a service that runs from an image.
    entered: Option<Entered>,
    outputs: [Output; 2],
    /// Nothing is written to it.
    _input: Option<OwnedFd>,
    /// `None`: it has ended.
    exit: Option<PipeReader>,
    probing: Option<Probing>,
    missing: Missing,
    /// The log is not written to before this time.
    not_before: Option<Instant>,
    memory_kills: u64,
}

struct Output {
    pipe: Option<OwnedFd>,
    stream: Stream,
    lines: Lines,
    masker: Masker,
}

/// The keeper's ends of a program's streams.
struct Ends {
    input: Option<OwnedFd>,
    stdout: OwnedFd,
    /// `None`: a terminal has both outputs.
    stderr: Option<OwnedFd>,
}

// === impl Ends ===

impl Ends {
    /// Init may be under a guest's control.
    fn of(service: &Service, ends: Vec<OwnedFd>) -> Option<Self> {
        let mut ends = ends.into_iter();
        let input = service.container().map(|it| it.input).unwrap_or_default();
        Some(match input {
            Input::Nothing => Self {
                input: None,
                stdout: ends.next()?,
                stderr: Some(ends.next()?),
            },
            Input::Open => Self {
                input: Some(ends.next()?),
                stdout: ends.next()?,
                stderr: Some(ends.next()?),
            },
            Input::Terminal => Self {
                input: None,
                stdout: ends.next().filter(is_terminal)?,
                stderr: None,
            },
        })
    }
}

// === impl Run ===

impl Run {
    pub fn live(self) {
        if let Some(earlier) = self.earlier {
            end_all(&self.registry, &self.service.name, earlier, LEFTOVER_GRACE);
        }
        let memory_kills = self.registry.memory_kills().update_count();
        let entered = match self.part {
            Part::Serve => image::enter(&self.registry, &self.service),
            Part::Build => Ok(None),
        };
        let entered = match entered {
            Ok(entered) => entered,
            Err(error) => return self.not_started(126, error.to_string()),
        };
        let beside = entered.clone().map(|entered| Beside {
            registry: Arc::clone(&self.registry),
            service: Arc::clone(&self.service),
            entered,
            log: Arc::clone(&self.log),
            mailbox: self.mailbox.clone(),
        });
        if let Some(beside) = &beside {
            follow::begin(beside);
        }
        let (started, exit) = match self.spawn(entered.as_ref()) {
            Ok((started, exit)) => (started, Some(exit)),
            Err(error) => (Started::not(&error), None),
        };
        let started = match started {
            Started::Running { pid, ends } => match Ends::of(&self.service, ends) {
                Some(ends) => Ok((pid, ends)),
                None => Err((126, "init passed no streams".to_owned())),
            },
            Started::Not { code, cause, .. } => Err((code, cause)),
        };
        let (pid, ends) = match started {
            Ok(started) => started,
            Err((code, cause)) => {
                if let Some(entered) = entered {
                    entered.room.end(&self.registry);
                }
                return self.not_started(code, cause);
            }
        };
        match self.part {
            Part::Serve => self.mailbox.tell(Event::Started {
                pid: pid.unsigned_abs(),
            }),
            Part::Build => self.note(&format!("[build: {}]", self.command())),
        }
        if let Some(beside) = beside {
            lifecycle::begin(beside.clone());
            beside.begin();
        }
        let known = self.registry.secrets.known();
        let output = |pipe: Option<OwnedFd>, stream| Output {
            pipe,
            stream,
            lines: Lines::default(),
            masker: Masker::new(known.clone()),
        };
        let pump = Pump {
            probing: match self.part {
                Part::Serve => Probing::of(&self.service),
                Part::Build => None,
            },
            entered,
            run: self,
            outputs: [
                output(Some(ends.stdout), Stream::Stdout),
                output(ends.stderr, Stream::Stderr),
            ],
            _input: ends.input,
            exit,
            missing: Missing::default(),
            not_before: None,
            memory_kills,
        };
        pump.work();
    }

    fn command(&self) -> &str {
        match (self.part, &self.service.build) {
            (Part::Serve, _) => &self.service.run,
            (Part::Build, Some(build)) => build,
            // Without a build command there is nothing to do.
            (Part::Build, None) => ":",
        }
    }

    fn not_started(self, code: u8, cause: String) {
        match self.part {
            Part::Serve => {
                self.note(&format!("[cannot be started: {cause}]"));
                self.mailbox.tell(Event::NotStarted { code, cause });
            }
            Part::Build => {
                self.note(&format!("[the build cannot be started: {cause}]"));
                let cause = Some(cause);
                self.mailbox.tell(Event::Built { code, cause });
            }
        }
    }

    fn note(&self, text: &str) {
        note(&self.log, text);
    }

    fn spawn(&self, entered: Option<&Entered>) -> io::Result<(Started, PipeReader)> {
        let (exit, exit_inside) = io::pipe()?;
        let secrets = &self.registry.secrets;
        let receiver = Some(Receiver::Service(&self.service.name));
        let place = match entered {
            Some(_) => Place::Workspace,
            None => self.registry.place()?,
        };
        let given = secrets.due(receiver);
        let mut env = match entered {
            Some(entered) => entered.environment(&self.registry, &self.service),
            None => environment(&self.registry, &place, &self.service),
        };
        env.extend(given.variables);
        let started = if let Some(entered) = entered {
            let spawn = entered.serve(&self.service, env);
            self.registry
                .start_in_room(&entered.room, spawn, exit_inside)?
        } else {
            let spawn = Spawn {
                sequence: 0,
                argv: ["sh", "-c", self.command()]
                    .map(|text| text.as_bytes().to_vec())
                    .to_vec(),
                env,
                cwd: place.directory(&self.registry, None),
                terminal: None,
                domain: secrets.domain(receiver),
                streams: Some(OUTPUTS),
                is_run: false,
                user: place.user(),
                limits: Vec::new(),
            };
            self.registry.start_behind(&place, spawn, exit_inside)?
        };
        if let Started::Running { pid, ends } = &started {
            secrets.note_given(receiver, given.received, *pid);
            for output in ends {
                rustix::io::ioctl_fionbio(output, true)?;
            }
        }
        Ok((started, exit))
    }
}

// === impl Pump ===

/// Which descriptors are ready.
#[derive(Default)]
struct Ready {
    outputs: [bool; 2],
    has_exited: bool,
    is_asked_to_leave: bool,
    has_probed: bool,
}

impl Pump {
    /// Runs until the program has ended and its outputs are closed.
    fn work(mut self) {
        self.ask();
        while self.exit.is_some() || self.outputs.iter().any(|output| output.pipe.is_some()) {
            let ready = match self.wait() {
                Ok(ready) => ready,
                Err(error) => {
                    complain!("service {}: cannot wait: {error}", self.run.service.name);
                    return;
                }
            };
            for index in 0..self.outputs.len() {
                if ready.outputs[index] {
                    self.read(index);
                }
            }
            if ready.has_probed {
                self.probed();
            }
            if ready.has_exited {
                self.exited();
            }
            if ready.is_asked_to_leave && self.exit.is_none() {
                break;
            }
        }
        self.finish_lines();
    }

    /// Starts probing, if the readiness check needs that.
    fn ask(&mut self) {
        let Some(probing) = &mut self.probing else {
            return;
        };
        let (registry, service) = (&self.run.registry, &self.run.service);
        let (at, asked) = match (probing.program(), &self.entered) {
            (Some(argv), Some(entered)) => {
                let asked = entered.probe(registry, service, argv);
                (Asked::room(), Some(asked))
            }
            _ => {
                let asked = probing.question().map(|argv| {
                    // The probe may be a command of the project.
                    let domain = registry.secrets.domain(None);
                    let place = match self.entered {
                        Some(_) => Place::Workspace,
                        None => registry.place()?,
                    };
                    let env = environment(registry, &place, service);
                    helper(registry, &place, argv, env, domain)
                });
                (Asked::Helper, asked)
            }
        };
        match asked {
            Some(Ok((pid, exit))) => probing.asking = Some(Asking::Now { pid, exit, at }),
            Some(Err(error)) => {
                complain!("service {}: cannot ask: {error}", self.run.service.name);
                probing.ask_later();
            }
            None => {}
        }
    }

    fn wait(&mut self) -> io::Result<Ready> {
        let now = Instant::now();
        self.end_overdue(now);
        if self
            .probing
            .as_ref()
            .is_some_and(|probing| probing.is_due(now))
        {
            self.ask();
        }
        let paused = self.not_before.filter(|time| *time > now);
        let mut waiting = Waiting::<Ready>::new();
        match &self.exit {
            Some(exit) => waiting.add(exit, PollFlags::IN, |ready| ready.has_exited = true),
            None => waiting.add(&self.run.leave, PollFlags::IN, |ready| {
                ready.is_asked_to_leave = true;
            }),
        }
        if paused.is_none() {
            if let Some(pipe) = &self.outputs[0].pipe {
                waiting.add(pipe, PollFlags::IN, |ready| ready.outputs[0] = true);
            }
            if let Some(pipe) = &self.outputs[1].pipe {
                waiting.add(pipe, PollFlags::IN, |ready| ready.outputs[1] = true);
            }
        }
        let asking = self.probing.as_ref().and_then(|p| p.asking.as_ref());
        if let Some(Asking::Now { exit, .. }) = asking {
            waiting.add(exit, PollFlags::IN, |ready| ready.has_probed = true);
        }
        let probing = self.probing.as_ref().and_then(Probing::wakes_at);
        waiting.wait([paused, probing].into_iter().flatten().min())
    }

    /// Kills a readiness command in the room that has taken too long. Another attempt follows.
    fn end_overdue(&mut self, now: Instant) {
        if let (Some(probing), Some(entered)) = (&mut self.probing, &self.entered)
            && let Some(pid) = probing.overdue(now)
        {
            entered.room.kill_group(pid);
            probing.ask_later();
        }
    }

    /// Reads what is available of one output; returns the number of bytes.
    fn read(&mut self, index: usize) -> usize {
        let output = &mut self.outputs[index];
        let Some(pipe) = &output.pipe else { return 0 };
        let mut chunk = vec![0; CHUNK];
        let length = match rustix::io::read(pipe, &mut chunk) {
            Err(Errno::AGAIN | Errno::INTR) => return 0,
            Ok(0) | Err(_) => {
                output.pipe = None;
                return 0;
            }
            Ok(length) => length,
        };
        let wanted = self.probing.as_ref().and_then(Probing::text);
        let (time, stream) = (now(), output.stream);
        let (mut records, mut count, mut is_found) = (Vec::new(), 0, false);
        let missing = &mut self.missing;
        output.masker.set_known(&self.run.registry.secrets.known());
        let masked = output.masker.take(&chunk[..length]);
        output.lines.take(&masked, |line| {
            // A terminal ends lines with both.
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            is_found = is_found || wanted.is_some_and(|text| contains(line, text));
            missing.heed(line);
            append(&mut records, time, stream, line);
            count += 1;
        });
        is_found = is_found || wanted.is_some_and(|text| contains(output.lines.partial(), text));
        let wait = lock(&self.run.log).write(&records, count);
        self.not_before = (!wait.is_zero()).then(|| Instant::now() + wait);
        if is_found {
            self.is_ready();
        }
        length
    }

    fn probed(&mut self) {
        let Some(probing) = &mut self.probing else {
            return;
        };
        if probing.has_succeeded() {
            self.is_ready();
        }
    }

    fn is_ready(&mut self) {
        self.probing = None;
        self.run.mailbox.tell(Event::Probed);
    }

    /// The program ended: logs its last output first, then reports the exit.
    fn exited(&mut self) {
        let Some(exit) = self.exit.take() else { return };
        if let Some(entered) = &self.entered {
            entered.room.end(&self.run.registry);
        }
        let mut code = [0];
        let read = rustix::io::read(&exit, &mut code);
        let code = if read == Ok(1) { code[0] } else { 255 };
        for index in 0..self.outputs.len() {
            let mut left = MOST_LEFT_BEHIND;
            while left > 0 {
                match self.read(index) {
                    0 => break,
                    length => left = left.saturating_sub(length),
                }
            }
        }
        self.finish_lines();
        if let Some(probing) = self.probing.take()
            && let Some(Asking::Now { pid, at, .. }) = probing.asking
        {
            match at {
                Asked::Helper => {
                    if let Some(place) = self.run.registry.present_place() {
                        self.run.registry.signal_at(&place, pid, libc::SIGKILL);
                    }
                }
                // The end of the room has killed it.
                Asked::Room { .. } => {}
            }
        }
        let kills = self.run.registry.memory_kills().update_count();
        let cause = (code == KILLED && kills > self.memory_kills)
            .then(|| "the workspace reached its limit of memory".to_owned());
        let cause = cause.or(self.missing.line().filter(|_| code != 0));
        match self.run.part {
            Part::Serve => self.run.mailbox.tell(Event::Exited { code, cause }),
            Part::Build => {
                if code != 0 {
                    let how = exit_in_words(code);
                    self.run.note(&format!("[the build {how}]"));
                }
                self.run.mailbox.tell(Event::Built { code, cause });
            }
        }
    }

    fn finish_lines(&mut self) {
        let time = now();
        for output in &mut self.outputs {
            let (mut records, mut count, stream) = (Vec::new(), 0, output.stream);
            let rest = output.masker.finish();
            let mut tell = |line: &[u8]| {
                self.missing.heed(line);
                append(&mut records, time, stream, line);
                count += 1;
            };
            output.lines.take(&rest, &mut tell);
            output.lines.finish(&mut tell);
            lock(&self.run.log).write(&records, count);
        }
    }
}

/// Ends every process of a service, inside. Blocks until they are gone or cannot be ended.
pub fn end_all(registry: &Registry, name: &str, leader: u32, grace: Duration) {
    let argv = [
        END.to_owned(),
        name.to_owned(),
        leader.to_string(),
        grace.as_millis().to_string(),
    ];
    // Without its container, nothing of it is left.
    let Some(place) = registry.present_place() else {
        return;
    };
    let environment = place.environment(registry, None, Vec::new());
    match helper(registry, &place, argv.to_vec(), environment, Domain::Shared) {
        Ok((_, exit)) => {
            let mut code = [0];
            // The exit itself matters, not its code.
            let _ = rustix::io::read(&exit, &mut code);
        }
        Err(error) => complain!("service {name}: cannot end all of it: {error}"),
    }
}

fn contains(line: &[u8], text: &str) -> bool {
    let text = text.as_bytes();
    !text.is_empty() && line.windows(text.len()).any(|window| window == text)
}
