//! Everything that there is of an island: what must be the same before and after.

use super::{Island, Ran};
use rustix::process::{Flock, FlockType, Signal, fcntl_getlk};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Comparable; says what differs when printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Census {
    /// Keepers, their inits and everything inside.
    pub processes: usize,
    pub workspaces: BTreeSet<String>,
    pub incoming: BTreeSet<String>,
    pub sockets: BTreeSet<String>,
    /// Workspaces that are not in the trash, and steps that are not ended.
    pub rows: String,
    /// On the host.
    pub mounts: usize,
    /// Those that our processes are in or hold open, without the test's own.
    pub namespaces: BTreeSet<String>,
    /// Of the daemon, by their targets.
    pub descriptors: BTreeMap<String, usize>,
}

/// A process by number and start, so that another one with its number is not taken for it.
pub type Process = (i32, u64);

struct Stat {
    parent: i32,
    state: String,
    session: i32,
    started: u64,
}

fn stat(pid: i32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<_> = text.rsplit_once(')')?.1.split_whitespace().collect();
    Some(Stat {
        state: fields[0].to_owned(),
        parent: fields[1].parse().ok()?,
        session: fields[3].parse().ok()?,
        started: fields[19].parse().ok()?,
    })
}

fn command_of(pid: i32) -> Vec<u8> {
    fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()
}

/// A spare keeper is in the daemon's session; it begins its own when it gets a workspace. Helpers that a keeper forks
/// have its command line and are in its session.
fn is_spare(pid: i32) -> bool {
    let is_keeper = |pid| command_of(pid).windows(8).any(|word| word == b"__keeper");
    is_keeper(pid) && stat(pid).is_some_and(|stat| !is_keeper(stat.session))
}

/// Helpers that measure the disk come and go by themselves.
fn is_measuring(pid: i32) -> bool {
    command_of(pid).windows(9).any(|word| word == b"__measure")
}

/// Whether a process has ended, or is another one by now.
pub fn is_gone((pid, started): Process) -> bool {
    stat(pid).is_none_or(|stat| stat.started != started || stat.state == "Z")
}

pub fn state_of(pid: i32) -> String {
    stat(pid).map(|stat| stat.state).unwrap_or_default()
}

/// The keeper of a workspace of this data directory, by the lock that it holds.
pub fn keeper_below(data: &Path, id: &str) -> Option<i32> {
    let lock = data.join("workspaces").join(id).join("lock");
    let file = fs::File::open(lock).ok()?;
    // Asked of the kernel for this one file: /proc/locks leaves lines out while others change.
    let held = fcntl_getlk(file, &Flock::from(FlockType::WriteLock)).unwrap()?;
    held.pid.map(|pid| pid.as_raw_nonzero().get())
}

fn names(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.collect()
}

fn links(directory: &str) -> impl Iterator<Item = String> + use<> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let links = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
    links.map(|link| link.to_string_lossy().into_owned())
}

// === impl Island ===

impl Island {
    pub fn census(&self) -> Census {
        let place = self.holm_home().display().to_string();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        Census {
            processes: self.inhabitants().len(),
            workspaces: names(&self.data().join("workspaces")),
            incoming: names(&self.data().join("incoming")),
            sockets: names(&self.holm_home().join("run/w")),
            rows: self.rows(),
            mounts: mounts.lines().filter(|line| line.contains(&place)).count(),
            namespaces: self.namespaces(),
            descriptors: self.descriptors(),
        }
    }

    /// Equal to the census before, as soon as ended processes are gone.
    #[track_caller]
    pub fn is_back_to(&self, before: &Census) {
        let start = Instant::now();
        let mut now = self.census();
        while now != *before && start.elapsed() < Duration::from_secs(60) {
            std::thread::park_timeout(Duration::from_millis(20));
            now = self.census();
        }
        assert_eq!(now, *before);
    }

    /// Like `lsns` for the daemon, the keepers and everything below them.
    fn namespaces(&self) -> BTreeSet<String> {
        let of = |pid: &str| {
            let kept = links(&format!("/proc/{pid}/fd")).filter(|link| link.contains(":["));
            let is_one = |link: &String| {
                let kinds = ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"];
                let kind = link.split(':').next().unwrap_or_default();
                kinds.contains(&kind)
            };
            links(&format!("/proc/{pid}/ns"))
                .chain(kept)
                .filter(is_one)
                .collect::<BTreeSet<_>>()
        };
        let all = self.inhabitants().into_iter().map(|(pid, _)| pid);
        let found = all.chain(self.daemon_of_the_lock());
        let found: BTreeSet<_> = found.flat_map(|pid| of(&pid.to_string())).collect();
        found.difference(&of("self")).cloned().collect()
    }

    fn descriptors(&self) -> BTreeMap<String, usize> {
        let mut found = BTreeMap::new();
        if let Some(pid) = self.daemon_of_the_lock() {
            for link in links(&format!("/proc/{pid}/fd")) {
                // By these a daemon waits for the keepers that it started itself, another one not.
                if link == "anon_inode:[pidfd]" {
                    continue;
                }
                let numbered = link
                    .split_once(":[")
                    .filter(|(kind, _)| *kind != "anon_inode");
                let kind = numbered.map_or(link.as_str(), |(kind, _)| kind).to_owned();
                *found.entry(kind).or_insert(0) += 1;
            }
        }
        // A spare keeper's stdin and stdout.
        if let Some(pipes) = found.get_mut("pipe") {
            *pipes -= (2 * self.spares().len()).min(*pipes);
        }
        found.retain(|_, count| *count > 0);
        found
    }

