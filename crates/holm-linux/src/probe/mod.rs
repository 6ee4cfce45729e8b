//! Checks whether this machine can run workspaces, by starting a trial workspace. Files that only
//! hint at an answer explain a failure, but never prove success.

mod explain;
mod trial;

use crate::cgroup::{self, Place};
use explain::{control_groups, fix_for, host_limits};
use holm_core::fitness::{Check, Status};
use holm_keeper::plan::Part;
use std::io;
use std::path::{Path, PathBuf};

/// What workspaces are started with. A shell and the daemon may differ: systemd or root may have
/// delegated groups to the daemon only.
#[derive(Clone, Debug)]
pub struct Means {
    /// holm itself.
    pub program: PathBuf,
    /// Where control groups may be created, or why nowhere.
    pub groups: Result<Place, String>,
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
            program: std::env::current_exe()?,
            groups: cgroup::find(),
        })
    }
}

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
    Check {
        name: "kernel",
        status: if fit { Status::Ok } else { Status::Missing },
        detail: format!("Linux {release}"),
        fix: (!fit).then(|| "holm needs Linux 5.12 or newer".to_owned()),
        required: true,
    }
}

fn git() -> Check {
    match holm_git::version() {
        Ok(version) => Check {
            name: "git",
            status: Status::Ok,
            detail: format!("git {}.{}", version.0, version.1),
            fix: None,
            required: true,
        },
        Err(error) => {
            let fault = holm_core::Fault::from(error);
            Check {
                name: "git",
                status: Status::Missing,
                detail: fault.message(),
                fix: Some(fault.hint),
                required: true,
            }
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
                name,
                status: Status::Warning,
                detail: "not reached, because an earlier part is missing".to_owned(),
                fix: None,
                required: true,
            },
            None => Check {
                name,
                status: Status::Ok,
                detail: "works".to_owned(),
                fix: None,
                required: true,
            },
            Some(failure) => {
                failed = true;
                Check {
                    name,
                    status: Status::Missing,
                    detail: failure.to_string(),
                    fix: Some(fix_for(failure, data_dir)),
                    required: true,
                }
            }
        });
    }
    match trial {
        Ok(isolation) => {
            checks.push(landlock(isolation.landlock));
            checks.push(control_groups(&isolation, &means.groups));
        }
        Err(failure) if !failed => checks.push(Check {
            name: "a trial workspace",
            status: Status::Missing,
            detail: failure.to_string(),
            fix: Some(fix_for(&failure, data_dir)),
            required: true,
        }),
        Err(_) => {}
    }
    checks
}

fn landlock(in_force: bool) -> Check {
    Check {
        name: "landlock",
        status: if in_force {
            Status::Ok
        } else {
            Status::Warning
        },
        detail: if in_force {
            "in force"
        } else {
            "the kernel does not offer it"
        }
        .to_owned(),
        fix: (!in_force).then(|| {
            "a second layer only: boot with `lsm=landlock,…`, or use Linux 5.13 or newer".to_owned()
        }),
        required: false,
    }
}
