//! The commands of a Dev Container's life, and the moment from which programs of people and agents start in it.
//!
//! The commands run inside, with the rights of every program there. Which of them have run once is written beside the
//! container's own files, so another image, or another tree, begins again.

use super::hooks::Beside;
use super::log::note;
use crate::inside::MARK;
use crate::keeper::place::{Home, Place, ROOT, Variables, last, with_programs};
use holm_core::dev_container::{DevContainer, LifecycleCommand, Stage, with_variables};
use holm_core::service::{Event, exit_in_words};
use holm_core::spec::Probe;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const FILE: &str = "lifecycle.json";
const STACK: usize = 256 * 1024;

/// What has run in a container.
#[derive(Default, Serialize, Deserialize)]
struct Done {
    /// The tree that it ran for.
    tree: u64,
    stages: BTreeSet<Stage>,
}

/// Runs the commands in a thread of their own, if the service is the container.
pub fn begin(beside: Beside) {
    let container = beside.registry.plan.dev_container.clone();
    let Some(container) = container.filter(|it| it.service == beside.service.name) else {
        return;
    };
    let name = beside.service.name.clone();
    let thread = std::thread::Builder::new().stack_size(STACK);
    let spawned = thread.spawn(move || live(&beside, &container));
    if let Err(error) = spawned {
        complain!("service {name}: its commands cannot run: {error}");
    }
}

fn live(beside: &Beside, container: &DevContainer) {
    let home = Arc::new(Home {
        room: Arc::clone(&beside.entered.room),
        folder: container.folder.clone(),
        variables: variables(beside, container),
    });
    let place = Place::Container(Arc::clone(&home));
    let file = beside.entered.own().join(FILE);
    let tree = beside.entered.tree_number();
    let mut done = read(&file).filter(|done| done.tree == tree);
    let mut done = done.take().unwrap_or(Done {
        tree,
        ..Done::default()
    });
    let mut is_open = container.wait_for < Stage::OnCreate;
    if is_open {
        open(beside, &home);
    }
    for stage in Stage::ALL {
        if stage == Stage::PostAttach {
            break;
        }
        let is_due = !stage.is_once() || !done.stages.contains(&stage);
        let has_failed = is_due && !run_stage(beside, &place, container, stage);
        if is_due && !has_failed && stage.is_once() {
            done.stages.insert(stage);
            if let Err(error) = write(&file, &done) {
                complain!("cannot write down what ran in the container: {error}");
            }
        }
        // The container can be looked at, and what failed can be repeated by hand.
        if !is_open && (has_failed || stage >= container.wait_for) {
            is_open = true;
            open(beside, &home);
        }
        if has_failed {
            return;
        }
    }
}

fn open(beside: &Beside, home: &Arc<Home>) {
    beside.registry.homes.open(Arc::clone(home));
    let ready = beside.service.ready.as_ref();
    if ready.is_some_and(|ready| ready.probe == Probe::Lifecycle) {
        beside.mailbox.tell(Event::Probed);
    }
}

/// Runs the commands of a stage. Returns whether all succeeded; the first key that fails is the last.
fn run_stage(beside: &Beside, place: &Place, container: &DevContainer, stage: Stage) -> bool {
    container
        .of_stage(stage)
        .all(|commands| run_all(beside, place, commands))
}

/// The commands of one key run at the same time.
fn run_all(beside: &Beside, place: &Place, commands: &LifecycleCommand) -> bool {
    let key = commands.stage.key();
    let run = |command: &holm_core::dev_container::NamedCommand| {
        let name = command.name.as_ref();
        let key = name.map_or_else(|| key.to_owned(), |name| format!("{key} {name}"));
        note(&beside.log, &format!("[{key}: {}]", command.shown()));
        let registry = &beside.registry;
        let words = command.words.iter();
        let words = words.map(|word| place.filled(word).into_bytes());
        let env = place.environment(registry, None, Vec::new());
        let folder = place.directory(registry, None);
        let how = match beside.run_program(words.collect(), env, folder) {
            Ok(0) => return true,
            Ok(code) => exit_in_words(code),
            Err(error) => format!("cannot be started: {error}"),
        };
        note(&beside.log, &format!("[{key} {how}]"));
        beside.mailbox.tell(Event::Remark(format!("{key} {how}")));
        false
    };
    if let [only] = commands.commands.as_slice() {
        return run(only);
    }
    std::thread::scope(|scope| {
        let threads = commands.commands.iter().map(|command| {
            let thread = std::thread::Builder::new().stack_size(STACK);
            thread.spawn_scoped(scope, || run(command))
        });
        // All start before the first is waited for.
        let threads: Vec<_> = threads.collect();
        let ended = threads.into_iter().map(|thread| match thread {
            Ok(thread) => thread.join().unwrap_or(false),
            Err(error) => {
                complain!("{key} cannot be started: {error}");
                false
            }
        });
        // Each is waited for.
        let ended: Vec<bool> = ended.collect();
        !ended.contains(&false)
    })
}

/// What programs in the container get: the variables of its image and its service, then `remoteEnv`.
fn variables(beside: &Beside, container: &DevContainer) -> Variables {
    let all = beside
        .entered
        .environment(&beside.registry, &beside.service);
    let is_of_container = |name: &[u8]| {
        let is_holms = name.starts_with(b"HOLM_") || name == b"TERM" || name == b"TZ";
        !is_holms && name != MARK.as_bytes() && name != ROOT
    };
    let mut variables: Variables = all
        .into_iter()
        .filter(|(name, _)| is_of_container(name))
        .collect();
    let before = variables.clone();
    for (name, value) in &container.remote_env {
        variables.retain(|(known, _)| known != name.as_bytes());
        if let Some(value) = value {
            let value = with_variables(value, |name| last(&before, name));
            variables.push((name.clone().into_bytes(), value.into_bytes()));
        }
    }
    let path = last(&variables, "PATH").unwrap_or_default();
    variables.retain(|(name, _)| name != b"PATH");
    variables.push((b"PATH".to_vec(), with_programs(path.as_bytes())));
    variables
}

/// A file that cannot be read means that the commands run again.
fn read(file: &Path) -> Option<Done> {
    serde_json::from_slice(&fs::read(file).ok()?).ok()
}

fn write(file: &PathBuf, done: &Done) -> io::Result<()> {
    let fresh = file.with_extension("json.new");
    fs::write(&fresh, serde_json::to_vec(done)?)?;
    fs::rename(fresh, file)
}
