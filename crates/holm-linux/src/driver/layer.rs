//! Making a layer: the commands of `setup` run in a workspace that was made for them, then its files
//! become the layer. Called for [`Action::BuildLayer`](holm_core::plan::Action).
//!
//! A layer is `projects/<id>/layers/<key>/{tree,home,log,layer.json}`: what git ignores of the tree,
//! and home. It is put together in `.building-<workspace>` and renamed when it is whole, so what has
//! its name is complete.

use super::freeze::{self, Before, Kept};
use super::{LinuxDriver, base, disk_fault, exec, halt, project_id, workspace_id};
use crate::Layout;
use crate::layout::WorkspaceDirs;
use holm_core::layer::LayerKey;
use holm_core::{Code, Fault, WorkspaceId};
use holm_engine::driver::Progress;
use holm_engine::exec::{ExecInput, ExecOutput, ExecRequest};
use holm_engine::spec::{Purpose, Setup, WorkspaceSpec};
use holm_engine::try_blocking;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// How a layer is called that is being put together.
pub const BUILDING: &str = ".building-";

/// What the log of a set-up that failed is called.
pub const FAILED: &str = "failed-";

/// So much of what a set-up says is kept, and then its end.
const MOST_LOG: u64 = 64 << 20;
const TAIL: usize = 64 << 10;

/// How many of the last lines are told when a command fails.
const LAST_LINES: usize = 10;
const LONGEST_LINE: usize = 200;

/// Somebody who waits hears this often that it goes on.
const TICK: Duration = Duration::from_millis(500);

/// How much git may say of what is ignored.
const MOST_LISTED: usize = 64 << 20;

/// How a tree is called that a client brings.
pub const BRINGING: &str = ".bringing-";

/// What is noted with a layer.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Note {
    pub commands: Vec<String>,
    /// Paths that the set-up made and that git does not ignore; they are not in the layer.
    pub left_out: Vec<String>,
}

// === impl LinuxDriver ===

impl LinuxDriver {
    /// What the user should know of the workspace's layers.
    pub fn layer_notes(&self, spec: &WorkspaceSpec) -> Vec<String> {
        let notes = spec.tree_layers().filter_map(|layer| {
            let path = directory(&self.layout, &layer).join("layer.json");
            let note: Note = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
            let (first, more) = (note.left_out.first()?, note.left_out.len() - 1);
            let what = match more {
                0 => first.clone(),
                more => format!("{first} and {more} more"),
            };
            Some(format!(
                "`setup` made {what}, which git does not ignore, so it is not in the layer; \
                 name it in .gitignore"
            ))
        });
        notes.collect()
    }
}

pub fn directory(layout: &Layout, layer: &LayerKey) -> PathBuf {
    let project = layout.data_dir.join("projects").join(&layer.project);
    project.join("layers").join(&layer.key)
}

/// Whether the layer of the workspace's set-up is there, if it has one.
pub fn is_present(layout: &Layout, spec: &WorkspaceSpec) -> bool {
    let setup = spec.layers.setup.as_ref();
    setup.is_none_or(|setup| directory(layout, &spec.layer(&setup.key)).is_dir())
}

/// Runs the commands, ends the workspace, and keeps what they made.
pub async fn build(
    driver: &LinuxDriver,
    spec: &Arc<WorkspaceSpec>,
    progress: &Progress,
) -> Result<(), Fault> {
    let Purpose::Setup(setup) = &spec.purpose else {
        let message = format!("workspace {} is not one of a set-up", spec.id);
        return Err(Fault::new(Code::Internal, message, "report this"));
    };
    let id = workspace_id(spec)?;
    let dirs = driver.layout.workspace(&id);
    let upper = dirs.upper();
    let disk = |error: io::Error| disk_fault(&error, "cannot look at a set-up's files".to_owned());
    let before = try_blocking(move || Before::look(&upper).map_err(disk)).await?;
    let mut log = Log::create(&dirs).map_err(disk)?;
    if let Some((command, code)) = run_all(&dirs, setup, &mut log, progress).await? {
        return Err(failed(&driver.layout, spec, setup, (command, code), log));
    }
    log.end().map_err(disk)?;
    progress.tell("setup: keeping what it made", 0, 0);
    let ignored = ignored(&dirs).await?;
    halt::halt(&driver.layout, &id).await?;
    let (layout, spec, setup) = (Arc::clone(&driver.layout), Arc::clone(spec), setup.clone());
    driver
        .builds
        .uninterrupted(&spec.id.clone(), move || {
            keep(&layout, &id, &spec, &setup, (&before, &ignored))
        })
        .await
}

