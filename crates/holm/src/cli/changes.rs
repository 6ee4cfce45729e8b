//! `holm changes`: files that differ from the commit that the workspace started from.

use super::completions::labels;
use super::output::{BAD, GOOD, WARNING, printable};
use super::work::{Subject, remark_left_out};
use super::{Context, Outcome, connect};
use clap::Args;
use holm_api::work::Change;
use std::process::ExitCode;

/// List what changed in a workspace
///
/// The working tree, untracked files included and ignored files not, against the commit that the
/// workspace started from: committed or not makes no difference. A stopped workspace is started.
///
/// With --json: {"changes":[{path,operation,from,binary}]}; operation is create, update, delete or
/// rename. Bytes of a name that are not UTF-8 are written \xNN, and path_bytes (from_bytes) then has
/// the exact name.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm changes fix-login\n  holm changes fix-login --json")]
pub struct ChangesArgs {
    /// A label, project/label, an id or the beginning of an id
    #[arg(value_name = "WS", add = labels())]
    workspace: String,
}

pub fn run(context: &Context, arguments: ChangesArgs) -> Outcome {
    let list = connect::block_on(async {
        let subject = Subject::find(&arguments.workspace).await?;
        let (captured, tree) = subject.tree(context).await?;
        remark_left_out(context, &captured);
        subject.client.changes(&subject.id, &tree).await
    })?;
    if list.changes.is_empty() {
        context
            .output
            .done(&list, || "Nothing has changed.".to_owned());
    } else {
        context.output.result(&list, || {
            let lines: Vec<String> = list.changes.iter().map(line).collect();
            lines.join("\n")
        });
    }
    Ok(ExitCode::SUCCESS)
}

fn line(change: &Change) -> String {
    let path = printable(&change.path);
    let style = match change.operation.as_str() {
        "create" => GOOD,
        "delete" => BAD,
        _ => WARNING,
    };
    let binary = if change.binary { " (binary)" } else { "" };
    let names = match &change.from {
        Some(from) => format!("{} → {path}", printable(from)),
        None => path,
    };
    format!("{style}{:<6}{style:#} {names}{binary}", change.operation)
}
