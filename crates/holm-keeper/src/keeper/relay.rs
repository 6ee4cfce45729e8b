//! One running command, between a client's frames and the command's pipes or terminal.
//!
//! Nothing blocks except the one poll: output that cannot be written is buffered up to a limit, and
//! beyond it the source is not read. So a slow client slows only its own command, and a signal
//! always gets through.

use super::kept::{Door, Knock, Output, Return};
use super::limits;
use super::place::Place;
use super::quiet::Quiet;
use super::waiting::Waiting;
use super::{KILLED, Registry};
use crate::wire::{Answer, channel, control_frame, frame, take_frame};
use holm_core::exec::{ExecInput, Masking};
use holm_secrets::mask::{Masker, Style};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::termios::{Winsize, tcsetwinsize};
use std::collections::VecDeque;
use std::io::{self, PipeReader};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Buffered output for the client; more stays in the pipe.
const MOST_WAITING: usize = 256 * 1024;
/// Sent output that the client has not acknowledged; more stays in the pipe.
const MOST_KEPT: usize = 1024 * 1024;
/// The capacity of a pipe. When the command ends its output is in it; further output comes from
/// background processes, which may write forever.
const MOST_LEFT_BEHIND: usize = 1024 * 1024;
const CHUNK: usize = 64 * 1024;
/// Between SIGTERM and SIGKILL of a command whose time is up.
const GRACE: Duration = Duration::from_secs(2);
const TIMED_OUT: u8 = 124;
/// How long to wait for a client that lost its daemon. It starts another one at once.
const COMES_BACK: Duration = Duration::from_secs(60);

/// The keeper's ends of the command's streams.
pub struct Running {
    pub place: Place,
    pub pid: i32,
    pub terminal: Option<OwnedFd>,
    pub stdin: OwnedFd,
    pub stdout: OwnedFd,
    pub stderr: Option<OwnedFd>,
    /// Gets one byte, the exit code.
    pub exit: PipeReader,
}

/// How long the command may take, and what becomes of secrets in its output.
pub struct Options {
    /// In total.
    pub time: Option<Duration>,
    pub quiet: Option<Quiet>,
    pub masking: Masking,
}

pub struct Relay<'a> {
    registry: &'a Registry,
    /// For stdout and stderr, if secrets are masked.
    maskers: Option<[Masker; 2]>,
    /// `None`: the daemon is gone, the command continues.
    client: Option<UnixStream>,
    place: Place,
    pid: i32,
    terminal: Option<OwnedFd>,
    stdin: Option<OwnedFd>,
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
    exit: PipeReader,
    deadline: Option<Instant>,
    /// Only for a program that holm itself runs.
    quiet: Option<Quiet>,
    incoming: Vec<u8>,
    outgoing: VecDeque<u8>,
    input: VecDeque<u8>,
    /// Bytes of stdin received from the client, and how many of them have left `input`.
    received: u64,
    taken: u64,
    close_stdin: bool,
    timed_out: bool,
    /// The number of OOM kills when this command started.
    memory_kills: u64,
    kept: Option<Kept<'a>>,
    /// Set when the command has ended and its client may still reconnect.
    code: Option<u8>,
}

/// For a command that its client can reconnect to.
struct Kept<'a> {
    door: Door<'a>,
    output: Output,
    /// How long to wait for the client, if it lost its daemon.
    lost_until: Option<Instant>,
}

/// Which descriptors are ready.
#[derive(Default)]
struct Ready {
    exited: bool,
    client_in: bool,
    client_out: bool,
    stdin: bool,
    stdout: bool,
    stderr: bool,
    door: bool,
}

// === impl Relay ===

impl<'a> Relay<'a> {
    pub fn new(
        registry: &'a Registry,
        client: UnixStream,
        running: Running,
        options: Options,
        door: Option<Door<'a>>,
    ) -> io::Result<Self> {
        let outputs = [Some(&running.stdout), running.stderr.as_ref()];
        for descriptor in outputs.into_iter().flatten().chain([&running.stdin]) {
            rustix::io::ioctl_fionbio(descriptor, true)?;
        }
        client.set_nonblocking(true)?;
        Ok(Self {
            registry,
            maskers: maskers(registry, options.masking),
            client: Some(client),
            place: running.place,
            pid: running.pid,
            terminal: running.terminal,
            stdin: Some(running.stdin),
            stdout: Some(running.stdout),
            stderr: running.stderr,
            exit: running.exit,
            deadline: options.time.map(|time| Instant::now() + time),
            quiet: options.quiet,
            incoming: Vec::new(),
            outgoing: VecDeque::new(),
            input: VecDeque::new(),
            received: 0,
            taken: 0,
            close_stdin: false,
            timed_out: false,
            memory_kills: registry.memory_kills().update_count(),
            kept: door.map(|door| Kept {
                door,
                output: Output::default(),
                lost_until: None,
            }),
            code: None,
        })
    }

