//! The workspace's limits in its keeper: creates the groups before anything runs, counts OOM kills,
//! and measures the disk.

use super::registry::Registry;
use crate::cgroup::{self, Group, Kept};
use crate::launch::Stepped;
use crate::layout::WorkspaceDirs;
use crate::measure;
use crate::wire::{LaunchFailure, LaunchPlan, Part};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The reason when the disk limit ended the workspace; users see the same word.
pub const DISK: &str = "disk_limit";
/// The reason when init itself was killed for lack of memory.
pub const MEMORY: &str = "memory_limit";

/// For the kernel to tear down a group.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// The groups of a workspace, if the machine has any for us.
pub struct Limits {
    group: Option<Group>,
    noticed: Mutex<Noticed>,
}

/// OOM kills that were already logged.
struct Noticed {
    kills: u64,
    at: Option<Instant>,
}

/// Removes groups of an earlier keeper, creates the groups, and refuses limits that cannot be
/// enforced.
pub fn make(plan: &LaunchPlan, dirs: &WorkspaceDirs) -> Result<Option<Group>, LaunchFailure> {
    cgroup::sweep(dirs, PATIENCE).step(Part::Other, "remove the old control group")?;
    let made = plan
        .groups
        .as_ref()
        .map(|place| Group::make(place, &plan.id, &plan.limits, dirs));
    let group = match made {
        None => None,
        Some(Ok(group)) => Some(group),
        Some(Err(error)) => {
            complain!("no control group can be made: {error}");
            cgroup::sweep(dirs, PATIENCE).step(Part::Other, "remove half a control group")?;
            None
        }
    };
    let kept = kept(group.as_ref(), plan);
    let missing = plan.required.iter().find(|name| match name.as_str() {
        "memory" => !kept.memory,
        "cpus" => !kept.cpus,
        // Each of these can be enforced in another way.
        _ => false,
    });
    match missing {
        None => Ok(group),
        Some(name) => Err(io::Error::other("no control group keeps it")).step(Part::Limit, name),
    }
}

pub fn kept(group: Option<&Group>, plan: &LaunchPlan) -> Kept {
    group
        .map(|group| group.kept(&plan.limits))
        .unwrap_or_default()
}

// === impl Limits ===

impl Limits {
    pub fn new(group: Option<Group>) -> Self {
        Self {
            group,
            noticed: Mutex::new(Noticed { kills: 0, at: None }),
        }
    }

    pub fn group(&self) -> Option<&Group> {
        self.group.as_ref()
    }

    /// The number of OOM kills; new ones are logged.
    pub fn memory_kills(&self) -> u64 {
        let kills = self.group.as_ref().map_or(0, Group::memory_kills);
        let mut noticed = self.noticed.lock().unwrap_or_else(PoisonError::into_inner);
        if kills > noticed.kills {
            let new = kills - noticed.kills;
            complain!("the memory limit was reached: {new} killed, {kills} so far");
            *noticed = Noticed {
                kills,
                at: Some(Instant::now()),
            };
        }
        noticed.kills
    }

    /// Whether a process was just killed for lack of memory.
    pub fn has_just_killed(&self) -> bool {
        const JUST: Duration = Duration::from_secs(1);
        self.memory_kills();
        let noticed = self.noticed.lock().unwrap_or_else(PoisonError::into_inner);
        noticed.at.is_some_and(|at| at.elapsed() < JUST)
    }

    /// Called when nothing runs any more.
    pub fn remove(&self, dirs: &WorkspaceDirs) {
        if let Err(error) = cgroup::sweep(dirs, PATIENCE) {
            complain!("the control group stays: {error}");
        }
    }
}

/// The shortest interval between two checks of the file system: the time to fill the free space on
/// a very fast disk, within bounds.
const SOONEST: Duration = Duration::from_secs(1);
const LATEST: Duration = Duration::from_secs(30);
const BYTES_PER_SECOND: u64 = 512 << 20;
/// The longest interval between two full walks, because deletions by others may hide growth.
const WALK_AFTER: Duration = Duration::from_secs(300);
/// Walks take at most this fraction of the time.
const WALK_SHARE: u32 = 20;
/// Between SIGTERM and SIGKILL of a workspace over its limit.
const GRACE: Duration = Duration::from_secs(2);

