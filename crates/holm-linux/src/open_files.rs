//! The limit of open files. The daemon raises its own, which every connection to a workspace counts
//! against; a workspace gets the one that the daemon was started with, because programs that use
//! `select` break with more.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::ffi::OsStr;
use std::sync::OnceLock;

/// Enough for the connections of many workspaces; the kernel's memory for more is not needed.
const MOST: u64 = 65_536;

/// What this process was started with, once it has raised it.
static INHERITED: OnceLock<u64> = OnceLock::new();

/// Raises the limit of this process as far as it may. Returns what it is then.
pub fn raise() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current.unwrap_or(u64::MAX);
    let wanted = limit.maximum.unwrap_or(u64::MAX).min(MOST);
    if current >= wanted || set(wanted).is_err() {
        return current;
    }
    INHERITED.get_or_init(|| current);
    wanted
}

/// The limit for what is started on behalf of a workspace, where it is another than the own one.
pub(crate) fn inherited() -> Option<u64> {
    INHERITED.get().copied()
}

/// In the process that was started so: takes the limit that it was given.
pub(crate) fn take(given: &OsStr) {
    let limit = given.to_str().and_then(|text| text.parse().ok());
    if let Some(limit) = limit {
        // Lowering is always allowed; and with more, everything but `select` works.
        let _ = set(limit);
    }
}

fn set(current: u64) -> rustix::io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let changed = Rlimit {
        current: Some(current),
        ..limit
    };
    setrlimit(Resource::Nofile, changed)
}
