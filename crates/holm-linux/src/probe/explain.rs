//! Explains why a part of the isolation is missing and how to get it, and checks other limits of
//! the machine.

use crate::cgroup::{self, GroupParents};
use crate::open_files;
use holm_core::fitness::Check;
use holm_core::isolation::Isolation;
use holm_core::share;
use holm_keeper::plan::{LaunchFailure, Part};
use rustix::process::{Resource, getrlimit};
use std::fs;
use std::path::Path;

/// How to get what failed, as precisely as the machine can be inspected.
pub fn fix_for(failure: &LaunchFailure, data_dir: &Path) -> String {
    let is_namespace = matches!(failure.part, Part::User | Part::Mount | Part::Network);
    if is_namespace && let Some(fix) = switched_off() {
        return fix;
    }
    if is_container()
        && matches!(
            failure.part,
            Part::User | Part::Mount | Part::Proc | Part::Network
        )
    {
        return "this is inside a container: start it with `--security-opt seccomp=unconfined \
                --security-opt apparmor=unconfined --security-opt systempaths=unconfined`, or run \
                holm on the host"
            .to_owned();
    }
    match failure.part {
        Part::User | Part::Mount | Part::Network => {
            "allow unprivileged user namespaces (CONFIG_USER_NS; no LSM or seccomp filter in the way)"
                .to_owned()
        }
        Part::Egress => "the gateway needs nf_tables with connection tracking, NAT, reject and \
                         nfnetlink_log: `sudo modprobe -a nf_tables nft_chain_nat nft_ct nft_fib_inet \
                         nft_reject_inet nft_log nfnetlink_log nft_limit`, or a kernel that has them"
            .to_owned(),
        Part::Overlay => format!(
            "{} must be on a file system that can be an overlay's upper layer (ext4, xfs, btrfs; \
             not another overlay, not NFS): set HOLM_HOME to a directory on one",
            data_dir.display()
        ),
        Part::Proc => "something is mounted over parts of /proc; unmount it, or run holm outside \
                       the container"
            .to_owned(),
        Part::Seccomp => "use a kernel with CONFIG_SECCOMP_FILTER".to_owned(),
        Part::NoNewPrivileges => "use Linux 5.12 or newer".to_owned(),
        Part::Secrets => "use a kernel with CONFIG_SECURITY_LANDLOCK".to_owned(),
        Part::Limit
        | Part::ProtectedPath
        | Part::Volume
        | Part::VolumeTaken
        | Part::Other => {
            format!("look at the cause; {} must be writable", data_dir.display())
        }
    }
}

/// A workspace's kinds of namespaces, with the kernel's names.
const NAMESPACES: [&str; 6] = ["user", "mnt", "pid", "net", "ipc", "uts"];

/// Distributions have different switches; the one that is off is named.
fn switched_off() -> Option<String> {
    let setting = |path: &str| {
        fs::read_to_string(path)
            .ok()
            .map(|text| text.trim().to_owned())
    };
    if setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").as_deref() == Some("1") {
        let fix = "Ubuntu's AppArmor restricts user namespaces. For holm only: write \
                /etc/apparmor.d/holm with `abi <abi/4.0>, profile holm /**/holm \
                flags=(unconfined) { userns, }` and run `sudo apparmor_parser -r \
                /etc/apparmor.d/holm`. For every program: `sudo sysctl -w \
                kernel.apparmor_restrict_unprivileged_userns=0`";
        return Some(fix.to_owned());
    }
    if setting("/proc/sys/kernel/unprivileged_userns_clone").as_deref() == Some("0") {
        let fix = "`sudo sysctl -w kernel.unprivileged_userns_clone=1` (Debian's switch; put it into \
                   /etc/sysctl.d/ to keep it)";
        return Some(fix.to_owned());
    }
    let is_off = |kind: &&str| {
        let path = format!("/proc/sys/user/max_{kind}_namespaces");
        setting(&path).as_deref() == Some("0")
    };
    let kind = NAMESPACES.into_iter().find(|kind| is_off(kind))?;
    Some(format!(
        "`sudo sysctl -w user.max_{kind}_namespaces=15000` (RHEL's switch; put it into \
         /etc/sysctl.d/ to keep it)"
    ))
}

