//! Ending every process of a workspace. Always ends, with a deadline at each step.

use super::{blocking, disk_fault, keeper, observe};
use crate::Layout;
use crate::cgroup;
use crate::layout::WorkspaceDirs;
use crate::wire::Op;
use holm_core::{Code, Fault, WorkspaceId};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::time::{Duration, Instant};

/// Between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(5);
/// For the kernel to take the namespaces down.
const TEARDOWN: Duration = Duration::from_secs(10);

pub async fn halt(layout: &Layout, id: &WorkspaceId) -> Result<(), Fault> {
    let dirs = layout.workspace(id);
    end_keeper(&dirs, id).await?;
    // A keeper that was killed could not do this itself.
    let id = id.clone();
    blocking(move || cgroup::sweep(&dirs, TEARDOWN).map_err(|error| hangs(&id, &error))).await
}

async fn end_keeper(dirs: &WorkspaceDirs, id: &WorkspaceId) -> Result<(), Fault> {
    if keeper_pid(dirs, id)?.is_none() {
        return Ok(());
    }
    let op = Op::Stop {
        grace_ms: GRACE.as_millis() as u64,
    };
    let asked = keeper::ask_within(dirs, op, GRACE + Duration::from_secs(2)).await;
    if asked.is_err() {
        kill_keeper(dirs, id)?;
    }
    if wait_until_gone(dirs, id).await? {
        return Ok(());
    }
    kill_keeper(dirs, id)?;
    if wait_until_gone(dirs, id).await? {
        return Ok(());
    }
    Err(hangs(id, &"the keeper stays"))
}

fn hangs(id: &WorkspaceId, why: &dyn std::fmt::Display) -> Fault {
    Fault::new(
        Code::Internal,
        format!("the processes of workspace {id} do not end: {why}"),
        "something of it hangs in the kernel; `holm stop` again, or look at `ps`",
    )
}

/// Init dies with its keeper, and everything inside with init.
fn kill_keeper(dirs: &WorkspaceDirs, id: &WorkspaceId) -> Result<(), Fault> {
    let Some(pid) = keeper_pid(dirs, id)?.and_then(Pid::from_raw) else {
        return Ok(());
    };
    let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else {
        return Ok(());
    };
    // The lock still names the same process after it was pinned, so no other one can be meant.
    if keeper_pid(dirs, id)? == Some(pid.as_raw_nonzero().get()) {
        // It may have ended meanwhile.
        let _ = pidfd_send_signal(&pidfd, Signal::KILL);
    }
    Ok(())
}

async fn wait_until_gone(dirs: &WorkspaceDirs, id: &WorkspaceId) -> Result<bool, Fault> {
    let deadline = Instant::now() + TEARDOWN;
    let mut pause = Duration::from_millis(1);
    while keeper_pid(dirs, id)?.is_some() {
        if Instant::now() > deadline {
            return Ok(false);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(50));
    }
    Ok(true)
}

fn keeper_pid(dirs: &WorkspaceDirs, id: &WorkspaceId) -> Result<Option<i32>, Fault> {
    observe::keeper_pid(dirs)
        .map_err(|error| disk_fault(&error, format!("cannot look at the lock of {id}")))
}
