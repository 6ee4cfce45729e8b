//! The state of a workspace that users see, and its reason. A pure function of the desired and the
//! observed state.

use crate::plan::{Desired, Files, Keeper, Observed, State};
use serde::{Deserialize, Serialize};

/// Whether the client was told that the workspace exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Birth {
    /// It is being created. An interrupted creation is undone completely.
    Pending,
    /// It belongs to the user. It is deleted only through the trash.
    Acknowledged,
}

/// How the last run of a workspace's processes ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Ended {
    /// The machine was rebooted since.
    Reboot,
    /// Its keeper stopped it, because it took more disk than it may.
    DiskLimit,
    /// It ended by itself or by force; says how.
    Died(String),
}

/// The state of a workspace, and the reason if the state alone does not say it.
pub fn state(
    desired: Desired,
    birth: Birth,
    observed: Observed,
    last_run: Option<&Ended>,
) -> (State, Option<String>) {
    let failed = |reason: &str| (State::Failed, Some(reason.to_owned()));
    if birth == Birth::Pending {
        return (State::Creating, None);
    }
    match (desired, observed.keeper, observed.files) {
        (Desired::Removed, _, _) => (State::Removed, None),
        (_, Keeper::Running | Keeper::Outdated, _) => (State::Running, None),
        (_, Keeper::Broken, _) => match last_run {
            Some(Ended::Died(how)) => failed(how),
            Some(Ended::DiskLimit) => (State::Stopped, Some("disk_limit".to_owned())),
            Some(Ended::Reboot) | None => failed("its processes do not answer"),
        },
        (_, Keeper::Absent, Files::Absent) => failed("its files are missing"),
        (_, Keeper::Absent, Files::Partial) => failed("its files are incomplete"),
        (_, Keeper::Absent, Files::SetAside) => failed("its files are still in the trash"),
        (Desired::Stopped, Keeper::Absent, Files::Complete | Files::Outdated) => {
            (State::Stopped, None)
        }
        (Desired::Running, Keeper::Absent, Files::Complete | Files::Outdated) => match last_run {
            Some(Ended::Reboot) => (State::Stopped, Some("reboot".to_owned())),
            Some(Ended::DiskLimit) => (State::Stopped, Some("disk_limit".to_owned())),
            Some(Ended::Died(how)) => failed(how),
            None => failed("its processes are gone"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Base;

    #[test]
    fn what_users_see() {
        use Birth::{Acknowledged, Pending};
        use Desired::{Removed, Running, Stopped};
        let killed = Ended::Died("killed".to_owned());
        let check = |desired, birth, keeper, files, last_run, expect: (State, Option<&str>)| {
            for base in [Base::Absent, Base::Present] {
                let observed = Observed {
                    base,
                    files,
                    keeper,
                };
                let (word, reason) = state(desired, birth, observed, last_run);
                assert_eq!((word, reason.as_deref()), expect);
            }
        };
        let known = |desired, keeper, files, last_run, expect| {
            check(desired, Acknowledged, keeper, files, last_run, expect);
        };
        let (gone, up, broken) = (Keeper::Absent, Keeper::Running, Keeper::Broken);
        let (none, half, whole) = (Files::Absent, Files::Partial, Files::Complete);
        let fails = |reason| (State::Failed, Some(reason));
        let (running, stopped) = ((State::Running, None), (State::Stopped, None));
        let removed = (State::Removed, None);

        check(Running, Pending, gone, none, None, (State::Creating, None));
        check(Running, Pending, up, whole, None, (State::Creating, None));
        known(Running, up, whole, None, running);
        known(Stopped, up, whole, None, running);
        known(Stopped, gone, whole, None, stopped);
        known(Stopped, gone, whole, Some(&killed), stopped);
        known(Stopped, gone, whole, Some(&Ended::Reboot), stopped);
        let full = (State::Stopped, Some("disk_limit"));
        known(Running, gone, whole, Some(&Ended::DiskLimit), full);
        known(Running, broken, whole, Some(&Ended::DiskLimit), full);
        let after_reboot = (State::Stopped, Some("reboot"));
        known(Running, gone, whole, Some(&Ended::Reboot), after_reboot);
        known(Running, gone, whole, Some(&killed), fails("killed"));
        known(Running, gone, whole, None, fails("its processes are gone"));
        known(Running, broken, whole, Some(&killed), fails("killed"));
        let mute = "its processes do not answer";
        known(Running, broken, whole, None, fails(mute));
        known(Stopped, broken, whole, Some(&Ended::Reboot), fails(mute));
        known(Stopped, gone, none, None, fails("its files are missing"));
        known(
            Running,
            gone,
            half,
            Some(&Ended::Reboot),
            fails("its files are incomplete"),
        );
        let aside = Files::SetAside;
        let left = "its files are still in the trash";
        known(Stopped, gone, aside, None, fails(left));
        known(Removed, gone, aside, None, removed);
        known(Removed, gone, none, None, removed);
        known(Removed, up, whole, None, removed);
    }
}
