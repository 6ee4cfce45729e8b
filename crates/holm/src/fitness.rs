//! Whether a machine is fit for holm, in the words of the API. Called by `holm doctor` and by the
//! daemon's route for it, so that both say the same.

use holm_api::daemon::{Check, Doctor};
use holm_linux::probe;

pub fn of(checks: Vec<probe::Check>) -> Doctor {
    let checks = checks.into_iter().map(|check| Check {
        name: check.name.to_owned(),
        status: check.status.as_str().to_owned(),
        detail: check.detail,
        fix: check.fix,
        required: check.required,
    });
    let checks: Vec<Check> = checks.collect();
    Doctor {
        ok: checks.iter().all(is_good_enough),
        checks,
    }
}

fn is_good_enough(check: &Check) -> bool {
    !check.required || check.status != "missing"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_missing_required_part_makes_a_machine_unfit() {
        let is_good_enough = |name: &str, status: &str, required| {
            is_good_enough(&Check {
                name: name.to_owned(),
                status: status.to_owned(),
                detail: "probed".to_owned(),
                fix: None,
                required,
            })
        };
        assert!(is_good_enough("overlay", "ok", true));
        assert!(is_good_enough("landlock", "missing", false));
        assert!(is_good_enough("inotify", "warning", true));
        assert!(!is_good_enough("overlay", "missing", true));
    }
}
