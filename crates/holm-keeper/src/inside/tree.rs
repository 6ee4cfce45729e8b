//! Ending a service or a run with everything it started: its session and process group, their children
//! and children's children, and what left all of these but still has the mark in its environment. What
//! of a service took even that away lives until the workspace stops; of a run it is still a
//! descendant of the first process, which is ours ([`super::subreaper`]).

use crate::process::{self, StateLetter};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// After SIGKILL, for the kernel.
const PATIENCE: Duration = Duration::from_secs(4);
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// A process in `/proc`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    pub pid: i32,
    pub parent: i32,
    group: i32,
    session: i32,
    pub state: StateLetter,
}

/// All processes of a service or a run.
pub struct Tree {
    /// The variable in their environment, unless they removed it.
    pub mark: String,
    /// The first process.
    pub leader: i32,
    pub leader_is: Leader,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Leader {
    /// The user's program.
    Theirs,
    /// Our subreaper, which must end last.
    Ours,
}

/// SIGTERM to all, SIGKILL to what is left after the grace period. Returns whether nothing is left.
pub fn end(tree: &Tree, grace: Duration) -> bool {
    let mut signalled = HashSet::new();
    let begun = Instant::now();
    let mut pause = SHORTEST_PAUSE;
    loop {
        let left = find(tree);
        if left.is_empty() {
            return true;
        }
        let elapsed = begun.elapsed();
        if elapsed > grace + PATIENCE {
            return false;
        }
        let is_alone = left.len() == 1;
        for pid in left {
            let stays = tree.leader_is == Leader::Ours && pid == tree.leader && !is_alone;
            if elapsed >= grace && !stays {
                send(pid, Signal::KILL);
            } else if signalled.insert(pid) {
                send(pid, Signal::TERM);
                // A stopped process handles the signal only when it is continued.
                send(pid, Signal::CONT);
            }
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// SIGTERM to every direct child of init, and then to those that these leave: a server ends its own
/// processes in the right order. Kills nothing. Returns whether all ended.
pub fn end_all(limit: Duration) -> bool {
    let mut signalled = HashSet::new();
    let begun = Instant::now();
    let mut pause = SHORTEST_PAUSE;
    loop {
        let left = others(&processes());
        if left.is_empty() {
            return true;
        }
        if begun.elapsed() > limit {
            return false;
        }
        for process in left {
            if process.parent <= 1 && signalled.insert(process.pid) {
                send(process.pid, Signal::TERM);
                send(process.pid, Signal::CONT);
            }
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// All live processes except init and the caller.
pub fn others(all: &[Process]) -> Vec<Process> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let is_other =
        |process: &&Process| process.pid != own && process.pid > 1 && !process.state.has_ended();
    all.iter().filter(is_other).cloned().collect()
}

/// Signals a process that may have ended meanwhile.
pub fn send(pid: i32, signal: Signal) {
    // Only the end of the process makes this fail: all programs inside are the same user's.
    let _ = try_send(pid, signal);
}

/// Signals a process. Landlock refuses that with `EPERM` for programs of rooms.
pub fn try_send(pid: i32, signal: Signal) -> Result<(), Errno> {
    kill_process(Pid::from_raw(pid).ok_or(Errno::SRCH)?, signal)
}

/// Whether a process of the service has a file below `path` open, or its working directory there.
pub fn uses(tree: &Tree, path: &Path) -> bool {
    find(tree).into_iter().any(|pid| {
        let open = std::fs::read_dir(format!("/proc/{pid}/fd"));
        let open = open
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path());
        let mut places = open.chain([PathBuf::from(format!("/proc/{pid}/cwd"))]);
        places.any(|place| std::fs::read_link(place).is_ok_and(|to| to.starts_with(path)))
    })
}

fn find(tree: &Tree) -> Vec<i32> {
    let is_marked = |pid: i32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment
            .split(|byte| *byte == 0)
            .any(|variable| variable == tree.mark.as_bytes())
    };
    belonging(&processes(), tree.leader, is_marked)
}

/// All processes of the service, except init and the caller.
fn belonging(all: &[Process], leader: i32, is_marked: impl Fn(i32) -> bool) -> Vec<i32> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let is_foreign = |process: &&Process| process.pid != own && process.pid > 1;
    let others: Vec<&Process> = all.iter().filter(is_foreign).collect();
    let mut found: HashSet<i32> = HashSet::new();
    for process in &others {
        let is_its = |number: i32| leader > 1 && number == leader;
        if is_its(process.pid)
            || is_its(process.group)
            || is_its(process.session)
            || is_marked(process.pid)
        {
            found.insert(process.pid);
        }
    }
    loop {
        let before = found.len();
        for process in &others {
            if found.contains(&process.parent) {
                found.insert(process.pid);
            }
        }
        if found.len() == before {
            break;
        }
    }
    let living = others
        .iter()
        .filter(|process| found.contains(&process.pid) && !process.state.has_ended());
    living.map(|process| process.pid).collect()
}

pub fn processes() -> Vec<Process> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(look).collect()
}

fn look(pid: i32) -> Option<Process> {
    let stat = process::stat(pid)?;
    Some(Process {
        pid,
        parent: stat.parent,
        group: stat.group,
        session: stat.session,
        state: stat.state,
    })
}

#[cfg(test)]
pub fn process_of(pid: i32, parent: i32, state: char) -> Process {
    Process {
        pid,
        parent,
        group: pid,
        session: pid,
        state: StateLetter(state),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32, group: i32, session: i32) -> Process {
        Process {
            pid,
            parent,
            group,
            session,
            state: StateLetter('S'),
        }
    }

    #[test]
    fn who_belongs_to_a_service() {
        let mut all = vec![
            process(1, 0, 0, 0),
            process(50, 1, 50, 50),
            process(51, 50, 50, 50),
            // In another process group, but in the session.
            process(52, 50, 52, 50),
            // In another session, but a grandchild.
            process(53, 52, 53, 53),
            // It left everything but has the mark, and its child, which has no mark.
            process(60, 1, 60, 60),
            process(61, 60, 61, 61),
            // An unrelated process.
            process(70, 1, 70, 70),
        ];
        let marked = |pid| pid == 60;
        let mut found = belonging(&all, 50, marked);
        found.sort_unstable();
        assert_eq!(found, [50, 51, 52, 53, 60, 61]);
        all[1].state = StateLetter('Z');
        assert!(
            !belonging(&all, 50, marked).contains(&50),
            "a zombie is gone"
        );
        assert!(belonging(&all, 0, |_| false).is_empty(), "no group 0");
    }
}
