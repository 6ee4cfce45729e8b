//! `holm restore`: back from the trash.

use super::completions::trashed_labels;
use super::{Context, Outcome, several};
use clap::Args;
use holm_api::Workspace;

/// Bring workspaces back from the trash
///
/// A workspace comes back with its id, code, home, branches and stashes, and is stopped. If its
/// label was given to another one meanwhile, it is called <label>-2.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  holm ls --trash\n  holm restore fix-login\n  holm restore w4k9"
)]
pub struct RestoreArgs {
    /// Labels, project/label, ids or beginnings of ids
    #[arg(value_name = "WS", required = true, add = trashed_labels())]
    workspaces: Vec<String>,
}

pub fn run(context: &Context, arguments: RestoreArgs) -> Outcome {
    several::each(
        context,
        several::Among::Trashed(&arguments.workspaces),
        |client, id| async move { client.restore(&id).await },
        several::Words {
            done: |workspace: &Workspace| format!("is back, {}", workspace.state),
            next: Some(("start it", "holm start")),
        },
    )
}
