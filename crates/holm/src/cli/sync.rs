//! `holm sync`: fast-forwards a live workspace to the newest commit of the branch it started from.

use super::completions::labels;
use super::moving::Moving;
use super::several::WaitArgs;
use super::{Context, Outcome, connect};
use clap::Args;

/// Bring a live workspace to the newest commit of the branch it started from
///
/// The commit comes from your repository; a repository that was named by its URL is fetched first.
/// The workspace only moves forward: with uncommitted changes, or commits of its own, it stays
/// where it is, and this says why. Setup and services follow as with `holm assign`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm sync fix-login\n  git pull && holm sync fix-login")]
pub struct SyncArgs {
    /// A label, project/label, an id or the beginning of an id
    #[arg(value_name = "WS", add = labels())]
    workspace: String,
    /// Another branch than the one that it started from
    #[arg(long, value_name = "REF", hide = true)]
    branch: Option<String>,
    #[command(flatten)]
    wait: WaitArgs,
}

pub fn run(context: &Context, arguments: SyncArgs) -> Outcome {
    let readied = connect::block_on(async {
        let moving = Moving::find(context, &arguments.workspace).await?;
        let branch = match &arguments.branch {
            Some(branch) => branch,
            None => moving.branch()?,
        };
        let sync = moving.bring(branch).await?;
        let report = moving.progress();
        let (client, id) = (moving.client(), moving.id());
        let moved = client.sync(id, &sync, report).await?;
        moving.wait(moved, arguments.wait.patience()).await
    })?;
    readied.print(context)
}
