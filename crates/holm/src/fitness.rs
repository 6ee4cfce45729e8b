//! The results of `holm doctor` in API types. Used by `holm doctor`, which checks itself without a
//! daemon, and by the daemon's route.

use holm_api::daemon::{Check, Doctor};
use holm_linux::probe;

/// `daemon` is the pid of the daemon that ran the checks, if any.
pub fn document(found: Vec<probe::Check>, daemon: Option<u32>) -> Doctor {
    judged(found.into_iter().map(check).collect(), daemon)
}

/// A daemon's results, combined with checks of its client: the worse result counts.
pub fn with_own(document: Doctor, own: Vec<probe::Check>) -> Doctor {
    let mut checks = document.checks;
    for own in own.into_iter().map(check).filter(|own| own.status != "ok") {
        match checks.iter_mut().find(|check| check.name == own.name) {
            Some(check) => *check = own,
            None => checks.push(own),
        }
    }
    judged(checks, document.daemon)
}

/// Adds a check.
pub fn also(document: Doctor, more: Check) -> Doctor {
    let mut checks = document.checks;
    checks.push(more);
    judged(checks, document.daemon)
}

fn judged(checks: Vec<Check>, daemon: Option<u32>) -> Doctor {
    Doctor {
        ok: checks.iter().all(is_good_enough),
        daemon,
        checks,
    }
}

fn check(found: probe::Check) -> Check {
    Check {
        name: found.name.to_owned(),
        status: found.status.as_str().to_owned(),
        detail: found.detail,
        fix: found.fix,
        required: found.required,
    }
}

fn is_good_enough(check: &Check) -> bool {
    !check.required || check.status != "missing"
}

#[cfg(test)]
mod tests {
    use super::*;
    use holm_linux::probe::Status;

    fn found(name: &'static str, status: Status, required: bool) -> probe::Check {
        probe::Check {
            name,
            status,
            detail: "probed".to_owned(),
            fix: None,
            required,
        }
    }

    #[test]
    fn only_a_missing_required_part_makes_a_machine_unfit() {
        let is_fit = |status, required| document(vec![found("x", status, required)], None).ok;
        assert!(is_fit(Status::Ok, true));
        assert!(is_fit(Status::Missing, false));
        assert!(is_fit(Status::Warning, true));
        assert!(!is_fit(Status::Missing, true));
    }

    #[test]
    fn what_the_client_lacks_counts_although_the_daemon_has_it() {
        let of_daemon = || {
            let checks = ["git", "overlayfs"].map(|name| found(name, Status::Ok, true));
            document(checks.into(), Some(7))
        };
        let fit = with_own(of_daemon(), vec![found("git", Status::Ok, true)]);
        assert_eq!(fit, of_daemon());
        let unfit = with_own(of_daemon(), vec![found("git", Status::Missing, true)]);
        assert!(!unfit.ok);
        assert_eq!((unfit.checks.len(), unfit.daemon), (2, Some(7)));
    }
}
