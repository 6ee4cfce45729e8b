//! A running command: its output line by line, signals to it, its end.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

pub struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

// === impl Running ===

impl Running {
    /// Starts it with pipes on stdin and stdout; stderr as the command says.
    pub fn new(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        Self {
            child,
            stdin,
            stdout,
        }
    }

    /// The next line of stdout, without its end; empty at the end.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end_matches('\n').to_owned()
    }

    /// Waits for exactly this line.
    #[track_caller]
    pub fn says(&mut self, expected: &str) {
        assert_eq!(self.line(), expected);
    }

    pub fn write(&mut self, text: &str) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        stdin.write_all(text.as_bytes()).unwrap();
    }

    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        send(self.pid(), signal);
    }

    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for its end: the exit code, or `None` when a signal ended it.
    pub fn code(&mut self) -> Option<i32> {
        self.stdin = None;
        let mut rest = Vec::new();
        self.stdout.read_to_end(&mut rest).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Only what a failed test left: a process that was waited for is not signalled.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// A signal to a process that the test started.
pub fn send(pid: i32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid).expect("a pid");
    rustix::process::kill_process(pid, signal).unwrap();
}
