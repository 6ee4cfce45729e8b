//! Everything inside stands still for a moment, so that what it wrote can be copied as of one instant.
//!
//! SIGSTOP reaches everything but init and this process, whatever control groups there are. Parents
//! are stopped before their children and go on after them, so that no shell sees a child of its own
//! stopped and takes the terminal away from it.

use super::tree::{Process, others, processes, send};
use rustix::process::Signal;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

/// What is said when everything stands still.
pub const STILL: &[u8] = b"still\n";

/// A write to a slow disk is waited for.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(2);

/// Says when everything stands still, and lets it go on when stdin ends. Whether it stood still.
pub fn hold() -> bool {
    let mut stopped = Vec::new();
    let is_still = stop_all(&mut stopped);
    if is_still {
        // Whoever is gone wants nothing of it any more.
        let _ = std::io::stdout().write_all(STILL);
        let _ = std::io::stdout().flush();
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
    }
    for pid in stopped.iter().rev() {
        send(*pid, Signal::CONT);
    }
    is_still
}

/// For who finds that the one who held it was killed. What somebody inside had stopped goes on, too.
pub fn release() -> bool {
    let all = others(&processes());
    let stopped: Vec<i32> = all
        .iter()
        .filter(|it| it.is_stopped())
        .map(|it| it.pid)
        .collect();
    for pid in by_depth(&all, &stopped).iter().rev() {
        send(*pid, Signal::CONT);
    }
    true
}

fn stop_all(stopped: &mut Vec<i32>) -> bool {
    let begun = Instant::now();
    // What was begun while the first look was under way is seen by the second.
    let mut quiet_looks = 0;
    while quiet_looks < 2 {
        if begun.elapsed() > PATIENCE {
            return false;
        }
        let all = others(&processes());
        let moving = moving(&all);
        if moving.is_empty() {
            quiet_looks += 1;
            continue;
        }
        quiet_looks = 0;
        for pid in by_depth(&all, &moving) {
            if !stopped.contains(&pid) {
                send(pid, Signal::STOP);
                stopped.push(pid);
            }
        }
        std::thread::sleep(PAUSE);
    }
    true
}

/// Those that do not stand still. One that waits in the kernel for a stopped child to execute
/// something does: it can do nothing else.
fn moving(all: &[Process]) -> Vec<i32> {
    let has_stopped_child = |pid: i32| {
        let mut children = all.iter().filter(|process| process.parent == pid);
        children.any(|child| child.is_stopped())
    };
    let is_still = |process: &Process| {
        process.is_stopped() || (process.waits() && has_stopped_child(process.pid))
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
