//! `/disk`: disk use, what could be deleted, and whether space is short.

use super::failure::Answer;
use super::startup::unusable;
use super::{App, view};
use axum::Json;
use axum::extract::State;
use holm_api::disk::{
    BaseSize, Disk, LayerSize, RepositorySize, SnapshotSize, TrashSize, VolumeSize, WorkspaceSize,
};
use holm_api::workspace::Workspace;
use holm_config::paths::Paths;
use holm_core::config::rough_size;
use holm_core::disk::{DiskUsage, WorkspaceUsage};
use holm_core::layer::LayerKey;
use holm_core::trash::{BaseKey, is_short};
use holm_core::{Fault, ProjectId};
use holm_engine::View;
use holm_engine::storage::Measure;
use holm_engine::store::WorkspaceRecord;
use holm_engine::try_blocking;
use jiff::Timestamp;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of a file system.
pub struct Room {
    /// For us.
    pub free: u64,
    pub size: u64,
}

const DAY: Duration = Duration::from_secs(24 * 3600);

operations! {
    /// What takes disk.
    get "/disk" "disk" disk -> Disk;
}

async fn disk(State(app): State<Arc<App>>) -> Answer<Disk> {
    Ok(Json(app.disk().await?))
}

/// How long entries stay in the trash. Commands that need the settings report errors in them; here
/// the default applies.
pub fn trash_keeps(paths: &Paths) -> Duration {
    let home = super::home();
    let settings = holm_config::user::load(&paths.config_file, &home);
    DAY * settings
        .unwrap_or_else(|_| holm_config::user::defaults(&home))
        .trash_days
}

// === impl App ===

impl App {
    /// How long entries stay in the trash, by the current settings.
    pub async fn keep_for(&self) -> Result<Duration, Fault> {
        let (file, home) = (self.paths.config_file.clone(), self.home());
        let settings = try_blocking(move || holm_config::user::load(&file, &home)).await?;
        Ok(DAY * settings.trash_days)
    }

    /// The trash, with sizes and expiry times.
    pub async fn trash(&self) -> Result<Vec<Workspace>, Fault> {
        let keep_for = self.keep_for().await?;
        let sizes = self.measure(Measure::Trash).await?.trash;
        let views = self.engine.trash().await?.into_iter();
        Ok(views
            .map(|found| {
                let bytes = sizes.get(&found.record.id).copied().unwrap_or(0);
                let expires_at = found.record.removed_at.map(|at| expiry(at, keep_for));
                Workspace {
                    bytes: Some(bytes),
                    expires_at,
                    ..view::workspace(found)
                }
            })
            .collect())
    }

    /// The sizes of all drivers together.
    async fn measure(&self, what: Measure) -> Result<DiskUsage, Fault> {
        let mut all = DiskUsage::default();
        for driver in self.engine.drivers().all() {
            all.add(driver.measure(what.clone()).await?);
        }
        Ok(all)
    }

    /// The file system of the daemon's own directory.
    pub fn room(&self) -> Result<Room, Fault> {
        let directory = &self.paths.data_dir;
        let found = rustix::fs::statvfs(directory)
            .map_err(|error| unusable("look at the disk of", directory, error.into()))?;
        Ok(Room {
            free: found.f_bavail * found.f_frsize,
            size: found.f_blocks * found.f_frsize,
        })
    }

    /// The warning when the disk is nearly full.
    pub async fn shortage(&self) -> Result<Option<String>, Fault> {
        let Room { free, size } = self.room()?;
        if !is_short(free, size) {
            return Ok(None);
        }
        let trashed = self.engine.trash().await?.len();
        let what = match trashed {
            0 => "`holm gc` deletes what nothing uses".to_owned(),
            1 => "`holm gc --all` deletes the 1 workspace in the trash and what nothing uses"
                .to_owned(),
            several => format!(
                "`holm gc --all` deletes the {several} workspaces in the trash and what nothing uses"
            ),
        };
        Ok(Some(format!(
            "the disk is nearly full: {} of {} are free at {}; {what}; `holm df` shows what takes room",
            rough_size(free),
            rough_size(size),
            self.paths.data_dir.display(),
        )))
    }

