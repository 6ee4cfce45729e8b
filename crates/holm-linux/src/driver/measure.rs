//! Measures the disk use of the data directory, by kind.

use super::reap::{entries, name};
use super::{disk_fault, layer, users, volume, workspace_id};
use crate::Layout;
use crate::machine;
use crate::measure::Meter;
use holm_core::admission::Machine;
use holm_core::disk::{DiskUsage, RepositoryUsage, WorkspaceUsage};
use holm_core::layer::LayerKey;
use holm_core::spec::WorkspaceSpec;
use holm_core::trash::BaseKey;
use holm_core::{Fault, ProjectId, WorkspaceId};
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

pub fn everything(layout: &Layout) -> Result<DiskUsage, Fault> {
    let mut meter = Meter::with_users();
    let mut usage = DiskUsage {
        trash: trash_by(&mut meter, layout)?,
        ..DiskUsage::default()
    };
    for entry in entries(&layout.data_dir)? {
        match name(&entry).as_str() {
            "workspaces" => workspaces(&mut meter, &entry.path(), &mut usage)?,
            "projects" => projects(&mut meter, &entry.path(), &mut usage)?,
            "program" => usage.programs += meter.tree(&entry.path()).bytes,
            "images" | "owned" => usage.images += meter.tree(&entry.path()).bytes,
            // These two stay when they are empty, and `holm gc` has nothing to delete in them then.
            "reap" | "incoming" => {
                for left in entries(&entry.path())? {
                    usage.leftovers += meter.tree(&left.path()).bytes;
                }
            }
            "trash" => {}
            trial if trial.starts_with("trial-") => {
                usage.leftovers += meter.tree(&entry.path()).bytes;
            }
            _ => usage.other += meter.tree(&entry.path()).bytes,
        }
    }
    usage.unread = meter.unread;
    Ok(usage)
}

pub fn trash(layout: &Layout) -> Result<DiskUsage, Fault> {
    Ok(DiskUsage {
        trash: trash_by(&mut Meter::with_users(), layout)?,
        ..DiskUsage::default()
    })
}

/// What one workspace takes by itself. A process of its own measures it, which may look into
/// directories that the workspace closed.
pub fn workspace(
    layout: &Layout,
    program: &Path,
    spec: &WorkspaceSpec,
) -> Result<DiskUsage, Fault> {
    let id = workspace_id(spec)?;
    let dirs = layout.workspace(&id);
    let ids =
        users::of(&dirs).map_err(|error| disk_fault(error, format!("cannot measure {id}")))?;
    let mut command = crate::measure::command(program, &dirs.dir, ids.as_ref());
    command.arg(dirs.upper());
    command.args(volume::places(layout, spec, &dirs));
    let output = command.output();
    let sizes = output.and_then(|output| crate::measure::understand_all(&output.stdout));
    let usage = sizes.and_then(|mut sizes| {
        if sizes.len() < 2 {
            return Err(io::Error::other("the measuring process said too little"));
        }
        let each_volume = sizes.split_off(2);
        let (total, tree) = (sizes[0], sizes[1]);
        Ok(WorkspaceUsage {
            tree,
            other: total.saturating_sub(tree),
            each_volume,
            ..WorkspaceUsage::default()
        })
    });
    let usage =
        usage.map_err(|error| disk_fault(error, format!("cannot measure workspace {id}")))?;
    Ok(DiskUsage {
        workspaces: HashMap::from([(id, usage)]),
        ..DiskUsage::default()
    })
}

/// Available and total bytes of the data directory's file system.
pub fn volumes(layout: &Layout, specs: &[Arc<WorkspaceSpec>]) -> Result<DiskUsage, Fault> {
    let mut usage = DiskUsage::default();
    for spec in specs {
        let id = workspace_id(spec)?;
        let mut dirs = layout.workspace(&id);
        if !dirs.dir.exists() {
            dirs.dir = layout.trash(&id);
        }
        // A volume that was never mounted takes nothing.
        let places = volume::places(layout, spec, &dirs).into_iter();
        let sizes = places.map(|place| Meter::with_users().tree(&place).bytes);
        let measured = WorkspaceUsage {
            each_volume: sizes.collect(),
            ..WorkspaceUsage::default()
        };
        usage.workspaces.insert(id, measured);
    }
    Ok(usage)
}

pub fn room(layout: &Layout) -> Result<Machine, Fault> {
    machine::look(&layout.data_dir).map_err(|error| {
        let message = format!("cannot look at the disk of {}", layout.data_dir.display());
        disk_fault(error, message)
    })
}

fn trash_by(meter: &mut Meter, layout: &Layout) -> Result<HashMap<WorkspaceId, u64>, Fault> {
    let mut found = HashMap::new();
    for entry in entries(&layout.data_dir.join("trash"))? {
        if let Ok(id) = WorkspaceId::parse(&name(&entry)) {
            found.insert(id, meter.tree(&entry.path()).bytes);
        }
    }
    Ok(found)
}

fn workspaces(meter: &mut Meter, path: &Path, usage: &mut DiskUsage) -> Result<(), Fault> {
    for entry in entries(path)? {
        let Ok(id) = WorkspaceId::parse(&name(&entry)) else {
            usage.other += meter.tree(&entry.path()).bytes;
            continue;
        };
        let mut workspace = WorkspaceUsage::default();
        for part in entries(&entry.path())? {
            if name(&part) == "snapshots" {
                for snapshot in entries(&part.path())? {
                    let bytes = meter.tree(&snapshot.path()).bytes;
                    workspace.other += bytes;
                    workspace.each_snapshot.insert(name(&snapshot), bytes);
                }
                continue;
            }
            let bytes = meter.tree(&part.path()).bytes;
            match name(&part).as_str() {
                "upper" => workspace.tree += bytes,
                "home" => workspace.home += bytes,
                "tmp" => workspace.tmp += bytes,
                "volumes" => workspace.volumes += bytes,
                _ => workspace.other += bytes,
            }
        }
        usage.workspaces.insert(id, workspace);
    }
    Ok(())
}

fn projects(meter: &mut Meter, path: &Path, usage: &mut DiskUsage) -> Result<(), Fault> {
    for entry in entries(path)? {
        let Ok(project) = ProjectId::parse(&name(&entry)) else {
            usage.leftovers += meter.tree(&entry.path()).bytes;
            continue;
        };
        for base in entries(&entry.path().join("bases"))? {
            let (commit, measured) = (name(&base), meter.tree(&base.path()));
            if commit.starts_with('.') {
                usage.leftovers += measured.bytes;
                continue;
            }
            let key = BaseKey {
                project: project.to_string(),
                commit: (commit != "empty").then_some(commit),
            };
            usage.bases.push((key, measured.bytes));
        }
        for layer in entries(&entry.path().join("layers"))? {
            let (key, bytes) = (name(&layer), meter.tree(&layer.path()).bytes);
            if key.starts_with('.') || key.starts_with(layer::FAILED) {
                usage.leftovers += bytes;
                continue;
            }
            let project = project.to_string();
            usage.layers.push((LayerKey { project, key }, bytes));
        }
        usage.other += meter.tree(&entry.path().join("caches")).bytes;
        for volume in entries(&entry.path().join("volumes"))? {
            let bytes = meter.tree(&volume.path()).bytes;
            usage.volumes.push((project.clone(), name(&volume), bytes));
        }
        let measured = meter.tree(&entry.path().join("repo.git"));
        let repository = RepositoryUsage {
            bytes: measured.bytes,
            shared: measured.linked,
        };
        usage.repositories.push((project, repository));
    }
    Ok(())
}
