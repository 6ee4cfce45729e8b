//! `holm df`: disk use, and what could be deleted.

use super::ls::until;
use super::output::{FAINT, STRONG, printable};
use super::table::Table;
use super::{Context, Outcome, connect};
use clap::Args;
use holm_api::disk::Disk;
use holm_core::config::rough_size;
use std::process::ExitCode;

/// Show what takes disk, and what could go
///
/// Sizes are bytes allocated on disk: holes in files take nothing, and a file with several names
/// counts once.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm df\n  holm df --json")]
pub struct DfArgs {}

/// The length of an abbreviated commit id.
const SHORT_COMMIT: usize = 10;

pub fn run(context: &Context, _: DfArgs) -> Outcome {
    let disk = connect::block_on(async { connect::started().await?.disk().await })?;
    let now = jiff::Timestamp::now();
    context.output.result(&disk, || render(&disk, now));
    Ok(ExitCode::SUCCESS)
}

fn render(disk: &Disk, now: jiff::Timestamp) -> String {
    let mut table = Table::new(["WHAT", "NAME", "SIZE", "DETAIL"]);
    for workspace in &disk.workspaces {
        let parts = [
            ("code", workspace.upper),
            ("home", workspace.home),
            ("tmp", workspace.tmp),
            ("volumes", workspace.volumes),
        ];
        let parts = parts
            .iter()
            .filter(|(name, bytes)| *name != "volumes" || *bytes > 0)
            .map(|(name, bytes)| format!("{name} {}", rough_size(*bytes)));
        let parts: Vec<_> = parts.collect();
        let name = format!("{}/{}", workspace.project, workspace.label);
        table.row([
            "workspace".into(),
            name,
            rough_size(workspace.bytes),
            parts.join(", "),
        ]);
    }
    for entry in &disk.trash {
        let name = format!("{}/{} ({})", entry.project, entry.label, entry.id);
        let goes = format!("goes {}", until(&entry.expires_at, now));
        table.row(["trash".into(), name, rough_size(entry.bytes), goes]);
    }
    for base in &disk.bases {
        let commit = base.commit.as_deref().unwrap_or("empty");
        let commit: String = commit.chars().take(SHORT_COMMIT).collect();
        let project = base.project.as_ref().unwrap_or(&base.project_id);
        table.row([
            "base".into(),
            format!("{project} {commit}"),
            rough_size(base.bytes),
            used_by(base.used_by),
        ]);
    }
    shared_parts(&mut table, disk);
    for repository in &disk.repositories {
        let project = repository
            .project
            .as_ref()
            .unwrap_or(&repository.project_id);
        let shared = match repository.shared {
            0 => String::new(),
            shared => format!("{} of it are files of your repository", rough_size(shared)),
        };
        table.row([
            "repository".into(),
            project.clone(),
            rough_size(repository.bytes),
            shared,
        ]);
    }
    for (what, bytes) in [
        ("holm", disk.programs),
        ("leftovers", disk.leftovers),
        ("other", disk.other),
    ] {
        if bytes > 0 {
            table.row([what.into(), String::new(), rough_size(bytes), String::new()]);
        }
    }
    let mut text = table.render();
    text.push_str(&format!(
        "\n{STRONG}{}{STRONG:#} in {}; {} of {} are free\n",
        rough_size(disk.total),
        printable(&disk.data_dir),
        rough_size(disk.free),
        rough_size(disk.size),
    ));
    for note in &disk.notes {
        text.push_str(&format!("{FAINT}note{FAINT:#}  {}\n", printable(note)));
    }
    text
}

/// Layers and volumes that several workspaces share.
fn shared_parts(table: &mut Table, disk: &Disk) {
    for layer in &disk.layers {
        let key = short_key(&layer.key);
        let project = layer.project.as_ref().unwrap_or(&layer.project_id);
        table.row([
            "layer".into(),
            format!("{project} {key}"),
            rough_size(layer.bytes),
            used_by(layer.used_by),
        ]);
    }
    for volume in &disk.volumes {
        let project = volume.project.as_ref().unwrap_or(&volume.project_id);
        table.row([
            "volume".into(),
            format!("{project} {}", volume.name),
            rough_size(volume.bytes),
            "shared".into(),
        ]);
    }
}

/// Keeps the kind of a layer and abbreviates its digest.
fn short_key(key: &str) -> String {
    let (kind, digest) = key.rsplit_once('-').unwrap_or(("", key));
    let digest: String = digest.chars().take(SHORT_COMMIT).collect();
    match kind {
        "" => digest,
        kind => format!("{kind}-{digest}"),
    }
}

fn used_by(workspaces: u64) -> String {
    match workspaces {
        0 => "unused".to_owned(),
        1 => "used by 1 workspace".to_owned(),
        several => format!("used by {several} workspaces"),
    }
}
