//! `holm project`: the repositories that holm knows.

use super::clone::{self, CloneRequest};
use super::find::{self, FoundRepository};
use super::output::{GOOD, printable};
use super::send::{self, SharedRefs, Wanted};
use super::table::Table;
use super::user_checkout::{self, Checkout};
use super::{Context, Outcome, connect, settings, up};
use clap::{Args, Subcommand, ValueHint};
use holm_api::project::{ChangeProject, Project, Start, Starts};
use holm_config::daemon_user::DaemonUser;
use holm_core::clone_url::{CloneFrom, CloneUrl};
use holm_core::{Code, Fault, ProjectId};
use holm_git::{Cancel, RecentRef};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;

/// List, add, remove and find projects
#[derive(Debug, Args)]
pub struct ProjectArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Ls(LsArgs),
    Add(AddArgs),
    Rm(RmArgs),
    Find(FindArgs),
    Refs(RefsArgs),
}

/// List the projects that holm knows
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm project ls")]
struct LsArgs {}

/// Make a repository known, and set rules for all of its workspaces
///
/// `holm up` makes a repository known by itself. A URL (https or ssh) is cloned below the first
/// source folder, unless a clone exists. holm stores the options with the project and enforces them
/// in every workspace that is made or reloaded from then on. holm.toml may add protected paths but
/// cannot remove these. `holm project rm` forgets them.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    holm project add\n  \
    holm project add ~/src/shop --protect infra/prod\n  \
    holm project add https://example.org/team/shop.git")]
struct AddArgs {
    /// A directory of the repository, or its URL; default: the current directory
    #[arg(value_name = "PATH|URL", value_hint = ValueHint::DirPath)]
    path: Option<PathBuf>,
    /// The repository's URL, even if a directory has that name
    #[arg(long, value_name = "URL", conflicts_with = "path", value_hint = ValueHint::Url)]
    url: Option<String>,
    /// The name of a clone's directory; default: the last part of the URL
    #[arg(long)]
    name: Option<String>,
    /// A program with a token named the URL: refuse hosts on this machine
    #[arg(long, hide = true)]
    elsewhere: bool,
    /// Protect a path below the root in every workspace; can be repeated
    #[arg(long, value_name = "PATH")]
    protect: Vec<String>,
    /// No longer protect a path, unless holm.toml does; can be repeated
    #[arg(long, value_name = "PATH")]
    unprotect: Vec<String>,
    /// Whether workspaces see each other's trees, read-only (`project`), or not (`workspace`)
    #[arg(long, value_name = "WHAT")]
    isolation: Option<String>,
}

/// Forget a project that has no workspaces; the repository itself is not touched
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm project rm shop")]
struct RmArgs {
    /// Name or id of the project
    project: String,
}

/// Look for repositories in the configured source folders
///
/// The folders are `source_dirs` of config.toml (default ~/src), four levels deep.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm project find")]
struct FindArgs {}

/// List the branches and tags of this repository, newest first
///
/// With --json: {checkout,branch,uncommitted,added,removed,not_brought,refs:[{name,commit,at,subject}]}.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  holm project refs\n  holm project refs --find release")]
struct RefsArgs {
    /// Only those whose name contains this text
    #[arg(long, value_name = "TEXT", default_value = "")]
    find: String,
}

/// A list for a person needs no more.
const MOST_REFS: usize = 50;

#[derive(Debug, Serialize)]
struct FoundList {
    repositories: Vec<FoundRepository>,
}

pub fn run(context: &Context, arguments: ProjectArgs) -> Outcome {
    match arguments.action {
        Action::Ls(_) => ls(context),
        Action::Add(arguments) => add(context, arguments),
        Action::Rm(arguments) => rm(context, &arguments),
        Action::Find(_) => find(context),
        Action::Refs(arguments) => refs(context, arguments),
    }
}

