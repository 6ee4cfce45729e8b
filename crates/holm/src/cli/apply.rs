//! `holm apply`: the whole difference of a workspace in your checkout, uncommitted.

use super::completions::labels;
use super::output::GOOD;
use super::user_checkout::blocking;
use super::work::{Consent, Flagged, Subject, flagged, remark_left_out, settle};
use super::{Context, Outcome, connect};
use clap::Args;
use holm_core::{Code, Fault};
use holm_git::{Cancel, Work};
use serde::Serialize;
use std::process::ExitCode;
use std::sync::Arc;

/// Put everything that changed in a workspace into your checkout, uncommitted
///
/// Committed or not inside makes no difference: what `holm diff` shows appears in your checkout,
/// unstaged; new files are untracked, as if you had written them. What you committed meanwhile is
/// kept by a three-way merge. When the change does not fit, or touches files that you have edited
/// and not committed, this is refused and nothing is changed. Files that tools execute by themselves
/// (git hooks, editor tasks, .envrc, agent settings, CI workflows, .gitattributes, .gitmodules) and
/// links that leave the tree are named first and need a yes.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm apply fix-login\n  holm apply fix-login --yes")]
pub struct ApplyArgs {
    /// A label, project/label, an id or the beginning of an id
    #[arg(value_name = "WS", add = labels())]
    workspace: String,
    /// Take over files that tools execute by themselves without asking
    #[arg(long)]
    yes: bool,
}

/// What was applied, as `--json` tells it.
#[derive(Debug, Serialize)]
struct Applied {
    id: String,
    label: String,
    /// How many paths of the checkout were changed.
    changed: usize,
    /// What needed a yes.
    flagged: Vec<Flagged>,
}

pub fn run(context: &Context, arguments: ApplyArgs) -> Outcome {
    let consent = match arguments.yes {
        true => Consent::Given,
        false => Consent::Ask,
    };
    let applied = connect::block_on(async {
        let subject = Subject::find(&arguments.workspace).await?;
        let workspace = subject.client.workspace(&subject.id).await?;
        let checkout = subject.checkout_here(&workspace).await?;
        let captured = subject.capture(context, None).await?;
        remark_left_out(context, &captured);
        let work = Work {
            upload_pack: subject.upload_pack()?,
            start: captured.start,
            dirty_start: captured.dirty_start,
            state: captured.state,
        };
        let place = tempfile::Builder::new().prefix("holm-apply-").tempdir();
        let place = place.map_err(|error| {
            let message = format!("cannot make a directory for the change: {error}");
            Fault::new(Code::Internal, message, "is there room in $TMPDIR or /tmp?")
        })?;
        let (repository, directory) = (Arc::clone(&checkout.repository), place.path().to_owned());
        let (staged, changed, arrivals) = blocking(move || {
            let staged = repository.stage(&directory, &work, &Cancel::default())?;
            let (changed, arrivals) = (staged.len()?, staged.arrivals()?);
            Ok((staged, changed, arrivals))
        })
        .await?;
        let flagged = flagged(&arrivals);
        let verb = format!("holm apply {}", arguments.workspace);
        settle(context, &flagged, consent, &verb).await?;
        blocking(move || Ok(staged.apply()?)).await?;
        Ok(Applied {
            id: workspace.id,
            label: workspace.label,
            changed,
            flagged,
        })
    })?;
    context.output.done(&applied, || match applied.changed {
        0 => "Your checkout has everything already.".to_owned(),
        1 => format!("{GOOD}✓{GOOD:#} 1 file of your checkout is changed"),
        more => format!("{GOOD}✓{GOOD:#} {more} files of your checkout are changed"),
    });
    Ok(ExitCode::SUCCESS)
}
