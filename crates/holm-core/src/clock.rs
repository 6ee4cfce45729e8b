//! Decides whether the wall clock is plausible. A clock that is ten years ahead for two seconds
//! must not empty the trash, and a step back must not revive expired values.
//!
//! Two facts of earlier observations are kept: the time that was believed, which is compared with
//! the time since boot (which the kernel counts, suspended or not, and no program can set), and the
//! latest time, which only goes forward. Called by `holm_engine::clock`, which reads the clocks and
//! stores the observations.

use std::time::Duration;

/// One reading of the machine's clocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The wall clock, since the epoch.
    pub wall: Duration,
    /// Since the boot (`CLOCK_BOOTTIME`).
    pub boottime: Duration,
    /// The kernel's id of this boot.
    pub boot: String,
}

/// What is stored of earlier readings, also for the next daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockRecord {
    /// Of the last reading.
    pub boot: String,
    pub boottime: Duration,
    /// The believed time of that reading, since the epoch.
    pub wall: Duration,
    /// The latest time. It advances even while the wall clock is set back, and never decreases.
    pub latest: Duration,
    /// Set while the wall clock is not believed.
    pub ahead: Option<Ahead>,
}

/// How far an implausible clock was ahead when that was noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    pub by: Duration,
    /// The time that was believed then, since the epoch.
    pub since: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    Plausible,
    /// The wall clock is this far ahead of the time that passed. Nothing is deleted because of its
    /// age.
    Implausible {
        by: Duration,
    },
}

/// How far the wall clock may run ahead of the time since boot.
const SLACK: Duration = Duration::from_secs(3600);

/// Judges a reading by the earlier one, and returns what to store.
///
/// A wall clock is implausible if it advanced an hour more than the time since boot, or if at a new
/// boot it is more than `trash_keeps` past the latest time, because holm cannot know how long the
/// machine was off. It is believed again when it is back, or when as much time has passed as it was
/// ahead.
pub fn judge(
    seen: Option<&ClockRecord>,
    reading: &Reading,
    trash_keeps: Duration,
) -> (ClockRecord, Judgement) {
    let Some(seen) = seen else {
        return (believe(None, reading), Judgement::Plausible);
    };
    let elapsed = seen.elapsed(reading);
    let (believed, slack) = if seen.boot == reading.boot {
        (seen.wall + elapsed, SLACK)
    } else {
        (seen.wall.max(seen.latest), trash_keeps.max(SLACK))
    };
    let by = reading.wall.saturating_sub(believed);
    if by <= slack {
        return (believe(Some(seen), reading), Judgement::Plausible);
    }
    // A clock that jumped again counts as newly ahead.
    let ahead = match seen.ahead {
        Some(ahead) if by <= ahead.by + SLACK => ahead,
        _ => Ahead {
            by,
            since: believed,
        },
    };
    if believed.saturating_sub(ahead.since) >= ahead.by {
        return (believe(Some(seen), reading), Judgement::Plausible);
    }
    let next = ClockRecord {
        boot: reading.boot.clone(),
        boottime: reading.boottime,
        wall: believed,
        latest: seen.latest + elapsed,
        ahead: Some(ahead),
    };
    (next, Judgement::Implausible { by })
}

/// What to store when a person confirmed that the wall clock is right.
pub fn believe(seen: Option<&ClockRecord>, reading: &Reading) -> ClockRecord {
    let latest = seen.map_or(Duration::ZERO, |seen| seen.latest + seen.elapsed(reading));
    ClockRecord {
        boot: reading.boot.clone(),
        boottime: reading.boottime,
        wall: reading.wall,
        latest: latest.max(reading.wall),
        ahead: None,
    }
}

// === impl ClockRecord ===

