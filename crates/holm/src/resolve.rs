//! Resolves what was typed to ids, once, at the edge. Below this no code uses a label as a name.

use crate::wiring::guest;
use holm_api::Workspace;
use holm_api::client::Client;
use holm_core::reference::{Candidate, Here};
use holm_core::{Code, Fault, ProjectId, WorkspaceId, WorkspaceRef};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// What was typed for each id in this process, for hints.
static TYPED: Mutex<Vec<(WorkspaceId, String)>> = Mutex::new(Vec::new());

/// Remembers what a person calls a workspace.
pub fn remember(id: &WorkspaceId, typed: &str) {
    let mut all = TYPED.lock().unwrap_or_else(PoisonError::into_inner);
    all.push((id.clone(), typed.to_owned()));
}

/// A text with the names that were typed in place of ids. Only for people.
pub fn as_typed(text: &str) -> String {
    let all = TYPED.lock().unwrap_or_else(PoisonError::into_inner);
    all.iter().fold(text.to_owned(), |text, (id, typed)| {
        text.replace(id.as_str(), typed)
    })
}

/// Resolves one workspace. A complete id needs no request, and inside a workspace there is only
/// that one.
pub async fn one(client: &Client, typed: &str) -> Result<WorkspaceId, Fault> {
    if guest::is_inside() {
        return own(typed);
    }
    match WorkspaceId::parse(typed) {
        Ok(id) => Ok(id),
        Err(_) => Ok(named(client, typed).await?.id),
    }
}

/// The labels of live workspaces by id, for display.
pub async fn labels(client: &Client) -> Result<HashMap<String, String>, Fault> {
    let names = client.names().await?.names.into_iter();
    Ok(names
        .map(|name| (name.id.to_string(), name.label))
        .collect())
}

/// Resolves `.`, the id or the label of the workspace that this program runs in.
pub fn own(typed: &str) -> Result<WorkspaceId, Fault> {
    let unknown = || {
        Fault::new(
            Code::WorkspaceNotFound,
            format!(
                "no workspace `{}` can be seen from here",
                typed.escape_debug()
            ),
            "`.` is the one that this runs in; leave it for others",
        )
    };
    let id = guest::workspace().ok_or_else(unknown)?;
    if typed == "." || typed == id.as_str() {
        return Ok(id);
    }
    let is_label = guest::here()?["label"] == typed;
    is_label.then_some(id).ok_or_else(unknown)
}

/// Resolves several, each once, in the order typed.
pub async fn all(client: &Client, typed: &[String]) -> Result<Vec<WorkspaceId>, Fault> {
    if guest::is_inside() {
        let mut ids = Vec::new();
        for typed in typed {
            let id = own(typed)?;
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        return Ok(ids);
    }
    let candidates = candidates(client).await?;
    let mut ids = Vec::new();
    for typed in typed {
        let id = live(client, typed, &candidates).await?;
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    Ok(ids)
}

/// As [`all`], among the trash.
pub async fn all_trashed(client: &Client, typed: &[String]) -> Result<Vec<WorkspaceId>, Fault> {
    let candidates = trashed(client).await?;
    let mut ids = Vec::new();
    for typed in typed {
        let id = resolve_id(typed, &candidates).map_err(|fault| in_trash(fault, typed))?;
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    Ok(ids)
}

fn in_trash(fault: Fault, typed: &str) -> Fault {
    match fault.code {
        Code::WorkspaceNotFound => Fault::new(
            fault.code,
            format!("no workspace `{}` in the trash", typed.escape_debug()),
            "`holm ls --trash` lists what can be restored",
        ),
        _ => fault.with_hint("type more of the id; `holm ls --trash` says when each was removed"),
    }
}

/// Resolves one workspace, with its names.
pub async fn named(client: &Client, typed: &str) -> Result<Candidate, Fault> {
    let mut candidates = candidates(client).await?;
    let id = live(client, typed, &candidates).await?;
    candidates.retain(|candidate| candidate.id == id);
    candidates.pop().ok_or_else(|| {
        let message = format!("no workspace `{id}`");
        Fault::new(Code::WorkspaceNotFound, message, "`holm ls` lists them")
    })
}

/// Resolves one workspace, live or in the trash. A complete id needs no workspace at all.
pub async fn even_removed(client: &Client, typed: &str) -> Result<WorkspaceId, Fault> {
    if let Ok(id) = WorkspaceId::parse(typed) {
        return Ok(id);
    }
    match resolve_id(typed, &candidates(client).await?) {
        Err(fault) if fault.code == Code::WorkspaceNotFound => {
            resolve_id(typed, &trashed(client).await?)
        }
        resolved => resolved,
    }
}

/// Resolves among live workspaces. For one in the trash, the error names `restore`.
async fn live(
    client: &Client,
    typed: &str,
    candidates: &[Candidate],
) -> Result<WorkspaceId, Fault> {
    let missing = match resolve_id(typed, candidates) {
        Err(fault) if fault.code == Code::WorkspaceNotFound => fault,
        resolved => return resolved,
    };
    let (where_it_is, hint) = match resolve_id(typed, &trashed(client).await?) {
        Ok(id) => (
            "it is in the trash",
            format!("`holm restore {id}` brings it back"),
        ),
        Err(fault) if fault.code == Code::Ambiguous => (
            "several in the trash had this name",
            "`holm ls --trash` lists them, `holm restore ID` brings one back".to_owned(),
        ),
        Err(_) => return Err(missing),
    };
    let message = format!("{}; {where_it_is}", missing.message());
    Err(Fault::new(missing.code, message, hint))
}

fn resolve_id(typed: &str, candidates: &[Candidate]) -> Result<WorkspaceId, Fault> {
    let reference = WorkspaceRef::new(typed);
    let id = match reference.resolve(&Here::default(), candidates) {
        // Only now the current directory matters, and asking git takes time.
        Err(fault) if fault.code == Code::Ambiguous => {
            let here = Here {
                project: project_here(),
                workspace: None,
            };
            reference.resolve(&here, candidates)
        }
        resolved => resolved,
    }?;
    remember(&id, typed);
    Ok(id)
}

/// The project of the current directory, if any.
fn project_here() -> Option<ProjectId> {
    let directory = std::env::current_dir().ok()?;
    holm_git::Repository::discover(&directory).ok()?.project_id
}

async fn trashed(client: &Client) -> Result<Vec<Candidate>, Fault> {
    let trash = client.trash().await?.workspaces;
    trash.into_iter().map(candidate).collect()
}

async fn candidates(client: &Client) -> Result<Vec<Candidate>, Fault> {
    Ok(client.names().await?.names)
}

fn candidate(workspace: Workspace) -> Result<Candidate, Fault> {
    let not_understood = |error: holm_core::id::NotAnId| {
        Fault::new(
            Code::Internal,
            "the daemon sent something that is not understood",
            "is the daemon of another version? `holm daemon stop`, then try again",
        )
        .because(error)
    };
    Ok(Candidate {
        id: WorkspaceId::parse(&workspace.id).map_err(not_understood)?,
        label: workspace.label,
        project_id: ProjectId::parse(&workspace.project_id).map_err(not_understood)?,
        project: workspace.project,
    })
}
