//! One command inside, between a client's frames and the command's pipes or terminal.
//!
//! Nothing here blocks but the one wait: what cannot be written is kept, bounded, and what fills up
//! is not read from. So a client that does not read slows its own command down and nothing else,
//! and a signal always gets through.

use super::connection::say;
use super::limits;
use super::registry::{KILLED, Registry, Started};
use crate::wire::{Answer, Exec, ExecControl, Spawn, channel, control_frame, frame, take_frame};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{Winsize, tcsetwinsize};
use std::collections::VecDeque;
use std::io::{self, PipeReader};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Output that waits for the client; more is left in the pipe.
const MOST_WAITING: usize = 256 * 1024;
/// What a pipe can hold at most. A command's output is in it when the command ends; what comes after
/// that much is from what it left in the background, which may write for ever.
const MOST_LEFT_BEHIND: usize = 1024 * 1024;
const CHUNK: usize = 64 * 1024;
/// Between SIGTERM and SIGKILL of a command whose time is up.
const GRACE: Duration = Duration::from_secs(2);
const TIMED_OUT: u8 = 124;

/// Runs the command until it ends or the keeper does.
pub fn run(stream: UnixStream, registry: &Registry, exec: Exec) -> io::Result<()> {
    let (exit, exit_inside) = io::pipe()?;
    let spawn = Spawn {
        sequence: 0,
        argv: exec.argv,
        env: environment(
            registry,
            exec.terminal.as_ref().map(|t| t.term.as_str()),
            exec.env,
        ),
        cwd: directory(registry, exec.cwd),
        terminal: exec.terminal.map(|terminal| (terminal.rows, terminal.cols)),
    };
    let (started, stdio) = if spawn.terminal.is_some() {
        (registry.start(spawn, &[], exit_inside)?, None)
    } else {
        let (stdin, ours_in) = io::pipe()?;
        let (ours_out, stdout) = io::pipe()?;
        let (ours_err, stderr) = io::pipe()?;
        let theirs = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
        let started = registry.start(spawn, &theirs, exit_inside)?;
        (
            started,
            Some((ours_in.into(), ours_out.into(), ours_err.into())),
        )
    };
    let (pid, terminal) = match started {
        Started::Running { pid, terminal } => (pid, terminal),
        Started::Not { code, cause } => return say(&stream, &Answer::NotStarted { code, cause }),
    };
    let (stdin, stdout, stderr) = match (stdio, &terminal) {
        (Some((stdin, stdout, stderr)), _) => (stdin, stdout, Some(stderr)),
        (None, Some(master)) => (master.try_clone()?, master.try_clone()?, None),
        (None, None) => return Err(io::Error::other("init passed no terminal")),
    };
    for descriptor in [Some(&stdin), Some(&stdout), stderr.as_ref()]
        .into_iter()
        .flatten()
    {
        rustix::io::ioctl_fionbio(descriptor, true)?;
    }
    stream.set_nonblocking(true)?;
    let deadline = exec
        .timeout_ms
        .map(|ms| Instant::now() + Duration::from_millis(ms));
    let mut session = Session {
        registry,
        client: Some(stream),
        pid,
        terminal,
        stdin: Some(stdin),
        stdout: Some(stdout),
        stderr,
        exit,
        deadline,
        incoming: Vec::new(),
        outgoing: VecDeque::new(),
        input: VecDeque::new(),
        close_stdin: false,
        timed_out: false,
        memory_kills: registry.limits().memory_kills(),
    };
    session.say(&Answer::Started)?;
    session.run()
}

struct Session<'a> {
    registry: &'a Registry,
    /// `None`: the daemon is gone, the command goes on.
    client: Option<UnixStream>,
    pid: i32,
    terminal: Option<OwnedFd>,
    stdin: Option<OwnedFd>,
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
    exit: PipeReader,
    deadline: Option<Instant>,
    incoming: Vec<u8>,
    outgoing: VecDeque<u8>,
    input: VecDeque<u8>,
    close_stdin: bool,
    timed_out: bool,
    /// Processes that had been killed for want of memory when this command began.
    memory_kills: u64,
}

