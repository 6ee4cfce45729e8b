//! The verdict about a machine. Used by `holm doctor`, which runs the checks itself when no daemon
//! answers, and by the daemon's route.

use crate::daemon::Doctor;
use holm_core::fitness::{Check, Status};

// === impl Doctor ===

impl Doctor {
    /// `daemon` is the process of the daemon that looked, if one did.
    pub fn new(checks: Vec<Check>, daemon: Option<u32>) -> Self {
        Self {
            ok: checks.iter().all(is_good_enough),
            daemon,
            checks,
        }
    }

    /// What a daemon found, and what its client needs too: where that is worse here, it counts.
    pub fn with_own(self, own: Vec<Check>) -> Self {
        let mut checks = self.checks;
        for own in own.into_iter().filter(|own| own.status != Status::Ok) {
            match checks.iter_mut().find(|check| check.name == own.name) {
                Some(check) => *check = own,
                None => checks.push(own),
            }
        }
        Self::new(checks, self.daemon)
    }
}

fn is_good_enough(check: &Check) -> bool {
    !check.required || check.status != Status::Missing
}

#[cfg(test)]
mod tests {
    use super::*;
    fn found(name: &str, status: Status, required: bool) -> Check {
        Check {
            name: name.to_owned(),
            status,
            detail: "probed".to_owned(),
            fix: None,
            required,
        }
    }

    #[test]
    fn only_a_missing_required_part_makes_a_machine_unfit() {
        let is_fit = |status, required| Doctor::new(vec![found("x", status, required)], None).ok;
        assert!(is_fit(Status::Ok, true));
        assert!(is_fit(Status::Missing, false));
        assert!(is_fit(Status::Warning, true));
        assert!(!is_fit(Status::Missing, true));
    }

    #[test]
    fn what_the_client_lacks_counts_although_the_daemon_has_it() {
        let of_daemon = || {
            let checks = ["git", "overlayfs"].map(|name| found(name, Status::Ok, true));
            Doctor::new(checks.into(), Some(7))
        };
        let fit = of_daemon().with_own(vec![found("git", Status::Ok, true)]);
        assert_eq!(fit, of_daemon());
        let unfit = of_daemon().with_own(vec![found("git", Status::Missing, true)]);
        assert!(!unfit.ok);
        assert_eq!((unfit.checks.len(), unfit.daemon), (2, Some(7)));
    }
}
