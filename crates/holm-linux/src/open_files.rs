//! The limits that holm's own processes raise for themselves. The one of open files matters most: every
//! connection to a workspace counts against it, and the kernel lets a process send descriptors only while
//! the user has no more of them in flight than that. What holm starts for others gets the limit back that
//! holm was started with, because programs that use `select` break with more than 1024.

use crate::sys;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::ffi::OsStr;
use std::process::Command;
use std::sync::OnceLock;

/// What is counted for the user as a whole and compared with the limit of who asks for more.
const RAISED: [Resource; 4] = [
    Resource::Nofile,
    Resource::Sigpending,
    Resource::Msgqueue,
    Resource::Memlock,
];

/// The limit of open files that this process was started with.
static INHERITED: OnceLock<u64> = OnceLock::new();

/// Raises the limits of this process as far as it may.
pub fn raise() {
    INHERITED.get_or_init(soft);
    for resource in RAISED {
        let limit = getrlimit(resource);
        let raised = Rlimit {
            current: limit.maximum,
            ..limit
        };
        // The kernel allows it up to the hard limit; with less, less can be done at a time.
        let _ = setrlimit(resource, raised);
    }
}

/// The same for a process that another one of holm's has started, with the limit that it was told.
pub(crate) fn raise_from(told: &OsStr) {
    if let Some(limit) = told.to_str().and_then(|text| text.parse().ok()) {
        INHERITED.get_or_init(|| limit);
    }
    raise();
}

/// The limit for what is started for others.
pub(crate) fn inherited() -> u64 {
    INHERITED.get().copied().unwrap_or_else(soft)
}

/// The program begins with the limit of open files that this process was started with.
pub fn as_inherited(command: &mut Command) -> &mut Command {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX);
    sys::command::with_open_files(command, inherited().min(most), most);
    command
}

fn soft() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
