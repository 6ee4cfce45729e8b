//! Builds the initial content of a volume: the commands of its `seed` fill it in a temporary
//! workspace, programs left running are stopped cleanly, and the volume becomes a layer. Called for
//! [`Action::BuildLayer`](holm_core::plan::Action).
//!
//! The layer is `projects/<id>/layers/volume-<name>-<digest>/{tree,log}`. It never changes
//! afterwards: every workspace has its own overlay above it.

use super::commands::{Commands, Made, Of};
use super::connect::succeeds_inside;
use super::layer::{self, BUILDING};
use super::{LinuxDriver, disk_fault, first_start, halt, users, volume, workspace_id};
use crate::{Layout, owned};
use holm_core::layer::LayerKey;
use holm_core::spec::{Seed, Volume, WorkspaceSpec};
use holm_core::{Code, Fault, WorkspaceId};
use holm_engine::progress::Progress;
use holm_keeper::directories::WorkspaceDirs;
use holm_keeper::inside;
use holm_secrets::mask::Known;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

/// A database may have much to write before it exits.
const CLEAN_STOP: Duration = Duration::from_secs(120);

/// Runs the commands, ends the workspace, and keeps the volume.
pub async fn build(
    driver: &LinuxDriver,
    spec: &Arc<WorkspaceSpec>,
    seed: &Seed,
    progress: &Progress,
) -> Result<(), Fault> {
    let Some(volume) = spec.volumes.first().cloned() else {
        let message = format!("workspace {} has no volume to fill", spec.id);
        return Err(Fault::new(Code::Internal, message, "report this"));
    };
    let id = workspace_id(spec)?;
    let dirs = driver.layout.workspace(&id);
    if seed.service.is_some() {
        first_start::run(driver, spec, &volume, progress).await?;
    } else {
        let commands = Commands {
            list: &seed.commands,
            of: Of::Seed(&volume.name),
            made: Made::Layer(&spec.layer(&seed.key)),
            known: Known::none(),
            because: None,
        };
        commands.run(&driver.layout, &dirs, progress).await?;
        progress.report(&format!("{}: stopping it cleanly", commands.of), 0, 0);
        stop_cleanly(&dirs, &volume).await?;
    }
    halt::halt(&driver.layout, &id).await?;
    let (layout, spec, seed) = (Arc::clone(&driver.layout), Arc::clone(spec), seed.clone());
    driver
        .builds
        .uninterrupted(&spec.id.clone(), move || {
            keep(&layout, &id, &volume, &spec.layer(&seed.key))
        })
        .await
}

/// Asks the programs that the commands left running to end, and waits. Killing them could leave
/// data that every workspace would have to recover.
async fn stop_cleanly(dirs: &WorkspaceDirs, volume: &Volume) -> Result<(), Fault> {
    let limit = CLEAN_STOP.as_millis().to_string();
    if succeeds_inside(dirs, &[inside::END_ALL, &limit]).await? {
        return Ok(());
    }
    let (name, seconds) = (&volume.name, CLEAN_STOP.as_secs());
    Err(Fault::new(
        Code::SeedFailed,
        format!("what the seed of {name} left running did not end within {seconds} s of SIGTERM"),
        format!("end it in [volumes.{name}] seed itself, as `pg_ctl stop` does"),
    ))
}

/// Turns the volume of the stopped workspace into the layer.
fn keep(layout: &Layout, id: &WorkspaceId, volume: &Volume, key: &LayerKey) -> Result<(), Fault> {
    let dirs = layout.workspace(id);
    let target = layer::directory(layout, key);
    let building = target.with_file_name(format!("{BUILDING}{id}"));
    let put_together = || {
        fs::create_dir_all(&building)?;
        let own = volume::own(&dirs, volume);
        owned::rename(&own, &building.join("tree"), users::of(&dirs)?.as_ref())?;
        fs::rename(dirs.setup_log(), building.join("log"))?;
        layer::name_it(&building, &target)
    };
    put_together().map_err(|error| {
        let name = &volume.name;
        disk_fault(error, format!("cannot keep what the seed of {name} made"))
    })
}
