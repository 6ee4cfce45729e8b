//! Observes a workspace. It changes nothing, except that it ends leftovers of a killed keeper.

use super::connect::client;
use super::generation::generation;
use super::{base, disk_fault, head, project_id, workspace_id};
use crate::Layout;
use crate::cgroup;
use crate::sys::lock;
use holm_core::plan::{Base, Files, Keeper, Observed};
use holm_core::spec::WorkspaceSpec;
use holm_core::state::Ended;
use holm_core::{Fault, WorkspaceId};
use holm_engine::driver::Observation;
use holm_keeper::directories::WorkspaceDirs;
use holm_keeper::keeper::DISK;
use holm_keeper::process::{self, Standstill};
use holm_keeper::records::last_services;
use holm_keeper::wire::{Incarnation, LastRun, Status};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fs::File;
use std::io;
use std::pin::pin;
use std::time::{Duration, Instant};

/// How often to look at the lock of a keeper that has no pid here.
const LOOK_AT_LOCK: Duration = Duration::from_millis(20);

/// How often to check the keeper's process while waiting for its answer.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// How long a keeper may take to end, before it counts as broken.
const ENDING: Duration = Duration::from_millis(500);

pub async fn observe(layout: &Layout, spec: &WorkspaceSpec) -> Result<Observation, Fault> {
    let id = workspace_id(spec)?;
    let seen = observe_keeper(&layout.workspace(&id), &id).await?;
    with_files(layout, spec, seen)
}

/// Observes a workspace whose keeper has just reported its first status. `None`: the keeper does not say that it runs.
pub fn launched(
    layout: &Layout,
    spec: &WorkspaceSpec,
    status: Status,
) -> Result<Option<Observation>, Fault> {
    let runs = status.id == spec.id && status.ending.is_none() && status.trouble.is_none();
    if !runs {
        return Ok(None);
    }
    with_files(layout, spec, (Keeper::Running, Some(status), None)).map(Some)
}

fn with_files(
    layout: &Layout,
    spec: &WorkspaceSpec,
    seen: KeeperObservation,
) -> Result<Observation, Fault> {
    let id = workspace_id(spec)?;
    let dirs = layout.workspace(&id);
    let base = if base::is_present(layout, &project_id(spec)?, spec) {
        Base::Present
    } else {
        Base::Absent
    };
    let files = match generation(&dirs)? {
        Some(generation) if generation == spec.generation => Files::Complete,
        Some(_) => Files::Outdated,
        None if dirs.dir.exists() => Files::Partial,
        None if layout.trash(&id).exists() => Files::SetAside,
        None => Files::Absent,
    };
    let (mut keeper, status, reason) = seen;
    if keeper == Keeper::Running
        && status
            .as_ref()
            .is_some_and(|status| status.is_outdated(spec))
    {
        keeper = Keeper::Outdated;
    }
    Ok(Observation {
        observed: Observed {
            base,
            files,
            keeper,
        },
        commands: status.as_ref().map_or(0, |status| status.commands),
        carried: status.as_ref().and_then(|status| status.carried),
        services: match &status {
            Some(status) => status.services.clone(),
            None => last_services(&dirs).unwrap_or_default().services,
        },
        isolation: status.map(|status| status.isolation),
        reason,
        tip: head::tip(&dirs.upper()),
    })
}

type KeeperObservation = (Keeper, Option<Status>, Option<Ended>);

async fn observe_keeper(
    dirs: &WorkspaceDirs,
    id: &WorkspaceId,
) -> Result<KeeperObservation, Fault> {
    let Some(pid) = keeper_of(dirs, id)? else {
        return Ok(without_keeper(dirs));
    };
    let client = client(dirs);
    let broken = |why: String| Ok((Keeper::Broken, None, Some(Ended::Died(why))));
    let mut asked = pin!(client.status());
    let answer = loop {
        if let Ok(answer) = tokio::time::timeout(LOOK_AGAIN, &mut asked).await {
            break answer.ok();
        }
        // A keeper that cannot run is not waited for.
        let stands =
            tokio::task::spawn_blocking(move || process::standstill(pid, cgroup::is_frozen(pid)));
        match stands.await {
            Ok(Some(Standstill::Ending)) => break None,
            Ok(Some(how)) => return broken(format!("its keeper {how}")),
            Ok(None) | Err(_) => {}
        }
    };
    if let Some(status) = answer
        && status.id == id.as_str()
        && !status.is_init_ending
    {
        return match (&status.ending, status.trouble.clone()) {
            (None, None) => Ok((Keeper::Running, Some(status), None)),
            // A start has to wait for its end first.
            (Some(why), _) => Ok((Keeper::Broken, None, Some(ended(why)))),
            (None, Some(trouble)) => broken(trouble),
        };
    }
    // A keeper that is ending reports why in a moment, unless it was killed.
    if keeper_ends(dirs, id, ENDING).await? {
        return Ok(without_keeper(dirs));
    }
    // It does not answer, but it may have recorded why it ended.
    Ok((Keeper::Broken, None, said_end(dirs)))
}

