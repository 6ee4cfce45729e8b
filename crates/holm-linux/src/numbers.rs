//! Measures the resource use of workspaces from the kernel's files: control groups where available,
//! `/proc` otherwise and for single services. The daemon calls it on request and periodically for
//! the history; neither keepers nor programs inside are involved.
//!
//! A workspace's processes are the descendants of its init and of the inits of its rooms: orphans inside become children
//! of one of these.
//! A service's processes have its mark in their initial environment; programs that overwrite it
//! with their title (Redis, PostgreSQL) are recognised by the pid of the service's first process,
//! or by their parent.

use crate::cgroup::{self, Group};
use crate::sys::units;
use holm_core::numbers::{Load, Usage};
use holm_core::service::status::Services;
use holm_keeper::directories::WorkspaceDirs;
use holm_keeper::inside::MARK;
use holm_keeper::process;
use holm_keeper::wire::LastRun;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Measures repeatedly; remembers what does not change while a process lives.
#[derive(Default)]
pub struct Meter {
    /// The services of processes, by pid and start time.
    marks: HashMap<Key, Option<String>>,
    /// The pids inside of programs that init started.
    numbers: HashMap<Key, Option<u32>>,
    /// By the directory of the workspace.
    known: HashMap<PathBuf, Known>,
    /// When all processes were last read.
    read_at: Option<Instant>,
}

/// A pid and a start time.
type Key = (i32, u64);

/// What is known of a running workspace.
struct Known {
    init: Key,
    depth: Option<usize>,
    group: Option<Group>,
    /// The last measurement, and the processes that it was made of.
    last: Option<(Vec<Process>, Usage)>,
    /// The processor time of those processes, if none of them ran while all processes were read, so that no other process of
    /// the workspace can exist until one of them runs.
    at_rest: Option<Duration>,
}

/// After so long all processes are read again even if none ran: the kernel may have moved their memory to the swap.
const LONGEST_REST: Duration = Duration::from_secs(60);

