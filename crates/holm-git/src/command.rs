//! The builder of git commands. Everything in this crate that runs git goes through [`Git`].
//!
//! The environment starts empty, so no `GIT_*` variable of the caller leaks in. A *client* command
//! sees the user's configuration and home. A *sealed* one sees only the configuration of its git
//! directory, and has hooks, fsmonitor and every transport switched off. User input is passed only
//! behind `--end-of-options` or on stdin.

use crate::GitError;
use crate::remote::without_userinfo;
use crate::version::{MINIMUM_VERSION, Version};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// A flag that cancels long work: git is killed and partial results are removed.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

/// A git command under construction.
pub(crate) struct Git {
    command: Command,
    /// The subcommand, also for error messages.
    name: String,
    stdin: Option<Vec<u8>>,
    /// Instead of `stdin`.
    stdin_file: Option<File>,
    cancel: Option<Cancel>,
}

/// A running git process.
pub(crate) struct Running {
    child: Child,
    name: String,
    stdin: Vec<u8>,
    cancel: Option<Cancel>,
}

/// The result of a git process.
pub(crate) struct Finished {
    pub name: String,
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

/// The variables that locate the user's git configuration.
const CLIENT_VARIABLES: &[&str] = &[
    "HOME",
    "XDG_CONFIG_HOME",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "TMPDIR",
];

/// Settings of every command: no program of a repository runs by itself, and no URL is rewritten.
const COMMON_CONFIG: &[&str] = &[
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "gc.auto=0",
    "maintenance.auto=false",
];

/// Further settings of client commands. A directory that only looks like a bare repository, such as
/// one fetched from a workspace, is not used as one, and no program of a repository lists the refs
/// of its alternates.
const CLIENT_CONFIG: &[&str] = &[
    "safe.bareRepository=explicit",
    "core.alternateRefsCommand=:",
];

/// Further settings of sealed commands: no transport, no prompts, no filters.
const SEALED_CONFIG: &[&str] = &[
    "protocol.allow=never",
    "safe.bareRepository=all",
    "core.askPass=",
    "credential.helper=",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "submodule.recurse=false",
];

/// How often a running git is checked for cancellation.
const CANCEL_POLL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 25_000_000,
};

/// How much of the end of stderr is kept.
const STDERR_KEPT: usize = 64 * 1024;

/// The version of the git program, if it is new enough.
pub fn version() -> Result<Version, GitError> {
    let output = Git::sealed("version")?.args([""; 0]).output()?;
    let text = String::from_utf8_lossy(&output);
    let found = Version::parse(&text).ok_or_else(|| GitError::unexpected("version", &output))?;
    if found < MINIMUM_VERSION {
        return Err(GitError::TooOld { found });
    }
    Ok(found)
}

/// Fails when git is missing or too old. Checked once per process.
pub fn require_version() -> Result<(), GitError> {
    known_version().map(drop)
}

/// The version that the first call of this process found.
pub(crate) fn known_version() -> Result<Version, GitError> {
    static GOOD: OnceLock<Version> = OnceLock::new();
    match GOOD.get() {
        Some(found) => Ok(*found),
        // Two threads that set it at the same time set the same value.
        None => Ok(*GOOD.get_or_init({
            let found = version()?;
            move || found
        })),
    }
}

// === impl Cancel ===

impl Cancel {
    pub fn raise(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    pub(crate) fn check(&self) -> Result<(), GitError> {
        if self.is_raised() {
            return Err(GitError::Cancelled);
        }
        Ok(())
    }
}

// === impl Git ===

impl Git {
    /// A command in the user's repository around `directory`, with the user's configuration.
    pub fn client(directory: &Path, name: &str) -> Result<Self, GitError> {
        let mut command = bare_command()?;
        for variable in CLIENT_VARIABLES {
            if let Some(value) = std::env::var_os(variable) {
                command.env(variable, value);
            }
        }
        command.current_dir(directory);
        let config = COMMON_CONFIG.iter().chain(CLIENT_CONFIG);
        Ok(Self::start(command, config, name))
    }

