//! `holm notify`: inside a workspace, a program asks the person.

use super::{Context, Outcome, connect};
use crate::wiring::guest;
use clap::Args;
use holm_api::inbox::Notify;
use holm_core::{Code, Fault, WorkspaceId};
use std::process::ExitCode;

/// Tell the person something, from inside a workspace
///
/// The text becomes a question in `holm inbox` and goes where `[notify]` of the user's settings says. Agents call it from
/// their hooks. At most 1 KiB of the text is kept, as one line without control characters. Frequent calls are
/// collected.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm notify \"Is tax computed before the coupon?\"")]
pub struct NotifyArgs {
    /// What to tell; several words are one text
    #[arg(value_name = "TEXT", required = true, num_args = 1..)]
    text: Vec<String>,
}

pub fn run(context: &Context, arguments: NotifyArgs) -> Outcome {
    if !guest::is_inside() {
        return Err(Fault::new(
            Code::OutsideWorkspace,
            "notify works only inside a workspace: a program there asks the person",
            "for example `holm exec WS -- holm notify TEXT`; outside, `holm inbox` lists what needs you",
        ));
    }
    let id = std::env::var("HOLM_WORKSPACE_ID").unwrap_or_default();
    let notified = connect::block_on(async {
        let client = connect::started().await?;
        let id = match WorkspaceId::parse(&id) {
            Ok(id) => id,
            // A program changed the variable; the daemon recognises the caller without it.
            Err(_) => crate::resolve::one(&client, ".").await?,
        };
        let text = arguments.text.join(" ");
        client.notify(&id, &Notify { text }).await
    })?;
    context.output.done(&notified, || {
        let text = if notified.collected {
            "Counted only: this workspace has notified often in the last minute."
        } else {
            "The person is told."
        };
        text.to_owned()
    });
    Ok(ExitCode::SUCCESS)
}
