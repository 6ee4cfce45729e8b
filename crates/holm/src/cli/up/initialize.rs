//! `initializeCommand` of a `devcontainer.json`: commands of the repository that run on this machine, with the user's rights.
//! Called by `up` after a person approved exactly these commands.

use crate::cli::Context;
use crate::cli::progress::Progress;
use crate::cli::user_checkout::Checkout;
use crate::wiring::as_inherited;
use holm_core::config::ProjectConfig;
use holm_core::dev_container::{INITIALIZE, NamedCommand};
use holm_core::{Code, Fault};
use holm_engine::try_blocking;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Runs the commands of the file in the checkout. Several run at the same time.
pub async fn run(
    context: &Context,
    checkout: &Checkout,
    config: &ProjectConfig,
) -> Result<(), Fault> {
    let container = config.dev_container.as_ref();
    let commands = container
        .map(|it| it.initialize.clone())
        .unwrap_or_default();
    if commands.is_empty() {
        return Ok(());
    }
    let mut progress = Progress::new(context);
    progress.report(INITIALIZE, 0, 0);
    let place = checkout.repository.toplevel.clone();
    let ran = try_blocking(move || run_all(&commands, &place)).await;
    ran.inspect_err(|_| progress.fail())
}

fn run_all(commands: &[NamedCommand], place: &Path) -> Result<(), Fault> {
    let started: Vec<(&NamedCommand, io::Result<Child>)> = commands
        .iter()
        .map(|command| (command, start(command, place)))
        .collect();
    let mut failure = None;
    for (command, child) in started {
        let ended = child.and_then(|mut child| child.wait());
        let why = match ended {
            Ok(status) if status.success() => continue,
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        failure.get_or_insert_with(|| failed(command, &why));
    }
    failure.map_or(Ok(()), Err)
}

/// Its output is what people read, and no part of the result on stdout.
fn start(command: &NamedCommand, place: &Path) -> io::Result<Child> {
    let missing = || io::Error::from(io::ErrorKind::InvalidInput);
    let (program, arguments) = command.words.split_first().ok_or_else(missing)?;
    let output = io::stderr().as_fd().try_clone_to_owned()?;
    let mut child = Command::new(PathBuf::from(program));
    child
        .args(arguments)
        .current_dir(place)
        .stdin(Stdio::null())
        .stdout(output);
    as_inherited(&mut child).spawn()
}

fn failed(command: &NamedCommand, why: &str) -> Fault {
    let message = format!(
        "`{}` of {INITIALIZE} failed on this machine",
        command.shown()
    );
    let hint = "correct the command, or `holm up LABEL --untrusted` goes on without it";
    Fault::new(Code::HostCommandFailed, message, hint).because(why)
}
