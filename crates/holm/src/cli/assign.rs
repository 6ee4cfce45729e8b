//! `holm assign`: moves a live workspace to another commit.

use super::completions::labels;
use super::moving::Moving;
use super::several::WaitArgs;
use super::{Context, Outcome, connect};
use clap::Args;
use holm_api::moves::Assign;

/// Move a live workspace to another branch, tag or commit
///
/// The tree is switched while the workspace runs; its branch holm/<label> then points to REF, and
/// its earlier commit stays inside under refs/holm/before/<time>. If inputs of `setup` changed,
/// `setup` runs in place. Then each service reacts as its on_assign in holm.toml says: nothing
/// (none), nothing because it watches its files (hot), restart, or build and restart (rebuild; only
/// a restart when no file of rebuild_when changed). Returns when all services are ready.
///
/// Uncommitted changes are refused, unless --stash stashes them inside. REF is looked up in your
/// repository.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    holm assign fix-login feature/cart\n  \
    holm assign fix-login v1.2 --stash\n  \
    holm exec fix-login -- git stash pop")]
pub struct AssignArgs {
    /// A label, project/label, an id or the beginning of an id
    #[arg(value_name = "WS", add = labels())]
    workspace: String,
    /// Branch, tag or commit of your repository
    #[arg(value_name = "REF")]
    reference: String,
    /// Stash uncommitted changes inside, untracked files included
    #[arg(long)]
    stash: bool,
    #[command(flatten)]
    wait: WaitArgs,
}

pub fn run(context: &Context, arguments: AssignArgs) -> Outcome {
    let readied = connect::block_on(async {
        let moving = Moving::find(context, &arguments.workspace).await?;
        let to = moving.bring(&arguments.reference).await?;
        let assign = Assign {
            commit: to.commit,
            reference: to.reference,
            stash: arguments.stash,
            shallow: to.shallow,
            built: to.built,
        };
        let report = moving.progress();
        let (client, id) = (moving.client(), moving.id());
        let moved = client.assign(id, &assign, report).await?;
        moving.wait(moved, arguments.wait.patience()).await
    })?;
    readied.print(context)
}