fn is_container() -> bool {
    Path::new("/.dockerenv").exists() || Path::new("/run/.containerenv").exists()
}

/// Limits that decide how many workspaces the machine can run.
pub fn host_limits(data_dir: &Path) -> Vec<Check> {
    let mut checks = vec![inotify(), in_flight(), disk(data_dir)];
    checks.extend(pipes());
    checks
}

/// What control groups enforced in a trial workspace.
pub fn control_groups(isolation: &Isolation, groups: &Result<GroupParents, String>) -> Check {
    let kept = [
        ("memory", &isolation.limits.memory),
        ("cpus", &isolation.limits.cpus),
        ("processes", &isolation.limits.processes),
    ];
    let is_kept = |by: &Option<String>| by.as_deref() == Some("cgroup");
    let names = |wanted: bool| -> Vec<&str> {
        let chosen = kept.iter().filter(|(_, by)| is_kept(by) == wanted);
        chosen.map(|(name, _)| *name).collect()
    };
    let (kept, unkept) = (names(true).join(", "), names(false).join(", "));
    let detail = match (&isolation.cgroup, groups) {
        (Some(version), _) if unkept.is_empty() => format!("{version} limits {kept}"),
        (Some(version), _) => format!("{version} limits {kept} but not {unkept}"),
        (None, Err(why)) => format!("none: {why}; limits of memory and cpus cannot be kept"),
        (None, Ok(_)) => "none could be made; limits of memory and cpus cannot be kept".to_owned(),
    };
    let fix = (!unkept.is_empty()).then(|| cgroup::advice().to_owned());
    Check::optional("control groups", detail, fix)
}

fn inotify() -> Check {
    let path = "/proc/sys/fs/inotify/max_user_instances";
    let most: u64 = fs::read_to_string(path)
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0);
    let detail = format!(
        "{most} for all programs of the user together, {} of them for one workspace",
        share::of_one(most)
    );
    let fix = "`sudo sysctl -w fs.inotify.max_user_instances=8192`, so that many file watchers can \
               run at once";
    let fix = (most < 512).then(|| fix.to_owned());
    Check::optional("inotify instances", detail, fix)
}

/// The kernel counts descriptors in flight per uid, so no limit of a workspace helps a program of
/// the user with a lower limit.
fn in_flight() -> Check {
    let hard = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let (most, own) = (share::open_files(hard), open_files::inherited());
    let enough = own > most;
    let detail = if enough {
        format!("workspaces can keep {most} in flight, which leaves some to your programs")
    } else {
        format!(
            "workspaces can keep {most} in flight; meanwhile programs of yours with a lower soft limit \
             of open files (here {own}) cannot send any over Unix sockets"
        )
    };
    let fix = (!enough).then(|| {
        format!(
            "`ulimit -Sn {hard}` before a program that has to go on, or run holm as another user"
        )
    });
    Check::optional("descriptors in flight", detail, fix)
}

/// Pipe pages are counted per uid too, and no namespace limits them. By default the kernel makes
/// smaller pipes when they run out; only with a hard limit by root do pipes fail.
fn pipes() -> Option<Check> {
    let most = fs::read_to_string("/proc/sys/fs/pipe-user-pages-hard").ok()?;
    let most: u64 = most.trim().parse().ok()?;
    let detail =
        format!("one workspace can use up all {most} pages of pipes that your programs may have");
    let fix = "`sudo sysctl -w fs.pipe-user-pages-hard=0`: the soft limit then makes pipes smaller \
               instead of refusing them";
    (most > 0).then(|| Check::optional("pipes", detail, Some(fix.to_owned())))
}

fn disk(data_dir: &Path) -> Check {
    const ENOUGH: u64 = 2 * 1024 * 1024 * 1024;
    let place = data_dir
        .ancestors()
        .find(|path| path.exists())
        .unwrap_or(Path::new("/"));
    let free = rustix::fs::statvfs(place)
        .map(|found| found.f_bavail * found.f_frsize)
        .unwrap_or(0);
    let gib = free as f64 / f64::from(1 << 30);
    let detail = format!("{gib:.1} GiB free at {}", place.display());
    let fix = "make room, or set HOLM_HOME to a larger disk";
    let fix = (free < ENOUGH).then(|| fix.to_owned());
    Check::optional("disk", detail, fix)
}
