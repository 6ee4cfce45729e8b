//! Finds the process inside that has a connection, among the descendants of the keeper: init and rooms. The result is a
//! hint, not proof: the search stops when it takes long, and a process may have passed the socket
//! on.

use crate::netlink::diagnosis;
use holm_keeper::process;
use holm_proxy::gateway::Process;
use rustix::time::{ClockId, clock_gettime};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The most processor time of one search. Wall time would lose names on a busy machine.
const PATIENCE: Duration = Duration::from_millis(4);

pub struct Culprits {
    state: Mutex<State>,
    /// The pid of init outside.
    init: i32,
    /// Its descendants are searched: the keeper has rooms beside init.
    ancestor: i32,
}

struct State {
    diagnosis: OwnedFd,
    /// When the last search ended, and how long it took.
    last: Option<(Instant, Duration)>,
}

/// Searches take at most this fraction of a processor, whatever the guest does.
const SHARE: u32 = 4;

// === impl Culprits ===

impl Culprits {
    pub fn new(diagnosis: OwnedFd, init: i32) -> Self {
        Self::below(std::process::id().cast_signed(), diagnosis, init)
    }

    /// Where only the workspace's own processes can be seen.
    pub fn below_init(diagnosis: OwnedFd, init: i32) -> Self {
        Self::below(init, diagnosis, init)
    }

    fn below(ancestor: i32, diagnosis: OwnedFd, init: i32) -> Self {
        Self {
            ancestor,
            state: Mutex::new(State {
                diagnosis,
                last: None,
            }),
            init,
        }
    }

    /// One search at a time; concurrent requests get no answer.
    pub fn find(&self, client: SocketAddr, asked: SocketAddr) -> Option<Process> {
        let mut state = self.state.try_lock().ok()?;
        if let Some((ended, took)) = state.last
            && ended.elapsed() < took * (SHARE - 1)
        {
            return None;
        }
        let begun = processor_time();
        let found = diagnosis::inode(&state.diagnosis, client, asked);
        let found = found.ok().flatten();
        // While a process ends, the kernel may leave a sibling out of the list of children. So the search is repeated once.
        let found = found.and_then(|inode| {
            let search = || self.holder(inode, begun + PATIENCE);
            search().or_else(search)
        });
        state.last = Some((Instant::now(), processor_time().saturating_sub(begun)));
        found
    }

    fn holder(&self, inode: u32, deadline: Duration) -> Option<Process> {
        let wanted = PathBuf::from(format!("socket:[{inode}]"));
        let mut waiting = children(self.ancestor);
        while let Some(pid) = waiting.pop() {
            if processor_time() > deadline {
                return None;
            }
            let descriptors = std::fs::read_dir(process::place_of(pid, "fd"));
            let mut descriptors = descriptors.into_iter().flatten().flatten();
            let is_wanted = |path: PathBuf| std::fs::read_link(path).is_ok_and(|to| to == wanted);
            if descriptors.any(|descriptor| is_wanted(descriptor.path())) {
                return describe(pid, process::depth(self.init)?);
            }
            waiting.extend(children(pid));
        }
        None
    }
}

fn children(pid: i32) -> Vec<i32> {
    let tasks = std::fs::read_dir(process::place_of(pid, "task"));
    let tasks = tasks.into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| process::read_proc_text(task.path().join("children")).ok());
    lists
        .flat_map(|list| {
            let numbers = list.split_whitespace();
            numbers
                .filter_map(|number| number.parse().ok())
                .collect::<Vec<i32>>()
        })
        .collect()
}

/// The processor time of this thread.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// The process with its pid inside. The process chooses its name itself.
fn describe(pid: i32, depth: usize) -> Option<Process> {
    let status = process::read_proc_text(process::place_of(pid, "status")).ok()?;
    let mut lines = status.lines();
    let name = lines.find_map(|line| line.strip_prefix("Name:"))?;
    Some(Process {
        pid: process::number_at(&status, depth)?,
        name: name.trim().to_owned(),
    })
}
