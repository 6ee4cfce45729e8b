//! `holm merge`: fetch, then `git merge` into the checkout.

use super::completions::labels;
use super::fetch::{Fetched, Taken, check_message, fetch, text};
use super::output::{GOOD, printable};
use super::work::{Consent, Subject, flagged, recover, settle};
use super::{Context, Outcome, connect, settings};
use clap::Args;
use holm_api::apply::Flagged;
use holm_core::{Code, Fault};
use serde::Serialize;
use std::process::ExitCode;

/// Fetch a workspace's branch and merge it into your checkout
///
/// As `holm fetch` followed by `git merge`, without hooks. Refused when your checkout has
/// uncommitted changes. Files that tools execute by themselves (of git, editors, shells, agents,
/// package managers, build tools and CI) and links that leave the tree are listed first, each with
/// its reason, and need your consent. Programs that the repository's own git settings run need
/// approval first.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  holm merge fix-login\n  holm merge fix-login --commit 'Fix the login redirect'\n  holm merge fix-login --yes"
)]
pub struct MergeArgs {
    /// A label, project/label, an id or the beginning of an id
    #[arg(value_name = "WS", add = labels())]
    workspace: String,
    /// Take over files that tools execute by themselves without asking
    #[arg(long)]
    yes: bool,
    /// Take exactly the tree that a person approved (`holm approve`), or refuse
    #[arg(long)]
    approved: bool,
    /// Commit everything inside first, untracked files included, with this message
    #[arg(long, value_name = "MSG")]
    commit: Option<String>,
}

/// The JSON output.
#[derive(Debug, Serialize)]
struct Merged {
    #[serde(flatten)]
    fetched: Fetched,
    /// Whether HEAD of the checkout moved; if not, it had everything.
    merged: bool,
    /// HEAD of the checkout afterwards.
    head: Option<String>,
    /// Entries that needed consent.
    flagged: Vec<Flagged>,
}

pub fn run(context: &Context, arguments: MergeArgs) -> Outcome {
    let consent = if arguments.yes {
        Consent::Given
    } else {
        Consent::Ask
    };
    check_message(arguments.commit.as_deref())?;
    let merged = connect::block_on(async {
        let subject = Subject::find(&arguments.workspace).await?;
        let workspace = subject.client.workspace(&subject.id).await?;
        let checkout = subject.checkout_here(&workspace).await?;
        settings::settle(context, &subject.client, &checkout).await?;
        recover(context, &checkout).await?;
        let edited = checkout.git(|repository| repository.uncommitted()).await?;
        if !edited.is_empty() {
            return Err(dirty(&edited));
        }
        let approved = subject.approved(arguments.approved).await?;
        let captured = subject.head(context, arguments.commit).await?;
        let taken = Taken {
            captured: &captured,
            approved,
        };
        let fetched = fetch(context, &subject, &workspace, &checkout, taken).await?;
        let commit = fetched.commit.clone();
        let arrivals = checkout
            .git(move |repository| repository.arrivals_of_merge(&commit))
            .await?;
        let flagged = flagged(&arrivals);
        let verb = format!("holm merge {}", arguments.workspace);
        settle(context, &flagged, consent, &verb).await?;
        let branch = fetched.branch.clone();
        let head = checkout.git(move |repository| {
            let before = repository.resolve("HEAD").map(|head| head.commit).ok();
            repository.merge(&branch)?;
            Ok((before, repository.resolve("HEAD")?.commit))
        });
        let (before, head) = head.await?;
        Ok(Merged {
            fetched,
            merged: before.as_ref() != Some(&head),
            head: Some(head),
            flagged,
        })
    })?;
    context.output.done(&merged, || {
        let branch = printable(&merged.fetched.branch);
        let fetched = text(&merged.fetched);
        if merged.merged {
            format!("{fetched}\n{GOOD}✓{GOOD:#} {branch} is merged")
        } else {
            format!("{fetched}\nThere is nothing to merge: HEAD has all of {branch}.")
        }
    });
    Ok(ExitCode::SUCCESS)
}

fn dirty(edited: &[String]) -> Fault {
    const MOST: usize = 5;
    let mut names = edited
        .iter()
        .take(MOST)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    if edited.len() > MOST {
        names.push_str(", …");
    }
    Fault::new(
        Code::DirtyCheckout,
        format!("your checkout has uncommitted changes: {names}"),
        "commit or stash them (`git stash`), then try again",
    )
}