    /// Runs until the command has ended and its client knows that, or is not waited for any more.
    pub fn run(&mut self) -> io::Result<()> {
        if self.kept.is_some() {
            self.answer(&Answer::Kept)?;
        }
        self.answer(&Answer::Started)?;
        loop {
            let ready = self.wait()?;
            if ready.client_in {
                self.read_client();
            }
            if ready.client_out {
                self.write_client();
            }
            self.handle_frames()?;
            if ready.stdin {
                self.write_stdin()?;
            }
            if ready.stdout {
                self.read_output(channel::STDOUT);
            }
            if ready.stderr {
                self.read_output(channel::STDERR);
            }
            self.check_time();
            if ready.exited {
                self.end()?;
            }
            if ready.door {
                self.answer_the_door()?;
            }
            if self.code.is_some() && self.kept.is_none() {
                return self.flush_to(0);
            }
        }
    }

    fn wait(&self) -> io::Result<Ready> {
        let mut waiting = Waiting::<Ready>::new();
        if self.code.is_none() {
            waiting.add(&self.exit, PollFlags::IN, |ready| ready.exited = true);
        }
        if let Some(client) = &self.client {
            waiting.add(client, PollFlags::IN, |ready| ready.client_in = true);
            if !self.outgoing.is_empty() {
                waiting.add(client, PollFlags::OUT, |ready| ready.client_out = true);
            }
        }
        let door = self.kept.as_ref().map(|kept| kept.door.source());
        if let Some(door) = &door {
            waiting.add(door, PollFlags::IN, |ready| ready.door = true);
        }
        if let Some(stdin) = &self.stdin
            && (!self.input.is_empty() || self.close_stdin)
        {
            waiting.add(stdin, PollFlags::OUT, |ready| ready.stdin = true);
        }
        let room = self.has_room();
        if let Some(stdout) = self.stdout.as_ref().filter(|_| room) {
            waiting.add(stdout, PollFlags::IN, |ready| ready.stdout = true);
        }
        if let Some(stderr) = self.stderr.as_ref().filter(|_| room) {
            waiting.add(stderr, PollFlags::IN, |ready| ready.stderr = true);
        }
        let lost_until = self.kept.as_ref().and_then(|kept| kept.lost_until);
        let moments = [self.deadline, self.quiet_until(), lost_until];
        waiting.wait(moments.into_iter().flatten().min())
    }

    fn has_room(&self) -> bool {
        let held = self.kept.as_ref().map_or(0, |kept| kept.output.held());
        let waits = self.client.is_some() && self.outgoing.len() >= MOST_WAITING;
        held < MOST_KEPT && !waits
    }

    /// The silence deadline. It does not apply while the client does not read.
    fn quiet_until(&self) -> Option<Instant> {
        let counts = self.code.is_none() && !self.timed_out && self.has_room();
        self.quiet.as_ref().filter(|_| counts).map(Quiet::until)
    }

