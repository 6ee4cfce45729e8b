//! Ends every process of a workspace. Each step has a deadline.

use super::connect::client;
use super::disk_fault;
use super::observe::{self, keeper_ends, keeper_of};
use crate::Layout;
use crate::cgroup;
use crate::sys::lock;
use holm_core::{Cause, Code, Fault, WorkspaceId};
use holm_engine::try_blocking;
use holm_keeper::directories::WorkspaceDirs;
use holm_keeper::process;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::fs::File;
use std::io;
use std::time::Duration;

/// Between SIGTERM and SIGKILL; services get twice that first.
const GRACE: Duration = Duration::from_secs(5);
/// For the kernel to tear down the namespaces.
const TEARDOWN: Duration = Duration::from_secs(10);

pub async fn halt(layout: &Layout, id: &WorkspaceId) -> Result<(), Fault> {
    let dirs = layout.workspace(id);
    end_keeper(&dirs, id).await?;
    end_left_init(&dirs, id).await?;
    match tokio::fs::remove_file(&dirs.socket).await {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => {
            let what = format!("cannot remove the socket of {id}");
            return Err(disk_fault(error, what));
        }
    }
    // A killed keeper could not do this itself.
    let id = id.clone();
    try_blocking(move || cgroup::sweep(&dirs, TEARDOWN).map_err(|error| hangs(&id, error))).await
}

async fn end_keeper(dirs: &WorkspaceDirs, id: &WorkspaceId) -> Result<(), Fault> {
    let Some(pid) = keeper_of(dirs, id)? else {
        return Ok(());
    };
    let stands =
        tokio::task::spawn_blocking(move || process::standstill(pid, cgroup::is_frozen(pid)));
    let asked = match stands.await {
        Ok(Some(_)) => false,
        _ => client(dirs)
            .stop(GRACE, GRACE * 3 + Duration::from_secs(2))
            .await
            .is_ok(),
    };
    if !asked {
        kill_keeper(dirs, id)?;
    }
    if keeper_ends(dirs, id, TEARDOWN).await? {
        return Ok(());
    }
    kill_keeper(dirs, id)?;
    if keeper_ends(dirs, id, TEARDOWN).await? {
        return Ok(());
    }
    Err(hangs(id, "the keeper stays"))
}

/// The kernel ends the init of a killed keeper. A frozen init dies only when it is thawed.
async fn end_left_init(dirs: &WorkspaceDirs, id: &WorkspaceId) -> Result<(), Fault> {
    let Some(init) = observe::left_init(dirs) else {
        return Ok(());
    };
    if let Some(group) = cgroup::leftover(dirs) {
        group.thaw();
    }
    init.kill();
    let ended = tokio::task::spawn_blocking(move || init.ends_within(TEARDOWN));
    match ended.await {
        Ok(true) => Ok(()),
        _ => Err(hangs(id, "init stays")),
    }
}

fn hangs(id: &WorkspaceId, cause: impl Into<Cause>) -> Fault {
    Fault::new(
        Code::Internal,
        format!("the processes of workspace {id} do not end"),
        "something of it hangs in the kernel; `holm stop` again, or look at `ps`",
    )
    .because(cause)
}

/// Keeps any keeper from starting while the file is open. `None`: there are no files, or a keeper
/// has the lock.
pub fn hold(layout: &Layout, id: &WorkspaceId) -> io::Result<Option<File>> {
    let path = layout.workspace(id).lock();
    match File::options().read(true).write(true).open(path) {
        Ok(file) => Ok(lock::try_lock(&file)?.then_some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Init dies with its keeper, and everything inside with init.
fn kill_keeper(dirs: &WorkspaceDirs, id: &WorkspaceId) -> Result<(), Fault> {
    let Some(pid) = keeper_of(dirs, id)?.and_then(Pid::from_raw) else {
        return Ok(());
    };
    let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else {
        return Ok(());
    };
    // The lock still names the same process after its pidfd was opened, so the pid was not reused.
    if keeper_of(dirs, id)? == Some(pid.as_raw_nonzero().get()) {
        // It may have ended meanwhile.
        let _ = pidfd_send_signal(&pidfd, Signal::KILL);
    }
    Ok(())
}
