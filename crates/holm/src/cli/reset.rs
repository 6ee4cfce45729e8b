//! `holm reset`: back to the initial state, or to a snapshot.

use super::completions::labels;
use super::several::{self, WaitArgs};
use super::{Context, Outcome};
use clap::Args;
use holm_api::workspace::Reset;

/// Go back to how a workspace began, or to a snapshot
///
/// Restores code and volumes to their initial state; keeps home. With unsaved work it is refused;
/// --force takes a snapshot of it first. With --volume only that volume is recreated: services that use it are
/// restarted, everything else runs on. Returns when services are ready.
///
/// With --at @3 only the files of the tree change, to those of that turn; the state before becomes a turn
/// first, and processes, commits and volumes stay. If an ignored file has the path of a file of the turn, holm
/// refuses; --force replaces the ignored file.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm reset fix-login --volume pg\n  \
    holm reset fix-login --at before-upgrade\n  holm reset fix-login --at @2")]
pub struct ResetArgs {
    /// A label, project/label, an id or the beginning of an id
    #[arg(value_name = "WS", add = labels())]
    workspace: String,
    /// Reset only this volume
    #[arg(long, value_name = "V")]
    volume: Option<String>,
    /// Reset to this snapshot, or give the code the content of a turn (@3)
    #[arg(long, value_name = "NAME|@N")]
    at: Option<String>,
    /// Reset even with unsaved work, which a snapshot preserves (with --at @N: replace ignored files)
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    wait: WaitArgs,
}

pub fn run(context: &Context, arguments: ResetArgs) -> Outcome {
    let patience = arguments.wait.patience();
    let reset = Reset {
        volume: arguments.volume,
        at: arguments.at,
        force: arguments.force,
    };
    let reset = &reset;
    several::start_each(
        context,
        &[arguments.workspace],
        patience,
        |client, id| async move { client.reset(&id, reset).await },
    )
}