fn ls(context: &Context) -> Outcome {
    let list = connect::block_on(async { connect::started().await?.projects().await })?;
    if list.projects.is_empty() && !context.output.is_json() {
        let remark = "No projects yet. `holm up` in a git repository makes it one.";
        context.output.remark(remark);
        return Ok(ExitCode::SUCCESS);
    }
    context.output.result(&list, || {
        let mut table = Table::new(["name", "id", "workspaces", "path"]);
        for project in &list.projects {
            let workspaces = project.workspaces.to_string();
            let (name, id) = (project.name.clone(), project.id.clone());
            table.row([name, id, workspaces, project.path.clone()]);
        }
        table.render()
    });
    Ok(ExitCode::SUCCESS)
}

fn add(context: &Context, arguments: AddArgs) -> Outcome {
    let change = ChangeProject {
        protect: arguments.protect.clone(),
        unprotect: arguments.unprotect.clone(),
        isolation: arguments.isolation.clone(),
    };
    let project = connect::block_on(async {
        let (checkout, client) = match url(&arguments)? {
            Some(asked) => {
                let client = connect::started().await?;
                let found = clone::find(context, &asked, &Cancel::default()).await?;
                (found.checkout, client)
            }
            None => {
                let path = arguments.path.unwrap_or_else(|| PathBuf::from("."));
                let (checkout, client) = tokio::join!(Checkout::at(path), connect::started());
                (checkout?, client?)
            }
        };
        settings::settle_partial(context, &client, &checkout).await?;
        let commit = checkout.repository.head.clone();
        let files = checkout.files_at(commit.as_deref()).await?;
        let config = user_checkout::config(files.holm_toml.as_deref())?;
        let wanted = Wanted {
            refs: SharedRefs::of(&checkout).await?,
            commit,
            config: Some(&config),
        };
        let project = send::send(&client, &checkout, wanted, &Cancel::default()).await?;
        if change == ChangeProject::default() {
            return Ok(project);
        }
        let id = send::project_id(&project)?;
        client.change_project(&id, &change).await
    })?;
    context.output.done(&project, || {
        let (name, path) = (printable(&project.name), printable(&project.path));
        let mut text = format!("{GOOD}✓{GOOD:#} {name}  {}  {path}", project.id);
        if !project.protected_paths.is_empty() {
            let paths = printable(&project.protected_paths.join(", "));
            text.push_str(&format!("\n  protected  {paths}"));
        }
        if let Some(isolation) = &project.isolation {
            text.push_str(&format!("\n  isolation  {}", printable(isolation)));
        }
        text
    });
    Ok(ExitCode::SUCCESS)
}

/// The repository to clone, if no directory was named.
fn url(arguments: &AddArgs) -> Result<Option<CloneRequest>, Fault> {
    let typed = arguments.path.as_ref().filter(|path| !path.exists());
    let typed = typed.map(|path| path.to_string_lossy().into_owned());
    if let Some(text) = &typed
        && !text.contains("://")
        && !text.contains(['@', ':'])
    {
        return Err(Fault::new(
            Code::PathNotFound,
            format!("there is no `{}`", text.escape_debug()),
            "name a directory of a git repository, or its URL",
        ));
    }
    let Some(text) = arguments.url.as_ref().or(typed.as_ref()) else {
        let hint = "for example `holm project add https://example.org/team/shop.git --name shop`";
        return match arguments.name {
            Some(_) => Err(Fault::new(
                Code::Usage,
                "`--name` names the clone of a URL",
                hint,
            )),
            None => Ok(None),
        };
    };
    Ok(Some(CloneRequest {
        url: CloneUrl::parse(text)?,
        name: arguments.name.clone(),
        from: CloneFrom::of(arguments.elsewhere),
    }))
}

fn rm(context: &Context, arguments: &RmArgs) -> Outcome {
    let project = connect::block_on(async {
        let client = connect::started().await?;
        let projects = client.projects().await?.projects;
        let id = resolve_project(&arguments.project, &projects)?;
        client.remove_project(&id).await
    })?;
    context.output.done(&project, || {
        let name = printable(&project.name);
        format!("{GOOD}✓{GOOD:#} {name}  {}  forgotten", project.id)
    });
    Ok(ExitCode::SUCCESS)
}