/// What the wait found.
#[derive(Default)]
struct Ready {
    exited: bool,
    client_in: bool,
    client_out: bool,
    stdin: bool,
    stdout: bool,
    stderr: bool,
}

// === impl Session ===

impl Session<'_> {
    fn run(&mut self) -> io::Result<()> {
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
                return self.finish();
            }
        }
    }

    fn wait(&self) -> io::Result<Ready> {
        let mut sources = vec![PollFd::new(&self.exit, PollFlags::IN)];
        let mut roles: Vec<fn(&mut Ready)> = vec![|ready| ready.exited = true];
        let room = self.outgoing.len() < MOST_WAITING || self.client.is_none();
        if let Some(client) = &self.client {
            sources.push(PollFd::new(client, PollFlags::IN));
            roles.push(|ready| ready.client_in = true);
            if !self.outgoing.is_empty() {
                sources.push(PollFd::new(client, PollFlags::OUT));
                roles.push(|ready| ready.client_out = true);
            }
        }
        if let Some(stdin) = &self.stdin
            && (!self.input.is_empty() || self.close_stdin)
        {
            sources.push(PollFd::new(stdin, PollFlags::OUT));
            roles.push(|ready| ready.stdin = true);
        }
        if let Some(stdout) = self.stdout.as_ref().filter(|_| room) {
            sources.push(PollFd::new(stdout, PollFlags::IN));
            roles.push(|ready| ready.stdout = true);
        }
        if let Some(stderr) = self.stderr.as_ref().filter(|_| room) {
            sources.push(PollFd::new(stderr, PollFlags::IN));
            roles.push(|ready| ready.stderr = true);
        }
        let timeout = self.deadline.map(|deadline| {
            let left = deadline.saturating_duration_since(Instant::now());
            Timespec {
                tv_sec: left.as_secs() as i64,
                tv_nsec: i64::from(left.subsec_nanos()),
            }
        });
        match poll(&mut sources, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut ready = Ready::default();
        for (source, role) in sources.iter().zip(roles) {
            if !source.revents().is_empty() {
                role(&mut ready);
            }
        }
        Ok(ready)
    }

    fn read_client(&mut self) {
        let Some(client) = &self.client else { return };
        let mut chunk = vec![0; CHUNK];
        match rustix::io::read(client, &mut chunk) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            // A daemon that died: the command goes on, its output has no reader.
            Ok(0) | Err(_) => {
                self.client = None;
                self.close_stdin = true;
            }
            Ok(length) => self.incoming.extend(&chunk[..length]),
        }
    }

    fn handle_frames(&mut self) -> io::Result<()> {
        while let Some((kind, payload)) = take_frame(&mut self.incoming)? {
            if kind == channel::STDIN {
                self.input.extend(payload);
                continue;
            }
            match serde_json::from_slice(&payload)? {
                ExecControl::StdinEof => self.close_stdin = true,
                ExecControl::Resize { rows, cols } => self.resize(rows, cols),
                ExecControl::Signal(signal) => self.registry.signal(self.pid, signal),
                ExecControl::Hangup => self.hang_up(),
            }
        }
        Ok(())
    }

    /// The client went away on purpose. A terminal is closed for real: a shell that missed the
    /// signal just before it began to read notices that there is nothing to read from any more.
    fn hang_up(&mut self) {
        self.registry.signal(self.pid, libc::SIGHUP);
        self.client = None;
        self.close_stdin = true;
        if self.terminal.take().is_some() {
            self.stdin = None;
            self.stdout = None;
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
                // Nobody reads it any more: what the client still sends is taken and dropped.
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
        if taken > 0 {
            self.say(&Answer::StdinTaken(taken as u64))
        } else {
            Ok(())
        }
    }

    /// A terminal is told by its end-of-file character, a pipe by closing it.
    fn end_stdin(&mut self) {
        if let (Some(terminal), Some(_)) = (&self.terminal, &self.client) {
            const END_OF_FILE: &[u8] = &[4];
            let _ = rustix::io::write(terminal, END_OF_FILE);
        }
        self.stdin = None;
    }

    /// Takes what is there of one output; an end or an error ends that output. Returns how much.
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
                if self.client.is_some() {
                    self.outgoing.extend(frame(kind, &chunk[..length]));
                }
                length
            }
        }
    }

    fn write_client(&mut self) {
        let Some(client) = &self.client else { return };
        while !self.outgoing.is_empty() {
            let (piece, _) = self.outgoing.as_slices();
            match rustix::io::write(client, piece) {
                Ok(length) => drop(self.outgoing.drain(..length)),
                Err(Errno::AGAIN | Errno::INTR) => return,
                Err(_) => {
                    self.outgoing.clear();
                    return self.read_last_words();
                }
            }
        }
    }

    /// Whoever closed the connection may have said before that it hangs up.
    fn read_last_words(&mut self) {
        let Some(client) = self.client.take() else {
            return;
        };
        self.close_stdin = true;
        let mut chunk = vec![0; CHUNK];
        while let Ok(length @ 1..) = rustix::io::read(&client, &mut chunk) {
            self.incoming.extend(&chunk[..length]);
        }
    }

    fn say(&mut self, answer: &Answer) -> io::Result<()> {
        if self.client.is_some() {
            self.outgoing.extend(control_frame(answer)?);
        }
        Ok(())
    }

    fn check_time(&mut self) {
        if self
            .deadline
            .is_some_and(|deadline| deadline <= Instant::now())
        {
            let signal = if self.timed_out {
                libc::SIGKILL
            } else {
                libc::SIGTERM
            };
            self.registry.signal(self.pid, signal);
            self.deadline = (!self.timed_out).then(|| Instant::now() + GRACE);
            self.timed_out = true;
        }
    }

    /// The command ended: what it wrote before is in the pipes; what its children still write later
    /// is not waited for.
    fn finish(&mut self) -> io::Result<()> {
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
        }
        if let Some(word) = self.last_word(code) {
            let word = format!("holm: {word}\n");
            self.outgoing
                .extend(frame(channel::STDERR, word.as_bytes()));
        }
        self.say(&Answer::Exit(code))?;
        self.flush_to(0)
    }

    /// Why a command was killed, when that was done for it and not by it.
    fn last_word(&self, code: u8) -> Option<&'static str> {
        self.client.as_ref()?;
        let registry = self.registry;
        if registry.why_ended() == Some(limits::DISK) {
            return Some("the workspace was stopped: it takes more disk than its limit");
        }
        (code == KILLED && registry.limits().memory_kills() > self.memory_kills)
            .then_some("killed: the workspace reached its limit of memory")
    }

    /// Writes to the client until at most `rest` bytes wait, however slow it is.
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

/// The workspace's own environment, then what the request adds.
pub(super) fn environment(
    registry: &Registry,
    term: Option<&str>,
    added: Vec<(Vec<u8>, Vec<u8>)>,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut environment: Vec<(Vec<u8>, Vec<u8>)> = registry
        .plan
        .environment
        .iter()
        .map(|(name, value)| (name.clone().into_bytes(), value.clone().into_bytes()))
        .collect();
    environment.push((
        b"HOLM_WORKSPACE_LABEL".to_vec(),
        registry.label().into_bytes(),
    ));
    environment.push((b"TERM".to_vec(), term.unwrap_or("dumb").as_bytes().to_vec()));
    environment.extend(added);
    environment
}

fn directory(registry: &Registry, asked: Option<Vec<u8>>) -> Vec<u8> {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let root = &registry.plan.root;
    let path = match asked {
        Some(asked) => root.join(std::ffi::OsString::from_vec(asked)),
        None => root.clone(),
    };
    path.as_os_str().as_bytes().to_vec()
}