    /// A command that sees no user configuration and needs no git directory. For one that does, use
    /// [`Git::sealed_in`].
    pub fn sealed(name: &str) -> Result<Self, GitError> {
        let mut command = sealed_command()?;
        command.current_dir("/");
        let config = COMMON_CONFIG.iter().chain(SEALED_CONFIG);
        Ok(Self::start(command, config, name))
    }

    /// A sealed command on `git_dir`.
    pub fn sealed_in(git_dir: &Path, name: &str) -> Result<Self, GitError> {
        let mut command = sealed_command()?;
        // Older versions read the current directory even with an explicit git directory.
        command.current_dir(git_dir);
        command.arg("--git-dir").arg(git_dir);
        let config = COMMON_CONFIG.iter().chain(SEALED_CONFIG);
        Ok(Self::start(command, config, name))
    }

    fn start<'a>(
        mut command: Command,
        config: impl Iterator<Item = &'a &'a str>,
        name: &str,
    ) -> Self {
        command.arg("--no-pager");
        for setting in config {
            command.arg("-c").arg(setting);
        }
        Self {
            command,
            name: name.to_owned(),
            stdin: None,
            stdin_file: None,
            cancel: None,
        }
    }

    /// Adds a setting. Must be called before [`Git::args`].
    pub fn config(mut self, setting: &str) -> Self {
        self.command.arg("-c").arg(setting);
        self
    }

    /// Sets a work tree other than the one git would find.
    pub fn work_tree(mut self, path: &Path) -> Self {
        self.command.arg("--work-tree").arg(path).current_dir(path);
        self
    }

    /// Sets the subcommand and its arguments. Call once, after all settings.
    pub fn args<I, S>(mut self, args: I) -> Self
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        self.command.arg(&self.name).args(args);
        self
    }

    /// Adds arguments after [`Git::args`].
    pub fn more<I, S>(mut self, args: I) -> Self
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        self.command.args(args);
        self
    }

    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub fn stdin(mut self, bytes: Vec<u8>) -> Self {
        self.stdin = Some(bytes);
        self
    }

    /// Reads stdin from `file`, from its current position.
    pub fn stdin_from(mut self, file: File) -> Self {
        self.stdin_file = Some(file);
        self
    }

    /// Sends stdout to `file` instead of memory.
    pub fn stdout_to(mut self, file: File) -> Self {
        self.command.stdout(file);
        self
    }

    pub fn cancel(mut self, cancel: &Cancel) -> Self {
        // A process group of its own, so that git's helpers are killed with it.
        self.command.process_group(0);
        self.cancel = Some(cancel.clone());
        self
    }

    /// Lets git run to its end even when this process is killed or interrupted.
    pub fn detached(mut self) -> Self {
        self.command.process_group(0);
        self
    }

    /// The built command, for a caller that copies the bytes itself.
    pub fn into_command(self) -> Command {
        self.command
    }

    pub fn spawn(mut self) -> Result<Running, GitError> {
        let stdin = match (&self.stdin, self.stdin_file) {
            (_, Some(file)) => Stdio::from(file),
            (Some(_), None) => Stdio::piped(),
            (None, None) => Stdio::null(),
        };
        self.command.stdin(stdin).stderr(Stdio::piped());
        let child = self.command.spawn().map_err(|source| GitError::Spawn {
            command: self.name.clone(),
            source,
        })?;
        Ok(Running {
            child,
            name: self.name,
            stdin: self.stdin.unwrap_or_default(),
            cancel: self.cancel,
        })
    }

    /// Runs to the end, whatever the exit code.
    pub fn run(self) -> Result<Finished, GitError> {
        self.spawn()?.finish()
    }

    /// Runs to the end; returns stdout, or an error if git failed.
    pub fn output(self) -> Result<Vec<u8>, GitError> {
        self.run()?.success()
    }
}

// === impl Running ===

impl Running {
    pub fn finish(self) -> Result<Finished, GitError> {
        self.finish_with(&mut |_| {})
    }

