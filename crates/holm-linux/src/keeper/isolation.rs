//! What is in force, read off the running init, not off the plan.

use crate::wire::LaunchPlan;
use holm_engine::Isolation;
use holm_engine::isolation::LimitsInForce;

pub fn observe(init: i32, landlock: bool, plan: &LaunchPlan) -> Isolation {
    let status = std::fs::read_to_string(format!("/proc/{init}/status")).unwrap_or_default();
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
            // Not seen is not claimed.
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
    degraded.extend(plan.degraded.iter().cloned());
    Isolation {
        user: own("user"),
        mount: own("mnt"),
        pid: own("pid"),
        net: own("net"),
        ipc: own("ipc"),
        seccomp: field("Seccomp").as_deref() == Some("2"),
        no_new_privs: field("NoNewPrivs").as_deref() == Some("1"),
        landlock,
        cgroup: None,
        limits: LimitsInForce {
            processes: plan.processes.map(|_| "rlimit".to_owned()),
            ..LimitsInForce::default()
        },
        degraded,
    }
}
