//! `holm restart`: stop, then start.

use super::completions::labels;
use super::{Context, Outcome, several};
use clap::Args;

/// Stop workspaces and start them again
///
/// Every process inside ends and begins anew; code and data stay.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm restart fix-login\n  holm restart api-1 api-2")]
pub struct RestartArgs {
    /// Labels, project/label, ids or beginnings of ids
    #[arg(value_name = "WS", required = true, add = labels())]
    workspaces: Vec<String>,
}

pub fn run(context: &Context, arguments: RestartArgs) -> Outcome {
    several::each(
        context,
        (&arguments.workspaces, several::Among::Live),
        |client, id| async move { client.restart(&id).await },
        |workspace| workspace.state.clone(),
    )
}