    /// As [`Running::finish`]; passes stderr to `on_stderr` as it arrives.
    pub fn finish_with(mut self, on_stderr: &mut dyn FnMut(&[u8])) -> Result<Finished, GitError> {
        let pumped = self.pump(on_stderr);
        if pumped.is_err() {
            self.kill();
        }
        let waited = self.child.wait();
        let (stdout, stderr) = pumped?;
        let status = waited.map_err(|source| GitError::Spawn {
            command: self.name.clone(),
            source,
        })?;
        Ok(Finished {
            name: self.name,
            status,
            stdout,
            stderr,
        })
    }

    fn kill(&mut self) {
        // Both fail only when git has ended already.
        if self.cancel.is_some() {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        }
        let _ = self.child.kill();
    }

    /// Copies all three streams in one thread until git closes them.
    fn pump(&mut self, on_stderr: &mut dyn FnMut(&[u8])) -> Result<(Vec<u8>, Vec<u8>), GitError> {
        let mut stdin = self.child.stdin.take();
        let mut stdout = self.child.stdout.take();
        let mut stderr = self.child.stderr.take();
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut written = 0;
        let failed = |source: io::Error| GitError::Spawn {
            command: self.name.clone(),
            source,
        };
        if let Some(pipe) = &stdin {
            rustix::io::ioctl_fionbio(pipe, true).map_err(|errno| failed(errno.into()))?;
        }
        while stdin.is_some() || stdout.is_some() || stderr.is_some() {
            if let Some(cancel) = &self.cancel {
                cancel.check()?;
            }
            let ready = wait_ready(
                [
                    stdin.as_ref().map(|pipe| (pipe.as_fd(), PollFlags::OUT)),
                    stdout.as_ref().map(|pipe| (pipe.as_fd(), PollFlags::IN)),
                    stderr.as_ref().map(|pipe| (pipe.as_fd(), PollFlags::IN)),
                ],
                self.cancel.as_ref().map(|_| &CANCEL_POLL),
            )
            .map_err(failed)?;
            if ready[0] && feed(&mut stdin, &self.stdin, &mut written).map_err(failed)? {
                stdin = None;
            }
            if ready[1] && drain(&mut stdout, &mut out, &mut |_| {}).map_err(failed)? {
                stdout = None;
            }
            if ready[2] {
                if drain(&mut stderr, &mut err, on_stderr).map_err(failed)? {
                    stderr = None;
                }
                holm_core::cut::keep_end(&mut err, STDERR_KEPT);
            }
        }
        Ok((out, err))
    }
}

// === impl Finished ===

impl Finished {
    pub fn success(self) -> Result<Vec<u8>, GitError> {
        if self.status.success() {
            return Ok(self.stdout);
        }
        Err(self.error())
    }

    /// Git's own reason why it failed.
    pub fn error(&self) -> GitError {
        let text = String::from_utf8_lossy(&self.stderr);
        let mut lines: Vec<&str> = text
            .lines()
            .map(|line| line.rsplit('\r').next().unwrap_or_default().trim())
            .map(|line| line.strip_prefix("remote: ").unwrap_or(line))
            .filter(|line| line.starts_with("fatal:") || line.starts_with("error:"))
            .collect();
        if lines.is_empty() {
            lines = text.lines().map(str::trim).rev().take(3).collect();
            lines.reverse();
        }
        lines.truncate(4);
        let detail = match lines.join("; ") {
            empty if empty.is_empty() => self.status.to_string(),
            said => said,
        };
        GitError::Failed {
            command: self.name.clone(),
            detail,
        }
    }

    /// Git's own reason why a remote repository could not be read. User names and passwords in URLs
    /// are removed: the user's clone may have stored some.
    pub fn remote_error(&self, url: &str) -> GitError {
        match self.error() {
            GitError::Failed { detail, .. } => GitError::Remote {
                url: url.to_owned(),
                detail: without_userinfo(&detail),
            },
            other => other,
        }
    }
}

type Pipe<'a> = Option<(rustix::fd::BorrowedFd<'a>, PollFlags)>;

