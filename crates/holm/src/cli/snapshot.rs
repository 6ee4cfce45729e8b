//! `holm snapshot`: stores code and volumes under a name.

use super::completions::labels;
use super::{Context, Outcome, several};
use clap::Args;
use holm_api::workspace::{TakeSnapshot, Workspace};

/// Freeze code and volumes of a workspace under a name
///
/// holm pauses the workspace while it copies, so the snapshot is consistent: a database recovers
/// from it as after a power failure. `holm fork --at NAME` makes a workspace of it, `holm reset --at NAME`
/// goes back to it. It is removed with its workspace.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm snapshot fix-login before-upgrade")]
pub struct SnapshotArgs {
    /// A label, project/label, an id or the beginning of an id
    #[arg(value_name = "WS", add = labels())]
    workspace: String,
    /// Its name: 1 to 40 of a-z, 0-9 and -
    #[arg(value_name = "NAME")]
    name: String,
}

pub fn run(context: &Context, arguments: SnapshotArgs) -> Outcome {
    let take = TakeSnapshot {
        name: arguments.name,
    };
    let take = &take;
    several::each(
        context,
        several::Among::Live(&[arguments.workspace]),
        |client, id| async move { client.take_snapshot(&id, take).await },
        several::Words {
            done: |_: &Workspace| format!("has the snapshot {}", take.name),
            next: None,
        },
    )
}
