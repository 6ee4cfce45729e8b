//! Finds the processes of a room from outside. Programs of the workspace cannot do that: a room is in a Landlock domain
//! of its own, and signals do not leave a domain.

use holm_keeper::process::{Stat, stat};
use holm_keeper::room::{RoomInit, RoomSignal};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Whether programs may leave the room's mount namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    Forbidden,
    /// With `nested`: what leaves the namespace is found as a descendant of the room's init.
    Allowed,
}

/// A process of the room. The pidfd pins its pid.
struct Member {
    pid: i32,
    pidfd: OwnedFd,
    threads: Vec<Stat>,
}

/// Signals each process of the room for which the signal has an effect, and returns their pids. Init gets none.
pub fn signal_members(
    room: &RoomInit,
    signal: RoomSignal<'_>,
    leaving: Leaving,
) -> io::Result<Vec<i32>> {
    let members = members(room, leaving)?;
    let parents_of_stopped: BTreeSet<i32> = members
        .iter()
        .filter(|member| {
            member
                .threads
                .iter()
                .any(|thread| thread.state.is_stopped())
        })
        .filter_map(|member| Some(member.threads.first()?.parent))
        .collect();
    let (number, signalled): (Signal, Vec<&Member>) = match signal {
        RoomSignal::Kill => {
            let alive = members.iter().filter(|member| member.is_alive());
            (Signal::KILL, alive.collect())
        }
        RoomSignal::Stop => {
            let running = members.iter().filter(|member| {
                let has_stopped_child = parents_of_stopped.contains(&member.pid);
                member.runs(has_stopped_child)
            });
            (Signal::STOP, running.collect())
        }
        RoomSignal::Continue(pids) => {
            let asked = members.iter().filter(|member| pids.contains(&member.pid));
            (Signal::CONT, asked.collect())
        }
    };
    for member in &signalled {
        // It may have ended meanwhile.
        let _ = pidfd_send_signal(&member.pidfd, number);
    }
    Ok(signalled.iter().map(|member| member.pid).collect())
}

/// All processes of the room but its init.
fn members(room: &RoomInit, leaving: Leaving) -> io::Result<Vec<Member>> {
    let all = numbers(Path::new("/proc"))?;
    let descendants = match leaving {
        Leaving::Forbidden => BTreeSet::new(),
        Leaving::Allowed => descendants(&all, room.pid),
    };
    let others = all.into_iter().filter(|pid| *pid != room.pid);
    let members = others.filter_map(|pid| {
        // The pid is compared after it was pinned: it may have been used again since the listing.
        let pidfd = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
        let is_in = descendants.contains(&pid) || is_in(pid, &room.namespace);
        is_in.then(|| Member {
            pid,
            pidfd,
            threads: threads(pid).into_iter().filter_map(stat).collect(),
        })
    });
    Ok(members.collect())
}

/// Whether a process is in a mount namespace. A main thread that ended before others has none.
fn is_in(pid: i32, namespace: &Path) -> bool {
    let found = |thread: i32| fs::read_link(format!("/proc/{thread}/ns/mnt"));
    match found(pid) {
        Ok(found) => found == namespace,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let mut threads = threads(pid).into_iter();
            threads.any(|thread| found(thread).is_ok_and(|found| found == namespace))
        }
        Err(_) => false,
    }
}

/// None, if the process is gone.
fn threads(pid: i32) -> Vec<i32> {
    numbers(Path::new(&format!("/proc/{pid}/task"))).unwrap_or_default()
}

fn numbers(directory: &Path) -> io::Result<Vec<i32>> {
    let entries = fs::read_dir(directory)?.flatten();
    Ok(entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect())
}

// === impl Member ===

impl Member {
    /// Whether a thread has not ended.
    fn is_alive(&self) -> bool {
        self.threads.iter().any(|thread| !thread.state.has_ended())
    }

    /// Whether a thread is alive and not stopped. A thread that waits in the kernel for the exec of a stopped child
    /// counts as stopped.
    fn runs(&self, has_stopped_child: bool) -> bool {
        self.threads.iter().any(|thread| {
            let waits = thread.state.waits() && has_stopped_child;
            !thread.state.has_ended() && !thread.state.is_stopped() && !waits
        })
    }
}

fn descendants(all: &[i32], ancestor: i32) -> BTreeSet<i32> {
    let parents: HashMap<i32, i32> = all
        .iter()
        .filter_map(|pid| Some((*pid, stat(*pid)?.parent)))
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::{Command, Stdio};

    #[test]
    fn attack_202_a_process_without_a_main_thread_is_found() {
        // 60 and 93 are `exit` of one thread, on amd64 and arm64.
        let program = "import ctypes, platform, threading, time\n\
            threading.Thread(target=lambda: (print('ready', flush=True), time.sleep(1000))).start()\n\
            ctypes.CDLL(None).syscall(60 if platform.machine() == 'x86_64' else 93, 0)\n";
        let mut command = Command::new("python3");
        let mut child = command
            .args(["-c", program])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = child.id().cast_signed();
        let mut ready = [0; 5];
        // Open until the end: Python writes the end of the line after the line.
        let mut output = child.stdout.take().unwrap();
        output.read_exact(&mut ready).unwrap();
        while !stat(pid).unwrap().state.has_ended() {
            std::thread::yield_now();
        }
        let namespace = fs::read_link("/proc/self/ns/mnt").unwrap();
        assert!(is_in(pid, &namespace));
        let number = Pid::from_raw(pid).unwrap();
        let member = Member {
            pid,
            pidfd: pidfd_open(number, PidfdFlags::empty()).unwrap(),
            threads: threads(pid).into_iter().filter_map(stat).collect(),
        };
        assert!(member.is_alive() && member.runs(false));
        pidfd_send_signal(&member.pidfd, Signal::KILL).unwrap();
        child.wait().unwrap();
        assert!(!is_in(pid, &namespace));
    }
}
