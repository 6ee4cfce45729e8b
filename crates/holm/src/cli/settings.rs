//! Asks for approval before git on the host runs what a repository's own git configuration says:
//! filters, merge drivers, transport programs. Asked once for exactly these settings, and stored
//! like every other approval.
//!
//! Called before git reads or writes files of the checkout (`up --dirty`, `up --warm`, `apply`,
//! `merge`), talks to its remote, or may fetch by itself (a partial clone), and by `trust`.

use super::Context;
use super::send::{self, SharedRefs, Wanted};
use super::trust_question::{approved_by_person, may_ask, not_trusted};
use super::user_checkout::{self, Checkout};
use crate::wiring::asks_about_git_settings;
use holm_api::client::Client;
use holm_api::project::{TrustCheck, TrustReport};
use holm_core::Fault;
use holm_core::compose::ComposeFiles;
use holm_core::config::ProjectConfig;

/// Continues when nothing would run, or the user approved it.
pub async fn settle(context: &Context, client: &Client, checkout: &Checkout) -> Result<(), Fault> {
    if !asks_about_git_settings() {
        return Ok(());
    }
    let Some((check, report)) = check(client, checkout).await? else {
        return Ok(());
    };
    if report.approved {
        return Ok(());
    }
    let place = send::quoted(&checkout.repository.toplevel.to_string_lossy());
    let hint = format!("look and approve: `cd {place} && holm trust`");
    if may_ask(context) {
        approved_by_person(context, client, (&check, &report), &hint).await
    } else {
        Err(not_trusted(&report, &hint))
    }
}

/// As [`settle`], for commands during which git may fetch missing objects by itself.
pub async fn settle_partial(
    context: &Context,
    client: &Client,
    checkout: &Checkout,
) -> Result<(), Fault> {
    if checkout.repository.partial {
        settle(context, client, checkout).await
    } else {
        Ok(())
    }
}

/// What the settings request; `None` if there is nothing to ask about.
pub async fn check(
    client: &Client,
    checkout: &Checkout,
) -> Result<Option<(TrustCheck, TrustReport)>, Fault> {
    let settings = checkout.git(|repository| repository.settings()).await?;
    if settings.is_empty() {
        return Ok(None);
    }
    let wanted = Wanted {
        refs: SharedRefs::of(checkout).await?,
        commit: None,
        config: Some(&name(checkout).await),
    };
    let answer = send::register(client, checkout, &wanted).await?;
    let check = TrustCheck {
        project_id: answer.project.id,
        config: None,
        compose: ComposeFiles::default(),
        worktree_include: Vec::new(),
        settings,
    };
    let report = client.check_trust(&check).await?;
    Ok(Some((check, report)))
}

/// The name of an unknown project. Reading the file in a partial clone might fetch it, which is
/// what the question is about; the next reader reports an invalid file.
async fn name(checkout: &Checkout) -> ProjectConfig {
    let head = checkout.repository.head.as_deref();
    let head = head.filter(|_| !checkout.repository.partial);
    let files = checkout.files_at(head).await.ok();
    files
        .and_then(|files| user_checkout::config(files.holm_toml.as_deref()).ok())
        .unwrap_or_default()
}
