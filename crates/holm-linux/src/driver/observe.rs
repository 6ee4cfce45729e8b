//! What there is of a workspace. Looks, and changes nothing but that what nobody keeps any more is
//! let die.

use super::{base, disk_fault, keeper, project_id, workspace_id};
use crate::Layout;
use crate::cgroup;
use crate::keeper::DISK;
use crate::layout::WorkspaceDirs;
use crate::sys::lock;
use crate::wire::{Answer, LastRun, Op, Status};
use holm_core::plan::{Base, Files, Keeper, Observed};
use holm_core::{Fault, WorkspaceId};
use holm_engine::driver::{Ended, Sighting};
use holm_engine::spec::WorkspaceSpec;
use std::fs::File;
use std::io;

pub async fn observe(layout: &Layout, spec: &WorkspaceSpec) -> Result<Sighting, Fault> {
    let id = workspace_id(spec)?;
    let dirs = layout.workspace(&id);
    let base = if base::is_present(layout, &project_id(spec)?, spec) {
        Base::Present
    } else {
        Base::Absent
    };
    let files = match (dirs.complete().exists(), dirs.dir.exists()) {
        (true, _) => Files::Complete,
        (false, true) => Files::Partial,
        (false, false) if layout.trash(&id).exists() => Files::SetAside,
        (false, false) => Files::Absent,
    };
    let (keeper, status, ending) = observe_keeper(&dirs, &id).await?;
    let left = match keeper {
        Keeper::Absent => cgroup::leftover(&dirs),
        Keeper::Running | Keeper::Broken => None,
    };
    let (keeper, reason) = match (keeper, left) {
        // Its keeper was killed and left something behind, which may be frozen and so outlive it.
        (Keeper::Absent, Some(group)) => {
            group.thaw();
            (Keeper::Broken, how_it_ended(&dirs))
        }
        (Keeper::Absent, None) => (Keeper::Absent, how_it_ended(&dirs)),
        // One that is about to go does not answer any more, but has said why.
        (Keeper::Broken, None) => (Keeper::Broken, ending.or_else(|| said_end(&dirs))),
        (other, _) => (other, ending),
    };
    Ok(Sighting {
        observed: Observed {
            base,
            files,
            keeper,
        },
        commands: status.as_ref().map_or(0, |status| status.commands),
        isolation: status.map(|status| status.isolation),
        reason,
    })
}

async fn observe_keeper(
    dirs: &WorkspaceDirs,
    id: &WorkspaceId,
) -> Result<(Keeper, Option<Status>, Option<Ended>), Fault> {
    if keeper_pid(dirs)
        .map_err(|error| disk_fault(&error, format!("cannot look at the lock of {id}")))?
        .is_none()
    {
        return Ok((Keeper::Absent, None, None));
    }
    match keeper::ask(dirs, Op::Status).await {
        Ok(Answer::Status(status)) if status.id == id.as_str() => {
            match &status.ending {
                None => Ok((Keeper::Running, Some(*status), None)),
                // Whoever wants it to run has to wait for the end first.
                Some(why) => Ok((Keeper::Broken, None, Some(ended(why)))),
            }
        }
        Ok(_) | Err(_) => Ok((Keeper::Broken, None, None)),
    }
}

/// The keeper, if one holds the workspace's lock.
pub fn keeper_pid(dirs: &WorkspaceDirs) -> io::Result<Option<i32>> {
    match File::options().read(true).write(true).open(dirs.lock()) {
        Ok(file) => lock::holder(&file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// How the last run ended, of a workspace that has no keeper.
pub fn how_it_ended(dirs: &WorkspaceDirs) -> Option<Ended> {
    let last = last_run(dirs)?;
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    if last.boot_id != boot.trim() {
        return Some(Ended::Reboot);
    }
    let said = last.ended.as_deref().unwrap_or("its keeper was killed");
    Some(ended(said))
}

/// What the keeper itself said of the end, if it got to that.
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
