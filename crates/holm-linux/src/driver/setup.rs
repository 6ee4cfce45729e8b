//! Builds a layer: the commands of `setup` run in a temporary workspace, then its files become the
//! layer. Called for [`Action::BuildLayer`](holm_core::plan::Action).

use super::commands::{Commands, Made, Of};
use super::connect::client;
use super::freeze::{self, Before, Kept};
use super::layer::{BUILDING, NOTE, Note, directory, name_it};
use super::secrets::{home_files, tree_files};
use super::{LinuxDriver, base, disk_fault, halt, project_id, seed, workspace_id};
use crate::Layout;
use holm_core::exec::{ExecInput, ExecOutput, ExecRequest};
use holm_core::layer::DOWNLOAD_CACHES;
use holm_core::spec::{Purpose, Setup, WorkspaceSpec};
use holm_core::{Code, Fault};
use holm_engine::inside;
use holm_engine::progress::Progress;
use holm_engine::try_blocking;
use holm_keeper::directories::WorkspaceDirs;
use holm_secrets::mask::Known;
use std::fs;
use std::io;
use std::sync::Arc;

/// The size limit of git's list of ignored files.
const MOST_LISTED: usize = 64 << 20;

/// Runs the commands, ends the workspace, and keeps the result.
pub async fn build(
    driver: &LinuxDriver,
    spec: &Arc<WorkspaceSpec>,
    progress: &Progress,
) -> Result<(), Fault> {
    let setup = match &spec.purpose {
        Purpose::Setup(setup) => setup,
        Purpose::Seed(seed) => return seed::build(driver, spec, seed, progress).await,
        Purpose::Work | Purpose::Check(_) => {
            let message = format!("workspace {} is not one that makes a layer", spec.id);
            return Err(Fault::new(Code::Internal, message, "report this"));
        }
    };
    let id = workspace_id(spec)?;
    let dirs = driver.layout.workspace(&id);
    let upper = dirs.upper();
    let disk = |error: io::Error| disk_fault(error, "cannot look at a set-up's files".to_owned());
    let given: Vec<String> = tree_files(setup).into_iter().map(str::to_owned).collect();
    let before = try_blocking(move || {
        let mut before = Before::look(&upper).map_err(disk)?;
        before.forget(&given);
        Ok(before)
    });
    let before = before.await?;
    let known = driver.given_values(spec)?;
    let commands = Commands {
        list: &setup.commands,
        of: Of::Setup,
        made: Made::Layer(&spec.layer(&setup.key)),
        known: known.clone(),
        because: setup.because.as_deref(),
    };
    commands.run(&driver.layout, &dirs, progress).await?;
    progress.report("setup: keeping what it made", 0, 0);
    let ignored = ignored(&dirs).await?;
    halt::halt(&driver.layout, &id).await?;
    let (layout, spec, setup) = (Arc::clone(&driver.layout), Arc::clone(spec), setup.clone());
    driver
        .builds
        .uninterrupted(&spec.id.clone(), move || {
            let left_out = prune(&layout, &spec, &before, &ignored)?;
            take_out_given(&layout, &spec, &setup, &known)?;
            keep(&layout, &spec, &setup, left_out)
        })
        .await
}

/// Runs the setup in the workspace itself, whose files it changes; its original layer stays below
/// them.
pub async fn set_up_in_place(
    driver: &LinuxDriver,
    spec: &WorkspaceSpec,
    progress: &Progress,
) -> Result<(), Fault> {
    let Some(setup) = &spec.layers.setup else {
        return Ok(());
    };
    let dirs = driver.layout.workspace(&workspace_id(spec)?);
    let commands = Commands {
        list: &setup.commands,
        of: Of::Setup,
        made: Made::InPlace,
        known: driver.given_values(spec)?,
        because: None,
    };
    commands.run(&driver.layout, &dirs, progress).await
}

