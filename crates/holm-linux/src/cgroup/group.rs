//! The control groups of one workspace. Its keeper creates and removes them; after a killed keeper
//! the daemon or the next keeper removes them. The groups are recorded beside the workspace before
//! they are created.

use super::{Controller, GroupParents, Version, make_directory, words};
use holm_core::config::Limits;
use holm_keeper::complain;
use holm_keeper::directories::WorkspaceDirs;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Which limits the kernel enforces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    pub memory: bool,
    pub cpus: bool,
    pub processes: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    id: String,
    version: Version,
    /// The groups with the limits; the processes are in groups below them.
    directories: Vec<(Controller, PathBuf)>,
}

/// The group of the processes. Their cgroup namespace begins here, so programs inside cannot name
/// the groups above.
const INSIDE: &str = "inside";

/// The period of the processor limit, in microseconds.
const PERIOD: u64 = 100_000;
/// The smallest quota that the kernel accepts.
const LEAST_QUOTA: u64 = 1_000;

// === impl Group ===

impl Group {
    /// Creates the groups and sets the limits. A limit that the kernel rejects is no error here:
    /// [`Self::kept`] reports it.
    pub fn make(
        place: &GroupParents,
        id: &str,
        limits: &Limits,
        dirs: &WorkspaceDirs,
    ) -> io::Result<Self> {
        let own = |(controller, parent): &(Controller, PathBuf)| (*controller, parent.join(id));
        let group = Self {
            id: id.to_owned(),
            version: place.version,
            directories: place.directories.iter().map(own).collect(),
        };
        let fresh = dirs.dir.join("group.json.new");
        fs::write(&fresh, serde_json::to_vec(&group)?)?;
        fs::rename(fresh, dirs.group())?;
        for directory in group.hierarchies() {
            make_directory(directory)?;
            make_directory(&directory.join(INSIDE))?;
        }
        for (name, error) in group.limit(limits) {
            complain!("{} cannot be set: {error}", name.display());
        }
        Ok(group)
    }

    pub fn version(&self) -> Version {
        self.version
    }

    /// The files that a process writes `0` to in order to enter.
    pub fn entrances(&self) -> io::Result<Vec<File>> {
        self.hierarchies()
            .map(|directory| {
                let path = directory.join(INSIDE).join("cgroup.procs");
                File::options().write(true).open(path)
            })
            .collect()
    }

    /// Moves a process of ours into the group, because it acts for the workspace.
    pub fn take_in(&self, pid: u32) -> io::Result<()> {
        for directory in self.hierarchies() {
            fs::write(directory.join(INSIDE).join("cgroup.procs"), pid.to_string())?;
        }
        Ok(())
    }

    /// Whether a process with this `/proc/<pid>/cgroup` is in all of the groups.
    pub fn has(&self, membership: &str) -> bool {
        let inside = format!("/{}/{INSIDE}", self.id);
        let is_in = |controller: Controller| {
            super::kernel::memberships(membership)
                .iter()
                .any(|member| match self.version {
                    Version::V1 => {
                        let has = |name: &String| name == controller.as_str();
                        member.controllers.iter().any(has) && ends_with(&member.path, &inside)
                    }
                    Version::V2 => {
                        member.controllers.is_empty() && ends_with(&member.path, &inside)
                    }
                })
        };
        self.directories
            .iter()
            .all(|(controller, _)| is_in(*controller))
    }

    /// Which limits are in force, read back from the kernel.
    pub fn kept(&self, limits: &Limits) -> Kept {
        let number = |controller, name: &str| -> Option<u64> {
            let path = self.directory(controller)?.join(name);
            words(&path).first()?.parse().ok()
        };
        let (memory, cpus) = match self.version {
            Version::V1 => (
                number(Controller::Memory, "memory.limit_in_bytes"),
                number(Controller::Cpu, "cpu.cfs_quota_us"),
            ),
            Version::V2 => (
                number(Controller::Memory, "memory.max"),
                number(Controller::Cpu, "cpu.max"),
            ),
        };
        let processes = number(Controller::Pids, "pids.max");
        // The kernel rounds down to whole pages.
        let at_most = |found: Option<u64>, asked: Option<u64>| match (found, asked) {
            (Some(found), Some(asked)) => found <= asked,
            _ => false,
        };
        Kept {
            memory: at_most(memory, limits.memory),
            cpus: at_most(cpus, limits.cpus.map(quota)),
            processes: at_most(processes, limits.processes),
        }
    }

