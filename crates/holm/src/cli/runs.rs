//! `holm runs`: the record of runs.

use super::completions::labels;
use super::figures::{age, count};
use super::outlet::{Form, Outlet};
use super::output::{FAINT, json_line, printable};
use super::run::report::{self, RunEvidence};
use super::stream::Stream;
use super::table::{Row, rows};
use super::{Context, Outcome, connect, resolve, terminal};
use clap::{Args, Subcommand};
use holm_api::client::Client;
use holm_api::run::RunQuery;
use holm_api::run::{Run, RunEvent};
use holm_core::{Code, Fault, RunId, WorkspaceId};
use jiff::Timestamp;
use std::collections::HashMap;
use std::io::IsTerminal;
use std::process::ExitCode;

/// List runs, show one, or cancel one
///
/// `holm runs` and `holm runs WS` list them, as `holm runs ls` does. The newest 100 of a workspace are kept, each with the beginning and the end of its output and
/// with its changes. RUN is an id, or the beginning of one.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    holm runs fix-login\n  \
    holm runs ls --state failed\n  \
    holm runs show r4k9 --output\n  \
    holm runs cancel r4k9")]
#[command(args_conflicts_with_subcommands = true)]
pub struct RunsArgs {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List runs, the newest first; with --json {"runs":[…],"next":…}
    Ls(ListArgs),
    /// Show one: how it ended and what it changed
    Show(ShowArgs),
    /// End one with all its processes
    Cancel(OneArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Only those of this workspace
    #[arg(value_name = "WS", add = labels())]
    workspace: Option<String>,
    /// Only those that are queued, running, succeeded, failed, timed_out, cancelled or lost
    #[arg(long, value_name = "STATE")]
    state: Option<String>,
    /// How many
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// The next page: `next` of the JSON
    #[arg(long, value_name = "NEXT")]
    after: Option<String>,
}

#[derive(Debug, Args)]
struct ShowArgs {
    #[command(flatten)]
    one: OneArgs,
    /// Only its output: stdout on stdout, stderr on stderr, until it has ended
    #[arg(long, short)]
    output: bool,
    /// With --output, exact bytes also to a terminal, as for `holm run`
    #[arg(long, requires = "output")]
    raw: bool,
}

#[derive(Debug, Args)]
struct OneArgs {
    /// The run's id, or the beginning of it
    #[arg(value_name = "RUN")]
    run: String,
}

pub fn run(context: &Context, arguments: RunsArgs) -> Outcome {
    match arguments.verb {
        None => ls(context, arguments.list),
        Some(Verb::Ls(list)) => ls(context, list),
        Some(Verb::Show(show)) if show.output => {
            output(context, &show.one, Form::asked_for(show.raw))
        }
        Some(Verb::Show(show)) => one(context, &show.one, Act::Show),
        Some(Verb::Cancel(cancel)) => one(context, &cancel, Act::Cancel),
    }
}

fn ls(context: &Context, arguments: ListArgs) -> Outcome {
    let query = RunQuery {
        state: arguments.state,
        prefix: None,
        limit: Some(arguments.limit),
        after: arguments.after,
    };
    let (list, labels) = connect::block_on(async {
        let client = connect::started().await?;
        let list = match &arguments.workspace {
            Some(typed) => {
                let id = resolve::one(&client, typed).await?;
                client.runs(&id, &query).await?
            }
            None => client.all_runs(&query).await?,
        };
        Ok((list, resolve::labels(&client).await?))
    })?;
    if context.output.is_quiet() {
        let ids: Vec<&str> = list.runs.iter().map(|run| run.id.as_str()).collect();
        if !ids.is_empty() {
            context.output.asked_for(&ids.join("\n"));
        }
        return Ok(ExitCode::SUCCESS);
    }
    if list.runs.is_empty() && !context.output.is_json() {
        context.output.remark("No runs. `holm run` begins one.");
        return Ok(ExitCode::SUCCESS);
    }
    context.output.result(&list, || {
        if std::io::stdout().is_terminal() {
            let columns = terminal::size().cols.into();
            on_terminal(&list.runs, &labels, columns, Timestamp::now())
        } else {
            in_pipe(&list.runs, &labels)
        }
    });
    Ok(ExitCode::SUCCESS)
}

fn label(run: &Run, labels: &HashMap<String, String>) -> String {
    labels.get(&run.workspace).unwrap_or(&run.workspace).clone()
}

fn changed(run: &Run) -> String {
    run.changed
        .map_or_else(|| "–".to_owned(), |files| count(files, "file"))
}

fn on_terminal(
    runs: &[Run],
    labels: &HashMap<String, String>,
    columns: usize,
    now: Timestamp,
) -> String {
    let all = runs.iter().map(|run| {
        let (style, glyph) = report::mark(run.state);
        let cells = [
            label(run, labels),
            run.id.clone(),
            report::what(run),
            changed(run),
            report::duration(run).unwrap_or_else(|| "–".to_owned()),
            age(&run.created_at, now),
        ];
        Row {
            style,
            glyph,
            cells,
        }
    });
    rows(&all.collect::<Vec<_>>(), WHAT, columns)
}

/// The column with the agent and its message, or the command.
const WHAT: usize = 2;

/// The state is the first column, and nothing is cut.
fn in_pipe(runs: &[Run], labels: &HashMap<String, String>) -> String {
    let lines = runs.iter().map(|run| {
        let cells = [
            report::word(run.state).to_owned(),
            label(run, labels),
            run.id.clone(),
            report::what(run),
            changed(run),
            report::duration(run).unwrap_or_else(|| "–".to_owned()),
            run.created_at.clone(),
        ];
        let cells = cells.map(|cell| printable(&cell));
        format!("{}\n", cells.join("  "))
    });
    lines.collect()
}

#[derive(Clone, Copy)]
enum Act {
    Show,
    Cancel,
}

fn one(context: &Context, arguments: &OneArgs, act: Act) -> Outcome {
    let run = connect::block_on(async {
        let client = connect::started().await?;
        let (id, run) = resolve_run(&client, &arguments.run).await?;
        match act {
            Act::Show => client.run(&id, &run).await,
            Act::Cancel => client.cancel_run(&id, &run).await,
        }
    })?;
    match act {
        Act::Show => context.output.result(&run, || render(&run)),
        Act::Cancel => context
            .output
            .done(&run, || report::summary(&run, &RunEvidence::default())),
    }
    Ok(ExitCode::SUCCESS)
}

fn render(run: &Run) -> String {
    let mut text = format!("{FAINT}{} in {}{FAINT:#}\n", run.created_at, run.workspace);
    let command = run.command.join(" ");
    match &run.agent {
        Some(agent) => text.push_str(&format!("{}: {}\n", printable(agent), printable(&command))),
        None => text.push_str(&format!("{}\n", printable(&command))),
    }
    if let Some(message) = &run.message {
        for line in message.lines() {
            text.push_str(&format!("  {FAINT}>{FAINT:#} {}\n", printable(line)));
        }
    }
    let all = Run {
        changes: None,
        ..run.clone()
    };
    text.push_str(&report::summary(&all, &RunEvidence::default()));
    for change in run.changes.iter().flatten() {
        text.push_str(&format!("\n  {}", report::line(change)));
    }
    text
}

/// The output alone, or JSON Lines of the API's events.
fn output(context: &Context, arguments: &OneArgs, form: Form) -> Outcome {
    let is_json = context.output.is_json();
    connect::block_on(async {
        let client = connect::started().await?;
        let (id, run) = resolve_run(&client, &arguments.run).await?;
        let mut events = client.run_output(&id, &run, 0).await?;
        let mut outlet = Outlet::start(form);
        loop {
            let event = events.next().await?;
            let is_last = matches!(event, RunEvent::Ended(_));
            let is_written = match event {
                event if is_json => outlet.say(Stream::Stdout, json_line(&event)).await,
                RunEvent::Output(piece) => {
                    let stream = match piece.stream.as_str() {
                        "stderr" => Stream::Stderr,
                        _ => Stream::Stdout,
                    };
                    outlet.show(stream, Vec::from(piece.data)).await
                }
                RunEvent::Truncated { bytes, .. } => {
                    outlet.say(Stream::Stderr, report::left_out(bytes)).await
                }
                RunEvent::Begun(_) | RunEvent::Ended(_) | RunEvent::Error(_) => true,
            };
            if !is_written || is_last {
                break;
            }
        }
        // The reader is gone, or has all of it.
        let _ = outlet.finish().await;
        Ok(())
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Resolves a run, with its workspace.
async fn resolve_run(client: &Client, typed: &str) -> Result<(WorkspaceId, RunId), Fault> {
    let not_found = || {
        let message = format!("no run `{}`", typed.escape_debug());
        Fault::new(Code::RunNotFound, message, "`holm runs ls` lists the runs")
    };
    if !typed.starts_with('r') {
        return Err(not_found());
    }
    let query = RunQuery {
        prefix: Some(typed.to_owned()),
        limit: Some(10),
        ..RunQuery::default()
    };
    let found = client.all_runs(&query).await?.runs;
    match found.as_slice() {
        [] => Err(not_found()),
        [run] => {
            let ids = WorkspaceId::parse(&run.workspace)
                .ok()
                .zip(RunId::parse(&run.id).ok());
            ids.ok_or_else(not_found)
        }
        several => {
            let ids: Vec<&str> = several.iter().map(|run| run.id.as_str()).collect();
            let message = format!("`{typed}` stands for several runs: {}", ids.join(", "));
            Err(Fault::new(Code::Ambiguous, message, "type more of the id"))
        }
    }
}
