//! Stops all processes inside for a moment, so that their files can be copied as of one instant.
//!
//! SIGSTOP reaches everything except init and this process, independent of control groups. Parents
//! are stopped before their children and continued after them, so that no shell sees a stopped
//! child and takes the terminal away from it.

use super::tree::{Process, others, processes, send, try_send};
use rustix::io::Errno;
use rustix::process::Signal;
use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};
use std::time::{Duration, Instant};

/// Printed when all processes are stopped.
pub const STILL: &[u8] = b"still\n";

/// A write to a slow disk is waited for.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(2);

/// Reports when all processes are stopped, and continues them when stdin ends. Returns whether all
/// were stopped.
pub fn hold() -> bool {
    let mut stopped = Vec::new();
    let is_still = stop_all(&mut stopped);
    if is_still {
        // A keeper that is gone does not need the message.
        let _ = std::io::stdout().write_all(STILL);
        let _ = std::io::stdout().flush();
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
    }
    for pid in stopped.iter().rev() {
        send(*pid, Signal::CONT);
    }
    is_still
}

/// Used when the holding process was killed. Also continues processes that a program inside had
/// stopped.
pub fn release() -> bool {
    let all = others(&processes());
    let stopped: Vec<i32> = all
        .iter()
        .filter(|it| it.state.is_stopped())
        .map(|it| it.pid)
        .collect();
    for pid in by_depth(&all, &stopped).iter().rev() {
        send(*pid, Signal::CONT);
    }
    true
}

fn stop_all(stopped: &mut Vec<i32>) -> bool {
    let begun = Instant::now();
    // A second pass finds processes that were started during the first one.
    let mut quiet_looks = 0;
    // Programs of rooms, which the keeper has stopped. All programs are the same user's: only Landlock refuses a
    // signal, and only into the domain of a room.
    let mut beyond = HashSet::new();
    while quiet_looks < 2 {
        if begun.elapsed() > PATIENCE {
            return false;
        }
        let mut all = others(&processes());
        all.retain(|process| !beyond.contains(&process.pid));
        let moving = moving(&all);
        if moving.is_empty() {
            quiet_looks += 1;
            continue;
        }
        quiet_looks = 0;
        for pid in by_depth(&all, &moving) {
            if stopped.contains(&pid) {
                continue;
            }
            match try_send(pid, Signal::STOP) {
                Err(Errno::PERM) => drop(beyond.insert(pid)),
                _ => stopped.push(pid),
            }
        }
        std::thread::sleep(PAUSE);
    }
    true
}

/// Processes that still run. A process that waits in the kernel for the exec of a stopped child
/// counts as stopped.
fn moving(all: &[Process]) -> Vec<i32> {
    let has_stopped_child = |pid: i32| {
        let mut children = all.iter().filter(|process| process.parent == pid);
        children.any(|child| child.state.is_stopped())
    };
    let is_still = |process: &Process| {
        process.state.is_stopped() || (process.state.waits() && has_stopped_child(process.pid))
    };
    let moving = all.iter().filter(|process| !is_still(process));
    moving.map(|process| process.pid).collect()
}

/// Parents before their children.
fn by_depth(all: &[Process], some: &[i32]) -> Vec<i32> {
    let parents: HashMap<i32, i32> = all.iter().map(|found| (found.pid, found.parent)).collect();
    let depth = |pid: i32| {
        let mut depth = 0;
        let mut at = pid;
        while let Some(parent) = parents.get(&at)
            && depth < parents.len()
        {
            at = *parent;
            depth += 1;
        }
        depth
    };
    let mut ordered = some.to_vec();
    ordered.sort_by_key(|pid| (depth(*pid), *pid));
    ordered
}

#[cfg(test)]
mod tests {
    use super::super::tree::process_of;
    use super::*;

    #[test]
    fn parents_come_first_and_circles_do_not_matter() {
        let all = [
            process_of(5, 9, 'S'),
            process_of(9, 1, 'S'),
            process_of(3, 5, 'S'),
            process_of(7, 8, 'S'),
            process_of(8, 7, 'S'),
        ];
        assert_eq!(by_depth(&all, &[3, 5, 9]), [9, 5, 3]);
        assert_eq!(by_depth(&all, &[7, 8]).len(), 2);
    }

    #[test]
    fn who_stands_still() {
        let all = [
            process_of(5, 1, 'T'),
            process_of(6, 1, 'D'),
            process_of(7, 1, 'D'),
            process_of(8, 7, 'T'),
            process_of(9, 1, 'R'),
            process_of(10, 1, 't'),
        ];
        assert_eq!(moving(&all), [6, 9]);
    }
}