fn without_keeper(dirs: &WorkspaceDirs) -> KeeperObservation {
    // A killed keeper may have left frozen processes, which outlive it.
    let group = cgroup::leftover(dirs);
    if let Some(group) = &group {
        group.thaw();
    }
    let seen = match (left_init(dirs), group) {
        (None, None) => Keeper::Absent,
        _ => Keeper::Broken,
    };
    (seen, None, how_it_ended(dirs))
}

/// As [`keeper_pid`], for users.
pub fn keeper_of(dirs: &WorkspaceDirs, id: &WorkspaceId) -> Result<Option<i32>, Fault> {
    keeper_pid(dirs).map_err(|error| disk_fault(error, format!("cannot look at the lock of {id}")))
}

/// Waits for the end of a workspace's keeper; `false`: it is still there.
pub async fn keeper_ends(
    dirs: &WorkspaceDirs,
    id: &WorkspaceId,
    limit: Duration,
) -> Result<bool, Fault> {
    let Some(pid) = keeper_of(dirs, id)? else {
        return Ok(true);
    };
    if pid == 0 {
        return lock_is_released(dirs, id, limit).await;
    }
    let pidfd = Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    // If the process still has the lock after its pidfd was opened, its pid was not reused.
    if let Some(pidfd) = pidfd
        && keeper_of(dirs, id)? == Some(pid)
    {
        let waiting = tokio::task::spawn_blocking(move || process::ends_within(&pidfd, limit));
        // A panic ends this process.
        let _ = waiting.await;
    }
    Ok(keeper_of(dirs, id)?.is_none())
}

/// The same for a keeper in another container, whose process has no pid here.
async fn lock_is_released(
    dirs: &WorkspaceDirs,
    id: &WorkspaceId,
    limit: Duration,
) -> Result<bool, Fault> {
    let deadline = Instant::now() + limit;
    while Instant::now() < deadline {
        if keeper_of(dirs, id)?.is_none() {
            return Ok(true);
        }
        tokio::time::sleep(LOOK_AT_LOCK).await;
    }
    Ok(keeper_of(dirs, id)?.is_none())
}

/// The pid of the keeper that holds the workspace's lock; 0 if its process is not visible from here.
pub fn keeper_pid(dirs: &WorkspaceDirs) -> io::Result<Option<i32>> {
    match File::options().read(true).write(true).open(dirs.lock()) {
        Ok(file) => lock::holder(&file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The init of a killed keeper, while the kernel has not ended it yet.
pub fn left_init(dirs: &WorkspaceDirs) -> Option<Incarnation> {
    let last = last_run(dirs)?;
    let init = last.init.filter(|_| last.boot_id == boot_id())?;
    init.is_alive().then_some(init)
}

/// How a workspace without a keeper ended.
pub fn how_it_ended(dirs: &WorkspaceDirs) -> Option<Ended> {
    let last = last_run(dirs)?;
    if last.boot_id != boot_id() {
        return Some(Ended::Reboot);
    }
    let said = last.ended.as_deref().unwrap_or("its keeper was killed");
    Some(ended(said))
}

/// The reason that the keeper recorded itself.
fn said_end(dirs: &WorkspaceDirs) -> Option<Ended> {
    last_run(dirs)?.ended.as_deref().map(ended)
}

fn last_run(dirs: &WorkspaceDirs) -> Option<LastRun> {
    let text = std::fs::read(dirs.last_run()).ok()?;
    serde_json::from_slice(&text).ok()
}

fn ended(said: &str) -> Ended {
    match said {
        DISK => Ended::DiskLimit,
        _ => Ended::Died(said.to_owned()),
    }
}

/// Empty where the kernel does not say: then nothing counts as of this boot.
fn boot_id() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    text.unwrap_or_default().trim().to_owned()
}
