//! Decides what happens to an idle workspace, as a pure function of times and counts. The daemon
//! calls it periodically for every workspace.

use std::time::Duration;

/// When idle workspaces are stopped and removed, from the user's settings; `None`: never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdleLimits {
    pub stop_after: Option<Duration>,
    pub remove_after: Option<Duration>,
}

/// The use of one workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Since the epoch.
    pub last_used: Duration,
    /// Running commands, runs and sessions.
    pub running: usize,
    pub is_running: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IdleAction {
    Leave,
    /// It is in use now: store that as its last use.
    NoteUse,
    Stop,
    /// Move it to the trash, if it has no unsaved work.
    Remove,
}

/// What to do with a workspace at `now` (since the epoch).
///
/// A clock that went back makes no workspace idle. If both limits are reached, removal wins,
/// because it stops the workspace too.
pub fn idle(now: Duration, usage: Usage, limits: IdleLimits) -> IdleAction {
    if usage.running > 0 {
        return IdleAction::NoteUse;
    }
    let unused = now.saturating_sub(usage.last_used);
    let is_over = |limit: Option<Duration>| limit.is_some_and(|limit| unused >= limit);
    if is_over(limits.remove_after) {
        return IdleAction::Remove;
    }
    if usage.is_running && is_over(limits.stop_after) {
        return IdleAction::Stop;
    }
    IdleAction::Leave
}

// === impl IdleLimits ===

impl IdleLimits {
    pub fn is_off(&self) -> bool {
        self.stop_after.is_none() && self.remove_after.is_none()
    }

    /// The time between two checks: a fraction of the shorter limit, within bounds.
    pub fn pause(&self) -> Duration {
        let limits = [self.stop_after, self.remove_after];
        match limits.into_iter().flatten().min() {
            Some(shorter) => (shorter / 4).clamp(SHORTEST_PAUSE, LONGEST_PAUSE),
            None => PAUSE_WHEN_OFF,
        }
    }
}

const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Until the settings are read again.
const PAUSE_WHEN_OFF: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3600;

    fn at(hours: u64) -> Duration {
        Duration::from_secs(1_000_000 + hours * HOUR)
    }

    fn limits(stop: Option<u64>, remove: Option<u64>) -> IdleLimits {
        let hours = |hours: u64| Duration::from_secs(hours * HOUR);
        IdleLimits {
            stop_after: stop.map(hours),
            remove_after: remove.map(hours),
        }
    }

    #[test]
    fn what_becomes_of_the_unused() {
        use IdleAction::{Leave, NoteUse, Remove, Stop};
        let table = [
            // (hours since the last use, commands, runs, stop after, remove after)
            (0, 0, true, None, None, Leave),
            (9999, 0, true, None, None, Leave),
            (1, 0, true, Some(2), None, Leave),
            (2, 0, true, Some(2), None, Stop),
            (2, 0, false, Some(2), None, Leave),
            (2, 1, true, Some(2), None, NoteUse),
            (99, 3, true, Some(2), Some(4), NoteUse),
            (3, 0, true, Some(2), Some(4), Stop),
            (4, 0, true, Some(2), Some(4), Remove),
            (4, 0, false, Some(2), Some(4), Remove),
            (3, 0, false, Some(2), Some(4), Leave),
            (4, 0, true, None, Some(4), Remove),
            (4, 0, true, Some(8), Some(4), Remove),
            (0, 0, true, Some(0), None, Stop),
        ];
        for (unused, running, is_running, stop, remove, expect) in table {
            let usage = Usage {
                last_used: at(0),
                running,
                is_running,
            };
            let found = idle(at(unused), usage, limits(stop, remove));
            assert_eq!(found, expect, "{unused} h, {usage:?}, {stop:?} {remove:?}");
        }
    }

    #[test]
    fn a_clock_that_went_back_makes_nothing_idle() {
        let usage = Usage {
            last_used: at(50),
            running: 0,
            is_running: true,
        };
        assert_eq!(
            idle(at(0), usage, limits(Some(1), Some(1))),
            IdleAction::Leave
        );
    }

    #[test]
    fn looks_are_more_frequent_than_the_limits() {
        assert!(limits(None, None).is_off());
        assert!(!limits(Some(1), None).is_off());
        let second = IdleLimits {
            stop_after: Some(Duration::from_secs(1)),
            remove_after: Some(Duration::from_secs(HOUR)),
        };
        assert_eq!(second.pause(), Duration::from_millis(250));
        assert_eq!(limits(Some(1000), None).pause(), LONGEST_PAUSE);
        assert_eq!(limits(Some(0), None).pause(), SHORTEST_PAUSE);
    }
}
