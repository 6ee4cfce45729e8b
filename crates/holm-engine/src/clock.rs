//! Reads the machine's clocks and remembers earlier readings. Code that deletes something because
//! of its age calls [`Clock::look`] first; `holm_core::clock` decides whether the wall clock is
//! plausible.
//!
//! [`Engine::keep_clock`](crate::Engine::keep_clock), which the daemon calls every second, stores the readings: a reading
//! itself stays in memory, because every request with a token takes one.
//!
//! Debug builds read `HOLM_TEST_CLOCK`, a file with seconds that are added to the wall clock,
//! seconds that are added to the time since the boot, and a boot id; each is optional.

use crate::failpoint::is_without;
use crate::store::{Store, StoreError};
use holm_core::clock::{ClockRecord, Judgement, Reading, believe, judge};
use jiff::{SignedDuration, Timestamp, Unit};
use rustix::time::{ClockId, clock_gettime};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// A handle; clones share the readings.
#[derive(Clone, Default)]
pub struct Clock(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// How long entries stay in the trash.
    trash_keeps: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    seen: Option<ClockRecord>,
    /// The stored reading.
    stored: Option<ClockRecord>,
}

/// One reading, judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// The wall clock.
    pub wall: Timestamp,
    /// The latest plausible time that the wall clock has shown.
    latest: Timestamp,
    judgement: Judgement,
}

/// A reading older than this is stored. After a power failure at most this much is lost.
const STORED_EVERY: Duration = Duration::from_secs(60);

/// The wall clock. All times of the engine come from here.
pub fn wall() -> Timestamp {
    let test = OfTest::read();
    let offset = SignedDuration::from_secs(test.map_or(0, |test| test.wall));
    Timestamp::now()
        .saturating_add(offset)
        .unwrap_or(Timestamp::MAX)
}

// === impl Clock ===

impl Clock {
    /// Continues the readings of earlier daemons. `trash_keeps` is how far the clock may have
    /// advanced while the machine was off.
    pub fn open(store: &dyn Store, trash_keeps: Duration) -> Result<Self, StoreError> {
        let seen = store.clock()?;
        let state = State {
            stored: seen.clone(),
            seen,
        };
        Ok(Self(Arc::new(Shared {
            trash_keeps,
            state: Mutex::new(state),
        })))
    }

    pub fn look(&self) -> Look {
        let reading = reading();
        let mut state = self.state();
        let (seen, judgement) = judge(state.seen.as_ref(), &reading, self.0.trash_keeps);
        let wall = timestamp(reading.wall);
        let (latest, judgement) = if is_without("clock") {
            (wall, Judgement::Plausible)
        } else {
            (timestamp(seen.latest), judgement)
        };
        state.seen = Some(seen);
        Look {
            wall,
            latest,
            judgement,
        }
    }

    /// Accepts the wall clock because a person says that it is right. Returns what was wrong with
    /// it, if anything.
    pub fn believe(&self) -> Option<String> {
        let why = self.look().doubt();
        let mut state = self.state();
        state.seen = Some(believe(state.seen.as_ref(), &reading()));
        why
    }

    /// Whether the machine was started again since the stored reading.
    pub(crate) fn is_later_boot(&self) -> bool {
        let boot = reading().boot;
        let state = self.state();
        state
            .stored
            .as_ref()
            .is_some_and(|stored| stored.boot != boot)
    }

    /// The reading that should be stored now.
    pub(crate) fn unstored(&self) -> Option<ClockRecord> {
        self.look();
        let state = self.state();
        let seen = state.seen.as_ref()?;
        let is_stored = state.stored.as_ref().is_some_and(|stored| {
            let is_same = stored.boot == seen.boot && stored.ahead == seen.ahead;
            is_same && seen.boottime.abs_diff(stored.boottime) < STORED_EVERY
        });
        (!is_stored).then(|| seen.clone())
    }

    pub(crate) fn note_stored(&self, seen: ClockRecord) {
        self.state().stored = Some(seen);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Look ===

impl Look {
    /// Whether data may be deleted because of its age.
    pub fn is_plausible(self) -> bool {
        self.judgement == Judgement::Plausible
    }

    /// The time for expiry and for the start of a time to live. It does not go back with the wall
    /// clock. While the clock is not believed, a value that has expired by it is withheld but not
    /// deleted.
    pub fn for_expiry(self) -> Timestamp {
        self.wall.max(self.latest)
    }

    /// Whether an expiry stays valid when the clock is set back.
    pub fn ends_for_good(self) -> bool {
        !is_without("clock")
    }

    /// What is wrong with the clock, in words.
    pub fn doubt(self) -> Option<String> {
        let Judgement::Implausible { by } = self.judgement else {
            return None;
        };
        let ahead = match by.as_secs() / 3600 {
            hours @ 0..48 => format!("{hours} hours"),
            hours => format!("{} days", hours / 24),
        };
        let wall = self.wall;
        Some(format!(
            "the clock says {wall:.0}, which is {ahead} ahead of the time that is known to have passed; \
             nothing is deleted because of its age until it is set right or time catches up; \
             if it is right, `holm gc` says so"
        ))
    }
}

/// Offsets that a test adds to the clocks.
struct OfTest {
    wall: i64,
    boottime: u64,
    boot: Option<String>,
}

// === impl OfTest ===

impl OfTest {
    fn read() -> Option<Self> {
        if !cfg!(debug_assertions) {
            return None;
        }
        let text = std::fs::read_to_string(std::env::var_os("HOLM_TEST_CLOCK")?).ok()?;
        let mut words = text.split_whitespace();
        Some(Self {
            wall: words.next()?.parse().ok()?,
            boottime: words.next().and_then(|word| word.parse().ok()).unwrap_or(0),
            boot: words.next().map(str::to_owned),
        })
    }
}

fn reading() -> Reading {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let boottime = Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0));
    let test = OfTest::read();
    let more = Duration::from_secs(test.as_ref().map_or(0, |test| test.boottime));
    Reading {
        wall: since_epoch(wall()),
        boottime: boottime + more,
        boot: test
            .and_then(|test| test.boot)
            .unwrap_or_else(|| boot().to_owned()),
    }
}

/// The kernel's boot id. If it cannot be read, all daemons share one; then the time since boot
/// restarts below the stored one, and the stricter rule applies.
fn boot() -> &'static str {
    static BOOT: OnceLock<String> = OnceLock::new();
    BOOT.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        text.unwrap_or_default().trim().to_owned()
    })
}

fn timestamp(since_epoch: Duration) -> Timestamp {
    let milliseconds = i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millisecond(milliseconds).unwrap_or(Timestamp::MAX)
}

/// A time as the decisions of `holm-core` use it.
pub(crate) fn since_epoch(at: Timestamp) -> Duration {
    Duration::from_millis(u64::try_from(at.as_millisecond()).unwrap_or(0))
}

/// The time in milliseconds, so that stored and shown times are equal.
pub(crate) fn now() -> Timestamp {
    let now = wall();
    now.round(Unit::Millisecond).unwrap_or(now)
}
