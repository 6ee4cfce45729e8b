//! Measures the disk use of the data directory, by kind.

use super::disk::{DiskUsage, RepositoryUsage, WorkspaceUsage};
use super::reap::{entries, name};
use super::{disk_fault, layer};
use crate::Layout;
use crate::measure::Meter;
use holm_core::layer::LayerKey;
use holm_core::trash::BaseKey;
use holm_core::{Fault, ProjectId, WorkspaceId};
use rustix::fs::statvfs;
use std::collections::HashMap;
use std::path::Path;

pub fn everything(layout: &Layout) -> Result<DiskUsage, Fault> {
    let mut meter = Meter::default();
    let (free, size) = room(layout)?;
    let mut usage = DiskUsage {
        trash: trash_by(&mut meter, layout)?,
        free,
        size,
        ..DiskUsage::default()
    };
    for entry in entries(&layout.data_dir)? {
        match name(&entry).as_str() {
            "workspaces" => workspaces(&mut meter, &entry.path(), &mut usage)?,
            "projects" => projects(&mut meter, &entry.path(), &mut usage)?,
            "program" => usage.programs += meter.tree(&entry.path()).bytes,
            "reap" | "incoming" => usage.leftovers += meter.tree(&entry.path()).bytes,
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

pub fn trash(layout: &Layout) -> Result<HashMap<WorkspaceId, u64>, Fault> {
    trash_by(&mut Meter::default(), layout)
}

/// Available and total bytes of the data directory's file system.
pub fn room(layout: &Layout) -> Result<(u64, u64), Fault> {
    let found = statvfs(&layout.data_dir).map_err(|error| {
        let message = format!("cannot look at the disk of {}", layout.data_dir.display());
        disk_fault(&error.into(), message)
    })?;
    Ok((
        found.f_bavail * found.f_frsize,
        found.f_blocks * found.f_frsize,
    ))
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
            let bytes = meter.tree(&part.path()).bytes;
            match name(&part).as_str() {
                "upper" => workspace.upper += bytes,
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