/// Stops the workspace when it exceeds its disk limit. One thread, for as long as it runs.
pub fn watch_disk(registry: &Arc<Registry>, dirs: &WorkspaceDirs) -> io::Result<()> {
    let Some(limit) = registry.plan.disk else {
        return Ok(());
    };
    let (registry, dir) = (Arc::clone(registry), dirs.dir.clone());
    let thread = std::thread::Builder::new().stack_size(128 * 1024);
    thread.spawn(move || {
        let mut watch = Watch::new(limit);
        loop {
            std::thread::sleep(watch.pause);
            match watch.look(&registry.plan.program, &dir) {
                Ok(false) => {}
                Ok(true) => break,
                Err(error) => complain!("the disk cannot be measured: {error}"),
            }
        }
        registry.end_because(DISK, GRACE);
    })?;
    Ok(())
}

struct Watch {
    limit: u64,
    pause: Duration,
    /// The file system's use at the last check, and at the last walk.
    in_use: u64,
    in_use_then: u64,
    /// The workspace's use at the last walk, and the latest and earliest time of the next one.
    taken: Option<u64>,
    due: Instant,
    allowed: Instant,
}

// === impl Watch ===

impl Watch {
    fn new(limit: u64) -> Self {
        let now = Instant::now();
        Self {
            limit,
            pause: SOONEST,
            in_use: 0,
            in_use_then: 0,
            taken: None,
            due: now,
            allowed: now,
        }
    }

    /// Whether the workspace is over its limit. Walks only if the file system has grown enough to
    /// bring it near the limit, or after a while.
    fn look(&mut self, program: &Path, dir: &Path) -> io::Result<bool> {
        let status = rustix::fs::statvfs(dir)?;
        let in_use = (status.f_blocks - status.f_bfree) * status.f_frsize;
        self.in_use = in_use;
        let now = Instant::now();
        if !self.is_walk_due(now) {
            self.pause = self.pause_for_room();
            return Ok(false);
        }
        let output = measure::command(program, dir).output()?;
        let taken = measure::understand(&output.stdout)?;
        let elapsed = now.elapsed();
        self.taken = Some(taken);
        self.in_use_then = in_use;
        self.due = now + WALK_AFTER;
        self.allowed = now + elapsed * WALK_SHARE;
        self.pause = self.pause_for_room();
        if taken > self.limit {
            complain!("{taken} bytes of disk are taken, {} may be", self.limit);
        }
        Ok(taken > self.limit)
    }

    fn pause_for_room(&self) -> Duration {
        let grown = self.in_use.saturating_sub(self.in_use_then);
        let taken = self.taken.unwrap_or(self.limit).saturating_add(grown);
        let room = self.limit.saturating_sub(taken);
        Duration::from_secs(room / BYTES_PER_SECOND).clamp(SOONEST, LATEST)
    }

    fn is_walk_due(&self, now: Instant) -> bool {
        let grown = self.in_use.saturating_sub(self.in_use_then);
        let is_near = self
            .taken
            .is_none_or(|taken| taken.saturating_add(grown) > self.limit);
        now >= self.allowed && (is_near || now >= self.due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_are_rare_unless_the_disk_fills() {
        let now = Instant::now();
        let mut watch = Watch::new(100);
        assert!(watch.is_walk_due(now + SOONEST), "the first look walks");
        watch.taken = Some(40);
        watch.in_use_then = 1000;
        watch.in_use = 1060;
        watch.due = now + WALK_AFTER;
        watch.allowed = now;
        assert!(!watch.is_walk_due(now), "it cannot be over");
        watch.in_use = 1061;
        assert!(watch.is_walk_due(now), "it can be");
        watch.allowed = now + SOONEST;
        assert!(!watch.is_walk_due(now), "the last walk took long");
        watch.in_use = 900;
        assert!(!watch.is_walk_due(now + SOONEST));
        assert!(watch.is_walk_due(now + WALK_AFTER), "others may have freed");
        assert_eq!(watch.pause_for_room(), SOONEST);
        watch.limit = 10 * BYTES_PER_SECOND + 40;
        assert_eq!(watch.pause_for_room(), Duration::from_secs(10));
        watch.limit = u64::MAX;
        assert_eq!(watch.pause_for_room(), LATEST);
    }
}
