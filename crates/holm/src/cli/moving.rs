//! Shared by `assign` and `sync`: finds the commit in the user's repository, sends it to the
//! daemon, waits for services, and prints the result.

use super::build::{Building, Built, State};
use super::output::{FAINT, GOOD, WARNING, printable};
use super::progress::Progress;
use super::ready::{self, Display, Readied, Trouble};
use super::send::{self, SharedRefs, Wanted};
use super::several::Patience;
use super::user_checkout::Checkout;
use super::work::Subject;
use super::{Context, Outcome, clone, settings};
use holm_api::Workspace;
use holm_api::client::Client;
use holm_api::moves::{Move, Moved, Sync};
use holm_core::config::Pattern;
use holm_core::{Code, Fault, WorkspaceId};
use holm_git::Cancel;

/// A workspace to be moved.
pub struct Moving<'a> {
    context: &'a Context,
    subject: Subject,
    workspace: Workspace,
    checkout: Checkout,
}

/// The result of a move, and what is wrong with its services.
pub struct Settled {
    moved: Moved,
    trouble: Option<Trouble>,
}

// === impl Moving ===

impl<'a> Moving<'a> {
    pub async fn find(context: &'a Context, typed: &str) -> Result<Self, Fault> {
        let subject = Subject::find(typed).await?;
        let workspace = subject.client.workspace(&subject.id).await?;
        let checkout = subject.repository(&workspace).await?;
        Ok(Self {
            context,
            subject,
            workspace,
            checkout,
        })
    }

    pub fn client(&self) -> &Client {
        &self.subject.client
    }

    pub fn id(&self) -> &WorkspaceId {
        &self.subject.id
    }

    /// The branch that it started from.
    pub fn branch(&self) -> Result<&str, Fault> {
        let Workspace {
            label, reference, ..
        } = &self.workspace;
        reference.as_deref().ok_or_else(|| {
            Fault::new(
                Code::Refused,
                format!("workspace `{label}` did not start from a branch, so none is ahead of it"),
                format!("`holm assign {label} REF` moves it to one"),
            )
        })
    }

    /// Finds a commit in the user's repository, and sends the objects that the daemon lacks. A
    /// repository named by URL is fetched first, and a name means a branch of its remote.
    pub async fn bring(&self, name: &str) -> Result<Sync, Fault> {
        let (client, checkout, cancel) = (self.client(), &self.checkout, Cancel::default());
        settings::settle_partial(self.context, client, checkout).await?;
        clone::refresh(self.context, client, checkout, &cancel).await?;
        let name = clone::resolve_name(checkout, name).await?;
        let resolved = self
            .checkout
            .git(move |repository| repository.resolve(&name));
        let refs = SharedRefs::of(&self.checkout);
        let (resolved, refs) = tokio::try_join!(resolved, refs)?;
        let wanted = Wanted {
            refs,
            commit: Some(resolved.commit.clone()),
            config: None,
        };
        send::send(&self.subject.client, &self.checkout, wanted, &cancel).await?;
        let built = self.built(&resolved.commit).await?;
        Ok(Sync {
            built,
            commit: Some(resolved.commit),
            reference: resolved.display,
            shallow: self.checkout.repository.shallow.clone(),
        })
    }

    /// The images of services that react with `rebuild`, built for this commit. What they are built from was approved
    /// when the workspace was made.
    async fn built(&self, commit: &str) -> Result<Built, Fault> {
        let building = Building {
            context: self.context,
            client: self.client(),
            checkout: &self.checkout,
            state: State::Commit(Some(commit.to_owned())),
        };
        let mut wanted = Vec::new();
        let mut changed = None;
        for one in self.workspace.builds.iter().filter(|one| one.is_rebuilt) {
            let before = self.workspace.commit.as_deref();
            if let Some(before) = before.filter(|_| !one.rebuild_when.is_empty()) {
                let changed = match &mut changed {
                    Some(changed) => changed,
                    none => none.insert(building.changed_since(before).await?),
                };
                let patterns = one.rebuild_when.iter();
                let patterns: Vec<_> = patterns.filter_map(|it| Pattern::parse(it).ok()).collect();
                if !changed
                    .iter()
                    .any(|path| patterns.iter().any(|it| it.matches(path)))
                {
                    continue;
                }
            }
            wanted.push((one.service.clone(), one.build.clone()));
        }
        building.all(wanted.into_iter()).await
    }

    /// Reports progress.
    pub fn progress(&self) -> impl FnMut(&str, u64, u64) + use<'a> {
        let mut progress = Progress::new(self.context);
        move |step: &str, done: u64, total: u64| progress.report(step, done, total)
    }

    /// Waits for the services, if requested.
    pub async fn wait(&self, moved: Moved, patience: Patience) -> Result<Settled, Fault> {
        if patience == Patience::None {
            return Ok(Settled {
                moved,
                trouble: None,
            });
        }
        let Moved { workspace, done } = moved;
        let display = Display::live(self.context);
        let interrupted = ready::interruption();
        let Readied {
            workspace, trouble, ..
        } = ready::wait(self.client(), workspace, display, interrupted).await?;
        let moved = Moved { workspace, done };
        Ok(Settled { moved, trouble })
    }
}

// === impl Settled ===

impl Settled {
    pub fn print(&self, context: &Context) -> Outcome {
        context.output.done(&self.moved, || self.text());
        ready::outcome(context, self.trouble.as_ref())
    }

    fn text(&self) -> String {
        let Moved { workspace, done } = &self.moved;
        let mark = match self.trouble {
            None => format!("{GOOD}✓{GOOD:#}"),
            Some(_) => format!("{WARNING}▲{WARNING:#}"),
        };
        let label = printable(&workspace.label);
        let commit = workspace.commit.as_deref().unwrap_or_default();
        let short = &commit[..commit.len().min(10)];
        let at = match &workspace.reference {
            Some(reference) => format!("{} ({short})", printable(reference)),
            None => short.to_owned(),
        };
        let mut text = format!("{mark} {label}  {}  {}", workspace.id, headline(done, &at));
        if let Some(stash) = &done.stash {
            let short = &stash[..stash.len().min(10)];
            text.push_str(&format!(
                "\n  {FAINT}stash{FAINT:#}  {short}; `holm exec {label} -- git stash pop` brings it back"
            ));
        }
        for service in &workspace.services {
            let reaction = done.services.iter().find(|one| one.name == service.name);
            let reaction = reaction.map_or("none", |one| one.reaction.as_str());
            let word = match reaction {
                "none" => "untouched",
                "hot" => "sees its files change",
                "restart" => "restarted",
                _ => "built and restarted",
            };
            text.push_str(&format!(
                "\n{}  {FAINT}{word}{FAINT:#}",
                ready::line(service)
            ));
        }
        for note in &workspace.notes {
            let note = printable(note);
            text.push_str(&format!("\n  {FAINT}note{FAINT:#}  {note}"));
        }
        text
    }
}

fn headline(done: &Move, at: &str) -> String {
    if done.from.is_none() && !done.setup && done.services.is_empty() {
        return format!("is at {at} already");
    }
    let mut parts = vec![match done.changed {
        0 => "no file is different".to_owned(),
        1 => "1 file is different".to_owned(),
        count => format!("{count} files are different"),
    }];
    if done.setup {
        parts.push("setup ran".to_owned());
    }
    if done.restarted {
        parts.push("all of it was started anew, because protected paths changed".to_owned());
    }
    format!("is at {at}: {}", parts.join("; "))
}
