//! What happens when a run of a service ended by itself: another start after a pause, or none.

use super::words::{exit_in_words, in_words, names_missing_program, ordinal};
use super::{Life, Phase, Readiness};
use crate::config::Restart;
use std::time::Duration;

/// After a run of this length, earlier failures are forgotten.
const STABLE_AFTER: Duration = Duration::from_secs(60);
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// This many exits within [`STABLE_AFTER`] are a crash loop.
const LOOP: usize = 5;
/// A shell's exit code for a program that does not exist.
const NO_PROGRAM: u8 = 127;
// === impl Life ===

impl Life {
    /// The run ended by itself.
    pub(super) fn ended(&mut self, code: u8, cause: Option<String>, ran: Duration, now: Duration) {
        self.pid = None;
        self.exit = Some(code);
        if ran >= STABLE_AFTER {
            self.forgive();
        }
        self.ends.push_back(now);
        while let Some(first) = self.ends.front()
            && now.saturating_sub(*first) > STABLE_AFTER
        {
            self.ends.pop_front();
        }
        let cause_names_program = cause.as_deref().is_some_and(names_missing_program);
        let how = match cause {
            Some(cause) => format!("{}: {cause}", exit_in_words(code)),
            None => exit_in_words(code),
        };
        let again = match self.rules.restart {
            Restart::No => false,
            Restart::OnFailure => code != 0,
            Restart::Always => true,
        };
        if !again {
            self.phase = Phase::Exited;
            let is_probed = matches!(self.rules.readiness, Readiness::Probed { .. });
            let is_early = !self.was_ready && is_probed;
            self.reason = Some(if is_early && code == 0 {
                format!("{how} before it was ready; does it run in the background?")
            } else {
                how
            });
            return;
        }
        let is_missing = code == NO_PROGRAM || cause_names_program;
        if is_missing {
            self.phase = Phase::Failed;
            self.reason = Some(format!("{how}; it is not started again by itself"));
            return;
        }
        if self.ends.len() >= LOOP {
            let first = self.ends.front().copied().unwrap_or(now);
            let seconds = now.saturating_sub(first).as_secs();
            let times = self.ends.len();
            self.phase = Phase::Failed;
            self.reason = Some(format!("crash loop: {how}, {times} times in {seconds} s"));
            return;
        }
        let pause = SHORTEST_PAUSE * 2u32.saturating_pow(self.streak.min(8));
        let pause = pause.min(LONGEST_PAUSE);
        self.streak += 1;
        self.phase = Phase::Backoff { until: now + pause };
        self.reason = Some(format!("{how}; starts again after {}", in_words(pause)));
    }

    /// What the log of the service says after a run that ended by itself: `exited with 1; restarted, 1st time`.
    pub fn end_in_words(&self) -> Option<String> {
        match self.phase {
            Phase::Backoff { .. } => {
                let how = exit_in_words(self.exit?);
                Some(format!("{how}; restarted, {} time", ordinal(self.starts)))
            }
            Phase::Exited | Phase::Failed => self.reason.clone(),
            _ => None,
        }
    }
}
