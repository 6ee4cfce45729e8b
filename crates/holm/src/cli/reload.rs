//! `holm reload`: applies the `holm.toml` in a workspace's tree, after showing what changes.

use super::completions::labels;
use super::output::{self, FAINT, GOOD, STRONG, printable};
use super::ready::{self, Display};
use super::{Context, Outcome, connect, resolve};
use clap::Args;
use holm_api::reload::{Reload, Reloaded};
use holm_core::{Code, Fault};
use holm_engine::try_blocking;

/// Take over a changed holm.toml
///
/// Applies the file that is in the workspace's tree now. Until then edits of it do nothing. Egress
/// changes at once, and connections that are no longer allowed are cut. New services are started,
/// missing ones are stopped, and those whose `run`, `env` or `ready` changed are restarted; returns
/// when all are ready. The rest takes effect at the next start, or only with a new workspace, and
/// is listed. An existing volume keeps its data, its policy and its seed, even when it is no longer
/// declared. Requests beyond those in force need approval, as with `holm trust`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm reload fix-login\n  holm reload fix-login --yes")]
pub struct ReloadArgs {
    /// A label, project/label, an id or the beginning of an id
    #[arg(value_name = "WS", add = labels())]
    workspace: String,
    /// Approve its requests to the host without asking
    #[arg(long)]
    yes: bool,
    /// Do not wait for services to become ready
    #[arg(long)]
    no_wait: bool,
}

pub fn run(context: &Context, arguments: ReloadArgs) -> Outcome {
    let (reloaded, trouble) = connect::block_on(async {
        let client = connect::started().await?;
        let id = resolve::one(&client, &arguments.workspace).await?;
        let look = Reload {
            dry_run: true,
            ..Reload::default()
        };
        let shown = client.reload(&id, &look).await?;
        if shown.changes.is_empty() {
            return Ok((shown, None));
        }
        context.output.remark(&changes_text(&shown));
        if !shown.asks.is_empty() && !arguments.yes {
            approve(context, &arguments.workspace, &shown).await?;
        }
        let apply = Reload {
            dry_run: false,
            content: Some(shown.content),
            approve: true,
        };
        let reloaded = client.reload(&id, &apply).await?;
        let is_moving = reloaded
            .changes
            .iter()
            .any(|change| change.starts_with("services."));
        if arguments.no_wait || !is_moving {
            return Ok((reloaded, None));
        }
        let found = client.workspace(&id).await?;
        let display = Display::live(context);
        let readied = ready::wait(&client, found, display, ready::interruption()).await?;
        Ok((reloaded, readied.trouble))
    })?;
    context.output.done(&reloaded, || {
        if reloaded.changes.is_empty() {
            return "Nothing has changed.".to_owned();
        }
        taken_over(&reloaded, &arguments.workspace)
    });
    ready::outcome(context, trouble.as_ref())
}

/// The applied changes, and what needs a restart or a new workspace.
fn taken_over(reloaded: &Reloaded, typed: &str) -> String {
    let mut text = format!("{GOOD}✓{GOOD:#} taken over");
    let keys = |keys: &[String]| printable(&keys.join(", "));
    if !reloaded.at_next_start.is_empty() {
        let (keys, typed) = (keys(&reloaded.at_next_start), printable(typed));
        text.push_str(&format!(
            "; {keys} at the next start (`holm restart {typed}`)"
        ));
    }
    if !reloaded.needs_new_workspace.is_empty() {
        let keys = keys(&reloaded.needs_new_workspace);
        text.push_str(&format!("; {keys} only with a new workspace (`holm up`)"));
    }
    text
}

async fn approve(context: &Context, typed: &str, shown: &Reloaded) -> Result<(), Fault> {
    let asks = shown.asks.iter();
    let words: Vec<_> = asks
        .map(|ask| format!("  {} ({})", printable(&ask.words), printable(&ask.key)))
        .collect();
    let words = words.join("\n");
    let hint = format!(
        "`holm reload {} --yes` approves exactly this",
        printable(typed)
    );
    if context.output.is_json() || !output::can_ask() {
        let message = format!("holm.toml asks for something that nobody approved:\n{words}");
        return Err(Fault::new(Code::NotTrusted, message, hint));
    }
    context
        .output
        .remark(&format!("{STRONG}It asks to:{STRONG:#}\n{words}"));
    if try_blocking(|| Ok(output::ask("Approve?")))
        .await
        .unwrap_or(false)
    {
        Ok(())
    } else {
        Err(Fault::new(Code::NotTrusted, "this was not approved", hint))
    }
}

fn changes_text(shown: &Reloaded) -> String {
    let lines: Vec<_> = shown
        .changes
        .iter()
        .map(|change| printable(change))
        .collect();
    format!("{FAINT}holm.toml:{FAINT:#}\n  {}", lines.join("\n  "))
}
