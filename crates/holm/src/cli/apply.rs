//! `holm apply`: the whole difference of a workspace in your checkout, uncommitted.

use super::carry_out::carry_out;
use super::completions::labels;
use super::figures::{self, count};
use super::output::{GOOD, printable};
use super::user_checkout::Checkout;
use super::work::{
    Consent, Subject, flagged, recover, recovery_text, remark_aside, remark_left_out, settle,
};
use super::{Context, Outcome, connect, resolve, settings};
use clap::Args;
use holm_api::Workspace;
use holm_api::apply::{Applied, Effect, Flagged, TakenBack};
use holm_api::work::Captured;
use holm_core::turn::numbers;
use holm_core::{Code, Fault};
use holm_engine::try_blocking;
use holm_git::{Cancel, Extent, Planned, Recovered, Staged, Work};
use serde::Serialize;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// Put everything that changed in a workspace into your checkout, uncommitted
///
/// Committed or not inside makes no difference: what `holm diff` shows appears in your checkout,
/// unstaged; new files are untracked, as if you had written them. A three-way merge keeps what you
/// committed meanwhile. When the change does not fit, or touches files that you have edited and not
/// committed, this is refused and nothing is changed. Applying is atomic: if holm is killed
/// half-way, the next `apply`, `merge` or `up --dirty` here completes or undoes it and reports which.
/// --undo takes back the last apply of the workspace here, for 7 days, also when the workspace was
/// removed; if a file differs from what apply wrote, --undo lists it and changes nothing. Files that
/// tools execute by themselves (of git, editors, shells, agents, package managers, build tools and
/// CI) and links that leave the tree are listed first, each with its reason, and need your consent.
/// Programs that the repository's own git settings run (filters) need approval first.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  holm apply fix-login\n  holm apply fix-login --dry-run\n  holm apply fix-login --yes\n  holm apply fix-login --undo"
)]
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
    /// Take the last apply of this workspace back out of your checkout
    #[arg(long, conflicts_with_all = ["yes", "dry_run"])]
    undo: bool,
    /// Print what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
}

