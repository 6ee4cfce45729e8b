//! The state of a workspace that users see, and its reason. A pure function of the desired and the
//! observed state.

use crate::plan::{Desired, Files, Keeper, Observed, State};

/// Whether the client was told that the workspace exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Birth {
    /// It is being created. An interrupted creation is undone completely.
    Pending,
    /// It belongs to the user. It is deleted only through the trash.
    Acknowledged,
}

/// How the workspace's processes ended last, if known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastRun<'a> {
    Unknown,
    /// The machine was rebooted since.
    Reboot,
    /// It was stopped because it exceeded its disk limit.
    DiskLimit,
    Died(&'a str),
}

/// The state of a workspace, and the reason if the state alone does not say it.
pub fn state(
    desired: Desired,
    birth: Birth,
    observed: Observed,
    last_run: LastRun<'_>,
) -> (State, Option<String>) {
    let failed = |reason: &str| (State::Failed, Some(reason.to_owned()));
    if birth == Birth::Pending {
        return (State::Creating, None);
    }
    match (desired, observed.keeper, observed.files) {
        (Desired::Removed, _, _) => (State::Removed, None),
        (_, Keeper::Running | Keeper::Outdated, _) => (State::Running, None),
        (_, Keeper::Broken, _) => match last_run {
            LastRun::Died(how) => failed(how),
            LastRun::DiskLimit => (State::Stopped, Some("disk_limit".to_owned())),
            LastRun::Unknown | LastRun::Reboot => failed("its processes do not answer"),
        },
        (_, Keeper::Absent, Files::Absent) => failed("its files are missing"),
        (_, Keeper::Absent, Files::Partial) => failed("its files are incomplete"),
        (_, Keeper::Absent, Files::SetAside) => failed("its files are still in the trash"),
        (Desired::Stopped, Keeper::Absent, Files::Complete | Files::Outdated) => {
            (State::Stopped, None)
        }
        (Desired::Running, Keeper::Absent, Files::Complete | Files::Outdated) => match last_run {
            LastRun::Reboot => (State::Stopped, Some("reboot".to_owned())),
            LastRun::DiskLimit => (State::Stopped, Some("disk_limit".to_owned())),
            LastRun::Died(how) => failed(how),
            LastRun::Unknown => failed("its processes are gone"),
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
        use LastRun::{Died, Reboot, Unknown};
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
        let (gone, up, broken) = (Keeper::Absent, Keeper::Running, Keeper::Broken);
        let (none, half, whole) = (Files::Absent, Files::Partial, Files::Complete);
        let fails = |reason| (State::Failed, Some(reason));

        check(
            Running,
            Pending,
            gone,
            none,
            Unknown,
            (State::Creating, None),
        );
        check(
            Running,
            Pending,
            up,
            whole,
            Unknown,
            (State::Creating, None),
        );
        check(
            Running,
            Acknowledged,
            up,
            whole,
            Unknown,
            (State::Running, None),
        );
        check(
            Stopped,
            Acknowledged,
            up,
            whole,
            Unknown,
            (State::Running, None),
        );
        check(
            Stopped,
            Acknowledged,
            gone,
            whole,
            Unknown,
            (State::Stopped, None),
        );
        check(
            Stopped,
            Acknowledged,
            gone,
            whole,
            Died("killed"),
            (State::Stopped, None),
        );
        check(
            Stopped,
            Acknowledged,
            gone,
            whole,
            Reboot,
            (State::Stopped, None),
        );
        let full = (State::Stopped, Some("disk_limit"));
        check(Running, Acknowledged, gone, whole, LastRun::DiskLimit, full);
        check(
            Running,
            Acknowledged,
            broken,
            whole,
            LastRun::DiskLimit,
            full,
        );
        let after_reboot = (State::Stopped, Some("reboot"));
        check(Running, Acknowledged, gone, whole, Reboot, after_reboot);
        check(
            Running,
            Acknowledged,
            gone,
            whole,
            Died("killed"),
            fails("killed"),
        );
        check(
            Running,
            Acknowledged,
            gone,
            whole,
            Unknown,
            fails("its processes are gone"),
        );
        check(
            Running,
            Acknowledged,
            broken,
            whole,
            Died("killed"),
            fails("killed"),
        );
        let mute = "its processes do not answer";
        check(Running, Acknowledged, broken, whole, Unknown, fails(mute));
        check(Stopped, Acknowledged, broken, whole, Reboot, fails(mute));
        check(
            Stopped,
            Acknowledged,
            gone,
            none,
            Unknown,
            fails("its files are missing"),
        );
        check(
            Running,
            Acknowledged,
            gone,
            half,
            Reboot,
            fails("its files are incomplete"),
        );
        let aside = Files::SetAside;
        let left = "its files are still in the trash";
        check(Stopped, Acknowledged, gone, aside, Unknown, fails(left));
        check(
            Removed,
            Acknowledged,
            gone,
            aside,
            Unknown,
            (State::Removed, None),
        );
        check(
            Removed,
            Acknowledged,
            gone,
            none,
            Unknown,
            (State::Removed, None),
        );
        check(
            Removed,
            Acknowledged,
            up,
            whole,
            Unknown,
            (State::Removed, None),
        );
    }
}
