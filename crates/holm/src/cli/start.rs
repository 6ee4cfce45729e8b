//! `holm start`: processes of stopped workspaces begin again.

use super::completions::labels;
use super::{Context, Outcome, several};
use clap::Args;

/// Start the processes of stopped workspaces
///
/// Code and data are as they were when it was stopped. Starting a running workspace changes nothing.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm start fix-login\n  holm start api-1 api-2")]
pub struct StartArgs {
    /// Labels, project/label, ids or beginnings of ids
    #[arg(value_name = "WS", required = true, add = labels())]
    workspaces: Vec<String>,
}

pub fn run(context: &Context, arguments: StartArgs) -> Outcome {
    several::each(
        context,
        (&arguments.workspaces, several::Among::Live),
        |client, id| async move { client.start(&id).await },
        |workspace| workspace.state.clone(),
    )
}