/// Polls the pipes; returns which are ready.
fn wait_ready(pipes: [Pipe<'_>; 3], limit: Option<&Timespec>) -> io::Result<[bool; 3]> {
    let mut polled = Vec::with_capacity(3);
    for (fd, flags) in pipes.iter().flatten() {
        polled.push(PollFd::from_borrowed_fd(*fd, *flags));
    }
    match poll(&mut polled, limit) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(errno) => return Err(errno.into()),
    }
    let mut events = polled.iter().map(|fd| !fd.revents().is_empty());
    let mut ready = [false; 3];
    for (slot, pipe) in ready.iter_mut().zip(&pipes) {
        if pipe.is_some() {
            *slot = events.next().unwrap_or(false);
        }
    }
    Ok(ready)
}

/// Writes a part of `bytes`; true when all is written.
fn feed(pipe: &mut Option<impl Write>, bytes: &[u8], written: &mut usize) -> io::Result<bool> {
    let Some(pipe) = pipe else { return Ok(true) };
    match pipe.write(&bytes[*written..]) {
        Ok(count) => *written += count,
        // Git stopped reading; its exit code says whether that is an error.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
        Err(error) => return Err(error),
    }
    Ok(*written >= bytes.len())
}

/// Reads what is available; true at EOF.
fn drain(
    pipe: &mut Option<impl Read>,
    into: &mut Vec<u8>,
    seen: &mut dyn FnMut(&[u8]),
) -> io::Result<bool> {
    let Some(pipe) = pipe else { return Ok(true) };
    let mut buffer = [0u8; 64 * 1024];
    match pipe.read(&mut buffer) {
        Ok(0) => Ok(true),
        Ok(count) => {
            seen(&buffer[..count]);
            into.extend_from_slice(&buffer[..count]);
            Ok(false)
        }
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok(false),
        Err(error) => Err(error),
    }
}

fn sealed_command() -> Result<Command, GitError> {
    let mut command = bare_command()?;
    command
        .env("HOME", "/nonexistent")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .env("GIT_ATTR_NOSYSTEM", "1")
        .env("GIT_NO_LAZY_FETCH", "1");
    Ok(command)
}

fn bare_command() -> Result<Command, GitError> {
    // With an absolute path the standard library uses posix_spawn, which does not copy the page
    // tables of a large daemon.
    let mut command = Command::new(program()?);
    command
        .env_clear()
        .env("PATH", search_path())
        .env("LC_ALL", "C")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_NO_REPLACE_OBJECTS", "1")
        .stdout(Stdio::piped());
    Ok(command)
}

fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into())
}

/// The path of git. Looked up once, because PATH does not change.
pub(crate) fn program() -> Result<&'static Path, GitError> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let found = PROGRAM.get_or_init(|| {
        std::env::split_paths(&search_path())
            .filter(|directory| directory.is_absolute())
            .map(|directory| directory.join("git"))
            .find(|path| {
                std::fs::metadata(path)
                    .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
            })
    });
    found.as_deref().ok_or(GitError::Missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn much_input_and_much_output_do_not_block_each_other() {
        let lines = "x\n".repeat(400_000).into_bytes();
        let output = Git::sealed("stripspace").unwrap();
        let output = output.args([""; 0]).stdin(lines.clone()).output().unwrap();
        assert_eq!(output.len(), lines.len());
    }

    #[test]
    fn a_raised_flag_ends_git_that_would_never_end() {
        let cancel = Cancel::default();
        let other = cancel.clone();
        let (reader, writer) = std::io::pipe().unwrap();
        let mut git = Git::sealed("stripspace")
            .unwrap()
            .args([""; 0])
            .cancel(&cancel);
        git.command.stdout(Stdio::piped());
        let mut command = git.into_command();
        let child = command
            .stdin(reader)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let running = Running {
            child,
            name: "stripspace".to_owned(),
            stdin: Vec::new(),
            cancel: Some(cancel),
        };
        let raise = std::thread::spawn(move || other.raise());
        assert!(matches!(running.finish(), Err(GitError::Cancelled)));
        raise.join().unwrap();
        drop(writer);
    }
}
