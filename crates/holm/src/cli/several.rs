//! One operation on several workspaces, for `start`, `stop`, `restart`, `rm` and `restore`.
//!
//! All names are resolved before anything is done. The output is the workspace, or a list when
//! several were named; failures are printed one by one, and the first decides the exit code.

use super::figures::duration;
use super::output::{FAINT, GOOD, STRONG, printable};
use super::ready::{self, Readied, Trouble};
use super::{Context, Outcome, connect, exit_code, resolve};
use clap::Args;
use futures_util::future::join_all;
use holm_api::client::Client;
use holm_api::workspace::{Workspace, WorkspaceList};
use holm_core::{Fault, WorkspaceId};
use std::future::Future;
use std::process::ExitCode;

/// Where to resolve the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Among<'a> {
    Live(&'a [String]),
    Trashed(&'a [String]),
}

/// Whether to wait for services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    Wait,
    None,
}

/// For every command that starts services.
#[derive(Debug, Args)]
pub struct WaitArgs {
    /// Do not wait for services to become ready
    #[arg(long)]
    no_wait: bool,
}

impl WaitArgs {
    pub fn patience(&self) -> Patience {
        if self.no_wait {
            Patience::None
        } else {
            Patience::Wait
        }
    }
}

/// What is printed after an operation.
pub struct Words<Done> {
    /// What is true of a workspace now: `is stopped`.
    pub done: Done,
    /// What to type next, for what purpose, without the names that were typed.
    pub next: Option<(&'static str, &'static str)>,
}

/// Applies `operation` to every workspace in `typed` and prints `words` for each.
pub fn each<Operation, Answer, Done>(
    context: &Context,
    among: Among<'_>,
    operation: Operation,
    words: Words<Done>,
) -> Outcome
where
    Operation: Fn(Client, WorkspaceId) -> Answer,
    Answer: Future<Output = Result<Workspace, Fault>>,
    Done: Fn(&Workspace) -> String,
{
    let (Among::Live(typed) | Among::Trashed(typed)) = among;
    let results = connect::block_on(async {
        let client = connect::started().await?;
        let ids = match among {
            Among::Live(_) => resolve::all(&client, typed).await?,
            Among::Trashed(_) => resolve::all_trashed(&client, typed).await?,
        };
        let operations = ids.into_iter().map(|id| operation(client.clone(), id));
        Ok(join_all(operations).await)
    })?;
    let (workspaces, faults) = split(results);
    report_each(context, typed, &workspaces, |workspace| {
        format!(" {}", (words.done)(workspace))
    });
    if let (Some((purpose, command)), true) = (words.next, faults.is_empty()) {
        let command = format!("{command} {}", typed.join(" "));
        context.output.next(&[(purpose, &command)]);
    }
    report_faults(context, &faults)
}

/// Starts every workspace in `typed`, and waits until its services are ready, if requested.
pub fn start_each<Operation, Answer>(
    context: &Context,
    typed: &[String],
    patience: Patience,
    operation: Operation,
) -> Outcome
where
    Operation: Fn(Client, WorkspaceId) -> Answer,
    Answer: Future<Output = Result<Workspace, Fault>>,
{
    let results = connect::block_on(async {
        let client = connect::started().await?;
        let ids = resolve::all(&client, typed).await?;
        let operations = ids.into_iter().map(|id| operation(client.clone(), id));
        let started = join_all(operations).await;
        match patience {
            Patience::Wait => Ok(ready::all(context, &client, started).await),
            Patience::None => {
                let started = started.into_iter();
                Ok(started.map(|found| found.map(Readied::from)).collect())
            }
        }
    })?;
    let (mut workspaces, mut troubles) = (Vec::new(), Vec::new());
    for result in results {
        match result {
            Ok(readied) => {
                workspaces.push(readied.workspace);
                troubles.extend(readied.trouble);
            }
            Err(fault) => troubles.push(Trouble::from(fault)),
        }
    }
    report_each(context, typed, &workspaces, |workspace| {
        let services = workspace
            .services
            .iter()
            .filter(|one| one.state == "starting");
        let lines = services.map(|service| format!("\n{}", ready::line(service)));
        let (id, lines) = (&workspace.id, lines.collect::<String>());
        let taken = duration(context.started.elapsed().as_millis() as u64);
        match workspace.state.as_str() {
            "running" => format!("  {FAINT}{id}{FAINT:#}  started in {taken}{lines}"),
            state => format!("  {FAINT}{id}{FAINT:#}  {state}{lines}"),
        }
    });
    troubles.iter().for_each(|trouble| trouble.print(context));
    let first = troubles.first();
    Ok(first.map_or(ExitCode::SUCCESS, Trouble::exit_code))
}

/// Prints what was done.
fn report_each(
    context: &Context,
    typed: &[String],
    workspaces: &[Workspace],
    done: impl Fn(&Workspace) -> String,
) {
    if context.output.is_json() {
        match (workspaces, typed) {
            ([], _) => {}
            ([workspace], [_]) => context.output.document(workspace),
            _ => context.output.document(&WorkspaceList {
                workspaces: workspaces.to_vec(),
                ..WorkspaceList::default()
            }),
        }
    }
    if context.output.is_quiet() {
        let ids: Vec<&str> = workspaces.iter().map(|one| one.id.as_str()).collect();
        if !ids.is_empty() {
            context.output.asked_for(&ids.join("\n"));
        }
    }
    for workspace in workspaces {
        let label = printable(&workspace.label);
        let done = done(workspace);
        context
            .output
            .remark(&format!("{GOOD}✓{GOOD:#} {STRONG}{label}{STRONG:#}{done}"));
        for note in &workspace.notes {
            let note = printable(note);
            context
                .output
                .remark(&format!("  {FAINT}note{FAINT:#}  {note}"));
        }
    }
}

/// Prints what failed.
fn report_faults(context: &Context, faults: &[Fault]) -> Outcome {
    for fault in faults {
        context.output.fault(fault);
    }
    Ok(faults.first().map_or(ExitCode::SUCCESS, exit_code))
}

fn split(results: Vec<Result<Workspace, Fault>>) -> (Vec<Workspace>, Vec<Fault>) {
    let mut workspaces = Vec::new();
    let mut faults = Vec::new();
    for result in results {
        match result {
            Ok(workspace) => workspaces.push(workspace),
            Err(fault) => faults.push(fault),
        }
    }
    (workspaces, faults)
}
