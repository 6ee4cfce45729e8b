//! Shared by `diff`, `changes`, `fetch`, `apply` and `merge`: captures the state of a workspace
//! with progress, finds its repository, and asks before files that tools execute by themselves
//! reach a checkout.

use super::output::{self, FAINT, STRONG, WARNING, printable};
use super::progress::Progress;
use super::send::{self, SharedRefs, Wanted, quoted};
use super::user_checkout::{Checkout, path_text};
use super::{Context, connect, resolve};
use holm_api::Workspace;
use holm_api::apply::Flagged;
use holm_api::client::Client;
use holm_api::work::{Capture, Captured};
use holm_core::capture::Depth;
use holm_core::concern::{Arrival, concerns};
use holm_core::{Code, Fault, WorkspaceId};
use holm_engine::try_blocking;
use holm_git::{Cancel, Recovered};

pub struct Subject {
    pub client: Client,
    pub id: WorkspaceId,
}

/// What to do about entries that need consent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    /// Ask on a terminal, fail otherwise.
    Ask,
    /// `--yes` was typed.
    Given,
}

// === impl Subject ===

impl Subject {
    pub async fn find(typed: &str) -> Result<Self, Fault> {
        let client = connect::started().await?;
        let id = resolve::one(&client, typed).await?;
        Ok(Self { client, id })
    }

    /// HEAD and the list of uncommitted files; with a message, commits them inside first.
    pub async fn head(&self, context: &Context, commit: Option<String>) -> Result<Captured, Fault> {
        let depth = Depth::Head;
        self.capture(context, Capture { commit, depth }).await
    }

    /// Captures the working tree.
    pub async fn tree(&self, context: &Context) -> Result<(Captured, String), Fault> {
        let capture = Capture::default();
        let mut captured = self.capture(context, capture).await?;
        let tree = captured.tree.take().ok_or_else(incomplete)?;
        Ok((captured, tree))
    }

    /// Captures the working tree as a commit that can be fetched.
    pub async fn state(&self, context: &Context) -> Result<(Captured, String), Fault> {
        let (commit, depth) = (None, Depth::State);
        let mut captured = self.capture(context, Capture { commit, depth }).await?;
        let state = captured.state.take().ok_or_else(incomplete)?;
        Ok((captured, state))
    }

    async fn capture(&self, context: &Context, capture: Capture) -> Result<Captured, Fault> {
        let mut progress = Progress::new(context);
        let report = |step: &str, done: u64, total: u64| progress.report(step, done, total);
        self.client.capture(&self.id, &capture, report).await
    }

    /// The command that git runs to reach `git upload-pack` inside, for one commit.
    pub fn upload_pack(&self, commit: &str) -> Result<String, Fault> {
        let program = std::env::current_exe().map_err(|error| {
            let message = "cannot tell where this program is";
            Fault::new(Code::Internal, message, "run it by its whole path").because(error)
        })?;
        Ok(format!(
            "{} upload-pack {} {} {}",
            quoted(&path_text(&program)?),
            quoted(&path_text(self.client.socket())?),
            quoted(self.id.as_str()),
            quoted(commit)
        ))
    }

    /// The only tree that may be taken over: the approved one, if `--approved` was typed or settings, policy or
    /// `holm.toml` demand it.
    pub async fn approved(&self, is_typed: bool) -> Result<Option<String>, Fault> {
        let approval = self.client.approval(&self.id).await?;
        if !is_typed && !approval.required {
            return Ok(None);
        }
        let by = approval
            .required_by
            .unwrap_or_else(|| "--approved".to_owned());
        let tree = approval.tree.map(Some);
        tree.ok_or_else(|| {
            Fault::new(
                Code::NotApproved,
                format!(
                    "no tree of workspace {} is approved, and {by} demands it",
                    self.id
                ),
                format!(
                    "read it: `holm review {0}`, then `holm approve {0}`",
                    self.id
                ),
            )
        })
    }

