//! The control groups of a workspace, made before anything of it runs.

use crate::cgroup::{self, Group, Kept};
use crate::launch::LaunchPlan;
use holm_keeper::complain;
use holm_keeper::directories::WorkspaceDirs;
use holm_keeper::plan::{LaunchFailure, Part, Stepped};
use std::io;
use std::time::Duration;

/// For the kernel to tear down a group.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Removes groups of an earlier keeper, creates the groups, and refuses limits that cannot be
/// enforced.
pub fn make(plan: &LaunchPlan, dirs: &WorkspaceDirs) -> Result<Option<Group>, LaunchFailure> {
    cgroup::sweep(dirs, PATIENCE).step(Part::Other, "remove the old control group")?;
    let made = plan
        .groups
        .as_ref()
        .map(|place| Group::make(place, &plan.keeper.id, &plan.limits, dirs));
    let group = match made {
        None => None,
        Some(Ok(group)) => Some(group),
        Some(Err(error)) => {
            complain!("no control group can be made: {error}");
            cgroup::sweep(dirs, PATIENCE).step(Part::Other, "remove half a control group")?;
            None
        }
    };
    let kept = kept(group.as_ref(), plan);
    let missing = plan.required.iter().find(|name| match name.as_str() {
        "memory" => !kept.memory,
        "cpus" => !kept.cpus,
        // Each of these can be enforced in another way.
        _ => false,
    });
    match missing {
        None => Ok(group),
        Some(name) => Err(io::Error::other("no control group keeps it")).step(Part::Limit, name),
    }
}

pub fn kept(group: Option<&Group>, plan: &LaunchPlan) -> Kept {
    group
        .map(|group| group.kept(&plan.limits))
        .unwrap_or_default()
}