    fn rows(&self) -> String {
        let ask = "import sqlite3, sys
store = sqlite3.connect(f'file:{sys.argv[1]}?mode=ro', uri=True)
print(store.execute('select count(*) from workspaces where removed_at is null').fetchone(),
      store.execute('select count(*) from workspaces where acknowledged = 0').fetchone(),
      store.execute('select count(*) from journal where outcome is null').fetchone())";
        let database = self.data().join("holm.db");
        let arguments = ["-c", ask, database.to_str().unwrap()];
        self.run(&self.home(), "/usr/bin/python3", &arguments)
            .ok()
            .out()
    }

    /// Keepers of this island, and every process below them. Two looks agree on them: a helper of a keeper lives for a
    /// moment only.
    pub fn inhabitants(&self) -> Vec<Process> {
        let mut found = self.look_at_inhabitants();
        for _ in 0..50 {
            let now = self.look_at_inhabitants();
            if std::mem::replace(&mut found, now.clone()) == now {
                break;
            }
        }
        found
    }

    fn look_at_inhabitants(&self) -> Vec<Process> {
        let place = self.data().display().to_string();
        let mut known: BTreeMap<i32, Stat> = BTreeMap::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Ok(pid) = entry.file_name().to_string_lossy().parse() else {
                continue;
            };
            known.extend(
                stat(pid)
                    .filter(|stat| stat.state != "Z")
                    .map(|stat| (pid, stat)),
            );
        }
        let is_keeper = |pid: i32| {
            let command = command_of(pid);
            command.starts_with(place.as_bytes()) && !is_spare(pid)
        };
        let mut found: BTreeSet<i32> = known
            .keys()
            .copied()
            .filter(|pid| is_keeper(*pid))
            .collect();
        loop {
            let below = |stat: &Stat| found.contains(&stat.parent);
            let more: Vec<_> = known
                .iter()
                .filter(|(pid, stat)| below(stat) && !found.contains(pid))
                .map(|(pid, _)| *pid)
                .collect();
            if more.is_empty() {
                found.retain(|pid| !is_measuring(*pid));
                return found.iter().map(|pid| (*pid, known[pid].started)).collect();
            }
            found.extend(more);
        }
    }

    /// Keepers of this island's daemon that wait for a workspace.
    pub fn spares(&self) -> Vec<Process> {
        let place = self.data().display().to_string();
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let spares =
            pids.filter(|pid| command_of(*pid).starts_with(place.as_bytes()) && is_spare(*pid));
        let spares = spares.filter_map(|pid| Some((pid, stat(pid)?)));
        let alive = spares.filter(|(_, stat)| stat.state != "Z");
        alive.map(|(pid, stat)| (pid, stat.started)).collect()
    }

    /// The keeper of one workspace, by the lock that it holds.
    pub fn keeper_of(&self, id: &str) -> Option<i32> {
        keeper_below(&self.data(), id)
    }

    /// The first process inside one workspace.
    pub fn init_of(&self, id: &str) -> Option<i32> {
        let keeper = self.keeper_of(id)?;
        let all = self.inhabitants();
        // A keeper has other children, too.
        let is_init = |(pid, _): &&Process| {
            let command = command_of(*pid);
            command.starts_with(b"holm-init\0") && stat(*pid).is_some_and(|it| it.parent == keeper)
        };
        all.iter().find(is_init).map(|(pid, _)| *pid)
    }

    /// Ends the daemon by force, if one runs. Its number is in the lock file, which only it writes.
    pub fn kill_daemon(&self) {
        let Some(pid) = self.daemon_of_the_lock() else {
            return;
        };
        super::send(pid, Signal::KILL);
        super::eventually("the daemon is gone", || {
            stat(pid).is_none_or(|stat| stat.state == "Z")
        });
    }

    /// The daemon that holds the data directory, without asking it.
    pub fn daemon_of_the_lock(&self) -> Option<i32> {
        let text = fs::read_to_string(self.data().join("lock")).ok()?;
        let pid = text.trim().parse().ok()?;
        let is_daemon = fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|command| command.windows(6).any(|word| word == b"daemon"));
        (is_daemon && stat(pid)?.state != "Z").then_some(pid)
    }

    /// The states of the workspaces, by label.
    #[track_caller]
    pub fn states(&self) -> BTreeMap<String, String> {
        let listed = self.holm(&["ls", "--json"]).json();
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        let workspaces = listed["workspaces"].as_array().unwrap().iter();
        workspaces
            .map(|one| (text(&one["label"]), text(&one["state"])))
            .collect()
    }

    /// holm with a daemon that does something at a moment (`launch:before:kill`); the daemon of now
    /// is ended for it.
    pub fn holm_at(&self, directory: &Path, at: &str, arguments: &[&str]) -> Ran {
        self.kill_daemon();
        let mut command = self.holm_command(directory, arguments);
        Ran::new(command.env("HOLM_TEST_AT", at))
    }
}
