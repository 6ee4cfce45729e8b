//! Reads `/proc` of one process: whether it is the expected one, and whether it can run. The driver
//! checks keepers, keepers check init. Also reaps children, for the processes inside that have some.

use crate::wire::Incarnation;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions, pidfd_open, pidfd_send_signal,
    wait, waitid,
};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long a process may be in an uninterruptible wait before it counts as stuck. Heavy disk
/// traffic causes shorter waits.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Most files of `/proc` are shorter.
const USUAL_LENGTH: usize = 4096;

/// The flag in `/proc/<pid>/stat` of an exiting process.
const EXITING: u64 = 0x4;

/// Where the workspace's processes are, if it is not `/proc`.
static PROCESSES: OnceLock<PathBuf> = OnceLock::new();

/// Why a process cannot answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standstill {
    Frozen,
    Stopped,
    /// In an uninterruptible wait.
    Hanging,
    /// It was killed or exits; in a moment it is gone.
    Ending,
}

/// Whether the calling process still has children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Children {
    None,
    Some,
}

/// Has this process look at the processes below `place`, a mounted procfs of another pid namespace. A keeper whose
/// workspace has a pid namespace that is not below its own calls this once, before it looks at any process.
pub fn look_below(place: PathBuf) {
    // The first call counts.
    let _ = PROCESSES.set(place);
}

/// A file or directory of a process.
pub fn place_of(pid: i32, file: &str) -> PathBuf {
    let processes = PROCESSES.get().map_or(Path::new("/proc"), PathBuf::as_path);
    processes.join(format!("{pid}/{file}"))
}

/// Waits for the end of a child, and says in words how it ended. Of a process that is no child, the kernel says
/// nothing more than that it ended.
pub fn how_ended(pidfd: &OwnedFd) -> String {
    let status = waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED)
        .ok()
        .flatten();
    match status.map(|status| (status.terminating_signal(), status.exit_status())) {
        Some((Some(signal), _)) => format!("was killed by signal {signal}"),
        Some((_, Some(code))) => format!("ended with code {code}"),
        _ => "ended".to_owned(),
    }
}

/// Waits for the end of a process: of its last thread, although its first may be a zombie before.
pub fn ends_within(pidfd: &OwnedFd, limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec {
            tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        match poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&left)) {
            // A signal, such as that of another child's end.
            Err(Errno::INTR) => {}
            ended => return matches!(ended, Ok(1..)),
        }
    }
}