    /// How many processes the OOM killer ended.
    pub fn memory_kills(&self) -> u64 {
        let Some(directory) = self.directory(Controller::Memory) else {
            return 0;
        };
        // v1 counts in the process's own group, v2 also in all groups above.
        let file = match self.version {
            Version::V1 => directory.join(INSIDE).join("memory.oom_control"),
            Version::V2 => directory.join("memory.events"),
        };
        let text = fs::read_to_string(file).unwrap_or_default();
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count
            .and_then(|count| count.trim().parse().ok())
            .unwrap_or(0)
    }

    /// Thaws frozen processes, because these do not even die.
    pub fn thaw(&self) {
        for group in self.all() {
            // A group without such a file cannot be frozen.
            let _ = match self.version {
                Version::V1 => write_existing(&group.join("freezer.state"), "THAWED"),
                Version::V2 => write_existing(&group.join("cgroup.freeze"), "0"),
            };
        }
    }

    /// Kills everything in the groups and removes them.
    pub fn remove(&self, patience: Duration) -> io::Result<()> {
        let deadline = Instant::now() + patience;
        let mut pause = Duration::from_millis(1);
        loop {
            self.thaw();
            self.kill();
            let Some(error) = self.remove_empty() else {
                return Ok(());
            };
            if Instant::now() > deadline {
                return Err(error);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    /// Returns why a group is still there.
    fn remove_empty(&self) -> Option<io::Error> {
        let mut left = None;
        // The deepest first.
        for group in self.all().into_iter().rev() {
            match fs::remove_dir(&group) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => left = Some(error),
            }
        }
        left
    }

    fn kill(&self) {
        for group in self.all() {
            if self.version == Version::V2
                && write_existing(&group.join("cgroup.kill"), "1").is_ok()
            {
                continue;
            }
            for member in words(&group.join("cgroup.procs")) {
                if let Some(pid) = member.parse().ok().and_then(Pid::from_raw) {
                    self.kill_member(pid);
                }
            }
        }
    }

    /// Kills the process only if it is still in the group after its pidfd was opened.
    fn kill_member(&self, pid: Pid) {
        let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else {
            return;
        };
        let path = format!("/proc/{}/cgroup", pid.as_raw_nonzero());
        let membership = fs::read_to_string(path).unwrap_or_default();
        let is_ours = super::kernel::memberships(&membership)
            .iter()
            .any(|member| member.path.iter().any(|name| name == self.id.as_str()));
        if is_ours {
            // It may have ended meanwhile.
            let _ = pidfd_send_signal(&pidfd, Signal::KILL);
        }
    }

    /// The limits that could not be set, and why.
    fn limit(&self, limits: &Limits) -> Vec<(PathBuf, io::Error)> {
        let mut failed = Vec::new();
        let mut set = |controller, name: &str, text: String| {
            if let Some(directory) = self.directory(controller) {
                let path = directory.join(name);
                if let Err(error) = write_existing(&path, &text) {
                    failed.push((path, error));
                }
            }
        };
        if let Some(memory) = limits.memory {
            match self.version {
                Version::V1 => {
                    set(
                        Controller::Memory,
                        "memory.limit_in_bytes",
                        memory.to_string(),
                    );
                }
                // `memory.oom.group` stays off: one program that needs too much memory is no reason
                // to end the agent, the services and all shells.
                Version::V2 => set(Controller::Memory, "memory.max", memory.to_string()),
            }
        }
        if let Some(cpus) = limits.cpus {
            let quota = quota(cpus);
            match self.version {
                Version::V1 => {
                    set(Controller::Cpu, "cpu.cfs_period_us", PERIOD.to_string());
                    set(Controller::Cpu, "cpu.cfs_quota_us", quota.to_string());
                }
                Version::V2 => set(Controller::Cpu, "cpu.max", format!("{quota} {PERIOD}")),
            }
        }
        if let Some(processes) = limits.processes {
            set(Controller::Pids, "pids.max", processes.to_string());
        }
        if let Some(memory) = limits.memory {
            self.forbid_swap(memory);
        }
        failed
    }

    /// Without this, a memory limit would only make the machine swap. A kernel without swap
    /// accounting has no such file.
    fn forbid_swap(&self, memory: u64) {
        if let Some(directory) = self.directory(Controller::Memory) {
            let _ = match self.version {
                Version::V1 => write_existing(
                    &directory.join("memory.memsw.limit_in_bytes"),
                    &memory.to_string(),
                ),
                Version::V2 => write_existing(&directory.join("memory.swap.max"), "0"),
            };
        }
    }

    pub(super) fn directory(&self, controller: Controller) -> Option<&Path> {
        self.directories
            .iter()
            .find(|(which, _)| *which == controller)
            .map(|(_, directory)| directory.as_path())
    }

    /// Each directory once; in v2 all controllers share one.
    fn hierarchies(&self) -> impl Iterator<Item = &Path> {
        let mut seen: Vec<&Path> = Vec::new();
        for (_, directory) in &self.directories {
            if !seen.contains(&directory.as_path()) {
                seen.push(directory);
            }
        }
        seen.into_iter()
    }

    /// Every existing group of the workspace, also those that programs inside created, parents
    /// first.
    fn all(&self) -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> = self
            .hierarchies()
            .filter(|directory| directory.is_dir())
            .map(Path::to_owned)
            .collect();
        let mut next = 0;
        while let Some(directory) = found.get(next) {
            let below = fs::read_dir(directory).into_iter().flatten().flatten();
            let below: Vec<_> = below
                .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                .map(|entry| entry.path())
                .collect();
            found.extend(below);
            next += 1;
        }
        found
    }
}

/// The groups that an earlier keeper left, if any still exist. An unreadable file was cut short by
/// a power failure, which also removed the groups.
pub fn leftover(dirs: &WorkspaceDirs) -> Option<Group> {
    let text = fs::read(dirs.group()).ok()?;
    let group: Group = serde_json::from_slice(&text).ok()?;
    group.hierarchies().any(Path::exists).then(|| group.clone())
}

/// Removes the groups of a workspace whose keeper is gone, and kills everything in them.
pub fn sweep(dirs: &WorkspaceDirs, patience: Duration) -> io::Result<()> {
    if let Some(group) = leftover(dirs) {
        group.remove(patience)?;
    }
    match fs::remove_file(dirs.group()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn quota(cpus: f64) -> u64 {
    ((cpus * PERIOD as f64).round() as u64).max(LEAST_QUOTA)
}

fn ends_with(path: &Path, end: &str) -> bool {
    path.to_str().is_some_and(|text| text.ends_with(end))
}

/// Never creates the file: a group that is being removed has none.
fn write_existing(path: &Path, text: &str) -> io::Result<()> {
    use std::io::Write;
    File::options()
        .write(true)
        .open(path)?
        .write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};
    use tempfile::TempDir;

    const ID: &str = "w0123456789ab";

    const LIMITS: Limits = Limits {
        memory: Some(1 << 20),
        cpus: Some(0.25),
        processes: Some(7),
        disk: None,
    };

    fn dirs(place: &TempDir) -> WorkspaceDirs {
        WorkspaceDirs {
            dir: place.path().to_owned(),
            socket: place.path().join("socket"),
        }
    }

    /// A directory with files like the kernel's, and a group that uses it.
    fn imitated(version: Version, files: &[&str]) -> (TempDir, Group) {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join(ID);
        fs::create_dir_all(directory.join(INSIDE)).unwrap();
        for file in files {
            fs::write(directory.join(file), "").unwrap();
        }
        let all = [Controller::Memory, Controller::Cpu, Controller::Pids];
        let parent = place.path().to_owned();
        let found = GroupParents {
            version,
            directories: all.map(|controller| (controller, parent.clone())).into(),
        };
        let group = Group::make(&found, ID, &LIMITS, &dirs(&place)).unwrap();
        (place, group)
    }

    fn text(place: &TempDir, file: &str) -> String {
        fs::read_to_string(place.path().join(ID).join(file)).unwrap()
    }

    #[test]
    fn what_is_written_in_v2_and_read_back() {
        let files = [
            "memory.max",
            "memory.oom.group",
            "memory.swap.max",
            "cpu.max",
            "pids.max",
        ];
        let (place, group) = imitated(Version::V2, &files);
        let found = files.map(|file| text(&place, file));
        assert_eq!(
            found,
            ["1048576", "", "0", "25000 100000", "7"],
            "and only who takes too much is killed"
        );
        let all = Kept {
            memory: true,
            cpus: true,
            processes: true,
        };
        assert_eq!(group.kept(&LIMITS), all);
        assert_eq!(group.hierarchies().count(), 1);
        let events = place.path().join(ID).join("memory.events");
        fs::write(
            events,
            "low 0\nhigh 0\nmax 9\noom 3\noom_kill 2\noom_group_kill 1\n",
        )
        .unwrap();
        assert_eq!(group.memory_kills(), 2);

        // The kernel's value counts, not the written one.
        fs::write(place.path().join(ID).join("memory.max"), "max\n").unwrap();
        fs::write(place.path().join(ID).join("cpu.max"), "max 100000\n").unwrap();
        fs::write(place.path().join(ID).join("pids.max"), "8\n").unwrap();
        assert_eq!(group.kept(&LIMITS), Kept::default());
    }

    #[test]
    fn what_is_written_in_v1_and_what_a_kernel_lacks() {
        let files = [
            "memory.limit_in_bytes",
            "cpu.cfs_period_us",
            "cpu.cfs_quota_us",
        ];
        let (place, group) = imitated(Version::V1, &files);
        let found = files.map(|file| text(&place, file));
        assert_eq!(found, ["1048576", "100000", "25000"]);
        let kept = group.kept(&LIMITS);
        assert!(kept.memory && kept.cpus && !kept.processes);
        let control = place.path().join(ID).join("inside/memory.oom_control");
        fs::write(control, "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n").unwrap();
        assert_eq!(group.memory_kills(), 5);
        assert_eq!(leftover(&dirs(&place)), Some(group));
    }

    #[test]
    fn who_is_in_a_group() {
        let (_place, v1) = imitated(Version::V1, &[]);
        let inside = format!("/holm/{ID}/inside");
        let all = format!("1:cpu,cpuacct:{inside}\n2:memory:{inside}\n3:pids:{inside}\n0::/\n");
        assert!(v1.has(&all));
        assert!(!v1.has(&all.replace(&format!("3:pids:{inside}"), "3:pids:/")));
        assert!(!v1.has(&all.replace(ID, "w0000000000000")));
        let (_place, v2) = imitated(Version::V2, &[]);
        assert!(v2.has(&format!("0::/user.slice{inside}\n")));
        assert!(!v2.has("0::/user.slice\n"));
    }

    /// A real v2 group, which needs no controllers for this; only root can create one.
    fn real_place(test: &str) -> Option<GroupParents> {
        let mountinfo = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let mounts = super::super::kernel::mounts(&mountinfo);
        let Some(unified) = super::super::kernel::unified(&mounts) else {
            crate::skip::skipped("there are no control groups of v2");
            return None;
        };
        let parent = unified
            .at
            .join(format!("holm-unit-{test}-{}", std::process::id()));
        match fs::create_dir(&parent) {
            Ok(()) => Some(GroupParents {
                version: Version::V2,
                directories: vec![(Controller::Pids, parent)],
            }),
            Err(error) => {
                crate::skip::skipped(&format!("cannot make a control group of v2: {error}"));
                None
            }
        }
    }

    fn sleeper() -> Child {
        Command::new("sleep").arg("1000").spawn().unwrap()
    }

    #[test]
    fn a_frozen_group_of_v2_with_groups_in_it_is_ended_and_removed() {
        let Some(found) = real_place("frozen") else {
            return;
        };
        let place = tempfile::tempdir().unwrap();
        let parent = found.directories[0].1.clone();
        let group = Group::make(&found, ID, &Limits::default(), &dirs(&place)).unwrap();
        let mut children = [sleeper(), sleeper()];
        for child in &children {
            group.take_in(child.id()).unwrap();
            let membership = format!("/proc/{}/cgroup", child.id());
            assert!(group.has(&fs::read_to_string(membership).unwrap()));
        }
        // Like a program inside that can mount control groups.
        let below = parent.join(ID).join("inside/below");
        fs::create_dir(&below).unwrap();
        fs::write(below.join("cgroup.procs"), children[1].id().to_string()).unwrap();
        fs::write(below.join("cgroup.freeze"), "1").unwrap();
        fs::write(parent.join(ID).join("cgroup.freeze"), "1").unwrap();

        assert_eq!(leftover(&dirs(&place)), Some(group));
        sweep(&dirs(&place), Duration::from_secs(10)).unwrap();
        for child in &mut children {
            use std::os::unix::process::ExitStatusExt;
            assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
        }
        assert!(!parent.join(ID).exists());
        assert_eq!(leftover(&dirs(&place)), None);
        sweep(&dirs(&place), Duration::ZERO).unwrap();
        fs::remove_dir(parent).unwrap();
    }

    #[test]
    fn a_process_enters_by_itself_and_sees_nothing_above() {
        let Some(found) = real_place("enter") else {
            return;
        };
        let place = tempfile::tempdir().unwrap();
        let parent = found.directories[0].1.clone();
        let group = Group::make(&found, ID, &Limits::default(), &dirs(&place)).unwrap();
        assert_eq!(group.entrances().unwrap().len(), 1);
        let procs = parent.join(ID).join("inside/cgroup.procs");
        let script = format!(
            "echo 0 > {} && unshare --cgroup cat /proc/self/cgroup",
            procs.display()
        );
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        let seen = String::from_utf8(output.stdout).unwrap();
        assert!(seen.lines().any(|line| line == "0::/"), "{seen}");
        group.remove(Duration::from_secs(10)).unwrap();
        fs::remove_dir(parent).unwrap();
    }
}