impl ClockRecord {
    /// The time since the last reading, as far as it is known.
    fn elapsed(&self, reading: &Reading) -> Duration {
        if self.boot == reading.boot {
            reading.boottime.saturating_sub(self.boottime)
        } else {
            Duration::ZERO
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3600;
    const DAY: u64 = 24 * HOUR;
    const YEAR: u64 = 365 * DAY;
    const WEEK: Duration = Duration::from_secs(7 * DAY);
    const START: u64 = 50 * YEAR;

    /// A sequence of readings, each with a boot, the seconds since it, and the wall clock's
    /// distance from `START`.
    struct Looks(Option<ClockRecord>);

    impl Looks {
        #[track_caller]
        fn check(
            &mut self,
            boot: &str,
            boottime: u64,
            wall: i64,
            expect: Option<u64>,
        ) -> ClockRecord {
            let reading = reading(boot, boottime, wall);
            let (seen, judgement) = judge(self.0.as_ref(), &reading, WEEK);
            let expect = match expect {
                None => Judgement::Plausible,
                Some(by) => Judgement::Implausible {
                    by: Duration::from_secs(by),
                },
            };
            assert_eq!(judgement, expect);
            if let Some(earlier) = &self.0 {
                assert!(earlier.latest <= seen.latest, "time went back");
            }
            self.0 = Some(seen.clone());
            seen
        }
    }

    fn reading(boot: &str, boottime: u64, wall: i64) -> Reading {
        Reading {
            wall: Duration::from_secs(START.checked_add_signed(wall).unwrap()),
            boottime: Duration::from_secs(boottime),
            boot: boot.to_owned(),
        }
    }

    fn latest(seen: &ClockRecord) -> u64 {
        seen.latest.as_secs() - START
    }

    #[test]
    fn ten_years_ahead_for_two_seconds() {
        let mut looks = Looks(None);
        let ten = (10 * YEAR).cast_signed();
        looks.check("a", 100, 0, None);
        looks.check("a", 110, 10 + ten, Some(10 * YEAR));
        looks.check("a", 112, 12 + ten, Some(10 * YEAR));
        let seen = looks.check("a", 113, 13, None);
        assert_eq!((latest(&seen), seen.ahead), (13, None));
        // Also when the jump is found at a new boot, and while it lasts.
        looks.check("b", 5, 60 + ten, Some(10 * YEAR + 60 - 13));
        looks.check("b", 5 + DAY, 60 + ten + 86_400, Some(10 * YEAR + 60 - 13));
        looks.check("c", 5, 60 + ten + 90_000, Some(10 * YEAR + 3647));
    }

    #[test]
    fn an_hour_is_no_jump_and_a_week_off_is_none_either() {
        let mut looks = Looks(None);
        looks.check("a", 0, 0, None);
        looks.check("a", 10, 10 + HOUR.cast_signed(), None);
        looks.check("a", 20, 21 + 2 * HOUR.cast_signed(), Some(HOUR + 1));
        let week = (7 * DAY).cast_signed();
        let mut looks = Looks(None);
        looks.check("a", 0, 0, None);
        looks.check("b", 0, week, None);
        looks.check("c", 0, 2 * week + 1, Some(7 * DAY + 1));
        // The time since boot includes suspension.
        let mut looks = Looks(None);
        looks.check("a", 0, 0, None);
        looks.check("a", 30 * DAY, (30 * DAY).cast_signed(), None);
    }

    #[test]
    fn time_catches_up() {
        let mut looks = Looks(None);
        let ahead = (2 * HOUR).cast_signed();
        looks.check("a", 0, 0, None);
        looks.check("a", 10, 10 + ahead, Some(2 * HOUR));
        looks.check("a", HOUR, 3600 + ahead, Some(2 * HOUR));
        looks.check("a", 2 * HOUR, 7200 + ahead, Some(2 * HOUR));
        looks.check("a", 2 * HOUR + 10, 7210 + ahead, None);
        looks.check("a", 2 * HOUR + 20, 7220 + ahead, None);
    }

    #[test]
    fn a_second_jump_is_waited_for_as_well() {
        let mut looks = Looks(None);
        let (two, ten) = ((2 * HOUR).cast_signed(), (10 * YEAR).cast_signed());
        looks.check("a", 0, 0, None);
        looks.check("a", 10, 10 + two, Some(2 * HOUR));
        looks.check("a", 20, 20 + ten, Some(10 * YEAR));
        looks.check("a", 3 * HOUR, 10_800 + ten, Some(10 * YEAR));
    }

    #[test]
    fn the_latest_time_goes_on_while_the_clock_is_set_back() {
        let mut looks = Looks(None);
        looks.check("a", 0, 0, None);
        let seen = looks.check("a", 100, -5000, None);
        assert_eq!(latest(&seen), 100);
        let seen = looks.check("a", 300, -4800, None);
        assert_eq!(latest(&seen), 300);
        // A jump is measured from the clock's last value, not from the latest time.
        looks.check("a", 301, 2 * HOUR.cast_signed(), Some(2 * HOUR + 4799));
        let seen = looks.check("b", 0, -4000, None);
        assert_eq!(latest(&seen), 301);
    }

    #[test]
    fn a_person_can_say_that_it_is_right() {
        let mut looks = Looks(None);
        let year = YEAR.cast_signed();
        looks.check("a", 0, 0, None);
        looks.check("a", 10, 10 + year, Some(YEAR));
        looks.0 = Some(believe(looks.0.as_ref(), &reading("a", 20, 20 + year)));
        let seen = looks.check("a", 30, 30 + year, None);
        assert_eq!(latest(&seen), 30 + YEAR);
    }
}
