//! Raises limits for holm's own processes, above all open files: every connection to a workspace
//! counts against it, and the kernel lets a process send descriptors only while the user has no
//! more of them in flight than that. Programs that holm starts for others get the original limit
//! back, because programs that use `select` break with more than 1024.

use crate::sys;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::ffi::OsStr;
use std::process::Command;
use std::sync::OnceLock;

/// Resources that are counted per user and compared with the limit of the requesting process.
const RAISED: [Resource; 4] = [
    Resource::Nofile,
    Resource::Sigpending,
    Resource::Msgqueue,
    Resource::Memlock,
];

/// The limit of open files that this process was started with.
static INHERITED: OnceLock<u64> = OnceLock::new();

/// Raises the limits of this process as far as possible.
pub fn raise() {
    INHERITED.get_or_init(soft);
    for resource in RAISED {
        let limit = getrlimit(resource);
        let raised = Rlimit {
            current: limit.maximum,
            ..limit
        };
        // The kernel allows it up to the hard limit; with less, less can run at a time.
        let _ = setrlimit(resource, raised);
    }
}

/// The same for a process that another holm process started, with the limit that it was given.
pub(crate) fn raise_from(inherited: &OsStr) {
    match inherited.to_str().and_then(|text| text.parse().ok()) {
        Some(limit) => raise_for(limit),
        None => raise(),
    }
}

/// The same for a process whose programs get this limit.
pub(crate) fn raise_for(programs: u64) {
    INHERITED.get_or_init(|| programs);
    raise();
}

/// The limit for programs that are started for others.
pub(crate) fn inherited() -> u64 {
    INHERITED.get().copied().unwrap_or_else(soft)
}

/// Starts the program with the limit of open files that this process was started with.
pub fn as_inherited(command: &mut Command) -> &mut Command {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX);
    sys::command::with_open_files(command, inherited().min(most), most);
    command
}

fn soft() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