/// The most characters of a command line.
const LONGEST_COMMAND: usize = 300;

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
        if let Some(usages) = self.unchanged(workspaces) {
            return usages;
        }
        self.read_at = Some(Instant::now());
        let times = self.known.values().map(|known| (known.init, known.time()));
        let before: HashMap<Key, Option<Duration>> = times.collect();
        let processes = processes();
        let mut alive: HashMap<Key, &Process> = HashMap::new();
        let mut children: HashMap<i32, Vec<&Process>> = HashMap::new();
        for process in &processes {
            alive.insert(process.key(), process);
            children.entry(process.parent).or_default().push(process);
        }
        self.known
            .retain(|_, known| alive.contains_key(&known.init));
        let usages = workspaces.iter().map(|dirs| {
            let known = self.known.remove(&dirs.dir);
            let mut known = known.or_else(|| Known::read(dirs))?;
            let root = *alive.get(&known.init)?;
            let family = family(root, known.depth, &children);
            let before = before.get(&known.init).copied().flatten();
            let was_complete = before.is_some() && known.is_of(&family);
            let usage = match known.last.take() {
                // No process started, ended or ran since.
                Some((earlier, usage)) if earlier == family => usage,
                _ => with_group(self.usage(&family, dirs, known.depth), known.group.as_ref()),
            };
            known.last = Some((family, usage.clone()));
            known.at_rest = known
                .time()
                .filter(|now| was_complete && before == Some(*now));
            self.known.insert(dirs.dir.clone(), known);
            Some(Usage {
                age: root.age(),
                ..usage
            })
        });
        let usages = usages.collect();
        self.marks.retain(|key, _| alive.contains_key(key));
        self.numbers.retain(|key, _| alive.contains_key(key));
        usages
    }

    /// The use of each workspace, if no process of any of them ran since all processes were read.
    fn unchanged(&self, workspaces: &[WorkspaceDirs]) -> Option<Vec<Option<Usage>>> {
        self.read_at.filter(|at| at.elapsed() < LONGEST_REST)?;
        let usages = workspaces.iter().map(|dirs| {
            let known = self.known.get(&dirs.dir)?;
            known.resting()?;
            let (family, usage) = known.last.as_ref()?;
            let age = family.first()?.age();
            Some(Some(Usage {
                age,
                ..usage.clone()
            }))
        });
        usages.collect()
    }

    /// The processor time of a workspace's keeper and processes. Two equal times: none of them ran in between. `None`: a
    /// process may run that the last look did not see.
    pub fn processor_time(&self, dirs: &WorkspaceDirs) -> Option<Duration> {
        let known = self.known.get(&dirs.dir)?;
        let inside = known.resting()?;
        let (family, _) = known.last.as_ref()?;
        // The keeper is the parent of init.
        let keeper = units::processor_time(family.first()?.parent)?;
        Some(keeper + inside)
    }

    /// The sum over a workspace's processes, parents first.
    fn usage(&mut self, family: &[Process], dirs: &WorkspaceDirs, depth: Option<usize>) -> Usage {
        let mut usage = Usage::default();
        let mut names: HashMap<i32, Option<String>> = HashMap::new();
        let mut leading = None;
        let init = family.first().map(|init| init.pid);
        let mut programs: HashMap<i32, u32> = HashMap::new();
        for process in family {
            let load = process.load();
            usage.total.add(load);
            let of_parent = names.get(&process.parent).cloned().flatten();
            let mark = self.marks.entry(process.key()).or_insert_with(|| {
                let leaders = leading.get_or_insert_with(|| leaders(dirs));
                let leads = || leaders.get(&number_inside(process.pid, depth?)?).cloned();
                service_of(process.pid).or_else(leads).or(of_parent)
            });
            if let Some(name) = mark {
                usage.services.entry(name.clone()).or_default().add(load);
            }
            names.insert(process.pid, mark.clone());
            let program = if Some(process.parent) == init {
                let number = || number_inside(process.pid, depth?);
                *self.numbers.entry(process.key()).or_insert_with(number)
            } else {
                programs.get(&process.parent).copied()
            };
            if let Some(program) = program {
                programs.insert(process.pid, program);
                *usage.programs.entry(program).or_default() += load.cpu;
            }
        }
        usage
    }
}

/// The init of a workspace, those of its rooms, and their descendants, parents before children.
fn family(
    init: &Process,
    depth: Option<usize>,
    children: &HashMap<i32, Vec<&Process>>,
) -> Vec<Process> {
    // The keeper's other children are in no pid namespace of the workspace.
    let of_keeper = children.get(&init.parent).into_iter().flatten();
    let rooms = of_keeper.filter(|process| {
        process.pid != init.pid && depth.is_some_and(|depth| is_inside(process.pid, depth))
    });
    let mut family = vec![*init];
    family.extend(rooms.map(|room| **room));
    let mut seen: HashSet<Key> = family.iter().map(Process::key).collect();
    let mut next = 0;
    while let Some(process) = family.get(next) {
        next += 1;
        for child in children.get(&process.pid).into_iter().flatten() {
            if seen.insert(child.key()) {
                family.push(**child);
            }
        }
    }
    family
}

// === impl Known ===

impl Known {
    fn read(dirs: &WorkspaceDirs) -> Option<Self> {
        let init = init_of(dirs)?;
        Some(Self {
            init,
            depth: process::depth(init.0),
            group: cgroup::leftover(dirs),
            last: None,
            at_rest: None,
        })
    }

    /// The processor time of its processes, as far as they are known; `None`: one of them has ended.
    fn time(&self) -> Option<Duration> {
        let (family, _) = self.last.as_ref()?;
        let times = family.iter();
        times
            .map(|process| units::processor_time(process.pid))
            .sum()
    }

    /// That time, if all processes are known and none of them ran since they were read.
    fn resting(&self) -> Option<Duration> {
        self.at_rest.filter(|at_rest| self.time() == Some(*at_rest))
    }

