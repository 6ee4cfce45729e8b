//! Measures the resource use of workspaces from the kernel's files: control groups where available,
//! `/proc` otherwise and for single services. The daemon calls it on request and periodically for
//! the history; neither keepers nor programs inside are involved.
//!
//! A workspace's processes are the descendants of its init: orphans inside become children of init.
//! A service's processes have its mark in their initial environment; programs that overwrite it
//! with their title (Redis, PostgreSQL) are recognised by the pid of the service's first process,
//! or by their parent.

use crate::cgroup;
use crate::sys::units;
use holm_core::numbers::{Load, Usage};
use holm_core::service::status::Services;
use holm_keeper::directories::WorkspaceDirs;
use holm_keeper::inside::MARK;
use holm_keeper::process;
use holm_keeper::wire::LastRun;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::time::Duration;

/// Measures repeatedly; remembers which processes belong to which service.
#[derive(Default)]
pub struct Meter {
    /// By pid and start time.
    marks: HashMap<(i32, u64), Option<String>>,
}

/// One process in `/proc/<pid>/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    pid: i32,
    parent: i32,
    ticks: u64,
    started: u64,
    pages: u64,
}

// === impl Meter ===

impl Meter {
    /// The use of each workspace; `None` if it does not run. Blocks.
    pub fn look(&mut self, workspaces: &[WorkspaceDirs]) -> Vec<Option<Usage>> {
        let inits: Vec<Option<(i32, u64)>> = workspaces.iter().map(init_of).collect();
        if inits.iter().all(Option::is_none) {
            self.marks.clear();
            return inits.iter().map(|_| None).collect();
        }
        let processes = processes();
        let mut children: HashMap<i32, Vec<&Process>> = HashMap::new();
        for process in &processes {
            children.entry(process.parent).or_default().push(process);
        }
        let mut seen = HashSet::new();
        let usages = inits.iter().zip(workspaces).map(|(init, dirs)| {
            let (pid, started) = (*init)?;
            let is_it = |process: &&Process| process.pid == pid && process.started == started;
            let root = processes.iter().find(is_it)?;
            let usage = self.usage(root, &children, &leaders(dirs), &mut seen);
            Some(with_group(usage, dirs))
        });
        let usages = usages.collect();
        self.marks.retain(|key, _| seen.contains(key));
        usages
    }

    fn usage(
        &mut self,
        root: &Process,
        children: &HashMap<i32, Vec<&Process>>,
        leaders: &HashMap<u32, String>,
        seen: &mut HashSet<(i32, u64)>,
    ) -> Usage {
        let mut usage = Usage::default();
        let depth = process::depth(root.pid);
        let mut stack = vec![(root, None)];
        while let Some((process, of_parent)) = stack.pop() {
            let key = (process.pid, process.started);
            if !seen.insert(key) {
                continue;
            }
            let load = process.load();
            usage.total.add(load);
            let mark = self.marks.entry(key).or_insert_with(|| {
                let leads = || leaders.get(&number_inside(process.pid, depth?)?).cloned();
                service_of(process.pid).or_else(leads).or(of_parent)
            });
            if let Some(name) = mark {
                usage.services.entry(name.clone()).or_default().add(load);
            }
            let below = children.get(&process.pid).into_iter().flatten();
            stack.extend(below.map(|child| (*child, mark.clone())));
        }
        usage
    }
}

// === impl Process ===

impl Process {
    fn read(pid: i32) -> Option<Self> {
        Self::parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(pid: i32, text: &str) -> Option<Self> {
        // The name is between the first and the last parenthesis and may contain any byte.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        // The first of these is the third field of proc(5).
        let number = |at: usize| fields.get(at - 3)?.parse::<i64>().ok();
        // Its own time, and that of reaped children.
        let ticks = [14, 15, 16, 17].iter().map(|at| number(*at));
        let ticks: Option<i64> = ticks.sum();
        Some(Self {
            pid,
            parent: i32::try_from(number(4)?).ok()?,
            ticks: ticks?.max(0).cast_unsigned(),
            started: number(22)?.max(0).cast_unsigned(),
            pages: number(24)?.max(0).cast_unsigned(),
        })
    }

    fn load(&self) -> Load {
        let per_second = units::ticks_per_second();
        Load {
            cpu: Duration::from_nanos(self.ticks.saturating_mul(1_000_000_000 / per_second)),
            memory: self.pages * units::page_size(),
            processes: 1,
        }
    }
}

fn processes() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    // A process that ended meanwhile is skipped.
    pids.filter_map(Process::read).collect()
}

/// The init of a workspace, if its last run has not ended.
fn init_of(dirs: &WorkspaceDirs) -> Option<(i32, u64)> {
    let text = fs::read(dirs.last_run()).ok()?;
    let last: LastRun = serde_json::from_slice(&text).ok()?;
    let init = last.init.filter(|_| last.ended.is_none())?;
    Some((init.pid, init.started))
}

/// The first processes of services, by their pids inside.
fn leaders(dirs: &WorkspaceDirs) -> HashMap<u32, String> {
    let text = fs::read(dirs.services()).unwrap_or_default();
    let told: Services = serde_json::from_slice(&text).unwrap_or_default();
    let leaders = told.services.into_iter();
    leaders
        .filter_map(|service| Some((service.pid?, service.name)))
        .collect()
}

/// The pid of a process in the namespace of the workspace's init.
fn number_inside(pid: i32, depth: usize) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    process::number_at(&status, depth)?.try_into().ok()
}

/// The service that a process was started for. The process can change its environment, which
/// affects only these numbers.
fn service_of(pid: i32) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut variables = environment.split(|byte| *byte == 0);
    let value = variables.find_map(|variable| {
        let rest = variable.strip_prefix(MARK.as_bytes())?;
        rest.strip_prefix(b"=")
    })?;
    String::from_utf8(value.to_vec()).ok()
}

/// The kernel's totals of a group include ended processes, so they are better than a sum.
fn with_group(mut usage: Usage, dirs: &WorkspaceDirs) -> Usage {
    let Some(counted) = cgroup::leftover(dirs).map(|group| group.counted()) else {
        return usage;
    };
    usage.total.cpu = counted.cpu.unwrap_or(usage.total.cpu);
    usage.total.memory = counted.memory.unwrap_or(usage.total.memory);
    usage
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_stat_says() {
        let text = "7 (a b) c) S 3 7 7 0 -1 4194560 1 0 0 0 250 50 100 0 20 0 1 0 9999 1 11 0 0";
        let process = Process::parse(7, text).unwrap();
        let expect = Process {
            pid: 7,
            parent: 3,
            ticks: 400,
            started: 9999,
            pages: 11,
        };
        assert_eq!(process, expect);
        assert_eq!(Process::parse(7, "7 (x) S 1"), None);
        assert_eq!(Process::parse(7, ""), None);
    }

    #[test]
    fn this_process_is_among_all() {
        let own = std::process::id().cast_signed();
        let all = processes();
        let found = all.iter().find(|process| process.pid == own).unwrap();
        assert!(found.load().memory > 0);
    }
}
