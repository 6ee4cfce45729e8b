//! `holm apply`: the whole difference of a workspace in your checkout, uncommitted.

use super::carry_out::carry_out;
use super::completions::labels;
use super::output::GOOD;
use super::user_checkout::Checkout;
use super::work::{
    Consent, Flagged, Subject, flagged, recover, recovery_text, remark_aside, remark_left_out,
    settle,
};
use super::{Context, Outcome, connect, settings};
use clap::Args;
use holm_api::Workspace;
use holm_api::work::Captured;
use holm_core::{Code, Fault};
use holm_engine::try_blocking;
use holm_git::{Cancel, Recovered, Staged, Work};
use serde::Serialize;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// Put everything that changed in a workspace into your checkout, uncommitted
///
/// Committed or not inside makes no difference: what `holm diff` shows appears in your checkout,
/// unstaged; new files are untracked, as if you had written them. A three-way merge keeps what you
/// committed meanwhile. When the change does not fit, or touches files that you have edited and not
/// committed, this is refused and nothing is changed. The change is applied completely or not at
/// all: the next command here finishes or undoes an apply that was killed, and says so. Files that
/// tools execute by themselves (of git, editors, shells, agents, package managers, build tools and
/// CI) and links that leave the tree are listed first, each with its reason, and need your consent.
/// Programs that the repository's own git settings run (filters) need approval first.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm apply fix-login\n  holm apply fix-login --yes")]
pub struct ApplyArgs {
    /// A label, project/label, an id or the beginning of an id
    #[arg(value_name = "WS", add = labels())]
    workspace: String,
    /// Take over files that tools execute by themselves without asking
    #[arg(long)]
    yes: bool,
    /// Take exactly the tree that a person approved (`holm approve`), or refuse
    #[arg(long)]
    approved: bool,
}

/// The JSON output.
#[derive(Debug, Serialize)]
struct Applied {
    id: String,
    label: String,
    /// How many paths of the checkout were changed.
    changed: usize,
    /// The number of stashes inside, and refs with commits that are not in the tree.
    stashes: u64,
    aside: Vec<String>,
    /// Entries that needed consent.
    flagged: Vec<Flagged>,
}

pub fn run(context: &Context, arguments: ApplyArgs) -> Outcome {
    let consent = if arguments.yes {
        Consent::Given
    } else {
        Consent::Ask
    };
    let applied = connect::block_on(apply(context, &arguments, consent))?;
    let stays = applied.stashes > 0 || !applied.aside.is_empty();
    context.output.done(&applied, || match applied.changed {
        0 if stays => "There is nothing else to apply.".to_owned(),
        0 => "Your checkout has everything already.".to_owned(),
        1 => format!("{GOOD}✓{GOOD:#} 1 file of your checkout is changed"),
        more => format!("{GOOD}✓{GOOD:#} {more} files of your checkout are changed"),
    });
    Ok(ExitCode::SUCCESS)
}

async fn apply(
    context: &Context,
    arguments: &ApplyArgs,
    consent: Consent,
) -> Result<Applied, Fault> {
    let cancel = Cancel::default();
    let (workspace, checkout, captured, work) = or_interrupted(prepare(context, arguments)).await?;
    let (repository, flag) = (Arc::clone(&checkout.repository), cancel.clone());
    let stage = try_blocking(move || {
        let staged = repository.stage(&work, &flag)?;
        let (changed, arrivals) = (staged.len()?, staged.arrivals()?);
        Ok((staged, changed, arrivals))
    });
    tokio::pin!(stage);
    let staged = tokio::select! {
        staged = &mut stage => staged,
        // The other side ends soon and removes what it made.
        _ = tokio::signal::ctrl_c() => {
            cancel.raise();
            stage.await.and(Err(cancelled()))
        }
    };
    let (staged, changed, arrivals) = staged?;
    let flagged = flagged(&arrivals);
    let verb = format!("holm apply {}", arguments.workspace);
    or_interrupted(settle(context, &flagged, consent, &verb)).await?;
    // From here on the apply is completed or undone, even if this process is killed.
    let place = checkout.repository.toplevel.clone();
    try_blocking(move || put_in_place(&staged, &place)).await?;
    Ok(Applied {
        id: workspace.id,
        label: workspace.label,
        changed,
        stashes: captured.stashes,
        aside: captured.aside,
        flagged,
    })
}

/// Prepares the change. Changes nothing in the checkout.
async fn prepare(
    context: &Context,
    arguments: &ApplyArgs,
) -> Result<(Workspace, Checkout, Captured, Work), Fault> {
    let subject = Subject::find(&arguments.workspace).await?;
    let workspace = subject.client.workspace(&subject.id).await?;
    let checkout = subject.checkout_here(&workspace).await?;
    settings::settle(context, &subject.client, &checkout).await?;
    recover(context, &checkout).await?;
    let approved = subject.approved(arguments.approved).await?;
    let (captured, state) = subject.state(context).await?;
    remark_left_out(context, &captured);
    remark_aside(context, &workspace.label, &captured);
    let work = Work {
        upload_pack: subject.upload_pack()?,
        start: captured.start.clone(),
        dirty_start: captured.dirty_start.clone(),
        state,
        approved,
    };
    Ok((workspace, checkout, captured, work))
}

fn put_in_place(staged: &Staged, checkout: &Path) -> Result<(), Fault> {
    let Some(lock) = staged.plan()? else {
        return Ok(());
    };
    let failed = match carry_out(checkout, lock) {
        Some(Ok(())) => return Ok(()),
        Some(Err(fault)) => fault,
        None => Fault::new(
            Code::Cancelled,
            "the process that changes your checkout was killed",
            "type the command again to start over",
        ),
    };
    // A process that failed has undone the apply; one that was killed has not.
    match staged.recover()? {
        Some(Recovered::Finished) => Ok(()),
        Some(recovered) => Err(Fault::new(
            failed.code,
            format!("{}; {}", failed.message(), recovery_text(&recovered)),
            failed.hint,
        )),
        None => Err(failed),
    }
}

/// Waits, unless Ctrl-C is typed. Only for work that needs no clean-up.
async fn or_interrupted<T>(work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    tokio::select! {
        done = work => done,
        _ = tokio::signal::ctrl_c() => Err(cancelled()),
    }
}

fn cancelled() -> Fault {
    let hint = "type the command again to start over";
    Fault::new(Code::Cancelled, "nothing was changed", hint)
}