    /// Whether the last measurement found the same processes.
    fn is_of(&self, family: &[Process]) -> bool {
        let Some((last, _)) = &self.last else {
            return false;
        };
        last.iter()
            .map(Process::key)
            .eq(family.iter().map(Process::key))
    }
}

// === impl Process ===

impl Process {
    fn read(pid: i32) -> Option<Self> {
        Self::parse(pid, &process::read_stat(pid)?)
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

    fn key(&self) -> Key {
        (self.pid, self.started)
    }

    /// The time since it was started.
    fn age(&self) -> Duration {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let now = Duration::try_from(now).unwrap_or_default();
        now.saturating_sub(self.started_at())
    }

    /// Since the boot.
    fn started_at(&self) -> Duration {
        let per_second = units::ticks_per_second();
        Duration::from_nanos(self.started.saturating_mul(1_000_000_000 / per_second))
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
pub fn init_of(dirs: &WorkspaceDirs) -> Option<Key> {
    let text = fs::read(dirs.last_run()).ok()?;
    let last: LastRun = serde_json::from_slice(&text).ok()?;
    let init = last.init.filter(|_| last.ended.is_none())?;
    Some((init.pid, init.started))
}

/// The processes of a running workspace besides init: pid inside, command line and service.
pub fn commands(dirs: &WorkspaceDirs) -> Vec<(u32, String, Option<String>)> {
    let Some((init, _)) = init_of(dirs) else {
        return Vec::new();
    };
    let all = processes();
    let mut children: HashMap<i32, Vec<&Process>> = HashMap::new();
    for process in &all {
        children.entry(process.parent).or_default().push(process);
    }
    let Some(root) = all.iter().find(|process| process.pid == init) else {
        return Vec::new();
    };
    let depth = process::depth(init);
    let others = family(root, depth, &children)
        .into_iter()
        .filter(|one| one.pid != init);
    let leaders = leaders(dirs);
    let mut services: HashMap<i32, Option<String>> = HashMap::new();
    let reported = others.filter_map(|process| {
        let number = number_inside(process.pid, depth?)?;
        let of_parent = services.get(&process.parent).cloned().flatten();
        let service = service_of(process.pid)
            .or_else(|| leaders.get(&number).cloned())
            .or(of_parent);
        services.insert(process.pid, service.clone());
        let line = fs::read(format!("/proc/{}/cmdline", process.pid)).ok()?;
        let words = line
            .split(|byte| *byte == 0)
            .filter(|word| !word.is_empty());
        let words: Vec<_> = words.map(String::from_utf8_lossy).collect();
        let command: String = words.join(" ").chars().take(LONGEST_COMMAND).collect();
        (!command.is_empty()).then_some((number, command, service))
    });
    reported.collect()
}

/// The first processes of services, by their pids inside.
fn leaders(dirs: &WorkspaceDirs) -> HashMap<u32, String> {
    let text = fs::read(dirs.services()).unwrap_or_default();
    let reported: Services = serde_json::from_slice(&text).unwrap_or_default();
    let leaders = reported.services.into_iter();
    leaders
        .filter_map(|service| Some((service.pid?, service.name)))
        .collect()
}

/// The pid of a process in the namespace of the workspace's init.
fn number_inside(pid: i32, depth: usize) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    process::number_at(&status, depth)?.try_into().ok()
}

fn is_inside(pid: i32, depth: usize) -> bool {
    number_inside(pid, depth).is_some()
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
fn with_group(mut usage: Usage, group: Option<&Group>) -> Usage {
    let Some(counted) = group.map(Group::counted) else {
        return usage;
    };
    usage.total.cpu = counted.cpu.unwrap_or(usage.total.cpu);
    usage.total.memory = counted.memory.unwrap_or(usage.total.memory);
    usage
}

#[cfg(test)]
mod tests {
    use super::*;
    use holm_keeper::wire::Incarnation;
    use std::io::{Read, Write};

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

    /// A workspace whose init is a shell that runs what it reads.
    struct Inhabited {
        dirs: WorkspaceDirs,
        shell: std::process::Child,
        _place: tempfile::TempDir,
    }

    impl Inhabited {
        fn new() -> Self {
            let place = tempfile::tempdir().unwrap();
            let piped = std::process::Stdio::piped;
            let mut shell = std::process::Command::new("/bin/sh");
            let shell = shell.stdin(piped()).stdout(piped()).spawn().unwrap();
            let dirs = WorkspaceDirs {
                dir: place.path().to_owned(),
                socket: place.path().join("socket"),
            };
            let last = LastRun {
                boot_id: String::new(),
                ended: None,
                init: Incarnation::of(shell.id().cast_signed()),
            };
            fs::write(dirs.last_run(), serde_json::to_vec(&last).unwrap()).unwrap();
            Self {
                dirs,
                shell,
                _place: place,
            }
        }

        /// Returns when the shell has written `done`.
        fn run(&mut self, command: &str) {
            let stdin = self.shell.stdin.as_mut().unwrap();
            writeln!(stdin, "{command}\necho done").unwrap();
            let mut done = [0; 5];
            self.shell
                .stdout
                .as_mut()
                .unwrap()
                .read_exact(&mut done)
                .unwrap();
            assert_eq!(&done, b"done\n");
        }

        /// Whether the shell and its children wait: a process that waits for a processor is not at rest.
        fn is_blocked(&self) -> bool {
            let shell = self.shell.id();
            let children = format!("/proc/{shell}/task/{shell}/children");
            let children = fs::read_to_string(children).unwrap();
            let all = children.split_whitespace().map(str::to_owned);
            all.chain([shell.to_string()]).all(|pid| {
                fs::read_to_string(format!("/proc/{pid}/stat"))
                    .is_ok_and(|stat| stat.contains(") S "))
            })
        }

        /// Looks until the meter knows that nothing runs inside.
        fn at_rest(&self, meter: &mut Meter) -> Usage {
            let limit = Instant::now() + Duration::from_secs(30);
            loop {
                let was_blocked = self.is_blocked();
                let usage = meter.look(std::slice::from_ref(&self.dirs)).pop();
                let is_at_rest = meter.known.values().any(|known| known.resting().is_some());
                if is_at_rest && was_blocked {
                    return usage.flatten().unwrap();
                }
                assert!(Instant::now() < limit, "the shell does not come to rest");
            }
        }
    }

    impl Drop for Inhabited {
        fn drop(&mut self) {
            let _ = self.shell.kill();
            let _ = self.shell.wait();
        }
    }

    #[test]
    fn processes_are_read_again_when_one_of_a_workspace_ran() {
        let (mut inhabited, mut meter) = (Inhabited::new(), Meter::default());
        inhabited.run(":");
        assert_eq!(inhabited.at_rest(&mut meter).total.processes, 1);
        let read_at = meter.read_at;
        let usage = meter.look(std::slice::from_ref(&inhabited.dirs)).pop();
        assert_eq!(usage.flatten().unwrap().total.processes, 1);
        assert_eq!(meter.read_at, read_at, "nothing ran, so nothing is read");
        // This test is the parent, and runs.
        let time = meter.processor_time(&inhabited.dirs).unwrap();
        assert!(meter.processor_time(&inhabited.dirs).unwrap() > time);

        inhabited.run("sleep 1000 >/dev/null & pid=$!");
        assert_eq!(meter.processor_time(&inhabited.dirs), None);
        assert_eq!(inhabited.at_rest(&mut meter).total.processes, 2);
        assert!(meter.processor_time(&inhabited.dirs).is_some());
        inhabited.run("kill $pid; wait");
        assert_eq!(meter.processor_time(&inhabited.dirs), None);
        assert_eq!(inhabited.at_rest(&mut meter).total.processes, 1);
    }
}