    /// The current checkout, if it belongs to the workspace's project.
    pub async fn checkout_here(&self, workspace: &Workspace) -> Result<Checkout, Fault> {
        let checkout = Checkout::find().await;
        let is_its = |checkout: &Checkout| {
            let id = checkout.repository.project_id.as_ref();
            id.is_some_and(|id| id.as_str() == workspace.project_id)
        };
        if let Ok(checkout) = checkout
            && is_its(&checkout)
        {
            return Ok(checkout);
        }
        let place = self.place(workspace).await?;
        Err(Fault::new(
            Code::Refused,
            format!(
                "this is not a checkout of `{}`, the project of `{}`",
                workspace.project, workspace.label
            ),
            format!("go to one: `cd {place}`"),
        ))
    }

    /// The current checkout, or the project's own at its last known path.
    pub async fn repository(&self, workspace: &Workspace) -> Result<Checkout, Fault> {
        match self.checkout_here(workspace).await {
            Ok(checkout) => Ok(checkout),
            Err(refused) => {
                let place = self.place(workspace).await?;
                let checkout = Checkout::at(place.into()).await?;
                let id = checkout.repository.project_id.as_ref();
                if id.is_some_and(|id| id.as_str() == workspace.project_id) {
                    Ok(checkout)
                } else {
                    Err(refused)
                }
            }
        }
    }

    /// Tells the daemon where the user's branches are now, if this command was typed in a checkout of the
    /// project. Elsewhere the daemon compares with what it was last told.
    pub async fn send_branches(&self) -> Result<(), Fault> {
        let workspace = self.client.workspace(&self.id).await?;
        let Ok(checkout) = self.checkout_here(&workspace).await else {
            return Ok(());
        };
        // Reading a partial clone can run programs of its settings, and this command does not ask about them.
        if checkout.repository.partial {
            return Ok(());
        }
        let wanted = Wanted {
            refs: SharedRefs::of(&checkout).await?,
            commit: None,
            config: None,
        };
        let sent = send::send(&self.client, &checkout, wanted, &Cancel::default()).await;
        sent.map(drop)
    }

    async fn place(&self, workspace: &Workspace) -> Result<String, Fault> {
        let projects = self.client.projects().await?.projects;
        let known = projects
            .into_iter()
            .find(|project| project.id == workspace.project_id);
        known.map(|project| project.path).ok_or_else(|| {
            let message = format!("no project `{}`", workspace.project);
            Fault::new(Code::ProjectNotFound, message, "`holm project ls`")
        })
    }
}

/// Completes or undoes an interrupted apply in this checkout, and reports that.
pub async fn recover(context: &Context, checkout: &Checkout) -> Result<(), Fault> {
    let recovered = checkout.git(|repository| repository.recover_apply());
    if let Some(recovered) = recovered.await? {
        let text = recovery_text(&recovered);
        context
            .output
            .remark(&format!("{WARNING}note:{WARNING:#} {text}"));
    }
    Ok(())
}

/// The result of an interrupted apply, in words.
pub fn recovery_text(recovered: &Recovered) -> String {
    let changed = match recovered {
        Recovered::Finished => {
            return "an apply that was cut off here had every file in place; it is done".to_owned();
        }
        Recovered::Undone => {
            return "an apply that was cut off here is undone; your files are as before".to_owned();
        }
        Recovered::UndoneBut { changed } => changed,
    };
    let mut text = "an apply that was cut off here is undone, but for files that were changed \
                    since, which stay as they are:"
        .to_owned();
    for (path, earlier) in changed {
        let path = printable(&path.to_string_lossy());
        text.push_str(&match earlier {
            Some(earlier) => format!("\n  {path}, whose earlier content is {}", earlier.display()),
            None => format!("\n  {path}, which the apply had made"),
        });
    }
    text
}

fn incomplete() -> Fault {
    Fault::new(
        Code::Internal,
        "the daemon did not say what the workspace's tree is",
        "is the daemon of another version? `holm daemon stop`, then try again",
    )
}

/// Reports what a capture left out.
pub fn remark_left_out(context: &Context, captured: &Captured) {
    if !captured.nested.is_empty() {
        let names = printable(&captured.nested.join(", "));
        context.output.remark(&format!(
            "{WARNING}note:{WARNING:#} repositories inside the tree are not included: {names}"
        ));
    }
    for line in &captured.unread {
        let line = printable(line);
        context
            .output
            .remark(&format!("{WARNING}note:{WARNING:#} not included: {line}"));
    }
}

