//! Resource use over time: rates from totals, a short history, and sparklines. Called by the
//! daemon, which samples, and by `top` and `show`.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// The length of a history.
pub const KEPT: usize = 60;

/// Bars in eighths of a line's height.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// What one workspace takes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    pub total: Load,
    /// By name; only of those that have processes.
    pub services: BTreeMap<String, Load>,
    /// The processor time of each program that init started, with everything below it, by its pid inside.
    pub programs: BTreeMap<u32, Duration>,
    /// The time since its processes were started.
    pub age: Duration,
}

/// Time of processors since the beginning, bytes of memory, and a count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    pub cpu: Duration,
    pub memory: u64,
    pub processes: u64,
}

/// The last values, oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History(VecDeque<f64>);

// === impl Load ===

impl Load {
    pub fn add(&mut self, other: Load) {
        self.cpu += other.cpu;
        self.memory += other.memory;
        self.processes += other.processes;
    }
}

// === impl History ===

impl History {
    pub fn add(&mut self, value: f64) {
        if self.0.len() >= KEPT {
            self.0.pop_front();
        }
        self.0.push_back(value);
    }

    pub fn values(&self) -> Vec<f64> {
        self.0.iter().copied().collect()
    }
}

/// The number of busy processors between two samples. A total that shrank belongs to processes that
/// ended; then the rate is unknown.
pub fn processors(before: Duration, after: Duration, elapsed: Duration) -> f64 {
    let seconds = elapsed.as_secs_f64();
    if seconds > 0.0 {
        after.saturating_sub(before).as_secs_f64() / seconds
    } else {
        0.0
    }
}

/// The newest `width` values as bars. Full height is the largest value, and at least `least`, so
/// that small values look small. Shorter when fewer values exist.
pub fn sparkline(values: &[f64], width: usize, least: f64) -> String {
    let shown = &values[values.len().saturating_sub(width)..];
    let largest = shown.iter().copied().fold(least, f64::max);
    let bar = |value: &f64| {
        let height = if largest > 0.0 && value.is_finite() {
            (value / largest).clamp(0.0, 1.0) * (BARS.len() - 1) as f64
        } else {
            0.0
        };
        // Between 0 and 7 by the clamp.
        BARS[height.round() as usize]
    };
    shown.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_totals() {
        let check = |before, after, elapsed, expect: f64| {
            let seconds = Duration::from_millis;
            let found = processors(seconds(before), seconds(after), seconds(elapsed));
            assert!((found - expect).abs() < 1e-9, "{found} {expect}");
        };
        check(1000, 1500, 1000, 0.5);
        check(0, 4000, 2000, 2.0);
        check(5000, 4000, 1000, 0.0);
        check(0, 1000, 0, 0.0);
    }

    #[test]
    fn the_newest_values_are_drawn() {
        assert_eq!(sparkline(&[], 5, 1.0), "");
        assert_eq!(sparkline(&[0.0, 0.5, 1.0], 5, 1.0), "▁▅█");
        assert_eq!(sparkline(&[9.0, 0.0, 1.0], 2, 1.0), "▁█");
        assert_eq!(sparkline(&[0.001], 5, 1.0), "▁", "next to nothing");
        assert_eq!(sparkline(&[f64::NAN, 2.0], 5, 0.0), "▁█");
        assert_eq!(sparkline(&[1.0, 2.0], 0, 1.0), "");
    }

    #[test]
    fn only_so_much_is_kept() {
        let mut history = History::default();
        for value in 0..KEPT + 5 {
            history.add(value as f64);
        }
        assert_eq!(history.values().len(), KEPT);
        assert_eq!(history.values()[0], 5.0);
    }
}
