//! `holm changes`: files that differ from the commit that the workspace started from.

use super::completions::labels;
use super::output::printable;
use super::patch_stat::{self, FileStat};
use super::work::{Subject, remark_left_out};
use super::{Context, Outcome, connect};
use clap::Args;
use holm_api::Workspace;
use holm_api::work::Change;
use std::process::ExitCode;

/// List what changed in a workspace
///
/// The working tree, untracked files included and ignored files not, against the commit that the
/// workspace started from: committed or not makes no difference. A stopped workspace is started.
///
/// With --json: {"changes":[{path,operation,from,binary}]}; operation is create, update, delete or
/// rename. Bytes of a name that are not UTF-8 are written \xNN, and path_bytes (from_bytes) then has
/// the exact name.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm changes fix-login\n  holm changes fix-login --json")]
pub struct ChangesArgs {
    /// A label, project/label, an id or the beginning of an id
    #[arg(value_name = "WS", add = labels())]
    workspace: String,
}

pub fn run(context: &Context, arguments: ChangesArgs) -> Outcome {
    let is_json = context.output.is_json();
    let (list, patch, since, uncommitted) = connect::block_on(async {
        let subject = Subject::find(&arguments.workspace).await?;
        let (captured, tree) = subject.tree(context).await?;
        remark_left_out(context, &captured);
        let list = subject.client.changes(&subject.id, &tree).await?;
        let (mut patch, mut since) = (Vec::new(), String::new());
        if !is_json {
            let take = |piece: &[u8]| {
                patch.extend_from_slice(piece);
                true
            };
            subject.client.diff(&subject.id, &tree, take).await?;
            let workspace = subject.client.workspace(&subject.id).await?;
            since = start(&workspace);
        }
        Ok((list, patch, since, captured.uncommitted))
    })?;
    if list.changes.is_empty() {
        context
            .output
            .done(&list, || format!("No changes since {since}."));
        return Ok(ExitCode::SUCCESS);
    }
    context.output.result(&list, || {
        let mut files = files(&list.changes);
        // Both lists are git's, in its order.
        let counted = patch_stat::files(&patch);
        if counted.len() == files.len() {
            for (file, counted) in files.iter_mut().zip(counted) {
                (file.added, file.removed) = (counted.added, counted.removed);
                file.is_binary |= counted.is_binary;
            }
        }
        let text = patch_stat::render(&files);
        if context.output.is_quiet() {
            let (rows, _) = text.rsplit_once('\n').unwrap_or((&text, ""));
            return rows.to_owned();
        }
        let committed = match (uncommitted, files.len() as u64) {
            (0, _) => "committed".to_owned(),
            (some, all) if some < all => format!("{some} of them not committed"),
            _ => "not committed".to_owned(),
        };
        format!("{text} since {since}, {committed}")
    });
    Ok(ExitCode::SUCCESS)
}

/// `main 4e1f0c2`: what the workspace started from.
fn start(workspace: &Workspace) -> String {
    let commit = workspace.commit.as_deref().unwrap_or("nothing");
    let short = commit.get(..7).unwrap_or(commit);
    match &workspace.reference {
        Some(reference) => format!("{} {short}", printable(reference)),
        None => short.to_owned(),
    }
}

fn files(changes: &[Change]) -> Vec<FileStat> {
    let file = |change: &Change| FileStat {
        path: match &change.from {
            Some(from) => format!("{}, was {from}", change.path),
            None => change.path.clone(),
        },
        letter: match change.operation.as_str() {
            "create" => 'A',
            "delete" => 'D',
            "rename" => 'R',
            _ => 'M',
        },
        is_binary: change.binary,
        ..FileStat::default()
    };
    changes.iter().map(file).collect()
}
