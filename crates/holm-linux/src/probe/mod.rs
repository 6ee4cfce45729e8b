//! Checks whether this machine can run workspaces, by starting a trial workspace. Files that only
//! hint at an answer explain a failure, but never prove success.

mod explain;
mod trial;

use crate::cgroup::{self, GroupParents};
use crate::programs::Programs;
use crate::sub_ids;
use explain::{control_groups, fix_for, host_limits};
use holm_core::fitness::{Check, Status};
use holm_core::sub_ids::SubIds;
use holm_keeper::plan::Part;
use std::io;
use std::path::Path;

/// What workspaces are started with. A shell and the daemon may differ: systemd or root may have
/// delegated groups to the daemon only.
#[derive(Clone, Debug)]
pub struct Means {
    pub programs: Programs,
    /// Where control groups may be created, or why nowhere.
    pub groups: Result<GroupParents, String>,
}

/// The parts that a trial shows, in order.
const PARTS: [(&str, &[Part]); 8] = [
    ("user namespace", &[Part::User]),
    ("network namespace", &[Part::Network]),
    ("packet rules", &[Part::Egress]),
    ("mounts", &[Part::Mount]),
    ("overlayfs", &[Part::Overlay]),
    ("fresh /proc", &[Part::Proc]),
    ("no_new_privs", &[Part::NoNewPrivileges]),
    ("seccomp", &[Part::Seccomp]),
];

/// Runs all checks. `data_dir` is where workspaces would be; it is created and removed again if
/// missing.
pub fn doctor(data_dir: &Path, means: &Means) -> Vec<Check> {
    let mut checks = basics();
    checks.extend(isolation(data_dir, means));
    checks.push(users_of_images());
    checks.extend(host_limits(data_dir));
    checks
}

/// What both the daemon and its clients need.
pub fn basics() -> Vec<Check> {
    vec![kernel(), git()]
}

// === impl Means ===

impl Means {
    /// What a daemon started by this process would have.
    pub fn own() -> io::Result<Self> {
        Ok(Self {
            programs: Programs::own()?,
            groups: cgroup::find(),
        })
    }
}

const NOT_REACHED: &str = "not reached, because an earlier part is missing";

fn kernel() -> Check {
    let release = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    let mut numbers = release
        .split(['.', '-'])
        .map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let fit = version >= (5, 12);
    let fix = (!fit).then(|| "holm needs Linux 5.12 or newer".to_owned());
    Check::required("kernel", format!("Linux {release}"), fix)
}

fn git() -> Check {
    match holm_git::version() {
        Ok(version) => {
            let mut detail = format!("git {version}");
            if version < holm_git::MERGES_TREES {
                let newer = holm_git::MERGES_TREES;
                detail.push_str(&format!(
                    "; `review` and `compare` find no conflicts, which git {newer} does"
                ));
            }
            Check::required("git", detail, None)
        }
        Err(error) => {
            let fault = holm_core::Fault::from(error);
            Check::required("git", fault.message(), Some(fault.hint))
        }
    }
}

/// One check per part, from one trial: the parts before the failed one work.
fn isolation(data_dir: &Path, means: &Means) -> Vec<Check> {
    let trial = trial::run(data_dir, means);
    let mut checks = Vec::new();
    let mut failed = false;
    for (name, parts) in PARTS {
        let failure = match &trial {
            Err(failure) if parts.contains(&failure.part) => Some(failure),
            _ => None,
        };
        checks.push(match failure {
            None if failed => Check {
                status: Status::Warning,
                ..Check::required(name, NOT_REACHED.to_owned(), None)
            },
            None => Check::required(name, "works".to_owned(), None),
            Some(failure) => {
                failed = true;
                let fix = fix_for(failure, data_dir);
                Check::required(name, failure.to_string(), Some(fix))
            }
        });
    }
    match trial {
        Ok(isolation) => {
            checks.push(landlock(isolation.landlock));
            checks.push(control_groups(&isolation, &means.groups));
        }
        Err(failure) if !failed => {
            let (detail, fix) = (failure.to_string(), fix_for(&failure, data_dir));
            checks.push(Check::required("a trial workspace", detail, Some(fix)));
        }
        Err(_) => {}
    }
    checks
}

/// Whether services of images have several users.
fn users_of_images() -> Check {
    const NAME: &str = "users of images";
    let found = sub_ids::find().map_err(|missing| {
        let detail = format!("one for each service: {missing}");
        Check::optional(NAME, detail, Some(sub_ids::fix(&missing)))
    });
    let ids = match found {
        Ok(ids) => ids,
        Err(check) => return check,
    };
    let SubIds { users, groups } = ids;
    match sub_ids::try_to_map(&ids) {
        Ok(()) => {
            let detail = format!(
                "{} from {} on, and {} groups from {} on",
                users.count, users.first, groups.count, groups.first
            );
            Check::optional(NAME, detail, None)
        }
        Err(error) => {
            let fix = "correct /etc/subuid and /etc/subgid; `newuidmap` says what it refuses";
            Check::optional(
                NAME,
                format!("they cannot be mapped: {error}"),
                Some(fix.to_owned()),
            )
        }
    }
}

fn landlock(in_force: bool) -> Check {
    if in_force {
        return Check::optional("landlock", "in force".to_owned(), None);
    }
    let fix = "a second layer only: boot with `lsm=landlock,…`, or use Linux 5.13 or newer";
    let detail = "the kernel does not offer it".to_owned();
    Check::optional("landlock", detail, Some(fix.to_owned()))
}
