//! Whether the wall clock can be believed. A clock that is ten years ahead for two seconds must not empty
//! the trash, and a step back must not bring back what has expired.
//!
//! Two things are kept of earlier looks: what the clock was believed to say, which is compared with the time
//! that passed since the boot (the kernel counts it, suspended or not, and no program can set it), and the latest
//! time there was, which only goes forward. Called by `holm_engine::clock`, which reads the clocks and
//! stores what was seen.

use std::time::Duration;

/// One look at the clocks of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Since the epoch, as the wall clock says.
    pub wall: Duration,
    /// Since the boot (`CLOCK_BOOTTIME`).
    pub boottime: Duration,
    /// The kernel's id of this boot.
    pub boot: String,
}

/// What is remembered of earlier looks, also by the next daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Of the last look.
    pub boot: String,
    pub boottime: Duration,
    /// What the time was then, as far as it is believed; since the epoch.
    pub wall: Duration,
    /// The latest time there was. It goes on while the wall clock is set back, and never goes back.
    pub latest: Duration,
    /// The wall clock is not believed.
    pub ahead: Option<Ahead>,
}

/// How far an implausible clock was ahead when it was noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    pub by: Duration,
    /// The time that was believed then; since the epoch.
    pub since: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    Plausible,
    /// The wall clock is so far ahead of the time that passed. Nothing is deleted because of its age.
    Implausible {
        by: Duration,
    },
}

/// The wall clock may run ahead of the time since the boot by this much.
const SLACK: Duration = Duration::from_secs(3600);

/// Judges a look by what was seen before, and says what is to be remembered.
///
/// Implausible is a wall clock that advanced an hour more than the time since the boot, or one that is more
/// than `trash_keeps` past the latest time at a new boot, because holm cannot know how long the machine was off. It is
/// believed again when it is back, or when as much time has passed as it was ahead.
pub fn judge(seen: Option<&Seen>, reading: &Reading, trash_keeps: Duration) -> (Seen, Judgement) {
    let Some(seen) = seen else {
        return (believe(None, reading), Judgement::Plausible);
    };
    let elapsed = seen.elapsed(reading);
    let (believed, slack) = match seen.boot == reading.boot {
        true => (seen.wall + elapsed, SLACK),
        false => (seen.wall.max(seen.latest), trash_keeps.max(SLACK)),
    };
    let by = reading.wall.saturating_sub(believed);
    if by <= slack {
        return (believe(Some(seen), reading), Judgement::Plausible);
    }
    // One that jumped again is as new.
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
    let next = Seen {
        boot: reading.boot.clone(),
        boottime: reading.boottime,
        wall: believed,
        latest: seen.latest + elapsed,
        ahead: Some(ahead),
    };
    (next, Judgement::Implausible { by })
}

/// What is remembered when the wall clock is right, whatever was seen before: a person said so.
pub fn believe(seen: Option<&Seen>, reading: &Reading) -> Seen {
    let latest = seen.map_or(Duration::ZERO, |seen| seen.latest + seen.elapsed(reading));
    Seen {
        boot: reading.boot.clone(),
        boottime: reading.boottime,
        wall: reading.wall,
        latest: latest.max(reading.wall),
        ahead: None,
    }
}

// === impl Seen ===

impl Seen {
    /// The time since the last look, as far as it is known.
    fn elapsed(&self, reading: &Reading) -> Duration {
        match self.boot == reading.boot {
            true => reading.boottime.saturating_sub(self.boottime),
            false => Duration::ZERO,
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

    /// Looks, each of a boot at a number of seconds after it and a wall clock that is so far from `START`.
    struct Looks(Option<Seen>);

    impl Looks {
        #[track_caller]
        fn check(&mut self, boot: &str, boottime: u64, wall: i64, expect: Option<u64>) -> Seen {
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

    fn latest(seen: &Seen) -> u64 {
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
        // Also when it is found so at a new boot, and while it stays so.
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
        // A machine that sleeps counts the time.
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
        // A jump is one from where the clock was, not from the latest time.
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