/// Resolves a project. Names are unique, and no name has the shape of an id.
fn resolve_project(typed: &str, projects: &[Project]) -> Result<ProjectId, Fault> {
    let found = projects
        .iter()
        .find(|project| project.name == typed || project.id == typed);
    found
        .and_then(|project| ProjectId::parse(&project.id).ok())
        .ok_or_else(|| {
            Fault::new(
                Code::ProjectNotFound,
                format!("no project `{}`", typed.escape_debug()),
                "`holm project ls` lists the projects",
            )
        })
}

fn find(context: &Context) -> Outcome {
    let source_dirs = DaemonUser::current()?.settings()?.source_dirs;
    let known = connect::block_on(async { connect::started().await?.projects().await })?;
    let repositories = find::repositories(&source_dirs, &known.projects);
    if repositories.is_empty() && !context.output.is_json() {
        let folders: Vec<_> = source_dirs
            .iter()
            .map(|directory| printable(&directory.to_string_lossy()))
            .collect();
        let folders = folders.join(", ");
        context.output.remark(&format!(
            "No repositories in {folders}. Set `source_dirs` under [projects] in config.toml."
        ));
        return Ok(ExitCode::SUCCESS);
    }
    let list = FoundList { repositories };
    context.output.result(&list, || {
        let mut table = Table::new(["project", "path"]);
        for found in &list.repositories {
            let project = found.project.clone().unwrap_or_else(|| "-".to_owned());
            table.row([project, found.path.clone()]);
        }
        table.render()
    });
    Ok(ExitCode::SUCCESS)
}

fn refs(context: &Context, arguments: RefsArgs) -> Outcome {
    let starts = connect::block_on(async {
        let (checkout, client) = tokio::join!(Checkout::find(), connect::started());
        let checkout = checkout?;
        settings::settle_partial(context, &client?, &checkout).await?;
        let refs = checkout.git(move |repository| {
            let refs = repository.recent_refs(&arguments.find, MOST_REFS)?;
            let is_plain = repository.settings()?.is_empty();
            let uncommitted = is_plain.then(|| repository.extent_uncommitted());
            Ok((refs, uncommitted.transpose()?))
        });
        let (refs, uncommitted) = refs.await?;
        let lines = uncommitted.unwrap_or_default();
        let not_brought = match up::not_brought(&checkout).await {
            // A holm.toml with errors is reported when a workspace is made from it.
            Err(fault) if fault.code == Code::InvalidConfig => Vec::new(),
            names => names?,
        };
        let repository = &checkout.repository;
        Ok(Starts {
            checkout: repository.toplevel.to_string_lossy().into_owned(),
            branch: repository.branch.clone(),
            uncommitted: uncommitted.map(|extent| extent.files),
            added: lines.added,
            removed: lines.removed,
            not_brought,
            refs: refs.into_iter().map(start).collect(),
        })
    })?;
    context.output.result(&starts, || {
        let mut table = Table::new(["ref", "commit", "message"]);
        for one in &starts.refs {
            let commit = one.commit.chars().take(10).collect();
            table.row([printable(&one.name), commit, printable(&one.subject)]);
        }
        table.render()
    });
    Ok(ExitCode::SUCCESS)
}

fn start(found: RecentRef) -> Start {
    Start {
        name: found.name,
        commit: found.commit,
        at: found.at,
        subject: found.subject,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn projects_are_meant_by_name_or_id() {
        let project = Project {
            id: "p000000000001".to_owned(),
            name: "shop".to_owned(),
            path: "/src/shop".to_owned(),
            created_at: "2026-11-15T20:00:00Z".to_owned(),
            workspaces: 0,
            protected_paths: Vec::new(),
            isolation: None,
        };
        let all = [project];
        assert_eq!(
            resolve_project("shop", &all).unwrap().as_str(),
            "p000000000001"
        );
        assert_eq!(
            resolve_project("p000000000001", &all).unwrap().as_str(),
            "p000000000001"
        );
        assert_eq!(
            resolve_project("p0", &all).unwrap_err().code,
            Code::ProjectNotFound
        );
    }
}
