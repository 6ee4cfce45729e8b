//! `holm reload`: applies a changed `holm.toml` to workspaces, after showing what changes.

use super::build::{Building, Built, State};
use super::completions::labels;
use super::figures;
use super::output::{self, FAINT, GOOD, STRONG, WARNING, printable};
use super::ready::{self, Display, Trouble};
use super::user_checkout::{self, Checkout, HOLM_TOML};
use super::work::Subject;
use super::{Context, Outcome, connect, resolve};
use clap::Args;
use holm_api::Workspace;
use holm_api::client::Client;
use holm_api::reload::{ConfigText, Reload, ReloadFrom, Reloaded};
use holm_core::compose::ComposeFiles;
use holm_core::image_build::ImageBuild;
use holm_core::{Code, Fault, WorkspaceId};
use holm_engine::try_blocking;
use serde_json::json;
use std::process::ExitCode;

/// Take over a changed holm.toml
///
/// Applies the holm.toml of your checkout as it is now, committed or not, and shows the difference
/// first. Without WS it does so for every workspace of this project. Edits of the file do nothing
/// until then. Egress and [env] change at once, and connections that are no longer allowed are cut. New services
/// are started, missing ones are stopped, and those whose `run`, `env` or `ready` changed are
/// restarted; returns when all are ready. The rest takes effect at the next start, or only with a
/// new workspace, and is listed. An existing volume keeps its data, its policy and its seed, even
/// when it is no longer declared. Requests beyond those in force need approval, as with `holm trust`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    holm reload\n  \
    holm reload fix-login --dry-run\n  \
    holm reload fix-login --committed --yes")]
pub struct ReloadArgs {
    /// Labels, project/label, ids or beginnings of ids; default: all workspaces of this project
    #[arg(value_name = "WS", add = labels())]
    workspaces: Vec<String>,
    /// Take the file of the workspace's commit instead of your checkout's
    #[arg(long, conflicts_with = "inside")]
    committed: bool,
    /// Take the file that is inside the workspace, which its programs can write
    #[arg(long)]
    inside: bool,
    /// Only show the difference
    #[arg(long)]
    dry_run: bool,
    /// Approve its requests to the host without asking
    #[arg(long)]
    yes: bool,
    /// Do not wait for services to become ready
    #[arg(long)]
    no_wait: bool,
    /// Print the text of the file, for the daemon
    #[arg(long, hide = true)]
    show_config: bool,
}

/// What became of one workspace.
struct Taken {
    workspace: Workspace,
    reloaded: Reloaded,
    /// The place of the file, for people.
    place: String,
    /// The file inside the workspace is another one.
    differs_inside: bool,
    trouble: Option<Trouble>,
}

pub fn run(context: &Context, arguments: ReloadArgs) -> Outcome {
    let taken = connect::block_on(async {
        let client = connect::started().await?;
        let ids = workspaces(&client, &arguments.workspaces).await?;
        let mut taken = Vec::new();
        for id in ids {
            let subject = Subject {
                client: client.clone(),
                id,
            };
            if arguments.show_config {
                let workspace = subject.client.workspace(&subject.id).await?;
                let (texts, _) = text(&subject, &workspace, &arguments).await?;
                context.output.document(&texts);
                continue;
            }
            taken.push(one(context, &subject, &arguments).await?);
        }
        Ok(taken)
    })?;
    report(context, &taken);
    let mut outcome = Ok(ExitCode::SUCCESS);
    for trouble in taken.iter().filter_map(|taken| taken.trouble.as_ref()) {
        outcome = ready::outcome(context, Some(trouble));
    }
    outcome
}

/// The workspaces that were named, or all of the project of this directory.
async fn workspaces(client: &Client, typed: &[String]) -> Result<Vec<WorkspaceId>, Fault> {
    if !typed.is_empty() {
        return resolve::all(client, typed).await;
    }
    let checkout = Checkout::find().await?;
    let project = checkout.repository.project_id.as_ref();
    let names = client.names().await?.names.into_iter();
    let own = names.filter(|name| project == Some(&name.project_id));
    let ids: Vec<WorkspaceId> = own.map(|name| name.id).collect();
    if ids.is_empty() {
        let message = "this repository has no workspaces";
        return Err(Fault::new(
            Code::WorkspaceNotFound,
            message,
            "`holm up` makes one",
        ));
    }
    Ok(ids)
}

