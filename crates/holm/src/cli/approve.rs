//! `holm approve`: a person's yes to one exact tree.

use super::completions::labels;
use super::figures::count;
use super::output::{FAINT, GOOD, WARNING, printable};
use super::turns::short;
use super::work::Subject;
use super::{Context, Outcome, connect};
use clap::Args;
use holm_api::review::{Approve, Approved};
use std::process::ExitCode;

/// Approve the tree of a workspace as it is now
///
/// Records the tree of this moment as a turn, approves it, and prints its id and the files that changed since
/// you last looked. --tree refuses (exit code 4) if the tree is another one than you read. `holm apply`, `fetch`
/// and `merge` with --approved take exactly that tree; one more edit inside voids the approval. A program
/// inside cannot approve.
///
/// With --json: {turn,tree,files,risks,checks}.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  holm approve fix-login\n  holm approve fix-login --tree 8f3c1e2\n  \
    holm apply fix-login --approved"
)]
pub struct ApproveArgs {
    /// A label, project/label, an id or the beginning of an id
    #[arg(value_name = "WS", add = labels())]
    workspace: String,
    /// The id of the tree that you read, or its first 7 or more digits
    #[arg(long, value_name = "ID")]
    tree: Option<String>,
}

pub fn run(context: &Context, arguments: ApproveArgs) -> Outcome {
    let typed = &arguments.workspace;
    let (label, approved) = connect::block_on(async {
        let subject = Subject::find(typed).await?;
        let approve = Approve {
            tree: arguments.tree.clone(),
        };
        let approved = subject.client.approve(&subject.id, &approve).await?;
        let workspace = subject.client.workspace(&subject.id).await?;
        Ok((workspace.label, approved))
    })?;
    if context.output.is_quiet() {
        context.output.asked_for(&approved.tree);
        return Ok(ExitCode::SUCCESS);
    }
    context.output.done(&approved, || {
        let mut text = format!(
            "{GOOD}✓{GOOD:#} approved tree {} of {label} (@{}): {}{} shown",
            short(&approved.tree),
            approved.turn,
            checks(&approved),
            count(approved.risks, "risk")
        );
        if !approved.files.is_empty() {
            let names: Vec<String> = approved
                .files
                .iter()
                .take(10)
                .map(|path| printable(path))
                .collect();
            let more = if approved.files.len() > 10 {
                ", …"
            } else {
                ""
            };
            let names = names.join(", ");
            text.push_str(&format!(
                "\n  {FAINT}changed since you last looked: {names}{more}{FAINT:#}"
            ));
        }
        text
    });
    let take = format!("holm apply {typed} --approved");
    context.output.next(&[("take it", &take)]);
    Ok(ExitCode::SUCCESS)
}

/// `3 checks passed, `, or how many of those with a result did.
fn checks(approved: &Approved) -> String {
    let (passed, all) = (approved.passed() as u64, approved.checks.len() as u64);
    match (passed, all) {
        (_, 0) => String::new(),
        (passed, all) if passed == all => format!("{} passed, ", count(all, "check")),
        (passed, all) => format!(
            "{WARNING}◆{WARNING:#} {passed} of {} passed, ",
            count(all, "check")
        ),
    }
}
