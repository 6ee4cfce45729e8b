//! `holm df`: disk use, and what could be deleted.

use super::figures::{count, place};
use super::ls::left;
use super::output::{FAINT, STRONG, hanging, printable};
use super::{Context, Outcome, connect, terminal};
use clap::Args;
use holm_api::disk::{Disk, WorkspaceSize};
use holm_core::config::rough_size;
use std::process::ExitCode;

/// Show disk use and what `gc` would free
///
/// Sizes are bytes allocated on disk: holes in files take nothing, and a file with several names
/// counts once.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm df\n  holm df --json")]
pub struct DfArgs {}

pub fn run(context: &Context, _: DfArgs) -> Outcome {
    let disk = connect::block_on(async { connect::started().await?.disk().await })?;
    let now = jiff::Timestamp::now();
    context.output.result(&disk, || render(&disk, now));
    Ok(ExitCode::SUCCESS)
}

/// The sum first, then what is shared, then each workspace, the largest first, and the trash.
fn render(disk: &Disk, now: jiff::Timestamp) -> String {
    let mut text = format!(
        "{STRONG}{}{STRONG:#} for {} in {}; {} of {} free\n",
        rough_size(disk.total),
        count(disk.workspaces.len() as u64, "workspace"),
        printable(&place(&disk.data_dir)),
        rough_size(disk.free),
        rough_size(disk.size),
    );
    shared(&mut text, disk);
    workspaces(&mut text, disk);
    if !disk.trash.is_empty() {
        let bytes = disk.trash.iter().map(|entry| entry.bytes).sum();
        let entries = disk.trash.iter().map(|entry| {
            let (label, left) = (printable(&entry.label), left(&entry.expires_at, now));
            format!("{label} {left}")
        });
        let entries = entries.collect::<Vec<_>>().join(", ");
        line(
            &mut text,
            "trash",
            &format!("{}: {entries}", rough_size(bytes)),
        );
    }
    for note in &disk.notes {
        text.push_str(&format!("{FAINT}note{FAINT:#}  {}\n", printable(note)));
    }
    text
}

/// What several workspaces use.
fn shared(text: &mut String, disk: &Disk) {
    let is_seed = |key: &str| key.starts_with("volume-") || key.starts_with("seed-");
    let layers = |wanted: bool| {
        let found = disk
            .layers
            .iter()
            .filter(|layer| is_seed(&layer.key) == wanted);
        found.map(|layer| layer.bytes).sum::<u64>()
    };
    let shared = [
        ("bases", disk.bases.iter().map(|base| base.bytes).sum()),
        ("layers", layers(false)),
        ("seeds", layers(true)),
        (
            "volumes",
            disk.volumes.iter().map(|volume| volume.bytes).sum(),
        ),
        (
            "repository data",
            disk.repositories.iter().map(|it| it.bytes).sum(),
        ),
        ("images", disk.images),
        ("holm", disk.programs),
        ("leftovers", disk.leftovers),
        ("other", disk.other),
    ];
    let shared = shared.iter().filter(|(_, bytes): &&(_, u64)| *bytes > 0);
    let shared = shared.map(|(name, bytes)| format!("{name} {}", rough_size(*bytes)));
    line(text, "shared", &shared.collect::<Vec<_>>().join("   "));
}

fn workspaces(text: &mut String, disk: &Disk) {
    let sum = |of: fn(&WorkspaceSize) -> u64| disk.workspaces.iter().map(of).sum::<u64>();
    let (all, volumes) = (sum(|one| one.bytes), sum(|one| one.volumes));
    let parts = match volumes {
        0 => rough_size(all),
        volumes => format!(
            "{}: code and home {}, volumes {}",
            rough_size(all),
            rough_size(all.saturating_sub(volumes)),
            rough_size(volumes)
        ),
    };
    line(text, "workspaces", &parts);
    let mut largest: Vec<&WorkspaceSize> = disk.workspaces.iter().collect();
    largest.sort_by_key(|one| std::cmp::Reverse(one.bytes));
    let names: Vec<String> = largest
        .iter()
        .map(|one| format!("{}/{}", one.project, one.label))
        .collect();
    let width = names
        .iter()
        .map(|name| name.chars().count())
        .max()
        .unwrap_or(0);
    for (workspace, name) in largest.iter().zip(&names) {
        let parts = [
            ("code", workspace.upper),
            ("home", workspace.home),
            ("tmp", workspace.tmp),
            ("volumes", workspace.volumes),
        ];
        let parts = parts.iter().filter(|(_, bytes)| *bytes > 0);
        let parts = parts.map(|(part, bytes)| format!("{part} {}", rough_size(*bytes)));
        let parts = parts.collect::<Vec<_>>().join(", ");
        let (name, size) = (printable(name), rough_size(workspace.bytes));
        text.push_str(format!("  {name:width$}  {size:>9}   {FAINT}{parts}{FAINT:#}").trim_end());
        text.push('\n');
    }
}

fn line(text: &mut String, name: &str, value: &str) {
    let before = format!("{FAINT}{name:11}{FAINT:#}  ");
    text.push_str(&hanging(&before, value, terminal::columns_to_fill()));
    text.push('\n');
}
