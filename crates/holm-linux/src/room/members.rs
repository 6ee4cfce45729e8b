//! Finds the processes of a room from outside. Programs of the workspace cannot do that: a room is in a Landlock domain
//! of its own, and signals do not leave a domain.

use holm_keeper::room::RoomInit;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io;

/// Whether programs may leave the room's mount namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    Forbidden,
    /// With `nested`: what leaves the namespace is found as a descendant of the room's init.
    Allowed,
}

/// Signals every process of the room but its init. Says how many of them are alive and not stopped.
pub fn signal_members(room: &RoomInit, signal: Signal, leaving: Leaving) -> io::Result<usize> {
    let all = pids()?;
    let descendants = match leaving {
        Leaving::Forbidden => BTreeSet::new(),
        Leaving::Allowed => descendants(&all, room.pid),
    };
    let mut running = 0;
    for pid in all.into_iter().filter(|pid| *pid != room.pid) {
        let Some(number) = Pid::from_raw(pid) else {
            continue;
        };
        // The pid is compared after it was pinned: it may have been used again since the listing.
        let Ok(pinned) = pidfd_open(number, PidfdFlags::empty()) else {
            continue;
        };
        let is_in = fs::read_link(format!("/proc/{pid}/ns/mnt"))
            .is_ok_and(|namespace| namespace == room.namespace);
        if !is_in && !descendants.contains(&pid) {
            continue;
        }
        if !has_stopped(pid, signal) {
            running += 1;
        }
        // It may have ended meanwhile.
        let _ = pidfd_send_signal(&pinned, signal);
    }
    Ok(running)
}

fn pids() -> io::Result<Vec<i32>> {
    let entries = fs::read_dir("/proc")?.flatten();
    Ok(entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect())
}

/// Whether the signal finds nothing to do: the process has ended, or is stopped and is not to be killed.
fn has_stopped(pid: i32, signal: Signal) -> bool {
    let text = holm_keeper::process::read_stat(pid).unwrap_or_default();
    let after_name = text.rsplit_once(") ").map_or("", |(_, rest)| rest);
    match after_name.chars().next() {
        None | Some('Z' | 'X') => true,
        Some('T' | 't') => signal != Signal::KILL,
        Some(_) => false,
    }
}

fn descendants(all: &[i32], ancestor: i32) -> BTreeSet<i32> {
    let parent = |pid: i32| {
        let text = holm_keeper::process::read_stat(pid)?;
        let (_, rest) = text.rsplit_once(") ")?;
        rest.split_ascii_whitespace().nth(1)?.parse().ok()
    };
    let parents: HashMap<i32, i32> = all
        .iter()
        .filter_map(|pid| Some((*pid, parent(*pid)?)))
        .collect();
    let is_below = |pid: &i32| {
        let mut seen = BTreeSet::new();
        let mut here = *pid;
        while let Some(above) = parents.get(&here) {
            if *above == ancestor {
                return true;
            }
            if !seen.insert(here) {
                return false;
            }
            here = *above;
        }
        false
    };
    all.iter().copied().filter(|pid| is_below(pid)).collect()
}
