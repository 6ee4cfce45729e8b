//! `holm restart`: stop, then start.

use super::completions::labels;
use super::several::{self, WaitArgs};
use super::{Context, Outcome, secret};
use clap::Args;

/// Stop workspaces and start them again
///
/// Stops and starts every process; keeps code and data. Returns when all services are ready.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm restart fix-login\n  holm restart api-1 api-2")]
pub struct RestartArgs {
    /// Labels, project/label, ids or beginnings of ids
    #[arg(value_name = "WS", required = true, add = labels())]
    workspaces: Vec<String>,
    #[command(flatten)]
    wait: WaitArgs,
}

pub fn run(context: &Context, arguments: RestartArgs) -> Outcome {
    let patience = arguments.wait.patience();
    several::start_each(
        context,
        &arguments.workspaces,
        patience,
        |client, id| async move {
            let notes = secret::read::before_start(&client, &id).await?;
            let mut workspace = client.restart(&id).await?;
            workspace.notes.extend(notes);
            Ok(workspace)
        },
    )
}
