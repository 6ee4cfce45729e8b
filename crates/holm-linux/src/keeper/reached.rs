//! Finds per-user kernel resources that are exhausted. Checked when the daemon asks for the status,
//! because the kernel reports this only to the refused program.

use super::Workspace;
use crate::launch::shares;
use crate::sys::scarce::{self, ProgramLimits, Scarce};
use holm_keeper::process::read_proc_text;
use std::fs;
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The shortest interval between two checks, each of which starts a process.
const PAUSE: Duration = Duration::from_millis(250);

/// The names that users see.
const NAMES: [(Scarce, &str); 6] = [
    (Scarce::DescriptorsInFlight, "descriptors_in_flight"),
    (Scarce::InotifyInstances, "inotify_instances"),
    (Scarce::InotifyWatches, "inotify_watches"),
    (Scarce::MessageQueues, "message_queues"),
    (Scarce::PipePages, "pipe_pages"),
    (Scarce::EpollWatches, "epoll_watches"),
];

#[derive(Default)]
pub struct Reached(Mutex<LastReading>);

#[derive(Default)]
struct LastReading {
    at: Option<Instant>,
    names: Vec<String>,
}

// === impl Reached ===

impl Reached {
    pub fn look(&self, workspace: &Workspace) -> Vec<String> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.at.is_none_or(|at| at.elapsed() >= PAUSE) {
            seen.names = look(workspace).into_iter().map(str::to_owned).collect();
            seen.at = Some(Instant::now());
        }
        seen.names.clone()
    }
}

/// A failed check reports nothing: init may be ending.
fn look(workspace: &Workspace) -> Vec<&'static str> {
    let of_init = |file: &str| read_proc_text(format!("/proc/{}/{file}", workspace.pid));
    let (Ok(limits), Ok(status)) = (of_init("limits"), of_init("status")) else {
        return Vec::new();
    };
    let limits = ProgramLimits {
        open_files: hard_limit(&limits, "Max open files").unwrap_or(u64::MAX),
        queue_bytes: hard_limit(&limits, "Max msgqueue size").unwrap_or(u64::MAX),
    };
    let found = scarce::look(workspace.init.as_fd(), limits).unwrap_or(0);
    let used_up = NAMES.iter().filter(|(what, _)| found & *what as i32 != 0);
    let mut names: Vec<_> = used_up.map(|(_, name)| *name).collect();
    if are_signals_used_up(&status) {
        names.push("pending_signals");
    }
    let terminals = fs::read_dir(format!("/proc/{}/root/dev/pts", workspace.pid));
    // One entry is `ptmx`, which is not a terminal.
    let open = terminals.map_or(0, |terminals| terminals.count().saturating_sub(1));
    if shares::terminals().is_some_and(|most| open as u64 >= most) {
        names.push("terminals");
    }
    names
}

/// The hard limit in a line of `/proc/<pid>/limits`; `None`: unlimited.
fn hard_limit(limits: &str, name: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// `SigQ` has the number of pending signals and their limit.
fn are_signals_used_up(status: &str) -> bool {
    let line = status.lines().find_map(|line| line.strip_prefix("SigQ:"));
    let counts = line.and_then(|line| line.trim().split_once('/'));
    let counts = counts.and_then(|(is, most)| Some((is.parse::<u64>().ok()?, most.parse().ok()?)));
    counts.is_some_and(|(is, most)| is >= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_writes() {
        let limits = "Max open files            1024                 10000                files     \n\
                      Max msgqueue size         unlimited            unlimited            bytes     \n";
        assert_eq!(hard_limit(limits, "Max open files"), Some(10_000));
        assert_eq!(hard_limit(limits, "Max msgqueue size"), None);
        assert_eq!(hard_limit(limits, "Max nice priority"), None);
        for (status, expect) in [
            ("SigQ:\t3/200\n", false),
            ("Name:\tx\nSigQ:\t200/200\n", true),
            ("", false),
        ] {
            assert_eq!(are_signals_used_up(status), expect, "{status}");
        }
    }
}