/// Reaps every child that ended, orphans too. `report` gets its pid and its exit code as in a shell.
pub fn reap(mut report: impl FnMut(i32, u8) -> io::Result<()>) -> io::Result<Children> {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => {
                let code = match (status.exit_status(), status.terminating_signal()) {
                    (Some(code), _) => code as u8,
                    (None, Some(signal)) => 128u8.saturating_add(signal as u8),
                    (None, None) => 255,
                };
                report(pid.as_raw_nonzero().get(), code)?;
            }
            Ok(None) => return Ok(Children::Some),
            Err(Errno::CHILD) => return Ok(Children::None),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The kernel's letter for what a process or a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateLetter(pub char);

/// A process or a thread, as `/proc/<pid>/stat` shows it.
#[derive(Clone, Copy, Debug)]
pub struct Stat {
    pub state: StateLetter,
    pub parent: i32,
    pub group: i32,
    pub session: i32,
    flags: u64,
    started: u64,
}

/// Whether one process can go on, in one system call.
pub struct Pulse(File);

/// Of the process or thread that has this pid now.
pub fn stat(pid: i32) -> Option<Stat> {
    parse_stat(&read_stat(pid)?)
}

/// Reads `/proc/<pid>/stat` with one system call. The kernel makes a new text for each read.
pub fn read_stat(pid: i32) -> Option<String> {
    Pulse::of(pid)?.text()
}

/// Reads a file of `/proc` or of a control group. Such a file says that it is empty, so `std::fs::read` would begin with 32
/// bytes and need up to ten system calls.
pub fn read_proc(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(USUAL_LENGTH);
    File::open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// As [`read_proc`], of a file that has text.
pub fn read_proc_text(path: impl AsRef<Path>) -> io::Result<String> {
    String::from_utf8(read_proc(path)?).map_err(io::Error::other)
}

fn parse_stat(text: &str) -> Option<Stat> {
    // The name is between the first and the last parenthesis and may contain any byte.
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = StateLetter(fields.next()?.chars().next()?);
    let mut number = || fields.next()?.parse().ok();
    let (parent, group, session) = (number()?, number()?, number()?);
    // The session is the sixth field, the flags are the ninth, the start time is the 22nd.
    let flags = fields.nth(2)?.parse().ok()?;
    let started = fields.nth(12)?.parse().ok()?;
    Some(Stat {
        state,
        parent,
        group,
        session,
        flags,
        started,
    })
}

// === impl StateLetter ===

impl StateLetter {
    pub fn has_ended(self) -> bool {
        matches!(self.0, 'Z' | 'X')
    }

    pub fn is_stopped(self) -> bool {
        matches!(self.0, 'T' | 't')
    }

    /// In an uninterruptible wait.
    pub fn waits(self) -> bool {
        self.0 == 'D'
    }
}

/// The depth of a process's pid namespace, relative to this process.
pub fn depth(pid: i32) -> Option<usize> {
    let status = read_proc_text(place_of(pid, "status")).ok()?;
    Some(numbers(&status)?.count())
}

/// The pid of a process in the pid namespace at this depth, from its `/proc/<pid>/status`. A
/// workspace with `nested` creates further namespaces and chooses the pids there, so only the one
/// at init's depth is reliable.
pub fn number_at(status: &str, depth: usize) -> Option<i32> {
    numbers(status)?.nth(depth.checked_sub(1)?)?.parse().ok()
}

/// The outermost namespace comes first.
fn numbers(status: &str) -> Option<std::str::SplitAsciiWhitespace<'_>> {
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("NSpid:"))?;
    Some(line.split_ascii_whitespace())
}

/// Whether SIGKILL is pending until the process gets a processor. On a busy machine that takes a
/// while, and until then everything else looks normal.
fn is_killed(pid: i32) -> bool {
    let text = read_proc_text(place_of(pid, "status")).unwrap_or_default();
    let pending = text.lines().filter_map(|line| {
        let masks = ["SigPnd:", "ShdPnd:"];
        let mask = masks.iter().find_map(|name| line.strip_prefix(name))?;
        u64::from_str_radix(mask.trim(), 16).ok()
    });
    let kill = 1u64 << (libc::SIGKILL - 1);
    pending.into_iter().any(|mask| mask & kill != 0)
}

/// Why a process cannot answer, if so. Blocks when it seems stuck.
pub fn standstill(pid: i32, is_frozen: bool) -> Option<Standstill> {
    if is_frozen {
        return Some(Standstill::Frozen);
    }
    if stat(pid)?.flags & EXITING != 0 || is_killed(pid) {
        return Some(Standstill::Ending);
    }
    let mut waited = Duration::ZERO;
    let pause = Duration::from_millis(20);
    loop {
        match stat(pid)?.state.0 {
            'T' | 't' => return Some(Standstill::Stopped),
            'D' if waited >= LONGEST_WAIT => return Some(Standstill::Hanging),
            'D' => {}
            _ => return None,
        }
        std::thread::sleep(pause);
        waited += pause;
    }
}

// === impl Standstill ===

impl fmt::Display for Standstill {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Frozen => "is frozen",
            Self::Stopped => "is stopped",
            Self::Hanging => "hangs in the kernel",
            Self::Ending => "is ending",
        })
    }
}

// === impl Pulse ===

