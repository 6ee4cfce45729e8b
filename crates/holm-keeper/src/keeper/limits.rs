//! The limits of the workspace, as its keeper sees them: what the kernel did for want of memory, and the
//! disk now and then.

use super::Registry;
use crate::platform::Platform;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How the last run ended when the disk was the reason; users see the same word.
pub const DISK: &str = "disk_limit";
/// How it ended when init itself was killed for want of memory.
pub const MEMORY: &str = "memory_limit";

/// Notices when the kernel kills processes because the memory limit was reached.
pub struct MemoryKills {
    platform: Arc<dyn Platform>,
    noticed: Mutex<Noticed>,
}

/// Processes that were killed for want of memory, as far as was looked.
struct Noticed {
    kills: u64,
    at: Option<Instant>,
}

// === impl MemoryKills ===

impl MemoryKills {
    pub fn new(platform: Arc<dyn Platform>) -> Self {
        Self {
            platform,
            noticed: Mutex::new(Noticed { kills: 0, at: None }),
        }
    }

    /// Reads how many processes the kernel has killed for want of memory, logs new ones, and returns the number.
    pub fn update_count(&self) -> u64 {
        let kills = self.platform.memory_kills();
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

    /// Whether what just ended did so for want of memory.
    pub fn has_just_killed(&self) -> bool {
        const JUST: Duration = Duration::from_secs(1);
        self.update_count();
        let noticed = self.noticed.lock().unwrap_or_else(PoisonError::into_inner);
        noticed.at.is_some_and(|at| at.elapsed() < JUST)
    }
}

/// Between two looks at the file system: as long as it takes to write what there is room for, at a
/// speed that few disks have.
const SOONEST: Duration = Duration::from_secs(1);
const LATEST: Duration = Duration::from_secs(30);
const BYTES_PER_SECOND: u64 = 512 << 20;
/// Everything is walked through at least this often, because files of others may hide growth.
const WALK_AFTER: Duration = Duration::from_secs(300);
/// Walking takes at most this part of the time.
const WALK_SHARE: u32 = 20;
/// Between SIGTERM and SIGKILL of a workspace that is over its limit.
const GRACE: Duration = Duration::from_secs(2);

/// Stops the workspace when it takes more disk than it may. One thread, for as long as it runs.
pub fn watch_disk(registry: &Arc<Registry>) -> io::Result<()> {
    let Some(limit) = registry.plan.disk else {
        return Ok(());
    };
    let registry = Arc::clone(registry);
    let thread = std::thread::Builder::new().stack_size(128 * 1024);
    thread.spawn(move || {
        let mut watch = Watch::new(limit);
        loop {
            std::thread::sleep(watch.pause);
            match watch.look(registry.platform(), &registry.plan.dir) {
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
    /// What the file system had in use at the last look, and at the last walk.
    in_use: u64,
    in_use_then: u64,
    /// What the workspace took at the last walk, and when the next one is due at the latest, and
    /// may be at the earliest.
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

    /// Whether the workspace is over its limit. Walks only if the file system has grown by as much
    /// as would bring it near, or after a while.
    fn look(&mut self, platform: &dyn Platform, dir: &Path) -> io::Result<bool> {
        let status = rustix::fs::statvfs(dir)?;
        let in_use = (status.f_blocks - status.f_bfree) * status.f_frsize;
        self.in_use = in_use;
        let now = Instant::now();
        if !self.is_walk_due(now) {
            self.pause = self.pause_for_room();
            return Ok(false);
        }
        let taken = platform.disk_usage()?;
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
