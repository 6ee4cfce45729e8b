//! `holm fork`: a workspace that starts as a copy of another one.

use super::completions::labels;
use super::several::{self, WaitArgs};
use super::{Context, Outcome};
use clap::Args;
use holm_api::workspace::Fork;

/// Copy a workspace with its uncommitted changes, home and data
///
/// holm pauses the workspace while it copies code, home and volumes. After that the two are
/// independent. Services are started. Returns when they are ready.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm fork fix-login\n  \
    holm fork fix-login other-idea --at before-upgrade")]
pub struct ForkArgs {
    /// A label, project/label, an id or the beginning of an id
    #[arg(value_name = "WS", add = labels())]
    workspace: String,
    /// The label of the new one; default: a generated label
    #[arg(value_name = "LABEL")]
    label: Option<String>,
    /// Start from this snapshot
    #[arg(long, value_name = "NAME")]
    at: Option<String>,
    #[command(flatten)]
    wait: WaitArgs,
}

pub fn run(context: &Context, arguments: ForkArgs) -> Outcome {
    let patience = arguments.wait.patience();
    let fork = Fork {
        label: arguments.label,
        at: arguments.at,
    };
    let fork = &fork;
    several::start_each(
        context,
        &[arguments.workspace],
        patience,
        |client, id| async move { client.fork(&id, fork).await },
    )
}
