//! `holm gc`: deletes expired and unused data. The only command that deletes workspaces for good.

use super::ls::warn;
use super::output::{FAINT, GOOD, printable};
use super::progress::Progress;
use super::{Context, Outcome, connect};
use clap::Args;
use holm_api::disk::{Collected, Gc};
use holm_core::Kind;
use holm_core::config::rough_size;
use holm_core::trash::Removed;
use std::process::ExitCode;

/// Delete old trash, unused bases and leftovers
///
/// Entries of the trash are deleted when they are older than `trash_days` (7) of config.toml; the
/// daemon does that by itself, too, unless the clock jumped ahead: typing this command confirms
/// that the clock is right. Deletes bases that no workspace uses, except the newest of each
/// project.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm gc\n  holm gc --all\n  holm df")]
pub struct GcArgs {
    /// Delete everything in the trash, however young, and every unused base
    #[arg(long)]
    all: bool,
}

pub fn run(context: &Context, arguments: GcArgs) -> Outcome {
    let gc = Gc { all: arguments.all };
    let collected = connect::block_on(async {
        let client = connect::started().await?;
        let mut progress = Progress::new(context);
        let report = |step: &str, done, total| progress.report(step, done, total);
        client.gc(&gc, report).await
    })?;
    context.output.done(&collected, || render(&collected));
    for note in &collected.notes {
        warn(context, note);
    }
    for path in &collected.unknown {
        warn(
            context,
            &format!("{path} belongs to no workspace that holm knows; it was left alone"),
        );
    }
    if !context.output.is_json() {
        for failed in &collected.failed {
            warn(context, &format!("{} ({})", failed.message, failed.hint));
        }
    }
    Ok(if collected.failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(Kind::Failed.exit_code())
    })
}

fn render(collected: &Collected) -> String {
    let mut text = String::new();
    for removed in &collected.removed {
        let size = rough_size(removed.bytes);
        text.push_str(&format!(
            "  {FAINT}{}{FAINT:#}  {}  {size}\n",
            removed.kind,
            name(removed)
        ));
    }
    let freed = rough_size(collected.freed_bytes);
    match collected.removed.len() {
        0 => text.push_str("nothing to delete"),
        1 => text.push_str(&format!("{GOOD}✓{GOOD:#} 1 deleted, {freed} freed")),
        several => text.push_str(&format!("{GOOD}✓{GOOD:#} {several} deleted, {freed} freed")),
    }
    text
}

fn name(removed: &Removed) -> String {
    match &removed.label {
        Some(label) => format!("{} ({})", printable(label), printable(&removed.name)),
        None => printable(&removed.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_read() {
        let mut collected = Collected {
            freed_bytes: 3 << 20,
            removed: vec![Removed {
                kind: "workspace".to_owned(),
                name: "waaaaaaaaaaaa".to_owned(),
                label: Some("fix".to_owned()),
                bytes: 3 << 20,
            }],
            unknown: Vec::new(),
            failed: Vec::new(),
            notes: Vec::new(),
        };
        let text = anstream::adapter::strip_str(&render(&collected)).to_string();
        assert_eq!(
            text,
            "  workspace  fix (waaaaaaaaaaaa)  3.0 MiB\n✓ 1 deleted, 3.0 MiB freed"
        );
        collected.removed.clear();
        assert_eq!(render(&collected), "nothing to delete");
    }
}