/// Runs the set-up in the workspace itself, whose files it changes; the layer that it began with stays
/// below them.
pub async fn set_up_in_place(
    driver: &LinuxDriver,
    spec: &WorkspaceSpec,
    progress: &Progress,
) -> Result<(), Fault> {
    let Some(setup) = &spec.layers.setup else {
        return Ok(());
    };
    let dirs = driver.layout.workspace(&workspace_id(spec)?);
    let disk = |error: io::Error| disk_fault(&error, "cannot write a set-up's log".to_owned());
    let mut log = Log::create(&dirs).map_err(disk)?;
    let failure = run_all(&dirs, setup, &mut log, progress).await?;
    log.end().map_err(disk)?;
    match failure {
        None => Ok(()),
        Some((command, code)) => {
            let message = failure_text((command, code), &log);
            let hint = format!("Its whole log is {}", log.path.display());
            Err(Fault::new(Code::SetupFailed, message, hint))
        }
    }
}

/// Runs the commands in order, up to one that fails, which is returned with its exit code.
async fn run_all<'a>(
    dirs: &WorkspaceDirs,
    setup: &'a Setup,
    log: &mut Log,
    progress: &Progress,
) -> Result<Option<(&'a str, u8)>, Fault> {
    for (position, command) in setup.commands.iter().enumerate() {
        let running = Running {
            command,
            position,
            count: setup.commands.len(),
            progress,
        };
        let code = running.run(dirs, log).await?;
        if code != 0 {
            return Ok(Some((command, code)));
        }
    }
    Ok(None)
}

/// Ends a command that nobody waits for any more.
struct EndOnDrop(mpsc::Sender<ExecInput>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        // One that has ended hears nothing.
        let _ = self.0.try_send(ExecInput::Signal(libc::SIGTERM));
    }
}

/// A command that is under way.
struct Running<'a> {
    command: &'a str,
    position: usize,
    count: usize,
    progress: &'a Progress,
}

// === impl Running ===

impl Running<'_> {
    async fn run(&self, dirs: &WorkspaceDirs, log: &mut Log) -> Result<u8, Fault> {
        let disk = |error: io::Error| disk_fault(&error, "cannot write a set-up's log".to_owned());
        log.begin(self.command).map_err(disk)?;
        let argv = ["sh", "-c", self.command];
        let request = ExecRequest {
            argv: argv.iter().map(|word| word.as_bytes().to_vec()).collect(),
            ..ExecRequest::default()
        };
        let mut stream = exec::exec(dirs, request).await?;
        // It may have ended without reading any.
        let _ = stream.input.send(ExecInput::StdinEof).await;
        let _end = EndOnDrop(stream.input.clone());
        let mut tick = tokio::time::interval(TICK);
        loop {
            let output = tokio::select! {
                output = stream.output.recv() => output,
                _ = tick.tick() => {
                    self.tell(log);
                    continue;
                }
            };
            match output {
                Some(ExecOutput::Stdout(bytes) | ExecOutput::Stderr(bytes)) => {
                    log.write(&bytes).map_err(disk)?;
                }
                Some(ExecOutput::Exit(code)) => return Ok(code),
                Some(ExecOutput::Failed(fault)) => return Err(fault),
                Some(_) => {}
                None => {
                    let message = format!("the set-up ended in the middle of `{}`", self.command);
                    let hint = "type the command again; `holm doctor` checks this machine";
                    return Err(Fault::new(Code::SetupFailed, message, hint));
                }
            }
        }
    }

    fn tell(&self, log: &Log) {
        let (at, count, command) = (self.position + 1, self.count, self.command);
        let last = log.last_lines(1).pop().unwrap_or_default();
        let step = format!("setup {at}/{count}: {command}  {last}");
        self.progress.tell(step.trim_end(), 0, 0);
    }
}

/// What the commands say. Bounded, whatever they say.
struct Log {
    file: File,
    path: PathBuf,
    written: u64,
    left_out: u64,
    tail: Vec<u8>,
}

// === impl Log ===

impl Log {
    fn create(dirs: &WorkspaceDirs) -> io::Result<Self> {
        let path = dirs.setup_log();
        Ok(Self {
            file: File::create(&path)?,
            path,
            written: 0,
            left_out: 0,
            tail: Vec::new(),
        })
    }