    fn read_client(&mut self) {
        let Some(client) = &self.client else { return };
        let mut chunk = vec![0; CHUNK];
        match rustix::io::read(client, &mut chunk) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            Ok(0) | Err(_) => self.lose_client(),
            Ok(length) => self.incoming.extend(&chunk[..length]),
        }
    }

    /// Handles a daemon that died: the command continues. Its client may reconnect; otherwise
    /// output is discarded and stdin is closed.
    fn lose_client(&mut self) {
        self.client = None;
        self.outgoing.clear();
        match &mut self.kept {
            Some(kept) => kept.lost_until = Some(Instant::now() + COMES_BACK),
            None => self.close_stdin = true,
        }
    }

    fn handle_frames(&mut self) -> io::Result<()> {
        while let Some((kind, payload)) = take_frame(&mut self.incoming)? {
            if kind == channel::STDIN {
                self.received += payload.len() as u64;
                self.input.extend(payload);
                continue;
            }
            match serde_json::from_slice(&payload)? {
                ExecInput::StdinEof => self.close_stdin = true,
                ExecInput::Resize { rows, cols } => self.resize(rows, cols),
                ExecInput::Signal(signal) => self.signal(signal),
                ExecInput::Hangup => self.hang_up(),
                // Stdin has a channel of its own.
                ExecInput::Stdin(_) => {}
                ExecInput::Taken { stdout, stderr } => {
                    if let Some(kept) = &mut self.kept {
                        kept.output.acknowledge(stdout, stderr);
                    }
                }
            }
        }
        Ok(())
    }

    /// A command that has ended gets no signal, because its pid may be reused.
    fn signal(&self, signal: i32) {
        if self.code.is_none() {
            self.registry.signal_at(&self.place, self.pid, signal);
        }
    }

    /// Handles a client that disconnected on purpose. A terminal is really closed: a shell that
    /// missed the signal just before it began to read then sees the end.
    fn hang_up(&mut self) {
        self.signal(libc::SIGHUP);
        self.client = None;
        self.kept = None;
        self.close_stdin = true;
        if self.terminal.take().is_some() {
            self.stdin = None;
            self.stdout = None;
        }
    }

    fn answer_the_door(&mut self) -> io::Result<()> {
        let Some(kept) = &mut self.kept else {
            return Ok(());
        };
        match kept.door.answer() {
            Knock::Back(back) => self.take_back(back),
            Knock::Nobody => Ok(()),
            Knock::Closed => {
                self.stop_waiting();
                Ok(())
            }
        }
    }

    /// Continues with a client that reconnected, whatever the lost daemon had told it.
    fn take_back(&mut self, back: Return) -> io::Result<()> {
        let Some(kept) = &mut self.kept else {
            return Ok(());
        };
        back.stream.set_nonblocking(true)?;
        let (stdout, stderr) = (back.resume.stdout, back.resume.stderr);
        kept.lost_until = None;
        kept.output.acknowledge(stdout, stderr);
        let missed = kept.output.since(stdout, stderr);
        self.client = Some(back.stream);
        self.incoming.clear();
        self.outgoing.clear();
        self.answer(&Answer::Resumed {
            received: self.received,
            taken: self.taken,
        })?;
        self.outgoing.extend(missed);
        match self.code {
            Some(code) => self.answer(&Answer::Exit(code)),
            None => Ok(()),
        }
    }

    fn stop_waiting(&mut self) {
        self.kept = None;
        if self.client.is_none() {
            self.close_stdin = true;
        }
    }

    fn resize(&self, rows: u16, cols: u16) {
        if let Some(terminal) = &self.terminal {
            let size = Winsize {
                ws_row: rows,
                ws_col: cols,
                ws_xpixel: 0,
                ws_ypixel: 0,
            };
            // A terminal whose last user is gone has no size.
            let _ = tcsetwinsize(terminal, size);
        }
    }

    fn write_stdin(&mut self) -> io::Result<()> {
        let Some(stdin) = &self.stdin else {
            return Ok(());
        };
        let mut taken = 0;
        while !self.input.is_empty() {
            let (piece, _) = self.input.as_slices();
            match rustix::io::write(stdin, piece) {
                Ok(length) => {
                    self.input.drain(..length);
                    taken += length;
                }
                Err(Errno::AGAIN | Errno::INTR) => break,
                // The command closed its stdin: further input is read and dropped.
                Err(_) => {
                    taken += self.input.len();
                    self.input.clear();
                    self.close_stdin = true;
                }
            }
        }
        if self.close_stdin && self.input.is_empty() {
            self.end_stdin();
        }
        self.taken += taken as u64;
        if taken > 0 {
            self.note_output();
            self.answer(&Answer::StdinTaken(taken as u64))
        } else {
            Ok(())
        }
    }

    /// A terminal gets its end-of-file character, a pipe is closed.
    fn end_stdin(&mut self) {
        if let (Some(terminal), Some(_)) = (&self.terminal, &self.client) {
            const END_OF_FILE: &[u8] = &[4];
            let _ = rustix::io::write(terminal, END_OF_FILE);
        }
        self.stdin = None;
    }

    /// Reads what is available of one output; an error counts as its end. Returns the number of
    /// bytes.
    fn read_output(&mut self, kind: u8) -> usize {
        let source = if kind == channel::STDOUT {
            &mut self.stdout
        } else {
            &mut self.stderr
        };
        let Some(descriptor) = source.as_ref() else {
            return 0;
        };
        let mut chunk = vec![0; CHUNK];
        match rustix::io::read(descriptor, &mut chunk) {
            Err(Errno::AGAIN | Errno::INTR) => 0,
            Ok(0) | Err(_) => {
                *source = None;
                0
            }
            Ok(length) => {
                self.note_output();
                chunk.truncate(length);
                let masked = self.masked(kind, chunk);
                self.put_out(kind, masked);
                length
            }
        }
    }

    fn note_output(&mut self) {
        if let Some(quiet) = &mut self.quiet {
            quiet.begin_anew();
        }
    }

    fn masked(&mut self, kind: u8, chunk: Vec<u8>) -> Vec<u8> {
        let known = self.registry.secrets.known();
        match self.masker(kind) {
            Some(masker) => {
                masker.set_known(&known);
                masker.take(&chunk)
            }
            None => chunk,
        }
    }

    fn masker(&mut self, kind: u8) -> Option<&mut Masker> {
        let [stdout, stderr] = self.maskers.as_mut()?;
        Some(match kind {
            channel::STDOUT => stdout,
            _ => stderr,
        })
    }

    fn put_out(&mut self, kind: u8, bytes: Vec<u8>) {
        if self.client.is_some() {
            self.outgoing.extend(frame(kind, &bytes));
        }
        if let Some(kept) = &mut self.kept {
            kept.output.push(kind, bytes);
        }
    }

    fn write_client(&mut self) {
        let Some(client) = &self.client else { return };
        while !self.outgoing.is_empty() {
            let (piece, _) = self.outgoing.as_slices();
            match rustix::io::write(client, piece) {
                Ok(length) => drop(self.outgoing.drain(..length)),
                Err(Errno::AGAIN | Errno::INTR) => return,
                Err(_) => return self.read_last_words(),
            }
        }
    }

    /// A client that closed the connection may have sent a hangup before.
    fn read_last_words(&mut self) {
        if let Some(client) = &self.client {
            let mut chunk = vec![0; CHUNK];
            while let Ok(length @ 1..) = rustix::io::read(client, &mut chunk) {
                self.incoming.extend(&chunk[..length]);
            }
        }
        self.lose_client();
    }

    fn answer(&mut self, answer: &Answer) -> io::Result<()> {
        if self.client.is_some() {
            self.outgoing.extend(control_frame(answer)?);
        }
        Ok(())
    }

    fn check_time(&mut self) {
        let now = Instant::now();
        let is_over = |moment: Option<Instant>| moment.is_some_and(|moment| moment <= now);
        if is_over(self.kept.as_ref().and_then(|kept| kept.lost_until)) {
            self.stop_waiting();
        }
        if !self.has_room() {
            self.note_output();
        }
        if let Some(quiet) = &self.quiet
            && !self.timed_out
            && (is_over(self.quiet_until()) || is_over(self.deadline))
        {
            quiet.end(self.registry, &self.place, self.pid);
            self.deadline = None;
            self.timed_out = true;
        }
        if is_over(self.deadline) {
            let signal = if self.timed_out {
                libc::SIGKILL
            } else {
                libc::SIGTERM
            };
            self.registry.signal_at(&self.place, self.pid, signal);
            self.deadline = (!self.timed_out).then(|| now + GRACE);
            self.timed_out = true;
        }
    }

    /// The command ended: its output is in the pipes. Later output of its children is not waited
    /// for.
    fn end(&mut self) -> io::Result<()> {
        let mut code = [0];
        let read = rustix::io::read(&self.exit, &mut code)?;
        let code = if read == 0 { 255 } else { code[0] };
        let code = if self.timed_out { TIMED_OUT } else { code };
        for kind in [channel::STDOUT, channel::STDERR] {
            let mut left = MOST_LEFT_BEHIND;
            while left > 0 {
                match self.read_output(kind) {
                    0 => break,
                    length => left = left.saturating_sub(length),
                }
                self.flush_to(MOST_WAITING)?;
            }
            let rest = self.masker(kind).map(Masker::finish).unwrap_or_default();
            if !rest.is_empty() {
                self.put_out(kind, rest);
            }
        }
        if let Some(word) = self.last_word(code) {
            let word = format!("holm: {word}\n");
            self.put_out(channel::STDERR, word.into_bytes());
        }
        self.deadline = None;
        self.stdin = None;
        self.stdout = None;
        self.stderr = None;
        self.terminal = None;
        self.code = Some(code);
        self.answer(&Answer::Exit(code))
    }

    /// Why a command was killed, when holm or the kernel did it.
    fn last_word(&self, code: u8) -> Option<&'static str> {
        let registry = self.registry;
        if registry.why_ended() == Some(limits::DISK) {
            return Some("the workspace was stopped: it takes more disk than its limit");
        }
        (code == KILLED && registry.memory_kills().update_count() > self.memory_kills)
            .then_some("killed: the workspace reached its limit of memory")
    }

    /// Writes to the client until at most `rest` bytes are left, however slow it is.
    fn flush_to(&mut self, rest: usize) -> io::Result<()> {
        while self.outgoing.len() > rest {
            let Some(client) = &self.client else {
                return Ok(());
            };
            match poll(&mut [PollFd::new(client, PollFlags::OUT)], None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            self.write_client();
        }
        Ok(())
    }
}

fn maskers(registry: &Registry, masking: Masking) -> Option<[Masker; 2]> {
    let style = match masking {
        Masking::Never => return None,
        Masking::Words => Style::Word,
        Masking::Bytes => Style::Bytes,
    };
    let masker = || Masker::with_style(registry.secrets.known(), style);
    Some([masker(), masker()])
}
