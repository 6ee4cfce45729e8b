//! What was found out about a machine, in the shape of the wire. Used by `holm doctor`, which looks itself where no
//! daemon runs, and by the daemon's route.

use crate::daemon::{Check, Doctor};
use holm_core::fitness;

// === impl Doctor ===

impl Doctor {
    /// `daemon` is the process of the daemon that looked, if one did.
    pub fn new(found: Vec<fitness::Check>, daemon: Option<u32>) -> Self {
        Self::judged(found.into_iter().map(Check::from).collect(), daemon)
    }

    /// What a daemon found, and what its client needs too: where that is worse here, it counts.
    pub fn with_own(self, own: Vec<fitness::Check>) -> Self {
        let mut checks = self.checks;
        for own in own
            .into_iter()
            .map(Check::from)
            .filter(|own| own.status != "ok")
        {
            match checks.iter_mut().find(|check| check.name == own.name) {
                Some(check) => *check = own,
                None => checks.push(own),
            }
        }
        Self::judged(checks, self.daemon)
    }

    fn judged(checks: Vec<Check>, daemon: Option<u32>) -> Self {
        Self {
            ok: checks.iter().all(is_good_enough),
            daemon,
            checks,
        }
    }
}

impl From<fitness::Check> for Check {
    fn from(found: fitness::Check) -> Self {
        Self {
            name: found.name.to_owned(),
            status: found.status.as_str().to_owned(),
            detail: found.detail,
            fix: found.fix,
            required: found.required,
        }
    }
}

fn is_good_enough(check: &Check) -> bool {
    !check.required || check.status != "missing"
}

#[cfg(test)]
mod tests {
    use super::*;
    use holm_core::fitness::Status;

    fn found(name: &'static str, status: Status, required: bool) -> fitness::Check {
        fitness::Check {
            name,
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
