//! Finds the session or run of a program inside, for the audit record. Called by
//! [`super::guest_api`] once per connection.
//!
//! The kernel reports the connecting process; its ancestors are searched for the first process of a
//! session or run. A program that left its session is only attributed to the workspace, and no
//! program can claim a session that is not its ancestor.

use super::Registry;
use crate::platform::Pids;
use crate::process;
use rustix::net::sockopt::socket_peercred;
use std::os::unix::net::UnixStream;

/// The most ancestors that are searched.
const MOST: usize = 64;

/// The id of the session or run.
pub fn of(stream: &UnixStream, registry: &Registry) -> Option<String> {
    if registry.platform().pids() == Pids::OfAnotherNamespace {
        return None;
    }
    let depth = process::depth(registry.init_pid())?;
    let mut pid = socket_peercred(stream).ok()?.pid.as_raw_nonzero().get();
    for _ in 0..MOST {
        let status = process::read_proc_text(format!("/proc/{pid}/status")).ok()?;
        let inside = process::number_at(&status, depth)?;
        if let Some(id) = registry.begun_with(inside) {
            return Some(id);
        }
        pid = parent(&status)?;
        if inside == 1 || pid <= 1 {
            return None;
        }
    }
    None
}

fn parent(status: &str) -> Option<i32> {
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("PPid:"))?;
    line.trim().parse().ok()
}