/// The paths that git inside ignores. Only these are kept, and never a path of the base; so a
/// hostile answer can do no more than the setup itself.
async fn ignored(dirs: &WorkspaceDirs) -> Result<Vec<Vec<u8>>, Fault> {
    let argv = [
        "git",
        "ls-files",
        "-z",
        "--others",
        "--ignored",
        "--exclude-standard",
        "--directory",
    ];
    let request = ExecRequest {
        argv: argv.iter().map(|word| word.as_bytes().to_vec()).collect(),
        quiet_ms: Some(inside::quiet().as_millis() as u64),
        ..ExecRequest::default()
    };
    let refused = |why: String| {
        let message = format!("cannot tell what the set-up made: `git ls-files` {why}");
        Fault::new(Code::SetupFailed, message, "does `setup` change .git?")
    };
    let mut stream = client(dirs).exec(request).await?;
    let _ = stream.input.send(ExecInput::StdinEof).await;
    let (mut listed, mut complaint) = (Vec::new(), Vec::new());
    while let Some(output) = stream.output.recv().await {
        match output {
            ExecOutput::Stdout(bytes) => listed.extend(bytes),
            ExecOutput::Stderr(bytes) if complaint.len() < 4096 => complaint.extend(bytes),
            ExecOutput::Exit(0) => {
                let paths = listed.split(|byte| *byte == 0).filter(|p| !p.is_empty());
                return Ok(paths.map(<[u8]>::to_vec).collect());
            }
            ExecOutput::Exit(inside::TIMED_OUT) => return Err(inside::timed_out("ls-files")),
            ExecOutput::Exit(code) => {
                let said = String::from_utf8_lossy(&complaint);
                return Err(refused(format!("ended with {code}: {}", said.trim())));
            }
            ExecOutput::Failed(fault) => return Err(fault),
            _ => {}
        }
        if listed.len() > MOST_LISTED {
            return Err(refused("says too much".to_owned()));
        }
    }
    Err(refused("did not end".to_owned()))
}

/// Removes what the layer must not contain; returns the files that are left out.
fn prune(
    layout: &Layout,
    spec: &WorkspaceSpec,
    before: &Before,
    ignored: &[Vec<u8>],
) -> Result<Vec<String>, Fault> {
    let upper = layout.workspace(&workspace_id(spec)?).upper();
    let base = base::tree(layout, &project_id(spec)?, spec);
    let Kept { changed, left_out } =
        freeze::prune(&upper, &base, before, ignored).map_err(not_kept)?;
    if !changed.is_empty() {
        return Err(changed_tracked(&changed));
    }
    Ok(left_out)
}

/// Removes the files that the setup was given, and refuses values that it wrote elsewhere: every workspace
/// with the same inputs reads the layer.
fn take_out_given(
    layout: &Layout,
    spec: &WorkspaceSpec,
    setup: &Setup,
    known: &Known,
) -> Result<(), Fault> {
    let dirs = layout.workspace(&workspace_id(spec)?);
    for (top, files) in [
        (dirs.upper(), tree_files(setup)),
        (dirs.home(), home_files(setup)),
    ] {
        freeze::leave_out(&top, &files).map_err(not_kept)?;
        if known.is_empty() {
            continue;
        }
        if let Some(path) = freeze::find(&top, known).map_err(not_kept)? {
            let home = if top == dirs.home() { "~/" } else { "" };
            let message = format!("`setup` wrote a secret that it was given to {home}{path}");
            return Err(Fault::new(
                Code::SetupFailed,
                message,
                "a layer is shared by workspaces, so it holds no secret: have the command not store it, or \
                 give it as a placeholder (`inject = \"placeholder\"`)",
            ));
        }
    }
    Ok(())
}

fn not_kept(error: io::Error) -> Fault {
    disk_fault(error, "cannot keep what the set-up made".to_owned())
}

/// Turns the files of the stopped workspace into the layer.
fn keep(
    layout: &Layout,
    spec: &WorkspaceSpec,
    setup: &Setup,
    left_out: Vec<String>,
) -> Result<(), Fault> {
    let id = workspace_id(spec)?;
    let dirs = layout.workspace(&id);
    let target = directory(layout, &spec.layer(&setup.key));
    let layers = target.parent().unwrap_or(&target).to_owned();
    let building = layers.join(format!("{BUILDING}{id}"));
    let note = Note {
        commands: setup.commands.clone(),
        left_out,
        installed: Vec::new(),
    };
    let put_together = || {
        freeze::leave_out(&dirs.home(), &DOWNLOAD_CACHES)?;
        fs::create_dir_all(&building)?;
        fs::rename(dirs.upper(), building.join("tree"))?;
        fs::rename(dirs.home(), building.join("home"))?;
        fs::rename(dirs.setup_log(), building.join("log"))?;
        fs::write(building.join(NOTE), serde_json::to_vec(&note)?)?;
        name_it(&building, &target)
    };
    put_together().map_err(not_kept)
}

fn changed_tracked(changed: &[String]) -> Fault {
    let shown = changed.iter().take(10).map(|path| format!("\n  {path}"));
    let mut message = "`setup` changed files that git tracks:".to_owned();
    message.extend(shown);
    if changed.len() > 10 {
        message.push_str(&format!("\n  and {} more", changed.len() - 10));
    }
    Fault::new(
        Code::SetupFailed,
        message,
        "a layer is shared by commits, so it holds only what git ignores: have `setup` leave them \
         alone (`npm ci` instead of `npm install`), or commit what it makes of them",
    )
}
