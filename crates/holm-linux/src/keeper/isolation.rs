//! The isolation in force, read from the running init and not from the plan.

use super::limits;
use crate::cgroup::Group;
use crate::launch::LaunchPlan;
use holm_core::isolation::{Isolation, LimitsInForce};
use holm_keeper::process::read_proc_text;
use holm_keeper::wire::Defence;

pub fn observe(init: i32, landlock: bool, plan: &LaunchPlan, group: Option<&Group>) -> Isolation {
    let status = read_proc_text(format!("/proc/{init}/status")).unwrap_or_default();
    let field = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(|value| value.trim().to_owned())
    };
    let own = |name: &str| {
        let link = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/{name}"));
        match (link(&init.to_string()), link("self")) {
            (Ok(inside), Ok(outside)) => inside != outside,
            // What cannot be read is not claimed.
            _ => false,
        }
    };
    let mut degraded = Vec::new();
    if plan.nested {
        degraded.push("nested".to_owned());
    }
    if !landlock {
        degraded.push("landlock".to_owned());
    }
    let membership = read_proc_text(format!("/proc/{init}/cgroup")).unwrap_or_default();
    let group = group.filter(|group| group.has(&membership));
    let limits = limits_in_force(init, plan, group);
    let kept = [
        ("memory", &limits.memory),
        ("cpus", &limits.cpus),
        ("processes", &limits.processes),
        ("disk", &limits.disk),
    ];
    let unkept = kept.iter().filter(|(_, by)| by.is_none());
    let unkept = unkept.map(|(name, _)| (*name).to_owned());
    degraded.extend(unkept.filter(|name| plan.keeper.forgone.contains(name)));
    Isolation {
        user: own("user"),
        mount: own("mnt"),
        pid: own("pid"),
        net: own("net"),
        ipc: own("ipc"),
        seccomp: field("Seccomp").as_deref() == Some("2"),
        no_new_privs: field("NoNewPrivs").as_deref() == Some("1"),
        landlock,
        cgroup: group.map(|group| group.version().as_str().to_owned()),
        limits,
        degraded,
        oom_kills: 0,
        limits_reached: Vec::new(),
        protected: Some(if plan.keeper.has(Defence::Protection) {
            plan.protected.clone()
        } else {
            Vec::new()
        }),
    }
}

/// The mechanism that enforces each limit, as the kernel reports it.
fn limits_in_force(init: i32, plan: &LaunchPlan, group: Option<&Group>) -> LimitsInForce {
    let kept = limits::kept(group, plan);
    let by = |is_kept: bool, what: &str| is_kept.then(|| what.to_owned());
    let rlimits = read_proc_text(format!("/proc/{init}/limits")).unwrap_or_default();
    let most = rlimits
        .lines()
        .find_map(|line| line.strip_prefix("Max processes"))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    LimitsInForce {
        memory: by(kept.memory, "cgroup"),
        cpus: by(kept.cpus, "cgroup"),
        processes: by(kept.processes, "cgroup").or_else(|| {
            let kept = most.zip(plan.limits.processes);
            by(kept.is_some_and(|(most, limit)| most <= limit), "rlimit")
        }),
        disk: by(plan.keeper.disk.is_some(), "measured"),
    }
}