pub fn run(context: &Context, arguments: ApplyArgs) -> Outcome {
    let typed = &arguments.workspace;
    if arguments.undo {
        let (taken_back, place) = connect::block_on(undo(context, typed))?;
        let files = count(taken_back.undone as u64, "file");
        let verb = if taken_back.undone == 1 { "is" } else { "are" };
        finish(context, &taken_back, &taken_back.id, || {
            format!("{GOOD}✓{GOOD:#} {files} in {place} {verb} as before the apply")
        });
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.dry_run {
        let effect = connect::block_on(effect(context, &arguments))?;
        context.output.done(&effect, || effect_text(&effect));
        return Ok(ExitCode::SUCCESS);
    }
    let consent = if arguments.yes {
        Consent::Given
    } else {
        Consent::Ask
    };
    let (applied, extent, place) = connect::block_on(apply(context, &arguments, consent))?;
    let stays = applied.stashes > 0 || !applied.aside.is_empty();
    finish(context, &applied, &applied.id, || match extent.files {
        0 if stays => "There is nothing else to apply.".to_owned(),
        0 => "Your checkout has everything already.".to_owned(),
        files => {
            let files = count(files as u64, "file");
            let lines = numbers(extent.added, extent.removed);
            format!(
                "{GOOD}✓{GOOD:#} {} in {place}, uncommitted",
                format!("{files} {lines}").trim_end()
            )
        }
    });
    if extent.files > 0 {
        let undo = format!("holm apply {typed} --undo");
        context
            .output
            .next(&[("look", "git diff"), ("undo", &undo)]);
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the document, the id or the text.
fn finish<T: Serialize>(context: &Context, document: &T, id: &str, text: impl FnOnce() -> String) {
    if context.output.is_quiet() {
        context.output.asked_for(id);
    } else {
        context.output.done(document, text);
    }
}

/// Takes back the last apply of a workspace in this checkout.
async fn undo(context: &Context, typed: &str) -> Result<(TakenBack, String), Fault> {
    let client = connect::started().await?;
    let id = resolve::even_removed(&client, typed).await?;
    let checkout = Checkout::find().await?;
    recover(context, &checkout).await?;
    let wanted = id.clone();
    let plan = checkout.git(move |repository| repository.plan_undo(&wanted));
    let (planned, undone) = or_interrupted(plan).await?;
    let place = checkout.repository.toplevel.clone();
    let shown = figures::place(&place.to_string_lossy());
    try_blocking(move || put_in_place(&planned, &place)).await?;
    let id = id.to_string();
    Ok((TakenBack { id, undone }, printable(&shown)))
}

async fn apply(
    context: &Context,
    arguments: &ApplyArgs,
    consent: Consent,
) -> Result<(Applied, Extent, String), Fault> {
    let (workspace, checkout, captured, work) = or_interrupted(prepare(context, arguments)).await?;
    let (staged, extent, flagged) = stage(&checkout, work).await?;
    let verb = format!("holm apply {}", arguments.workspace);
    or_interrupted(settle(context, &flagged, consent, &verb)).await?;
    // From here on the apply is completed or undone, even if this process is killed.
    let place = checkout.repository.toplevel.clone();
    let shown = figures::place(&place.to_string_lossy());
    try_blocking(move || match staged.plan()? {
        Some(planned) => put_in_place(&planned, &place),
        None => Ok(()),
    })
    .await?;
    let applied = Applied {
        id: workspace.id,
        label: workspace.label,
        changed: extent.files,
        stashes: captured.stashes,
        aside: captured.aside,
        flagged,
    };
    Ok((applied, extent, printable(&shown)))
}

/// Merges the change beside the checkout, which stays as it is.
async fn stage(checkout: &Checkout, work: Work) -> Result<(Staged, Extent, Vec<Flagged>), Fault> {
    let cancel = Cancel::default();
    let (repository, flag) = (Arc::clone(&checkout.repository), cancel.clone());
    let stage = try_blocking(move || {
        let staged = repository.stage(&work, &flag)?;
        let (extent, arrivals) = (staged.extent()?, staged.arrivals()?);
        Ok((staged, extent, flagged(&arrivals)))
    });
    tokio::pin!(stage);
    tokio::select! {
        staged = &mut stage => staged,
        // The other side ends soon and removes what it made.
        _ = tokio::signal::ctrl_c() => {
            cancel.raise();
            stage.await.and(Err(cancelled()))
        }
    }
}

/// What an apply would change.
async fn effect(context: &Context, arguments: &ApplyArgs) -> Result<Effect, Fault> {
    let (workspace, checkout, captured, work) = or_interrupted(prepare(context, arguments)).await?;
    let (staged, extent, flagged) = stage(&checkout, work).await?;
    drop(staged);
    let edited = checkout.git(|repository| repository.uncommitted()).await?;
    let repository = &checkout.repository;
    Ok(Effect {
        id: workspace.id,
        label: workspace.label,
        tree: captured.tree.unwrap_or_default(),
        checkout: repository.toplevel.to_string_lossy().into_owned(),
        into: repository.branch.clone(),
        changed: extent.files,
        added: extent.added,
        removed: extent.removed,
        edited,
        uncommitted: captured.uncommitted,
        stashes: captured.stashes,
        aside: captured.aside,
        flagged,
    })
}

fn effect_text(effect: &Effect) -> String {
    let place = printable(&figures::place(&effect.checkout));
    let files = count(effect.changed as u64, "file");
    let lines = numbers(effect.added, effect.removed);
    let mut text = format!("{files} {lines}").trim_end().to_owned();
    text.push_str(&format!(" would change in {place}"));
    for one in &effect.flagged {
        let (path, why) = (printable(&one.path), one.why.join(", "));
        text.push_str(&format!("\n  needs consent: {path}: {why}"));
    }
    text
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
        workspace: subject.id.clone(),
        upload_pack: subject.upload_pack(&state)?,
        start: captured.start.clone(),
        dirty_start: captured.dirty_start.clone(),
        state,
        approved,
    };
    Ok((workspace, checkout, captured, work))
}

fn put_in_place(planned: &Planned, checkout: &Path) -> Result<(), Fault> {
    let failed = match carry_out(checkout, planned.lock()?) {
        Some(Ok(())) => return Ok(()),
        Some(Err(fault)) => fault,
        None => Fault::new(
            Code::Cancelled,
            "the process that changes your checkout was killed",
            "type the command again to start over",
        ),
    };
    // A process that failed has undone the apply; one that was killed has not.
    match planned.recover()? {
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
