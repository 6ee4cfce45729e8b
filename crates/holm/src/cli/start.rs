//! `holm start`: starts the processes of stopped workspaces.

use super::completions::labels;
use super::several::{self, WaitArgs};
use super::{Context, Outcome, secret};
use clap::Args;

/// Start the processes of stopped workspaces
///
/// Code and data are as they were when it was stopped. Starting a running workspace changes nothing.
/// Returns when all services are ready.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm start fix-login\n  holm start api-1 api-2")]
pub struct StartArgs {
    /// Labels, project/label, ids or beginnings of ids
    #[arg(value_name = "WS", required = true, add = labels())]
    workspaces: Vec<String>,
    #[command(flatten)]
    wait: WaitArgs,
}

pub fn run(context: &Context, arguments: StartArgs) -> Outcome {
    let patience = arguments.wait.patience();
    several::start_each(
        context,
        &arguments.workspaces,
        patience,
        |client, id| async move {
            let notes = secret::read::before_start(&client, &id).await?;
            let mut workspace = client.start(&id).await?;
            workspace.notes.extend(notes);
            Ok(workspace)
        },
    )
}
