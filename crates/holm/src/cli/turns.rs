//! `holm turns`: the recorded trees of a workspace.

use super::completions::labels;
use super::figures::{age, count};
use super::output::{BAD, GOOD};
use super::table::Table;
use super::{Context, Outcome, connect, resolve};
use clap::Args;
use holm_api::review::Turn;
use jiff::Timestamp;
use std::process::ExitCode;

/// List the turns of a workspace
///
/// A turn is the tree of a workspace at one moment, kept outside where nothing inside can change it: at the
/// end of a run, when a session becomes quiet after activity, at a stop, or by `holm review WS --mark`. A tree
/// that is the same as before adds none. The counts compare a turn with the one before.
///
/// With --json: {"turns":[{n,at,cause,tree,files,added,removed}],"since_start":{files,added,removed}}; cause is
/// run, session, stop or mark; since_start compares the last turn with the commit that the workspace started from,
/// and is null without a turn.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm turns fix-login\n  \
    holm diff fix-login --from @1 --to @2\n  holm reset fix-login --at @1\n  \
    holm up second-try --at fix-login@1")]
pub struct TurnsArgs {
    /// A label, project/label, an id or the beginning of an id
    #[arg(value_name = "WS", add = labels())]
    workspace: String,
}

pub fn run(context: &Context, arguments: TurnsArgs) -> Outcome {
    let list = connect::block_on(async {
        let client = connect::started().await?;
        let id = resolve::one(&client, &arguments.workspace).await?;
        client.turns(&id).await
    })?;
    if list.turns.is_empty() {
        context.output.done(&list, || "No turns yet.".to_owned());
        return Ok(ExitCode::SUCCESS);
    }
    if context.output.is_quiet() {
        let numbers: Vec<String> = list
            .turns
            .iter()
            .map(|turn| format!("@{}", turn.n))
            .collect();
        context.output.asked_for(&numbers.join("\n"));
        return Ok(ExitCode::SUCCESS);
    }
    context.output.result(&list, || {
        let now = Timestamp::now();
        let mut table = Table::new(["", "cause", "changed", "tree", "age"]);
        for turn in &list.turns {
            table.row([
                format!("@{}", turn.n),
                turn.cause.as_str().to_owned(),
                changed(turn),
                short(&turn.tree).to_owned(),
                age(&turn.at, now),
            ]);
        }
        table.render()
    });
    Ok(ExitCode::SUCCESS)
}

fn changed(turn: &Turn) -> String {
    let (files, added, removed) = (count(turn.files, "file"), turn.added, turn.removed);
    // A table makes its cells printable, so they have no colour.
    let lines = lines(Some(added), Some(removed));
    format!("{files} {}", anstream::adapter::strip_str(&lines))
}

/// Added and removed lines: `+3 −1`.
pub fn lines(added: Option<u64>, removed: Option<u64>) -> String {
    let (Some(added), Some(removed)) = (added, removed) else {
        return "binary".to_owned();
    };
    let mut parts = Vec::new();
    if added > 0 || removed == 0 {
        parts.push(format!("{GOOD}+{added}{GOOD:#}"));
    }
    if removed > 0 {
        parts.push(format!("{BAD}−{removed}{BAD:#}"));
    }
    parts.join(" ")
}

/// The first digits of an object's id.
pub fn short(object: &str) -> &str {
    &object[..object.len().min(7)]
}