async fn one(context: &Context, subject: &Subject, arguments: &ReloadArgs) -> Result<Taken, Fault> {
    let Subject { client, id } = subject;
    let workspace = client.workspace(id).await?;
    let (texts, place) = text(subject, &workspace, arguments).await?;
    let look = Reload {
        dry_run: true,
        from: arguments.source(),
        config: texts.config,
        compose: texts.compose,
        ..Reload::default()
    };
    let shown = client.reload(id, &look).await?;
    let mut taken = Taken {
        differs_inside: false,
        reloaded: shown.clone(),
        trouble: None,
        workspace,
        place,
    };
    if shown.changes.is_empty() {
        taken.differs_inside = differs_inside(subject, &taken.workspace, &look).await;
        return Ok(taken);
    }
    context.output.remark(&changes_text(&taken));
    if arguments.dry_run {
        return Ok(taken);
    }
    if !shown.asks.is_empty() && !arguments.yes {
        approve(context, &taken.workspace.label, &shown).await?;
    }
    let built = built(context, subject, &taken.workspace, &look).await?;
    let apply = Reload {
        built,
        dry_run: false,
        content: Some(shown.content),
        approve: true,
        ..look
    };
    taken.reloaded = client.reload(id, &apply).await?;
    let changes = taken.reloaded.changes.iter();
    let is_moving = changes
        .clone()
        .any(|change| change.starts_with("services."));
    if is_moving && !arguments.no_wait {
        let found = client.workspace(id).await?;
        let display = Display::live(context);
        let readied = ready::wait(client, found, display, ready::interruption()).await?;
        taken.trouble = readied.trouble;
    }
    Ok(taken)
}

// === impl ReloadArgs ===

impl ReloadArgs {
    fn source(&self) -> ReloadFrom {
        match (self.inside, self.committed) {
            (true, _) => ReloadFrom::Inside,
            (_, true) => ReloadFrom::Commit,
            _ => ReloadFrom::Checkout,
        }
    }
}

/// The text that was asked for, and where it is. The daemon reads the file inside.
async fn text(
    subject: &Subject,
    workspace: &Workspace,
    arguments: &ReloadArgs,
) -> Result<(ConfigText, String), Fault> {
    if arguments.inside {
        let texts = ConfigText {
            config: None,
            compose: ComposeFiles::default(),
            built: Built::new(),
        };
        return Ok((texts, format!("inside {}", workspace.label)));
    }
    let checkout = subject.repository(workspace).await?;
    let place = checkout.repository.toplevel.display().to_string();
    let commit = workspace.commit.as_deref().filter(|_| arguments.committed);
    let (text, place) = if arguments.committed {
        let commit = workspace.commit.as_deref();
        let files = checkout.files_at(commit).await?;
        let short: String = commit.unwrap_or("no commit").chars().take(7).collect();
        (files.holm_toml, format!("of {short}"))
    } else {
        (
            checkout.holm_toml()?,
            format!("of {}", figures::place(&place)),
        )
    };
    let compose = checkout.compose_files(text.as_deref(), commit).await?;
    // A missing file is an empty one; only `--show-config` tells them apart.
    let config = if arguments.show_config {
        text
    } else {
        Some(text.unwrap_or_default())
    };
    let texts = ConfigText {
        config,
        compose,
        built: Built::new(),
    };
    Ok((texts, place))
}

/// The images of services that are built from something else than before.
async fn built(
    context: &Context,
    subject: &Subject,
    workspace: &Workspace,
    look: &Reload,
) -> Result<Built, Fault> {
    let config = user_checkout::config_with(look.config.as_deref(), &look.compose)?;
    let is_known = |name: &str, build: &ImageBuild| {
        let mut known = workspace.builds.iter();
        known.any(|one| one.service == name && one.build == *build)
    };
    let builds = config
        .image_builds()
        .map(|(name, build)| (name.to_string(), build.clone()));
    let new: Vec<_> = builds
        .filter(|(name, build)| !is_known(name, build))
        .collect();
    if new.is_empty() {
        return Ok(Built::new());
    }
    let building = Building {
        context,
        client: &subject.client,
        checkout: &subject.repository(workspace).await?,
        state: State::of(look.from == ReloadFrom::Checkout, workspace.commit.clone()),
    };
    building.all(new.into_iter()).await
}

