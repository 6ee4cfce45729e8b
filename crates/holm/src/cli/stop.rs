//! `holm stop`: ends all processes of a workspace.

use super::completions::labels;
use super::{Context, Outcome, several};
use clap::Args;
use holm_api::Workspace;

/// End all processes of workspaces; code and data stay
///
/// Programs are asked to end first. Stopping a stopped workspace changes nothing.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm stop fix-login\n  holm stop api-1 api-2")]
pub struct StopArgs {
    /// Labels, project/label, ids or beginnings of ids
    #[arg(value_name = "WS", required = true, add = labels())]
    workspaces: Vec<String>,
}

pub fn run(context: &Context, arguments: StopArgs) -> Outcome {
    several::each(
        context,
        several::Among::Live(&arguments.workspaces),
        |client, id| async move { client.stop(&id).await },
        several::Words {
            done: |workspace: &Workspace| format!("is {}", workspace.state),
            next: None,
        },
    )
}
