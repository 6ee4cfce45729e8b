//! `holm rm`: moves to the trash. Never deletes work; unsaved work is refused unless forced.

use super::completions::labels;
use super::figures::day;
use super::{Context, Outcome, several};
use clap::Args;
use holm_api::Workspace;
use holm_core::trash::Removal;

/// Remove workspaces: stop them and move them to the trash
///
/// With unsaved work (changes, untracked files, stashes, commits that your repository does not
/// have) this is refused and the work is listed; --force goes on, and the trash keeps it.
/// `holm restore` brings a workspace back until `trash_days` (7) are over.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm rm fix-login\n  holm rm --force api-1 api-2")]
pub struct RmArgs {
    /// Labels, project/label, ids or beginnings of ids
    #[arg(value_name = "WS", required = true, add = labels())]
    workspaces: Vec<String>,
    /// Remove even with unsaved work, which the trash keeps
    #[arg(short, long)]
    force: bool,
}

pub fn run(context: &Context, arguments: RmArgs) -> Outcome {
    let removal = if arguments.force {
        Removal::Force
    } else {
        Removal::RefuseUnsaved
    };
    several::each(
        context,
        several::Among::Live(&arguments.workspaces),
        |client, id| async move { client.remove(&id, removal).await },
        several::Words {
            done: |workspace: &Workspace| match workspace.expires_at.as_deref().and_then(day) {
                Some(day) => format!("is in the trash until {day}"),
                None => "is in the trash".to_owned(),
            },
            next: Some(("undo", "holm restore")),
        },
    )
}