    async fn disk(&self) -> Result<Disk, Fault> {
        let keep_for = self.keep_for().await?;
        let usage = self.measure(Measure::Everything).await?;
        let Room { free, size } = self.room()?;
        let live = self.engine.names().await?;
        let trashed = self.engine.trash().await?;
        let projects = self.engine.projects().await?.into_iter();
        let names: HashMap<ProjectId, String> = projects
            .map(|(project, _)| (project.id, project.name.to_string()))
            .collect();
        let records = live.iter().map(|(record, _)| record);
        let users = Users::of(records.chain(trashed.iter().map(|found| &found.record)));
        let name_of = |id: &str| {
            let id = ProjectId::parse(id).ok()?;
            names.get(&id).cloned()
        };
        let bases: Vec<_> = usage
            .bases
            .iter()
            .map(|(key, bytes)| BaseSize {
                project: name_of(&key.project),
                project_id: key.project.clone(),
                commit: key.commit.clone(),
                bytes: *bytes,
                used_by: users.of_base(key),
            })
            .collect();
        let layers = usage.layers.iter().map(|(layer, bytes)| LayerSize {
            project: name_of(&layer.project),
            project_id: layer.project.clone(),
            key: layer.key.clone(),
            bytes: *bytes,
            used_by: users.of_layer(layer),
        });
        let layers: Vec<_> = layers.collect();
        let workspaces = live.iter().map(|(record, project)| {
            let used = usage.workspaces.get(&record.id).cloned();
            workspace_size(record, project.as_str(), used.unwrap_or_default())
        });
        let repositories = usage.repositories.iter().map(|(id, used)| RepositorySize {
            project: name_of(id.as_str()),
            project_id: id.to_string(),
            bytes: used.bytes,
            shared: used.shared,
        });
        let volumes = usage.volumes.iter().map(|(id, name, bytes)| VolumeSize {
            project: name_of(id.as_str()),
            project_id: id.to_string(),
            name: name.clone(),
            bytes: *bytes,
        });
        let trash: Vec<_> = trashed
            .iter()
            .filter_map(|found| trash_size(found, &usage, keep_for))
            .collect();
        let mut notes: Vec<String> = self.shortage().await?.into_iter().collect();
        notes.extend(could_go(&trash, &bases, &layers, &usage));
        Ok(Disk {
            workspaces: workspaces.collect(),
            repositories: repositories.collect(),
            volumes: volumes.collect(),
            programs: usage.programs,
            images: usage.images,
            leftovers: usage.leftovers,
            other: usage.other,
            total: usage.total(),
            free,
            size,
            data_dir: self.paths.data_dir.display().to_string(),
            trash,
            bases,
            layers,
            notes,
        })
    }
}

/// How many workspaces use each item, live or in the trash.
#[derive(Default)]
struct Users {
    bases: HashMap<BaseKey, u64>,
    layers: HashMap<LayerKey, u64>,
}

// === impl Users ===

impl Users {
    fn of<'a>(records: impl Iterator<Item = &'a WorkspaceRecord>) -> Self {
        let mut users = Self::default();
        for record in records {
            // A snapshot may share the base and layers of its workspace, which counts once.
            let bases: HashSet<_> = record.spec.base_keys().collect();
            for base in bases {
                *users.bases.entry(base).or_default() += 1;
            }
            let layers: HashSet<_> = record.spec.layer_keys().collect();
            for layer in layers {
                *users.layers.entry(layer).or_default() += 1;
            }
        }
        users
    }

    fn of_base(&self, key: &BaseKey) -> u64 {
        self.bases.get(key).copied().unwrap_or(0)
    }

    fn of_layer(&self, key: &LayerKey) -> u64 {
        self.layers.get(key).copied().unwrap_or(0)
    }
}

fn workspace_size(record: &WorkspaceRecord, project: &str, used: WorkspaceUsage) -> WorkspaceSize {
    let snapshots = record.spec.snapshots.iter().filter_map(|snapshot| {
        let bytes = *used.each_snapshot.get(&snapshot.key)?;
        let name = snapshot.name.clone();
        Some(SnapshotSize { name, bytes })
    });
    WorkspaceSize {
        snapshots: snapshots.collect(),
        id: record.id.to_string(),
        label: record.label.to_string(),
        project: project.to_owned(),
        bytes: used.total(),
        upper: used.tree,
        home: used.home,
        tmp: used.tmp,
        volumes: used.volumes,
    }
}

fn trash_size(found: &View, usage: &DiskUsage, keep_for: Duration) -> Option<TrashSize> {
    let removed_at = found.record.removed_at?;
    Some(TrashSize {
        id: found.record.id.to_string(),
        label: found.record.label.to_string(),
        project: found.project.to_string(),
        bytes: usage.trash.get(&found.record.id).copied().unwrap_or(0),
        removed_at: view::time(removed_at),
        expires_at: expiry(removed_at, keep_for),
    })
}

/// One sentence per kind of item that could be deleted, with the command.
fn could_go(
    trash: &[TrashSize],
    bases: &[BaseSize],
    layers: &[LayerSize],
    usage: &DiskUsage,
) -> Vec<String> {
    let mut notes = Vec::new();
    let in_trash: u64 = trash.iter().map(|entry| entry.bytes).sum();
    if !trash.is_empty() {
        notes.push(format!(
            "in the trash: {}; `holm gc --all` deletes it, `holm restore WS` brings a workspace back",
            rough_size(in_trash)
        ));
    }
    let unused = bases.iter().filter(|base| base.used_by == 0);
    let unused: u64 = unused.map(|base| base.bytes).sum();
    if unused > 0 {
        notes.push(format!(
            "bases that no workspace uses: {}; `holm gc` deletes all but the latest of each project",
            rough_size(unused)
        ));
    }
    let unused = layers.iter().filter(|layer| layer.used_by == 0);
    let unused: u64 = unused.map(|layer| layer.bytes).sum();
    if unused > 0 {
        notes.push(format!(
            "layers that no workspace uses: {}; `holm gc` deletes all but the latest of each project",
            rough_size(unused)
        ));
    }
    if usage.leftovers > 0 {
        let size = rough_size(usage.leftovers);
        notes.push(format!(
            "left by interrupted work: {size}; `holm gc` deletes it"
        ));
    }
    if usage.unread > 0 {
        notes.push(format!(
            "{} directories are closed (by modes set inside) and not counted",
            usage.unread
        ));
    }
    notes
}

pub fn expiry(removed_at: Timestamp, keep_for: Duration) -> String {
    // A time that is too far away to write is as good as never.
    view::time(removed_at.checked_add(keep_for).unwrap_or(Timestamp::MAX))
}
