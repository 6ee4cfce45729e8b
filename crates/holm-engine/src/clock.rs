//! Reads the machine's clocks and remembers earlier readings. Code that deletes something because of its age
//! calls [`Clock::look`] first; `holm_core::clock` decides whether the wall clock is plausible.
//!
//! What was seen is stored by [`Engine::keep_clock`], which the daemon calls every second: a look itself
//! is in memory only, because every request with a token takes one.
//!
//! Debug builds read `HOLM_TEST_CLOCK`, a file with seconds that are added to the wall clock, seconds that
//! are added to the time since the boot, and a boot of its own; each may be left out.

use crate::engine::Engine;
use crate::failpoint::is_without;
use crate::store::{Store, StoreError};
use holm_core::Fault;
use holm_core::clock::{Judgement, Reading, Seen, believe, judge};
use jiff::{SignedDuration, Timestamp};
use rustix::time::{ClockId, clock_gettime};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// A handle; clones share what was seen.
#[derive(Clone, Default)]
pub struct Clock(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// How long the trash keeps something.
    trash_keeps: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    seen: Option<Seen>,
    /// What the store has.
    stored: Option<Seen>,
}

/// One look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// What the wall clock says.
    pub wall: Timestamp,
    /// The latest plausible time that the wall clock has shown.
    latest: Timestamp,
    judgement: Judgement,
}

/// What was seen is stored when it is older than this. After a loss of power so much may be forgotten.
const STORED_EVERY: Duration = Duration::from_secs(60);

/// The time of the wall clock. All times of the engine are from here.
pub fn wall() -> Timestamp {
    let test = OfTest::read();
    let offset = SignedDuration::from_secs(test.map_or(0, |test| test.wall));
    Timestamp::now()
        .saturating_add(offset)
        .unwrap_or(Timestamp::MAX)
}

// === impl Clock ===

impl Clock {
    /// With what earlier daemons saw. `trash_keeps` is how far the clock may have advanced while the
    /// machine was off.
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
        let (latest, judgement) = match is_without("clock") {
            true => (wall, Judgement::Plausible),
            false => (timestamp(seen.latest), judgement),
        };
        state.seen = Some(seen);
        Look {
            wall,
            latest,
            judgement,
        }
    }

    /// A person says that the wall clock is right. Says what was wrong with it, if anything was.
    pub fn believe(&self) -> Option<String> {
        let why = self.look().doubt();
        let mut state = self.state();
        state.seen = Some(believe(state.seen.as_ref(), &reading()));
        why
    }

    /// What the store does not have yet and should.
    fn unstored(&self) -> Option<Seen> {
        self.look();
        let state = self.state();
        let seen = state.seen.as_ref()?;
        let is_stored = state.stored.as_ref().is_some_and(|stored| {
            let is_same = stored.boot == seen.boot && stored.ahead == seen.ahead;
            is_same && seen.boottime.abs_diff(stored.boottime) < STORED_EVERY
        });
        (!is_stored).then(|| seen.clone())
    }

    fn note_stored(&self, seen: Seen) {
        self.state().stored = Some(seen);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Look ===

impl Look {
    /// Whether something may be deleted because of its age.
    pub fn is_plausible(self) -> bool {
        self.judgement == Judgement::Plausible
    }

    /// The time by which something expires, and from which a time to live counts. It does not go back
    /// with the wall clock; where that is not believed, what it says is over is withheld.
    pub fn for_expiry(self) -> Timestamp {
        self.wall.max(self.latest)
    }

    /// Whether what is over stays so when the clock is set back.
    pub fn ends_for_good(self) -> bool {
        !is_without("clock")
    }

    /// What is wrong with the clock, in words; `None`: nothing.
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

// === impl Engine ===

impl Engine {
    pub fn clock(&self) -> &Clock {
        &self.inner.clock
    }

    /// Stores what was seen, if that is worth it.
    pub async fn keep_clock(&self) -> Result<(), Fault> {
        let Some(seen) = self.inner.clock.unstored() else {
            return Ok(());
        };
        let stored = seen.clone();
        let store = &self.inner.store;
        store.call(move |store| store.set_clock(&stored)).await?;
        self.inner.clock.note_stored(seen);
        Ok(())
    }
}

/// What a test has the clocks say.
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
        wall: crate::gc::since_epoch(wall()),
        boottime: boottime + more,
        boot: test
            .and_then(|test| test.boot)
            .unwrap_or_else(|| boot().to_owned()),
    }
}

/// The kernel's id of this boot. Where it cannot be read every daemon is in the same one, and then the
/// time since the boot, which began anew, is not later than what was seen: the stricter rule counts.
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