impl Pulse {
    /// Of the process that has this pid now.
    pub fn of(pid: i32) -> Option<Self> {
        File::open(place_of(pid, "stat")).ok().map(Self)
    }

    fn text(&self) -> Option<String> {
        let mut text = [0; 1024];
        let length = self.0.read_at(&mut text, 0).ok()?;
        Some(String::from_utf8_lossy(&text[..length]).into_owned())
    }

    /// `false`: it has ended, or [`standstill`] has to say whether it can answer.
    pub fn is_steady(&self) -> bool {
        let text = self.text().unwrap_or_default();
        let is_steady = |stat: Stat| stat.flags & EXITING == 0 && matches!(stat.state.0, 'R' | 'S');
        parse_stat(&text).is_some_and(is_steady)
    }
}

// === impl Incarnation ===

impl Incarnation {
    /// The process that has this pid now.
    pub fn of(pid: i32) -> Option<Self> {
        let started = stat(pid)?.started;
        Some(Self { pid, started })
    }

    /// Whether it still runs. A zombie does not.
    pub fn is_alive(&self) -> bool {
        let alive = |stat: &Stat| stat.started == self.started && !stat.state.has_ended();
        stat(self.pid).as_ref().is_some_and(alive)
    }

    /// Kills it, and never a process that reused its pid.
    pub fn kill(&self) {
        if let Some(pidfd) = self.pin() {
            // It may have ended meanwhile.
            let _ = pidfd_send_signal(&pidfd, Signal::KILL);
        }
    }

    /// Waits for its end; `false`: it is still alive. Blocks.
    pub fn ends_within(&self, limit: Duration) -> bool {
        let Some(pidfd) = self.pin() else {
            return true;
        };
        ends_within(&pidfd, limit) || !self.is_alive()
    }

    /// Its pidfd; the identity is checked after opening it.
    fn pin(&self) -> Option<OwnedFd> {
        let pidfd = pidfd_open(Pid::from_raw(self.pid)?, PidfdFlags::empty()).ok()?;
        self.is_alive().then_some(pidfd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::kill_process;
    use std::process::Command;

    #[test]
    fn the_number_that_counts_is_the_one_at_the_depth_of_init() {
        let status = "Name:\tNSpid: 1 7\nPPid:\t8\nNSpid:\t4711\t23\t301\nNSpgid:\t9\n";
        assert_eq!(number_at(status, 2), Some(23));
        assert_eq!(number_at(status, 3), Some(301));
        // A process outside a namespace of that depth has no pid there.
        assert_eq!(number_at(status, 4), None);
        assert_eq!(number_at(status, 0), None);
        assert_eq!(number_at("Name:\tx\n", 1), None);
        assert_eq!(depth(std::process::id().cast_signed()), Some(1));
    }

    #[test]
    fn a_number_that_is_used_again_is_not_the_process_attack_156() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = child.id() as i32;
        let real = Incarnation::of(pid).unwrap();
        let pulse = Pulse::of(pid).unwrap();
        assert!(pulse.is_steady());
        let earlier = Incarnation {
            pid,
            started: real.started - 1,
        };
        assert!(real.is_alive() && !earlier.is_alive());
        earlier.kill();
        assert!(earlier.ends_within(Duration::ZERO));
        assert!(real.is_alive() && !real.ends_within(Duration::ZERO));
        assert_eq!(standstill(pid, false), None);
        kill_process(Pid::from_raw(pid).unwrap(), Signal::STOP).unwrap();
        while standstill(pid, false).is_none() {
            std::thread::yield_now();
        }
        assert!(!pulse.is_steady());
        real.kill();
        assert!(real.ends_within(Duration::from_secs(10)));
        assert!(!real.is_alive(), "a zombie is not alive");
        assert_eq!(standstill(pid, false), Some(Standstill::Ending));
        assert!(!pulse.is_steady());
        child.wait().unwrap();
        assert!(!pulse.is_steady());
    }
}