/// Reports work that stays inside, and how to get it.
pub fn remark_aside(context: &Context, label: &str, captured: &Captured) {
    let stashes = match captured.stashes {
        0 => None,
        1 => Some("1 stash".to_owned()),
        more => Some(format!("{more} stashes")),
    };
    if let Some(stashes) = stashes {
        context.output.remark(&format!(
            "{WARNING}warning:{WARNING:#} not brought: {stashes} inside\n  \
             {FAINT}`holm exec {label} -- git stash pop` puts the newest into the tree; \
             then repeat this{FAINT:#}"
        ));
    }
    if let Some(first) = captured.aside.first() {
        let names = printable(&captured.aside.join(", "));
        let switch = switch_to(first);
        context.output.remark(&format!(
            "{WARNING}warning:{WARNING:#} not brought: commits that only {names} has inside\n  \
             {FAINT}`holm exec {label} -- {switch}`, then repeat this{FAINT:#}"
        ));
    }
}

/// A command for people to type. A program inside chose the name, which may contain shell syntax.
fn switch_to(name: &str) -> String {
    let is_plain = |one: char| one.is_ascii_alphanumeric() || "._/-".contains(one);
    match name {
        _ if !name.chars().all(is_plain) || name.starts_with('-') => "git switch BRANCH".to_owned(),
        _ if name.starts_with("refs/") => format!("git switch --detach {name}"),
        _ => format!("git switch {name}"),
    }
}

/// The entries that a person should review first.
pub fn flagged(arrivals: &[Arrival]) -> Vec<Flagged> {
    let mut flagged = Vec::new();
    for arrival in arrivals {
        let why = concerns(arrival);
        if !why.is_empty() {
            flagged.push(Flagged {
                path: String::from_utf8_lossy(&arrival.path).into_owned(),
                kinds: why.iter().map(|it| it.kind.as_str().to_owned()).collect(),
                why: why.iter().map(ToString::to_string).collect(),
            });
        }
    }
    flagged
}

/// Continues when nothing is flagged, or with the user's consent.
pub async fn settle(
    context: &Context,
    flagged: &[Flagged],
    consent: Consent,
    verb: &str,
) -> Result<(), Fault> {
    if flagged.is_empty() || consent == Consent::Given {
        return Ok(());
    }
    let typed = verb.rsplit(' ').next().unwrap_or_default();
    let hint = format!("look: `holm diff {typed}`\nallow it: `{verb} --yes`");
    if context.output.is_json() || !output::can_ask() {
        return Err(Fault::new(
            Code::NeedsYes,
            format!(
                "{verb} would add files that tools run by themselves:\n{}",
                listed(flagged)
            ),
            hint,
        ));
    }
    let text = listed(flagged);
    context.output.remark(&format!(
        "{STRONG}This would add files that tools run by themselves:{STRONG:#}\n{text}"
    ));
    let is_yes = try_blocking(|| Ok(output::ask("Add them?"))).await;
    match is_yes {
        Ok(true) => Ok(()),
        _ => Err(Fault::new(Code::NeedsYes, "nothing was taken over", hint)),
    }
}

fn listed(flagged: &[Flagged]) -> String {
    const MOST: usize = 50;
    let mut lines: Vec<String> = flagged
        .iter()
        .take(MOST)
        .map(|one| format!("  {}: {}", printable(&one.path), one.why.join(", ")))
        .collect();
    if flagged.len() > MOST {
        lines.push(format!("  and {} more", flagged.len() - MOST));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_of_the_workspace_is_no_command_of_the_users_shell() {
        for (name, command) in [
            ("side", "git switch side"),
            ("refs/tags/v1.2", "git switch --detach refs/tags/v1.2"),
            ("$(touch${IFS}x)", "git switch BRANCH"),
            ("a;reboot", "git switch BRANCH"),
            ("`x`", "git switch BRANCH"),
            ("-f", "git switch BRANCH"),
        ] {
            assert_eq!(switch_to(name), command);
        }
    }
}