/// Whether a running workspace has another file inside than the one in force.
async fn differs_inside(subject: &Subject, workspace: &Workspace, look: &Reload) -> bool {
    if look.from == ReloadFrom::Inside || workspace.state != "running" {
        return false;
    }
    let inside = Reload {
        dry_run: true,
        from: ReloadFrom::Inside,
        ..Reload::default()
    };
    let found = subject.client.reload(&subject.id, &inside).await;
    // A file that cannot be read or is wrong is not worth a message here.
    found.is_ok_and(|found| !found.changes.is_empty())
}

fn report(context: &Context, taken: &[Taken]) {
    if context.output.is_json() {
        match taken {
            [] => {}
            [one] => context.output.document(&one.reloaded),
            all => {
                let all = all.iter().map(|taken| {
                    let mut document = json!(taken.reloaded);
                    document["workspace"] = json!(taken.workspace.id);
                    document["label"] = json!(taken.workspace.label);
                    document
                });
                let all: Vec<_> = all.collect();
                context.output.document(&json!({ "reloaded": all }));
            }
        }
    }
    let is_told = |taken: &&Taken| taken.reloaded.applied || taken.reloaded.changes.is_empty();
    for taken in taken.iter().filter(is_told) {
        context.output.remark(&taken.text());
    }
}

// === impl Taken ===

impl Taken {
    /// The applied changes, and what needs a restart or a new workspace.
    fn text(&self) -> String {
        let label = printable(&self.workspace.label);
        let place = printable(&self.place);
        let mut text = if self.reloaded.changes.is_empty() {
            format!("{GOOD}✓{GOOD:#} {label}  nothing changed: {HOLM_TOML} {place} is in force")
        } else {
            format!("{GOOD}✓{GOOD:#} {label}  {HOLM_TOML} {place} is in force")
        };
        let keys = |keys: &[String]| printable(&keys.join(", "));
        for note in &self.reloaded.notes {
            let note = printable(note);
            text.push_str(&format!("\n  {WARNING}warning{WARNING:#}  {note}"));
        }
        if !self.reloaded.at_next_start.is_empty() {
            let keys = keys(&self.reloaded.at_next_start);
            text.push_str(&format!(
                "\n  needs a restart: {keys}   holm restart {label}"
            ));
        }
        if !self.reloaded.needs_new_workspace.is_empty() {
            let keys = keys(&self.reloaded.needs_new_workspace);
            text.push_str(&format!("\n  only in new workspaces: {keys}   holm up"));
        }
        if self.differs_inside {
            text.push_str(&format!(
                "\n  {HOLM_TOML} inside the workspace differs   holm reload {label} --inside"
            ));
        }
        text
    }
}

async fn approve(context: &Context, typed: &str, shown: &Reloaded) -> Result<(), Fault> {
    let asks = shown.asks.iter();
    let words: Vec<_> = asks
        .map(|ask| format!("  {} ({})", printable(&ask.words), printable(&ask.key)))
        .collect();
    let words = words.join("\n");
    let hint = format!(
        "`holm reload {} --yes` approves exactly this",
        printable(typed)
    );
    if context.output.is_json() || !output::can_ask() {
        let message = format!("holm.toml asks for something that nobody approved:\n{words}");
        return Err(Fault::new(Code::NotTrusted, message, hint));
    }
    context
        .output
        .remark(&format!("{STRONG}It asks to:{STRONG:#}\n{words}"));
    if try_blocking(|| Ok(output::ask("Approve?")))
        .await
        .unwrap_or(false)
    {
        Ok(())
    } else {
        Err(Fault::new(Code::NotTrusted, "this was not approved", hint))
    }
}

fn changes_text(taken: &Taken) -> String {
    let changes = taken.reloaded.changes.iter();
    let lines: Vec<_> = changes.map(|change| printable(change)).collect();
    let (place, label) = (printable(&taken.place), printable(&taken.workspace.label));
    format!(
        "{FAINT}{HOLM_TOML} {place}, for {label}:{FAINT:#}\n  {}",
        lines.join("\n  ")
    )
}