    /// Notes a command, which says nothing yet.
    fn begin(&mut self, command: &str) -> io::Result<()> {
        let line = format!("$ {command}\n");
        self.write(line.as_bytes())?;
        self.tail.clear();
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let room = MOST_LOG.saturating_sub(self.written);
        let taken = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        self.file.write_all(&bytes[..taken])?;
        self.written += taken as u64;
        self.left_out += (bytes.len() - taken) as u64;
        self.tail.extend_from_slice(bytes);
        if self.tail.len() > 2 * TAIL {
            self.tail.drain(..self.tail.len() - TAIL);
        }
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        if self.left_out == 0 {
            return Ok(());
        }
        let begin = self.tail.len().saturating_sub(TAIL);
        let tail = &self.tail[begin..];
        let left_out = self.left_out.saturating_sub(tail.len() as u64);
        write!(self.file, "\n… {left_out} bytes are left out …\n")?;
        self.file.write_all(tail)
    }

    fn last_lines(&self, count: usize) -> Vec<String> {
        let begin = self.tail.len().saturating_sub(4096);
        let text = String::from_utf8_lossy(&self.tail[begin..]);
        let lines = text.split(['\n', '\r']);
        let lines: Vec<_> = lines.filter(|line| !line.trim().is_empty()).collect();
        let last = &lines[lines.len().saturating_sub(count)..];
        let short = |line: &&str| line.chars().take(LONGEST_LINE).collect();
        last.iter().map(short).collect()
    }
}

/// A command that failed; its log stays where it can be read.
fn failed(
    layout: &Layout,
    spec: &WorkspaceSpec,
    setup: &Setup,
    (command, code): (&str, u8),
    mut log: Log,
) -> Fault {
    let kept = directory(layout, &spec.layer(&format!("{FAILED}{}.log", setup.key)));
    let moved = log
        .end()
        .and_then(|()| fs::create_dir_all(kept.parent().unwrap_or(&kept)))
        .and_then(|()| fs::rename(&log.path, &kept));
    let message = failure_text((command, code), &log);
    let hint = match moved {
        Ok(()) => format!(
            "its whole log is {}; mend it, or take it out of [project] setup, then type the command again",
            kept.display()
        ),
        Err(_) => "mend it, or take it out of [project] setup, then type the command again".into(),
    };
    Fault::new(Code::SetupFailed, message, hint)
}

fn failure_text((command, code): (&str, u8), log: &Log) -> String {
    let mut message = format!("`{command}` of `setup` ended with exit code {code}");
    for line in log.last_lines(LAST_LINES) {
        message.push_str("\n  ");
        message.push_str(&line);
    }
    message
}

/// What git inside ignores. Only that is kept, and never what the base has; so what a hostile answer
/// could do is what the set-up itself can.
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
        ..ExecRequest::default()
    };
    let refused = |why: String| {
        let message = format!("cannot tell what the set-up made: `git ls-files` {why}");
        Fault::new(Code::SetupFailed, message, "does `setup` change .git?")
    };
    let mut stream = exec::exec(dirs, request).await?;
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

/// Turns the files of the workspace, which has no processes any more, into the layer.
fn keep(
    layout: &Layout,
    id: &WorkspaceId,
    spec: &WorkspaceSpec,
    setup: &Setup,
    (before, ignored): (&Before, &[Vec<u8>]),
) -> Result<(), Fault> {
    let dirs = layout.workspace(id);
    let base = base::tree(layout, &project_id(spec)?, spec);
    let disk = |error: io::Error| disk_fault(&error, "cannot keep what the set-up made".to_owned());
    let Kept { changed, left_out } =
        freeze::prune(&dirs.upper(), &base, before, ignored).map_err(disk)?;
    if !changed.is_empty() {
        return Err(changed_tracked(&changed));
    }
    let target = directory(layout, &spec.layer(&setup.key));
    let layers = target.parent().unwrap_or(&target).to_owned();
    let building = layers.join(format!("{BUILDING}{id}"));
    let note = Note {
        commands: setup.commands.clone(),
        left_out,
    };
    let put_together = || {
        fs::create_dir_all(&building)?;
        fs::rename(dirs.upper(), building.join("tree"))?;
        fs::rename(dirs.home(), building.join("home"))?;
        fs::rename(dirs.setup_log(), building.join("log"))?;
        fs::write(building.join("layer.json"), serde_json::to_vec(&note)?)?;
        // Nothing of it may be missing once it has its name, also after a loss of power.
        rustix::fs::syncfs(File::open(&building)?)?;
        fs::rename(&building, &target)?;
        File::open(&layers)?.sync_all()
    };
    put_together().map_err(disk)?;
    // Of an earlier try.
    let _ = fs::remove_file(layers.join(format!("{FAILED}{}.log", setup.key)));
    Ok(())
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
